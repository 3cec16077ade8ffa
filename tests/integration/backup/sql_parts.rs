//! PostgreSQL: some tables of a backup are restored beside what is there, by a superuser and by another user.

use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::sql_postgres::POSTGRES;
use super::sql_stage::{PASSWORD, SqlStage};
use super::stage::NAME;
use crate::support::Operator;

/// Two databases with the same names in them. `lines` has partitions and refers to `orders`; both have everything that
/// a table may have.
const FILL: &str = "CREATE ROLE app LOGIN PASSWORD 'SECRET' CREATEDB; CREATE DATABASE other; CREATE DATABASE shop OWNER app;
\\c other
CREATE SCHEMA sales; CREATE TABLE sales.lines (of_the_other int);
\\c shop
CREATE EXTENSION hstore; CREATE SCHEMA sales AUTHORIZATION app;
CREATE TYPE sales.mood AS ENUM ('sad', 'ok');
CREATE FUNCTION sales.touched() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE sales.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, m sales.mood DEFAULT 'ok', h hstore);
CREATE TRIGGER touched BEFORE UPDATE ON sales.orders FOR EACH ROW EXECUTE FUNCTION sales.touched();
CREATE INDEX odd ON sales.orders ((n + 1)); GRANT SELECT ON sales.orders TO app;
CREATE TABLE sales.lines (id bigint REFERENCES sales.orders, part int) PARTITION BY LIST (part);
CREATE TABLE sales.first PARTITION OF sales.lines FOR VALUES IN (0);
CREATE TABLE sales.rest PARTITION OF sales.lines DEFAULT;
CREATE TABLE public.sessions (id int);
INSERT INTO sales.orders (h) SELECT hstore('i', i::text) FROM generate_series(1, 9) i;
INSERT INTO sales.lines SELECT i, i % 3 FROM generate_series(1, 9) i;
INSERT INTO sessions VALUES (1);
CREATE FUNCTION public.shout() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER loud ON ddl_command_end EXECUTE FUNCTION public.shout();";

/// Changes after the backup: a table is dropped, another one is created, and the remaining one is changed.
const HARM: &str = "\\c shop
DROP TABLE sales.lines; CREATE TABLE public.later (i int); UPDATE sales.orders SET m = 'sad' WHERE id = 1;
INSERT INTO public.sessions VALUES (2);";

/// Shows the objects and rows of a database.
const LOOK: &str = "\\c DATABASE
SELECT relname, relkind, pg_get_userbyid(relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
  WHERE nspname IN ('sales', 'public') AND relkind IN ('r', 'p', 'S', 'i') ORDER BY relname;
SELECT conname FROM pg_constraint WHERE contype = 'f' AND conparentid = 0; SELECT tgname FROM pg_trigger WHERE NOT tgisinternal;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_postgresql_returns_beside_later_writes() {
    let stage = SqlStage::new("sql-parts", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&FILL.replace("SECRET", &PASSWORD.replace('\'', "''"))).await;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    stage.has_backups(1).await;
    let look = |database: &str| LOOK.replace("DATABASE", database);
    let before = stage.ask(&look("shop")).await;
    stage.ask(HARM).await;

    // Restores the dropped table into the database that is still in use.
    let shop = stage.server(&json!({ "database": "shop" }));
    let lines = json!({ "include": { "tables": ["sales.lines"] } });
    let status = stage.restore_as("lines", &shop, &lines).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(9)), "{status:?}");
    let counts = "\\c shop\nSELECT (SELECT count(*) FROM sales.lines), (SELECT m FROM sales.orders WHERE id = 1), (SELECT count(*) FROM \
                 sessions), to_regclass('public.later');";
    assert_eq!(stage.ask(counts).await, "9|sad|2|later");
    let after = stage.ask(&look("shop")).await;
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().filter(|line| !line.starts_with("later|")).collect();
    assert_eq!(new, old, "with its parts, owner and foreign key");

    // Existing tables are replaced only by force.
    let orders = |more: serde_json::Value| {
        let mut fields = json!({ "include": { "tables": ["sales.orders"] } });
        fields.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        fields
    };
    let status = stage.restore_as("refused", &shop, &orders(json!({}))).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("TargetNotEmpty")), "{status:?}");
    let look_first = stage.restore_as("look", &shop, &orders(json!({ "force": true, "dryRun": true }))).await;
    let outlook = look_first.outlook.clone().expect("an outlook");
    assert!(outlook.changes.iter().any(|it| it.what == "tables" && it.names == ["sales.orders"]), "{look_first:?}");
    let status = stage.restore_as("depends", &shop, &orders(json!({ "force": true }))).await;
    assert_eq!(status.reason.as_deref(), Some("DependentsRemain"), "{status:?}");
    assert!(status.message.as_deref().is_some_and(|it| it.contains("lines_id_fkey")), "{status:?}");
    let cascade = orders(json!({ "force": true, "onDependents": "Cascade" }));
    let status = stage.restore_as("replaced", &shop, &cascade).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(9)), "{status:?}");
    assert_eq!(stage.ask(counts).await, "9|ok|2|later");

    // Names that the backup lacks are reported with their field.
    for (name, fields, words) in [
        (
            "no-table",
            json!({ "include": { "tables": ["sales.line"] } }),
            "spec.include.tables: the backup has no table",
        ),
        (
            "no-schema",
            json!({ "exclude": { "schemas": ["sale"] } }),
            "spec.exclude.schemas: the backup has no schema sale",
        ),
        (
            "no-database",
            json!({ "include": { "databases": ["shops"] } }),
            "spec.include.databases: the backup has no database shops, and of other, postgres, shop",
        ),
    ] {
        let status = stage.restore_as(name, &shop, &fields).await;
        assert!(status.message.as_deref().is_some_and(|it| it.contains(words)), "{name}: {status:?}");
    }

    // A user that is no superuser restores into a database of another name, whose extension belongs to another user.
    stage.ask("CREATE DATABASE copy OWNER app;\n\\c copy\nCREATE EXTENSION hstore;").await;
    let app = stage.login("app", PASSWORD).await;
    let mut copy = app.clone();
    copy["database"] = json!("copy");
    let fields = json!({ "include": { "databases": ["shop"] }, "exclude": { "tables": ["public.sessions"] } });
    let status = stage.restore_as("copy", &stage.server(&copy), &fields).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(18)), "{status:?}");
    assert!(
        status.message.as_deref().is_some_and(|it| it.contains("event trigger loud (only a superuser makes them)")),
        "{status:?}"
    );
    let copied = stage.ask(&look("copy")).await;
    let expected: Vec<String> = before
        .lines()
        .filter(|line| !line.starts_with("sessions|"))
        .map(|line| line.replace("|postgres", "|app"))
        .collect();
    assert_eq!(copied.lines().collect::<Vec<_>>(), expected, "all of it is the login's");
}
