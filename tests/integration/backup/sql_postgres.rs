//! PostgreSQL: backed up while it is written to, wiped, and restored row by row.

use std::time::Instant;

use causeway_api::DatabaseBackupStatus;
use causeway_api::databaserestore::RestorePhase;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use super::sql_stage::{Engine, PASSWORD, SqlStage, seconds};
use super::stage::NAME;
use crate::support::Operator;
use crate::support::scene::condition;

/// PostgreSQL.
pub const POSTGRES: Engine = Engine {
    field: "postgresql",
    image: "postgres:15",
    port: 5432,
    user: "postgres",
    serve: "printf '%s' \"$PASSWORD\" > /tmp/password\n\
            initdb --pgdata=/tmp/data --username=postgres --pwfile=/tmp/password --auth=scram-sha-256 --no-sync \
            --encoding=UTF8 --locale=C > /tmp/log 2>&1\n\
            echo \"host${TLS:+ssl} all all all scram-sha-256\" >> /tmp/data/pg_hba.conf\n\
            exec postgres -D /tmp/data -k /tmp -c listen_addresses='*' -c fsync=off $TLS $SETTINGS",
    settings: "",
    serve_tls: "-c ssl=on -c ssl_cert_file=/tls/tls.crt -c ssl_key_file=/tls/tls.key",
    client: "PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 -h $HOST -U postgres",
    // The client tries TLS first.
    client_tls: "",
};

/// A database with something of everything, and an empty one whose name looks like a server to connect to.
const FILL: &str = "
CREATE ROLE app LOGIN PASSWORD 'of the app';
CREATE DATABASE shop OWNER app;
CREATE DATABASE nothing;
CREATE DATABASE \" host=192.0.2.1 dbname=postgres sslmode=disable\";
ALTER DATABASE shop SET work_mem TO '7MB';
ALTER ROLE app IN DATABASE shop SET search_path TO public, pg_temp;
GRANT TEMPORARY ON DATABASE shop TO app WITH GRANT OPTION;
COMMENT ON DATABASE shop IS 'it''s; ours';
\\c shop
SET ROLE app;
CREATE SCHEMA \"odd \"\"one\";
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text, n numeric, f float8, d timestamptz, b bytea, j jsonb,
  a int[], m mood, g bigint GENERATED ALWAYS AS (id * 2) STORED
);
INSERT INTO orders (t, n, f, d, b, j, a, m)
  SELECT repeat(md5(i::text), 8) || E'\\n\\t\\\\''\"', i / 7.0, sqrt(i), '2026-11-22'::timestamptz + i * interval '1 s',
  decode(md5(i::text), 'hex'), jsonb_build_object('i', i), ARRAY[i, NULL], (ARRAY['sad', 'ok', NULL])[1 + i % 3]::mood
  FROM generate_series(1, 5000) i;
CREATE TABLE \"odd \"\"one\".\"Lines\" (id int REFERENCES orders DEFERRABLE, part int) PARTITION BY LIST (part);
CREATE TABLE \"odd \"\"one\".first PARTITION OF \"odd \"\"one\".\"Lines\" FOR VALUES IN (0);
CREATE TABLE \"odd \"\"one\".other PARTITION OF \"odd \"\"one\".\"Lines\" DEFAULT;
INSERT INTO \"odd \"\"one\".\"Lines\" SELECT i, i % 3 FROM generate_series(1, 300) i;
CREATE TABLE empty (id int);
CREATE VIEW totals AS SELECT count(*) AS all FROM orders;
CREATE FUNCTION seven() RETURNS int LANGUAGE sql AS 'SELECT 7';
CREATE TABLE ticks (id bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp());
INSERT INTO ticks DEFAULT VALUES;";

/// Writes until its pod is deleted.
const WRITE: &str = "\\c shop
DO $$ BEGIN LOOP INSERT INTO ticks DEFAULT VALUES; COMMIT; PERFORM pg_sleep(0.002); END LOOP; END $$;";

/// Returns when somebody writes.
const IS_WRITTEN: &str = "\\c shop
DO $$ BEGIN WHILE (SELECT count(*) FROM ticks) < 50 LOOP COMMIT; PERFORM pg_sleep(0.05); END LOOP; END $$;";

/// Everything that stays the same while somebody writes: rows, owners, objects.
const LOOK: &str = "\\c shop
SET timezone = 'UTC';
SELECT count(*), md5(string_agg(o::text, ',' ORDER BY id)) FROM orders o;
SELECT tableoid::regclass, count(*), md5(string_agg(l::text, ',' ORDER BY id)) FROM \"odd \"\"one\".\"Lines\" l
  GROUP BY tableoid ORDER BY 1::text;
SELECT count(*) FROM empty;
SELECT * FROM totals;
SELECT seven(), min(id) FROM ticks;
SELECT string_agg(relname || pg_get_userbyid(relowner), ',' ORDER BY relname) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace;
SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datacl,
  shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'shop';
SELECT setrole::regrole, setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase ORDER BY 1;
SELECT rolcanlogin, rolpassword LIKE 'SCRAM%' FROM pg_authid WHERE rolname = 'app';
SELECT count(*) FROM pg_database WHERE datname IN ('nothing', ' host=192.0.2.1 dbname=postgres sslmode=disable');";

const WIPE: &str = "DROP DATABASE shop WITH (FORCE); DROP DATABASE nothing;
DROP DATABASE \" host=192.0.2.1 dbname=postgres sslmode=disable\"; DROP ROLE app;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_is_written_to_comes_back_row_by_row() {
    let stage = SqlStage::new("sql-postgres", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(FILL).await;
    stage.begin("writer", WRITE).await;
    stage.ask(IS_WRITTEN).await;
    let begun = Instant::now();
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    let status = stage.proven().await;
    let took = begun.elapsed();
    let before = stage.ask(&format!("{LOOK}\nSELECT count(*) FROM ticks;")).await;
    stage.api::<Pod>().delete("writer", &DeleteParams::default()).await.expect("the writer goes");
    stage.gone::<Pod>("writer").await;
    let (before, after) = before.rsplit_once('\n').expect("many lines");
    let run = status.recent[0].clone();
    assert_eq!((run.folder.as_str(), run.source.as_str()), ("postgresql", &*format!("PostgreSQL {}:5432", stage.host)));
    let ticks = run.keys - 5300;
    let written: i64 = after.parse().expect("a number");
    assert!(ticks >= 50 && ticks < written, "{ticks} of {written} rows were written before the backup");

    stage.ask(WIPE).await;
    let begun = Instant::now();
    let rows = stage.restored("back", &stage.server(&json!({})), false).await;
    assert_eq!(rows, run.keys);
    println!(
        "» PostgreSQL: {} rows ({} bytes, {} stored) backed up and proven in {}, {} more written meanwhile; restored in {}",
        run.keys,
        run.bytes,
        run.stored_bytes,
        seconds(took),
        written - ticks,
        seconds(begun.elapsed())
    );
    assert_eq!(stage.ask(&format!("{LOOK}\nSELECT count(*) FROM ticks;")).await, format!("{before}\n{ticks}"));

    // The restore is done already, so nothing is touched. What somebody changed since is not replaced without force.
    assert_eq!(stage.restored("twice", &stage.server(&json!({})), false).await, rows);
    let changed = "\\c shop\nUPDATE orders SET t = 'theirs' WHERE id = 7;";
    stage.ask(changed).await;
    let status = stage.restore("again", &stage.server(&json!({})), false).await;
    let text = status.message.unwrap_or_default();
    assert_eq!(status.phase, RestorePhase::Failed, "{text}");
    assert!(text.contains("TargetNotEmpty") && text.contains("database shop"), "{text}");
    what_depends_on_what_is_replaced_goes_only_by_consent(&stage).await;
    assert_eq!(stage.restored("forced", &stage.server(&json!({ "database": "shop" })), true).await, rows);
    assert_eq!(stage.ask(LOOK).await, before);

    // The state after a try that died when it had only created the database.
    stage.ask(&format!("{WIPE}\nCREATE DATABASE shop TEMPLATE template0;")).await;
    assert_eq!(stage.restored("bare", &stage.server(&json!({})), false).await, rows);
    assert_eq!(stage.ask(LOOK).await, before);
    // A database that somebody created with its own settings is used as it is.
    let other = "DROP DATABASE shop WITH (FORCE); CREATE DATABASE shop TEMPLATE template0 CONNECTION LIMIT 90;";
    stage.ask(other).await;
    assert_eq!(stage.restored("purpose", &stage.server(&json!({})), false).await, rows);
    let look = "SELECT pg_get_userbyid(datdba), datconnlimit, datacl IS NULL FROM pg_database WHERE datname = 'shop';";
    assert_eq!(stage.ask(look).await, "postgres|90|t");
}

/// Objects that were made after the backup, and depend on what the restore replaces; and one that does not.
const NEWER: &str = "\\c shop
CREATE VIEW public.newer AS SELECT id, m FROM orders; CREATE VIEW public.upon AS SELECT * FROM newer;
CREATE TABLE public.later (id int REFERENCES orders, m mood); INSERT INTO later VALUES (1, 'ok');
CREATE TABLE \"odd \"\"one\".second PARTITION OF \"odd \"\"one\".\"Lines\" FOR VALUES IN (9);
CREATE TABLE public.theirs (i int);";

/// Shows which of these objects exist.
const NEWER_THERE: &str = "\\c shop
SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relname IN ('newer', 'upon', 'later', 'second', 'theirs');
SELECT count(*) FROM pg_constraint WHERE conrelid = 'later'::regclass;
SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = 'later'::regclass AND attnum > 0 AND NOT attisdropped;
SELECT t FROM orders WHERE id = 7;";

async fn what_depends_on_what_is_replaced_goes_only_by_consent(stage: &SqlStage) {
    stage.ask(NEWER).await;
    let all = "later,newer,second,theirs,upon\n1\nid,m\ntheirs";
    assert_eq!(stage.ask(NEWER_THERE).await, all);
    let shop = stage.server(&json!({ "database": "shop" }));
    let status = stage.restore_as("look", &shop, &json!({ "force": true, "dryRun": true })).await;
    assert_eq!(status.phase, RestorePhase::Planned, "{status:?}");
    let outlook = status.outlook.expect("what it would do");
    assert_eq!(outlook.refused.as_deref(), Some("DependentsRemain"));
    let planned: Vec<String> = outlook
        .changes
        .iter()
        .map(|it| format!("{:?} {} {}: {}", it.action, it.count, it.what, it.names.join(", ")))
        .collect();
    for words in [
        "Replace 5 tables: \"odd \"\"one\".first, \"odd \"\"one\".other, public.empty, public.orders, public.ticks",
        "Drop 5 dependents: column m of table public.later, constraint later_id_fkey on table public.later",
        "Keep 2 tables: public.later, public.theirs",
        "Keep 2 roles: app, postgres",
    ] {
        assert!(
            planned.iter().any(|it| it.starts_with(words.get(..48).unwrap_or(words))),
            "{words}\nis not in {planned:#?}"
        );
    }

    let status = stage.restore("dependents", &shop, true).await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (RestorePhase::Failed, Some("DependentsRemain")),
        "{status:?}"
    );
    let text = status.message.unwrap_or_default();
    assert!(text.contains("constraint later_id_fkey on table public.later") && text.contains("and 2 more"), "{text}");
    assert_eq!(stage.ask(NEWER_THERE).await, all, "nothing was changed");

    let status = stage.restore_as("cascade", &shop, &json!({ "force": true, "onDependents": "Cascade" })).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    let there = stage.ask(NEWER_THERE).await;
    assert!(there.starts_with("later,theirs\n0\nid\n") && !there.ends_with("\ntheirs"), "{there}");
    stage.ask("\\c shop\nDROP TABLE later, theirs;").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_cannot_be_backed_up_is_told_with_field_and_fix() {
    let stage = SqlStage::new("sql-refusals", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let labels = json!({ "causeway.example.com/usable-by": "databasebackup" });
    let secrets = stage.api::<k8s_openapi::api::core::v1::Secret>();
    let reader = json!({ "username": "reader", "password": PASSWORD });
    let wrong = json!({ "username": "postgres", "password": "wrong" });
    for (name, data) in [("wrong", wrong), ("none", json!({})), ("reader", reader)] {
        let secret = json!({ "metadata": { "name": name, "labels": labels }, "stringData": data });
        let secret = serde_json::from_value(secret).expect("a Secret");
        secrets.create(&kube::api::PostParams::default(), &secret).await.expect("the Secret is taken");
    }
    let cases = [
        (
            "password",
            json!({ "authSecretName": "wrong" }),
            "SourceUnreachable",
            "spec.source.postgresql.authSecretName: the server refuses",
        ),
        (
            "secret",
            json!({ "authSecretName": "none" }),
            "SecretMissing",
            "make the Secret that spec.source.postgresql.authSecretName names",
        ),
        (
            "database",
            json!({ "database": "shop" }),
            "SourceUnreachable",
            "spec.source.postgresql.database: there is no database shop: make it",
        ),
        ("host", json!({ "port": 1 }), "SourceUnreachable", "spec.source.postgresql.host: no server answers"),
        ("image", json!({ "image": "nginx:latest" }), "ToolMissing", "there is no program pg_dumpall in the image"),
        (
            "rights",
            json!({ "authSecretName": "reader", "database": "hidden" }),
            "RightsMissing",
            "user reader cannot read all of database hidden: rows of public.secret (ALTER ROLE \"reader\" BYPASSRLS); large \
             objects 4711 (GRANT SELECT ON LARGE OBJECT 4711 TO \"reader\")",
        ),
        // A server without any database of a user gives an empty backup, not a failure.
        ("empty", json!({}), "", ""),
    ];
    // A user who may read all tables, but neither rows that a policy hides, nor large objects of others.
    let quoted = PASSWORD.replace('\'', "''");
    let reader = format!(
        "CREATE DATABASE hidden; CREATE ROLE reader LOGIN PASSWORD '{quoted}'; GRANT pg_read_all_data TO reader;
\\c hidden
CREATE TABLE secret (i int); ALTER TABLE secret ENABLE ROW LEVEL SECURITY; SELECT lo_from_bytea(4711, 'x');"
    );
    stage.ask(&reader).await;
    for (name, others, ..) in &cases {
        stage.back_up(name, &stage.server(others), false).await;
    }
    for (name, _, reason, words) in &cases[..6] {
        let (its, text) = stage.failure(name).await;
        assert_eq!(its, *reason, "{text}");
        assert!(text.contains(words), "{text}\nshould say: {words}");
        assert!(!text.contains(PASSWORD) && !text.contains("wrong"), "{text}");
    }
    let api = stage.api::<causeway_api::DatabaseBackup>();
    let look = || async { api.get("empty").await.expect("the object").status.unwrap_or_default() };
    let status = crate::support::wait_for("the empty one", look, |status| status.backups == 1).await;
    assert_eq!((status.recent[0].keys, &status.last_failure), (0, &None));
}

/// A server as AWS or Google run it for customers: one database is the provider's, one belongs to another team, one
/// takes no connections, and one is closed to this user by `pg_hba.conf`. `pattern` is a template of a user's.
const SHARED: &str = "CREATE ROLE backup LOGIN PASSWORD 'SECRET'; GRANT pg_read_all_data TO backup;
CREATE DATABASE rdsadmin; REVOKE CONNECT ON DATABASE rdsadmin FROM PUBLIC;
CREATE DATABASE vault; REVOKE CONNECT ON DATABASE vault FROM PUBLIC;
CREATE DATABASE closed ALLOW_CONNECTIONS false;
CREATE DATABASE fenced;
CREATE TEMPORARY TABLE hba AS SELECT 0 AS at, 'host fenced backup all reject' AS line UNION ALL SELECT row_number() OVER (), line FROM
  regexp_split_to_table(rtrim(pg_read_file('/tmp/data/pg_hba.conf'), E'\\n'), E'\\n') AS line;
COPY (SELECT line FROM hba ORDER BY at) TO '/tmp/data/pg_hba.conf';
SELECT pg_reload_conf();
CREATE DATABASE pattern IS_TEMPLATE true;
CREATE DATABASE shop;
\\c pattern
CREATE TABLE lines AS SELECT generate_series(1, 5) AS i;
\\c shop
CREATE TABLE orders AS SELECT generate_series(1, 7) AS i;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_of_postgresql_that_a_user_may_not_enter_are_left_out_and_told() {
    let stage = SqlStage::new("sql-shared", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let login = stage.login("backup", PASSWORD).await;
    stage.ask(&SHARED.replace("SECRET", &PASSWORD.replace('\'', "''"))).await;
    let run = stage.backed_up(stage.server(&login)).await.recent.remove(0);
    assert_eq!((run.keys, run.left_out.as_deref()), (12, Some("closed, fenced, vault")));
    let is_reported = |status: &DatabaseBackupStatus| {
        let ready = condition(&status.conditions, "Ready");
        ready.is_some_and(|(.., message)| message.contains("may not connect to closed, fenced, vault of PostgreSQL"))
    };
    stage.becomes("the databases that are left out to be reported", is_reported).await;
}

/// Kills the dump as soon as it copies rows of the large table, but if possible not while it waits for its client to
/// read: then the server closes the connection without an error.
const KILL: &str = "DO $$ DECLARE killed boolean; BEGIN LOOP
  SELECT bool_or(pg_terminate_backend(pid)) INTO killed FROM pg_stat_activity WHERE query LIKE 'COPY%large%'
    AND wait_event IS DISTINCT FROM 'ClientWrite';
  EXIT WHEN killed; COMMIT; PERFORM pg_sleep(0.002);
END LOOP; END $$;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_of_postgresql_that_is_killed_leaves_nothing() {
    let stage = SqlStage::new("sql-killed", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let large = "CREATE TABLE large AS SELECT i, (SELECT string_agg(md5(random()::text || g || i), '') FROM \
                 generate_series(1, 200) g) AS t FROM generate_series(1, 4000) i;";
    stage.ask(large).await;
    stage.begin("killer", KILL).await;
    stage.runs("pg_terminate_backend").await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "postgres" })), false).await;
    let (reason, text) = stage.failure(NAME).await;
    stage.end("killer").await;
    assert_eq!(reason, "SourceFailed", "{text}");
    // It may begin to wait for its client just when it is killed.
    let is_told = text.contains("terminating connection") || text.contains("server closed the connection");
    assert!(text.contains("pg_dump") && is_told, "{text}");
    assert_eq!(stage.keys(&stage.bucket()).await, Vec::<String>::new());
    let uploads = stage.s3.list_multipart_uploads().bucket(stage.bucket()).send().await.expect("a list");
    assert!(uploads.uploads().is_empty(), "{uploads:?}");
}

/// A table that a dump waits for, and the tables that it dumps after that.
const EMPTIED: &str = "CREATE TABLE a_locked (i int); INSERT INTO a_locked VALUES (1);
CREATE TABLE b_emptied AS SELECT generate_series(1, 1000) AS i; CREATE TABLE c_emptied (at timestamptz);";

/// Holds the first table until a backup waits for it, and empties the second one meanwhile. A dump that sees it empty
/// must see the row in the third one, too.
const EMPTY: &str = "BEGIN; LOCK TABLE a_locked IN ACCESS EXCLUSIVE MODE;
SELECT 'locked';
DO $$ BEGIN WHILE NOT EXISTS (
  SELECT 1 FROM pg_locks WHERE relation = 'a_locked'::regclass AND NOT granted
) LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$;
TRUNCATE b_emptied; INSERT INTO c_emptied VALUES (now());
COMMIT;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_emptied_while_a_dump_begins_is_in_it_as_in_one_instant() {
    let stage = SqlStage::new("sql-emptied", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(EMPTIED).await;
    stage.begin("emptier", EMPTY).await;
    let locked = "DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock'
      AND relation = 'a_locked'::regclass AND granted) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;";
    stage.ask(locked).await;
    let server = stage.server(&json!({ "database": "postgres" }));
    stage.back_up(NAME, &server, true).await;
    let status = stage.proven().await;
    stage.end("emptier").await;
    let look = "SELECT (SELECT count(*) FROM b_emptied), (SELECT count(*) FROM c_emptied);";
    stage.ask("DROP TABLE a_locked, b_emptied, c_emptied;").await;
    stage.restored("back", &server, false).await;
    let seen = stage.ask(look).await;
    assert!(seen == "1000|0" || seen == "0|1", "rows and note of one instant, not {seen}");
    assert_eq!(status.recent[0].keys, if seen == "0|1" { 2 } else { 1001 });
}

/// Takes the lock that a restore holds in a database, and keeps it.
const HOLD: &str = "\\c \"-other \"\"one\"\"\"
SELECT pg_advisory_lock(7161134020979810681), 'held';
SELECT pg_sleep(600);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_restores_at_once_into_an_empty_postgresql_writes() {
    let stage = SqlStage::new("sql-postgres-two", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let fill = "CREATE DATABASE \"-other \"\"one\"\"\"; CREATE DATABASE shop;\n\\c shop\nCREATE TABLE a AS SELECT seq FROM generate_series(1, 1000) seq;";
    stage.ask(fill).await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "shop" })), true).await;
    stage.proven().await;
    let other = stage.server(&json!({ "database": "-other \"one\"" }));
    // Another restore is at work, and has written nothing yet.
    stage.begin("holder", HOLD).await;
    stage.runs("pg_sleep(600)").await;
    for (name, force) in [("second", false), ("forced", true)] {
        let status = stage.restore(name, &other, force).await;
        assert_eq!(status.reason.as_deref(), Some("TargetHalfRestored"), "{status:?}");
    }
    stage.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid();").await;
    let steps = json!({ "parallelism": 2 });
    let (one, two) = tokio::join!(stage.restore_as("one", &other, &steps), stage.restore_as("two", &other, &steps));
    for status in [&one, &two] {
        assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(1000)), "{status:?}");
    }
    assert_eq!(
        stage.ask("\\c \"-other \"\"one\"\"\"\nSELECT count(*) FROM a;").await,
        "1000",
        "the later one found all of it"
    );
}
