//! Databases that are empty, have a megabyte, and in a thorough run two gibibytes. A backup never has the memory for
//! the whole data: [`SqlStage::back_up`] limits its pod.

use std::time::{Duration, Instant};

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore, DatabaseRestoreStatus};
use serde_json::json;

use super::sql_mariadb::MARIADB;
use super::sql_postgres::POSTGRES;
use super::sql_stage::{Engine, SqlStage, seconds};
use crate::support::wait::wait_within;
use crate::support::{Operator, is_thorough};

/// Time for gibibytes, on a disk that other tests use, too.
const BACKUP_TIMEOUT: Duration = Duration::from_mins(20);
/// Rows of a kibibyte that are written by one statement.
const AT_ONCE: usize = 256 * 1024;

/// Statements that differ between servers.
struct Words {
    engine: &'static Engine,
    /// Creates the table, and another one that stays as it is.
    make: &'static str,
    /// Rows of the other table.
    others: i64,
    /// Adds the rows `FIRST` to `LAST`. They cannot be compressed to less than half their size.
    fill: &'static str,
    /// A sum of the table of a database, to compare it with another database's.
    sum: &'static str,
}

const POSTGRES_WORDS: Words = Words {
    engine: &POSTGRES,
    make: "CREATE DATABASE large;\n\\c large\nCREATE TABLE entries (id bigint PRIMARY KEY, t text);
        CREATE TABLE sparse WITH (fillfactor = 10) AS SELECT generate_series(1, 800000) i;",
    // The table has more blocks than one query counts.
    others: 800_000,
    fill: "\\c large\nINSERT INTO entries SELECT i, (SELECT string_agg(md5(random()::text || i || n), '')
        FROM generate_series(1, 31) n) FROM generate_series(FIRST, LAST) i;",
    sum: "\\c DATABASE\nSELECT count(*), sum(hashtextextended(t, id)::numeric) FROM entries;",
};

const MARIADB_WORDS: Words = Words {
    engine: &MARIADB,
    make: "CREATE DATABASE large; CREATE TABLE large.entries (id BIGINT PRIMARY KEY, t TEXT) ENGINE=InnoDB;",
    others: 0,
    fill: "USE large; INSERT INTO entries SELECT seq, CONCAT(SHA2(RAND(), 512), SHA2(RAND(), 512), SHA2(RAND(), 512), SHA2(RAND(), 512),
        SHA2(RAND(), 512), SHA2(RAND(), 512), SHA2(RAND(), 512), SHA2(RAND(), 512)) FROM seq_FIRST_to_LAST;",
    sum: "SELECT COUNT(*), SUM(CRC32(CONCAT(id, t))) FROM DATABASE.entries;",
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_of_any_size_comes_back() {
    comes_back("sql-size-pg", &POSTGRES_WORDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_of_any_size_comes_back() {
    comes_back("sql-size-my", &MARIADB_WORDS).await;
}

async fn comes_back(name: &str, words: &Words) {
    let stage = SqlStage::new(name, words.engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(words.make).await;
    let sizes: &[usize] = if is_thorough() { &[0, 1, 2048] } else { &[0, 1] };
    let mut rows = 0;
    for mebibytes in sizes {
        while rows < mebibytes * 1024 {
            let last = (rows + AT_ONCE).min(mebibytes * 1024);
            let (first, until) = ((rows + 1).to_string(), last.to_string());
            stage.ask(&words.fill.replace("FIRST", &first).replace("LAST", &until)).await;
            rows = last;
        }
        let backup = format!("size-{mebibytes}");
        let begun = Instant::now();
        stage.back_up(&backup, &stage.server(&json!({ "database": "large" })), false).await;
        let api = stage.api::<DatabaseBackup>();
        let look = || async { api.get(&backup).await.expect("the object").status.unwrap_or_default() };
        let ended = |status: &DatabaseBackupStatus| status.backups > 0 || status.last_failure.is_some();
        let status = wait_within(BACKUP_TIMEOUT, &format!("{backup} to end"), look, ended).await;
        assert_eq!(status.last_failure, None);
        let (run, took) = (status.recent[0].clone(), begun.elapsed());

        let copy = format!("copy{mebibytes}");
        stage.ask(&format!("CREATE DATABASE {copy};")).await;
        let begun = Instant::now();
        let spec = json!({ "from": { "backup": backup }, "target": stage.server(&json!({ "database": copy })) });
        stage.create::<DatabaseRestore>(&backup, spec).await;
        let api = stage.api::<DatabaseRestore>();
        let look = || async { api.get(&backup).await.expect("the object").status.unwrap_or_default() };
        let ended = |status: &DatabaseRestoreStatus| status.phase.is_final();
        let status = wait_within(BACKUP_TIMEOUT, &format!("{backup} to come back"), look, ended).await;
        let all = i64::try_from(rows).expect("a number") + words.others;
        assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(all)), "{status:?}");
        let sum = async |database: &str| stage.ask(&words.sum.replace("DATABASE", database)).await;
        assert_eq!(sum("large").await, sum(&copy).await);
        println!(
            "» {} of {mebibytes} MiB: {} bytes, {} stored, in {}; back in {}",
            words.engine.image,
            run.bytes,
            run.stored_bytes,
            seconds(took),
            seconds(begun.elapsed())
        );
        stage.ask(&format!("DROP DATABASE {copy};")).await;
    }
}
