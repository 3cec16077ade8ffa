//! PostgreSQL restored over several connections: two indexes are built at the same time, and a try that fails in
//! between does no harm.

use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::sql_postgres::POSTGRES;
use super::sql_stage::SqlStage;
use super::stage::NAME;
use crate::support::Operator;

/// Two tables, whose indexes take seconds each.
const FILL: &str = "CREATE DATABASE slow; CREATE DATABASE copy;
\\c slow
CREATE FUNCTION public.slowly(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN i; END';
CREATE TABLE a (i int PRIMARY KEY); CREATE TABLE b (i int PRIMARY KEY REFERENCES a);
INSERT INTO a SELECT generate_series(1, 5); INSERT INTO b SELECT generate_series(1, 5);
CREATE INDEX a_slowly ON a (public.slowly(i)); CREATE INDEX b_slowly ON b (public.slowly(i));";

/// Waits until both indexes are being built, and ends the connection of one.
const KILL: &str = "DO $$ DECLARE building int; BEGIN LOOP
  PERFORM pg_stat_clear_snapshot();
  SELECT count(*) INTO building FROM pg_stat_activity WHERE datname = 'copy' AND state = 'active' AND query LIKE '%_slowly%';
  EXIT WHEN building > 1;
  PERFORM pg_sleep(0.02);
END LOOP; END $$;
SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
  WHERE datname = 'copy' AND query LIKE '%a_slowly%') AS one;";

const LOOK: &str = "\\c DATABASE
SELECT (SELECT count(*) FROM a), (SELECT sum(i) FROM b);
SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1;
SELECT conname FROM pg_constraint WHERE conrelid = 'b'::regclass ORDER BY 1;
SELECT count(*) FROM pg_namespace WHERE nspname = 'causeway_restore';";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parallel_restore_survives_a_failed_connection() {
    let stage = SqlStage::new("sql-parallel", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(FILL).await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "slow" })), true).await;
    stage.proven().await;
    let copy = stage.server(&json!({ "database": "copy" }));
    stage.begin("killer", KILL).await;
    stage.runs("building").await;
    let status = stage.restore_as("back", &copy, &json!({ "parallelism": 2 })).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(10)), "{status:?}");
    assert_eq!(stage.end("killer").await, "1", "one of two connections was ended");
    let look = async |database: &str| stage.ask(&LOOK.replace("DATABASE", database)).await;
    assert_eq!(look("copy").await, look("slow").await);

    // Existing data are replaced in one transaction, even if more connections are asked for.
    stage.ask("\\c copy\nDELETE FROM b; DELETE FROM a;").await;
    let status = stage.restore_as("again", &copy, &json!({ "parallelism": 2, "force": true })).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(10)), "{status:?}");
    assert_eq!(look("copy").await, look("slow").await);
}
