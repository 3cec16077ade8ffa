//! Everything that PostgreSQL's own programs can dump is backed up, whatever our comparison makes of it, and comes back.

use causeway_api::DatabaseBackupStatus;
use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::sql_postgres::POSTGRES;
use super::sql_stage::{Engine, PASSWORD, SqlStage};
use super::stage::NAME;
use crate::support::Operator;

/// Something that a database may have: the name of the database, what follows the name in the statement that makes it, the statements
/// that fill it, and a question about what they made.
type Idiom = (&'static str, &'static str, &'static str, &'static str);

const IDIOMS: &[Idiom] = &[
    (
        "hashed_by_enum",
        "",
        "CREATE TYPE mood AS ENUM ('a', 'b', 'c', 'd'); CREATE TABLE parts (m mood, i int) PARTITION BY HASH (m);
         CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE parts_1 (i int, m mood);
         ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         INSERT INTO parts SELECT m, i FROM unnest(enum_range(NULL::mood)) m, generate_series(1, 50) i;",
        "SELECT m, count(*), sum(i) FROM parts GROUP BY m ORDER BY m;",
    ),
    (
        "bytes",
        "ENCODING 'SQL_ASCII' TEMPLATE template0",
        "CREATE TABLE t (a text); INSERT INTO t VALUES (convert_from('\\xe9fffe', 'SQL_ASCII')), ('plain');",
        "SELECT string_agg(convert_to(a, 'SQL_ASCII')::text, ',' ORDER BY convert_to(a, 'SQL_ASCII')) FROM t;",
    ),
    (
        "latin",
        "ENCODING 'WIN1252' LOCALE 'C' TEMPLATE template0",
        "CREATE TABLE t (a text); INSERT INTO t VALUES (convert_from('\\xe981', 'WIN1252'));",
        "SELECT convert_to(a, 'WIN1252'), pg_encoding_to_char(encoding) FROM t, pg_database WHERE datname = current_database();",
    ),
    (
        "function_in_index",
        "",
        "CREATE FUNCTION norm(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.lower($1)';
         CREATE TABLE t (a text); INSERT INTO t VALUES ('X'), ('y'); CREATE INDEX lowered ON t (norm(a)) WHERE norm(a) <> 'z';",
        "SELECT count(*), (SELECT indexdef FROM pg_indexes WHERE indexname = 'lowered') FROM t WHERE norm(a) = 'x';",
    ),
    (
        "checks_and_domains",
        "",
        "CREATE FUNCTION is_fine(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
         CREATE DOMAIN fine AS int CHECK (is_fine(VALUE));
         CREATE TABLE t (a int CHECK (is_fine(a)), b fine, c int GENERATED ALWAYS AS (abs(a) + 1) STORED);
         INSERT INTO t VALUES (1, 2), (3, 4);",
        "SELECT string_agg(t::text, ',' ORDER BY a) FROM t;",
    ),
    (
        "names_without_schema",
        "",
        "CREATE FUNCTION helper(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
         CREATE FUNCTION norm(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT helper($1)';
         CREATE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN helper($1); END';
         CREATE TABLE t (a text CHECK (plain(a) <> 'q'), b text GENERATED ALWAYS AS (plain(a)) STORED);
         INSERT INTO t VALUES ('X'), ('Y'); CREATE INDEX ON t (norm(a)); CREATE MATERIALIZED VIEW m AS SELECT norm(a) AS n FROM t;",
        "SELECT (SELECT string_agg(b, ',' ORDER BY b) FROM t), (SELECT string_agg(n, ',' ORDER BY n) FROM m);",
    ),
    (
        "rights_in_index",
        "",
        "CREATE ROLE indexer; CREATE SCHEMA lib; CREATE SCHEMA app AUTHORIZATION indexer;
         CREATE FUNCTION lib.inner1(t text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower(t)';
         CREATE FUNCTION lib.outer1(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = lib AS 'BEGIN RETURN inner1(t); END';
         REVOKE EXECUTE ON FUNCTION lib.inner1(text) FROM PUBLIC; GRANT EXECUTE ON FUNCTION lib.inner1(text) TO indexer;
         GRANT USAGE ON SCHEMA lib TO indexer; CREATE TABLE app.t (t text); INSERT INTO app.t VALUES ('A');
         ALTER TABLE app.t OWNER TO indexer; GRANT SELECT ON app.t TO PUBLIC; CREATE INDEX i ON app.t (lib.outer1(t));",
        "SELECT (SELECT count(*) FROM app.t), nspacl FROM pg_namespace WHERE nspname = 'lib';",
    ),
    (
        "large_values",
        "",
        "CREATE TABLE t (b bytea, t text, v varchar); INSERT INTO t SELECT convert_to(repeat('x', 9 << 20), 'UTF8'), repeat('y', 9 << 20), 'z';",
        "SELECT md5(b), md5(t), v FROM t;",
    ),
    (
        "materialized",
        "",
        "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'; CREATE TABLE t (a int);
         INSERT INTO t VALUES (4); CREATE MATERIALIZED VIEW m AS SELECT twice(a) AS b FROM t; CREATE UNIQUE INDEX ON m (b);",
        "SELECT b FROM m;",
    ),
    (
        "operators",
        "",
        "CREATE FUNCTION same(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 10 = $2 % 10';
         CREATE OPERATOR === (FUNCTION = same, LEFTARG = int, RIGHTARG = int);
         CREATE TABLE t (a int CHECK (a OPERATOR(public.===) 3)); INSERT INTO t VALUES (3), (13);",
        "SELECT sum(a) FROM t WHERE a === 23;",
    ),
    (
        "collated",
        "",
        "CREATE COLLATION german (provider = icu, locale = 'de-u-co-phonebk'); CREATE TABLE t (a text COLLATE german);
         INSERT INTO t VALUES ('Ä'), ('Z'); CREATE INDEX ON t (a);",
        "SELECT string_agg(encode(convert_to(a, 'UTF8'), 'hex'), ',' ORDER BY a) FROM t;",
    ),
    (
        "foreign_tables",
        "",
        "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '192.0.2.1');
         CREATE FOREIGN TABLE there (i int) SERVER far; CREATE TABLE t (a int) PARTITION BY LIST (a);
         CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1); CREATE FOREIGN TABLE t_2 PARTITION OF t FOR VALUES IN (2) SERVER far;
         INSERT INTO t_1 VALUES (1);",
        "SELECT (SELECT count(*) FROM t_1), string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'f';",
    ),
    (
        "large_objects",
        "",
        "SELECT lo_from_bytea(4711, 'large');",
        "SELECT lo_get(4711);",
    ),
    (
        "event_triggers",
        "",
        "CREATE TABLE log (tag text); CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS
           'BEGIN INSERT INTO log VALUES (tg_tag); END';
         CREATE EVENT TRIGGER noting ON ddl_command_end EXECUTE FUNCTION note();",
        "SELECT (SELECT count(*) FROM log), evtname FROM pg_event_trigger;",
    ),
    (
        "row_security",
        "",
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
         ALTER TABLE t FORCE ROW LEVEL SECURITY; CREATE POLICY few ON t USING (a = 1);",
        "SELECT count(*) FROM t;",
    ),
    (
        "arrays",
        "",
        "ALTER DATABASE arrays SET array_nulls = off; ALTER DATABASE arrays SET quote_all_identifiers = on;
         CREATE TABLE t (a text[]); INSERT INTO t VALUES (ARRAY['a', NULL]);",
        "SELECT a[2] IS NULL FROM t;",
    ),
    (
        "intervals",
        "",
        "ALTER DATABASE intervals SET intervalstyle = sql_standard; ALTER DATABASE intervals SET datestyle = 'German, DMY';
         CREATE TABLE t (i interval DEFAULT '-1 day +02:03:00', d date); INSERT INTO t VALUES ('-1 day 2:03', '2026-02-01');",
        "SET intervalstyle = postgres; SET datestyle = ISO; SELECT i, d FROM t;",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_idiom_is_backed_up_proven_and_comes_back() {
    let mut stage = SqlStage::new("sql-idioms", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let make = IDIOMS.iter().map(|(name, how, fill, _)| {
        // Their settings hold for new connections only.
        format!("\\c postgres\nCREATE DATABASE {name} {how};\n\\c {name}\n{fill}\n")
    });
    stage.ask(&make.collect::<String>()).await;
    let questions: Vec<String> =
        IDIOMS.iter().map(|(name, _, _, question)| format!("\\c {name}\n{question}")).collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    let before = stage.ask_each("", &questions).await;
    assert!(before.iter().all(|answer| !answer.starts_with("ERROR")), "{before:#?}");
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;

    stage.replace().await;
    stage.restored("back", &stage.server(&json!({})), false).await;
    let after = stage.ask_each("", &questions).await;
    for ((idiom, before), after) in IDIOMS.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{}", idiom.0);
    }
}

/// The planner expands such a function, which names another one without its schema.
const UNCOMPARABLE: &str = "CREATE DATABASE strange;
\\c strange
CREATE FUNCTION helper(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE FUNCTION norm(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT helper($1)';
CREATE TABLE t (a text); INSERT INTO t VALUES ('X'); CREATE INDEX ON t (norm(a));
CREATE TABLE other (a int); INSERT INTO other VALUES (1), (2);
ALTER DATABASE strange SET search_path = pg_catalog;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncountable_table_is_backed_up_and_named() {
    let stage = SqlStage::new("sql-uncounted", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(UNCOMPARABLE).await;
    let server = stage.server(&json!({ "database": "strange" }));
    stage.back_up(NAME, &server, false).await;
    let taken = |status: &DatabaseBackupStatus| {
        assert_eq!(status.last_failure, None);
        !status.recent.is_empty()
    };
    let status = stage.becomes("a backup", taken).await.status.expect("a status");
    assert_eq!(status.recent[0].keys, 2, "rows of the other table");
    // The search path of the target finds what the functions name.
    let status = stage.restore("back", &stage.server(&json!({ "database": "postgres" })), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    assert!(status.message.unwrap_or_default().contains("its own search path"));
    assert_eq!(stage.ask("SELECT count(*) FROM t WHERE norm(a) = 'x';").await, "1");
}

/// A view of what is not there any more, a table that is checked against one that is restored after it, and a good one.
const BROKEN: &str = "CREATE DATABASE gone; CREATE DATABASE a_far; CREATE DATABASE broken; CREATE DATABASE last;
\\c gone
CREATE TABLE t (i int); INSERT INTO t VALUES (1);
\\c a_far
CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '/tmp', dbname 'gone');
CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'postgres', password 'PASSWORD');
CREATE FOREIGN TABLE there (i int) SERVER far OPTIONS (table_name 't'); CREATE MATERIALIZED VIEW m AS SELECT i FROM there;
CREATE TABLE own (i int); INSERT INTO own VALUES (1);
\\c broken
CREATE TABLE keys (k int); INSERT INTO keys VALUES (1);
CREATE FUNCTION is_known(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN EXISTS (SELECT 1 FROM public.keys WHERE k = $1); END';
CREATE TABLE checked (k int CHECK (is_known(k))); INSERT INTO checked VALUES (1);
\\c last
CREATE TABLE t (i int); INSERT INTO t VALUES (1);
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'gone';
DROP DATABASE gone;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unrestorable_database_is_named_and_stops_none() {
    let mut stage = SqlStage::new("sql-broken", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&BROKEN.replace("PASSWORD", &PASSWORD.replace('\'', "''"))).await;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    stage.has_backups(1).await;
    stage.replace().await;
    let status = stage.restore("back", &stage.server(&json!({})), false).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("TargetFailed")), "{status:?}");
    let message = status.message.unwrap_or_default();
    for words in ["database broken: ", "checked", "1 of 4 databases failed, the others are restored"] {
        assert!(message.contains(words), "{message}\nshould say: {words}");
    }
    assert_eq!(stage.ask("\\c last\nSELECT count(*) FROM t;").await, "1");
    assert_eq!(stage.ask("\\c a_far\nSELECT count(*) FROM own;").await, "1");
    let some = json!({ "include": { "databases": ["a_far", "last"] }, "force": true });
    let status = stage.restore_as("some", &stage.server(&json!({})), &some).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    let message = status.message.unwrap_or_default();
    assert!(message.contains("REFRESH MATERIALIZED VIEW public.m"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_told_with_its_table_and_process() {
    let stage = SqlStage::new("sql-blocked", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask("CREATE DATABASE shop;\n\\c shop\nCREATE TABLE orders (i int);").await;
    stage.begin("holder", "\\c shop\nBEGIN; LOCK TABLE orders; SELECT pg_sleep(1000);").await;
    stage.runs("pg_sleep(1000)").await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "shop" })), false).await;
    let (reason, text) = stage.failure(NAME).await;
    assert_eq!(reason, "SourceFailed", "{text}");
    for words in ["public.orders of database shop could not be read", "(user postgres, application psql)"] {
        assert!(text.contains(words), "{text}");
    }
}

/// A server whose operating system has the locale `de_DE.UTF-8` too.
fn german() -> &'static Engine {
    let locale = "mkdir /tmp/locale; cp -r /usr/lib/locale/C.utf8 /tmp/locale/de_DE.utf8; export LOCPATH=/tmp/locale\n";
    Box::leak(Box::new(Engine { serve: Box::leak([locale, POSTGRES.serve].concat().into_boxed_str()), ..POSTGRES }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_locale_is_named_before_any_change() {
    let mut stage = SqlStage::new("sql-locale", german()).await;
    let _operator = Operator::start(&stage).await;
    let fill = "CREATE DATABASE first;
\\c first
CREATE TABLE t (i int); INSERT INTO t VALUES (1);
CREATE DATABASE german LOCALE 'de_DE.UTF-8' TEMPLATE template0;
\\c german
CREATE TABLE t (i int); INSERT INTO t VALUES (1);";
    stage.ask(fill).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;

    stage.replace_by(&POSTGRES).await;
    let dry = stage.restore_as("dry", &stage.server(&json!({})), &json!({ "dryRun": true })).await;
    let refused = dry.outlook.as_ref().and_then(|outlook| outlook.refused.as_deref());
    assert_eq!((dry.phase, refused), (RestorePhase::Planned, Some("ServerUnfit")), "{dry:?}");
    let status = stage.restore("back", &stage.server(&json!({})), false).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("ServerUnfit")), "{status:?}");
    let message = status.message.unwrap_or_default();
    assert!(message.contains("database german has the locale de_DE.UTF-8"), "{message}");
    assert_eq!(stage.ask("SELECT count(*) FROM pg_database WHERE datname IN ('first', 'german');").await, "0");
    // It goes where a database is there already, whatever its locale.
    stage.ask("CREATE DATABASE german LOCALE 'C' TEMPLATE template0;").await;
    assert_eq!(stage.restored("made", &stage.server(&json!({})), false).await, 2);
}
