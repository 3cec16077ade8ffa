//! PostgreSQL with more tables and large objects than it has locks for: backed up, proven, and restored in steps.

use std::time::Instant;

use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::sql_postgres::POSTGRES;
use super::sql_stage::{Engine, SqlStage, seconds};
use super::stage::NAME;
use crate::support::{Operator, is_thorough};

/// A server with room for 1220 locks instead of 7808.
const SMALL: Engine = Engine { settings: "-c max_locks_per_transaction=10", ..POSTGRES };
/// A server that can lock 20,000 tables and sequences, but cannot create them in one transaction.
const LARGE: Engine = Engine { settings: "-c max_locks_per_transaction=256", ..POSTGRES };

/// Makes a database with so many tables, each with a sequence and an index, and large objects: `TABLES`, `OBJECTS`.
const FILL: &str = "CREATE DATABASE many;
\\c many
DO $$ BEGIN FOR i IN 1..TABLES LOOP
  EXECUTE format('CREATE TABLE t%s (id bigserial PRIMARY KEY, t text)', i);
  EXECUTE format('INSERT INTO t%s (t) SELECT %L || n FROM generate_series(1, 3) n', i, i);
  IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$;
ALTER TABLE t2 ADD FOREIGN KEY (id) REFERENCES t1;
DO $$ BEGIN FOR i IN 1..OBJECTS LOOP
  PERFORM lo_from_bytea(20000 + i, convert_to('of ' || i, 'UTF8'));
  IF i % 500 = 0 THEN COMMIT; END IF;
END LOOP; END $$;";

/// Too many tables to lock.
const WIDE: &str = "CREATE DATABASE wide; CREATE DATABASE copy;
\\c wide
DO $$ BEGIN FOR i IN 1..1300 LOOP
  EXECUTE format('CREATE TABLE t%s (i int)', i);
  IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$;";

/// Kills the first try in its second step with rows: `t99` is the last table. Prints the file of a table of the step
/// before, which shows whether it is rewritten.
const KILL: &str = "\\c copy
DO $$ DECLARE done boolean := false; BEGIN WHILE NOT done LOOP
  IF to_regclass('causeway_restore.progress') IS NOT NULL THEN
    EXECUTE 'SELECT coalesce(max(step), 0) > 0 FROM causeway_restore.progress' INTO done;
  END IF;
  COMMIT; PERFORM pg_sleep(0.002);
END LOOP; END $$;
BEGIN; LOCK TABLE t99 IN ACCESS EXCLUSIVE MODE;
DO $$ BEGIN LOOP
  PERFORM pg_terminate_backend(pid), pg_stat_clear_snapshot() FROM pg_stat_activity
    WHERE datname = 'copy' AND wait_event_type = 'Lock' AND application_name LIKE 'causeway%';
  EXIT WHEN FOUND;
  PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
END LOOP; END $$;
COMMIT;
SELECT oid, relfilenode FROM pg_class WHERE relname = 't10';";

/// Counts what there is of each kind.
const LOOK: &str = "\\c DATABASE
SELECT relkind, count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(hashtext(encode(lo_get(oid), 'hex'))) FROM pg_largeobject_metadata;
SELECT contype, count(*) FROM pg_constraint GROUP BY 1 ORDER BY 1;
SELECT (SELECT string_agg(t, ',') FROM t1), (SELECT string_agg(t, ',') FROM t99), nextval('t99_id_seq');
SELECT count(*) FROM pg_namespace WHERE nspname = 'causeway_restore';";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tables_return_in_resumable_steps() {
    let stage = SqlStage::new("sql-locks", &SMALL).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&FILL.replace("TABLES", "250").replace("OBJECTS", "3000")).await;
    stage.ask(WIDE).await;
    stage.back_up("wide", &stage.server(&json!({ "database": "wide" })), false).await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "many" })), true).await;
    let (reason, text) = stage.failure("wide").await;
    assert_eq!(reason, "LocksTooFew", "{text}");
    let words = "with 1300 tables, sequences and views, takes about 1500 locks in one transaction, and the server has room \
                 for 1220: set max_locks_per_transaction to 64 or more (now 10)";
    assert!(text.contains(words), "{text}\nshould say: {words}");
    assert_eq!(stage.proven().await.recent[0].keys, 750);

    let copy = stage.server(&json!({ "database": "copy" }));
    stage.begin("killer", KILL).await;
    stage.runs("causeway_restore.progress").await;
    let rows = stage.restored("back", &copy, false).await;
    let before = stage.end("killer").await;
    assert_eq!(rows, 750);
    let table = "\\c copy\nSELECT oid, relfilenode FROM pg_class WHERE relname = 't10';";
    assert_eq!(stage.ask(table).await, before.lines().last().unwrap_or_default(), "a finished step is not repeated");
    let tables =
        (stage.ask(&LOOK.replace("DATABASE", "many")).await, stage.ask(&LOOK.replace("DATABASE", "copy")).await);
    assert_eq!(tables.0, tables.1);

    // There are not enough locks to replace all this in one transaction, and it must not be replaced by halves.
    stage.ask("\\c copy\nUPDATE t1 SET t = 'theirs';").await;
    let status = stage.restore("forced", &copy, true).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("LocksTooFew")), "{status:?}");
    assert_eq!(stage.ask("\\c copy\nSELECT DISTINCT t FROM t1;").await, "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_with_many_tables_and_large_objects_returns() {
    if !is_thorough() {
        return;
    }
    let stage = SqlStage::new("sql-many", &LARGE).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&FILL.replace("TABLES", "10000").replace("OBJECTS", "100000")).await;
    stage.ask("CREATE DATABASE copy;").await;
    let begun = Instant::now();
    stage.back_up(NAME, &stage.server(&json!({ "database": "many" })), true).await;
    stage.proven().await;
    let took = begun.elapsed();
    let begun = Instant::now();
    assert_eq!(stage.restored("back", &stage.server(&json!({ "database": "copy" })), false).await, 30_000);
    println!(
        "» PostgreSQL: 10,000 tables and 100,000 large objects proven in {}, back in {}",
        seconds(took),
        seconds(begun.elapsed())
    );
    assert_eq!(stage.ask(&LOOK.replace("DATABASE", "many")).await, stage.ask(&LOOK.replace("DATABASE", "copy")).await);
}
