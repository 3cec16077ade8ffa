//! The owner of a database that is backed up decides what a restore reads. It must reach no shell in the restore's pod,
//! and do nothing in the target beyond the rights of the restore's login.

use causeway_api::DatabaseRestore;
use causeway_api::databaserestore::RestorePhase;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::backup::sql_postgres::POSTGRES;
use crate::backup::sql_stage::SqlStage;
use crate::backup::stage::{NAME, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// A command of `psql` that runs a shell command, which leaves a table in the database. Even if `psql` is set to run no
/// commands, it still evaluates the argument of this one (CVE-2026-18408).
const COMMAND: &str = r#"\unrestrict `psql -d postgres -c "CREATE TABLE meta_ran ()"`"#;

/// Contents that the owner of a database can put into a backup: commands of `psql` in a view that `pg_dumpall` trusts, in a name
/// and in a comment; a cast that runs a function when rows are compared; and a program that is to run when rows are
/// restored.
const FILL: &str = r"
CREATE ROLE reader LOGIN PASSWORD 'of-the-attack'; GRANT pg_read_all_data TO reader;
CREATE ROLE restorer LOGIN PASSWORD 'of-the-attack';
CREATE DATABASE names; CREATE DATABASE program;
\c names
SET allow_system_table_mods = on;
UPDATE pg_catalog.pg_attribute SET atttypid = 'text'::regtype, attlen = -1, attbyval = false, attalign = 'i',
  attstorage = 'x', attcollation = 100 WHERE attrelid = 'pg_catalog.pg_roles'::regclass AND attname = 'rolvaliduntil';
CREATE OR REPLACE VIEW pg_catalog.pg_roles AS SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb,
  rolcanlogin, rolreplication, rolconnlimit, '********'::text AS rolpassword, CASE rolname WHEN 'reader'
  THEN E'infinity\';\nCOMMAND\n--' ELSE rolvaliduntil::text END AS rolvaliduntil, rolbypassrls, setconfig AS rolconfig,
  a.oid FROM pg_catalog.pg_authid a LEFT JOIN pg_catalog.pg_db_role_setting s ON a.oid = setrole AND setdatabase = 0;
COMMENT ON DATABASE names IS E'it''s\nCOMMAND\n';
DO $$ BEGIN EXECUTE format('CREATE TABLE %I (id int)', E'evil\nCOMMAND\n--'); END $$;
CREATE TABLE casts (id int);
INSERT INTO casts VALUES (1);
CREATE FUNCTION cast_ran(casts) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'the cast ran as %', current_user; END $$;
CREATE CAST (casts AS text) WITH FUNCTION cast_ran(casts);
\c program
CREATE FUNCTION run() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  IF current_user <> 'postgres' THEN COPY (SELECT 1) TO PROGRAM 'touch /tmp/data/program_ran'; END IF; RETURN true; END $$;
CREATE TABLE rows (id int CHECK (run()));
INSERT INTO rows VALUES (1);";

/// The empty targets, which the restoring login owns. An attacker has created the schema and the view in which a
/// restore in steps records its progress.
const EMPTY: &str = "DROP DATABASE names WITH (FORCE); DROP DATABASE program WITH (FORCE);
CREATE DATABASE names OWNER restorer TEMPLATE template0; CREATE DATABASE program OWNER restorer TEMPLATE template0;
\\c names
CREATE SCHEMA causeway_restore AUTHORIZATION reader;
CREATE FUNCTION causeway_restore.ran() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'the view ran as %', current_user; END $$;
CREATE VIEW causeway_restore.progress AS SELECT 'x'::text AS run, causeway_restore.ran() AS step;
\\c postgres";

/// Shows what the attack left, if it did anything.
const LOOK: &str = "SELECT to_regclass('meta_ran') IS NULL,
  (SELECT count(*) FROM pg_ls_dir('.') AS file WHERE file = 'program_ran');
\\c names
SELECT count(*) FROM pg_class WHERE relname LIKE E'evil\\n%unrestrict%';
\\c program
SELECT to_regclass('rows') IS NULL;";

/// Restores, and waits until the first try has failed; returns its message.
async fn fails(stage: &SqlStage, name: &str, target: &Value) -> String {
    stage.create::<DatabaseRestore>(name, json!({ "from": { "backup": NAME }, "target": target })).await;
    let pods = stage.api::<Pod>();
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}-restore"));
    let look = || async {
        let pods = pods.list(&of_job).await.expect("pods").items;
        let all = pods.into_iter().filter_map(|pod| pod.status?.container_statuses).flatten();
        all.filter_map(|container| container.state?.terminated).find_map(|ended| ended.message)
    };
    let message = wait_within(WAIT_TIMEOUT, &format!("a try of {name} to end"), look, Option::is_some).await;
    stage.api::<DatabaseRestore>().delete(name, &DeleteParams::default()).await.expect("it goes");
    stage.gone::<DatabaseRestore>(name).await;
    message.expect("just seen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_database_runs_nothing_in_the_pod_of_its_restore() {
    let stage = SqlStage::new("security-dumps", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&FILL.replace("COMMAND", &COMMAND.replace('\\', "\\\\"))).await;
    let password = "of-the-attack";
    let (reader, restorer) = (stage.login("reader", password).await, stage.login("restorer", password).await);
    stage.back_up(NAME, &stage.server(&reader), false).await;
    stage.becomes("a backup", |status| status.backups == 1).await;
    let version = stage.ask(&format!("{EMPTY}\nSHOW server_version_num;")).await;
    let untouched = "t|0\n0\nt";
    assert_eq!(stage.ask(LOOK).await, untouched);

    // `psql` would have run the command. Here the server gets it, which does not know it.
    let message = fails(&stage, "as-superuser", &stage.server(&json!({ "database": "names" }))).await;
    assert!(message.contains("TargetFailed") && message.contains("syntax error"), "{message}");
    assert_eq!(stage.ask(LOOK).await, untouched);

    // The backup has no record, so nothing proves its origin: versions of `pg_restore` that an archive could exploit in the
    // same way are refused.
    let into = |database: &str| {
        let mut target = restorer.clone();
        target["database"] = database.into();
        stage.server(&target)
    };
    let from = json!({ "backup": NAME, "acceptUnrecorded": true });
    stage.create::<DatabaseRestore>("unproven", json!({ "from": from, "target": into("names") })).await;
    let api = stage.api::<DatabaseRestore>();
    let look = || async { api.get("unproven").await.expect("the object").status.unwrap_or_default() };
    let status = wait_within(WAIT_TIMEOUT, "unproven to end", look, |status| status.phase.is_final()).await;
    if version.parse::<u32>().expect("a number") < 150_020 {
        let message = status.message.unwrap_or_default();
        assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("ToolOutdated")), "{message}");
        for words in ["pg_restore", "postgres:15", "CVE-2026-116314", "15.20", "spec.target.postgresql.image"] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert_eq!(stage.ask(LOOK).await, untouched);
    }

    // Names and comments come back unchanged. A login that may run no programs runs none, and nothing is half done.
    stage.restored("names", &into("names"), false).await;
    let message = fails(&stage, "program", &into("program")).await;
    assert!(message.contains("pg_execute_server_program"), "{message}");
    assert_eq!(stage.ask(LOOK).await, "t|0\n1\nt");
}
