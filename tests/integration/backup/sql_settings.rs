//! Settings of a MariaDB that is restored into: those that would change or stop the restore are set for it, or told before it
//! destroys anything.

use causeway_api::databaserestore::{DatabaseRestoreStatus, RestorePhase};
use serde_json::json;

use super::sql_mariadb::MARIADB;
use super::sql_stage::{Engine, SqlStage};
use super::stage::NAME;
use crate::support::Operator;

/// Takes names in lower case, commits nothing by itself, and stops statements that take longer than a second.
const FOLDING: Engine = Engine {
    settings: "--lower-case-table-names=1 --autocommit=0 --max-statement-time=1 --sql-safe-updates=1",
    ..MARIADB
};
/// Wants a primary key in each table.
const KEYED: Engine = Engine { settings: "--innodb-force-primary-key=ON", ..MARIADB };
/// Writes a binary log.
const LOGGED: Engine = Engine { settings: "--log-bin=/tmp/data/log --server-id=1", ..MARIADB };

/// Capitals, a table without a key, and one whose rows may become too long for a strict server.
fn fill() -> String {
    let columns: Vec<String> = (0..35).map(|number| format!("c{number} CHAR(255), ")).collect();
    let columns = columns.concat();
    format!(
        "SET SESSION innodb_strict_mode = OFF;
         CREATE DATABASE `Shop`; USE `Shop`;
         CREATE TABLE `Orders` (`Id` INT PRIMARY KEY, t TEXT) ENGINE=InnoDB; INSERT INTO `Orders` VALUES (1, 'one'), (2, 'two');
         CREATE TABLE keyless (i INT) ENGINE=InnoDB; INSERT INTO keyless VALUES (7);
         CREATE TABLE wide (id INT PRIMARY KEY, {columns}d INT) ENGINE=InnoDB CHARACTER SET latin1 ROW_FORMAT=COMPACT;
         INSERT INTO wide (id) VALUES (1);
         CREATE TRIGGER counted BEFORE INSERT ON `Orders` FOR EACH ROW SET NEW.t = UPPER(NEW.t);"
    )
}

fn refused(status: &DatabaseRestoreStatus, words: &str) {
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("ServerUnfit")), "{status:?}");
    let message = status.message.clone().unwrap_or_default();
    assert!(message.contains(words), "{message}\nshould say: {words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_set_or_named_before_any_change() {
    let mut stage = SqlStage::new("sql-settings", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&fill()).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    // The throw-away server is strict unless told otherwise.
    stage.proven().await;

    stage.replace_by(&FOLDING).await;
    let status = stage.restore("folded", &stage.server(&json!({})), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    assert!(status.message.unwrap_or_default().contains("lower case"), "the note");
    let rows = "SELECT COUNT(*) FROM shop.orders; SELECT i FROM shop.keyless; SELECT COUNT(*) FROM shop.wide;";
    assert_eq!(stage.ask(rows).await, "2\n7\n1");

    stage.replace_by(&KEYED).await;
    stage.ask("CREATE DATABASE `Shop`; CREATE TABLE `Shop`.`Orders` (theirs INT PRIMARY KEY);").await;
    let words =
        "these tables of the backup have no primary key (1173): keyless: SET GLOBAL innodb_force_primary_key = OFF";
    refused(&stage.restore("forced", &stage.server(&json!({})), true).await, words);
    let theirs =
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'Shop' AND column_name = 'theirs';";
    assert_eq!(stage.ask(theirs).await, "1", "the table of the target stays");
    let dry = json!({ "force": true, "dryRun": true });
    let status = stage.restore_as("dry", &stage.server(&json!({})), &dry).await;
    let refused_by = status.outlook.as_ref().and_then(|outlook| outlook.refused.as_deref());
    assert_eq!((status.phase, refused_by), (RestorePhase::Planned, Some("ServerUnfit")), "{status:?}");

    stage.replace_by(&LOGGED).await;
    stage.ask("CREATE USER app@'%' IDENTIFIED BY 'of the app'; GRANT ALL ON *.* TO app@'%'; REVOKE SUPER ON *.* FROM app@'%';").await;
    let login = stage.login("app", "of the app").await;
    let words = "user `app`@`%` lacks SUPER, which triggers and functions need (1419): counted";
    refused(&stage.restore("logged", &stage.server(&login), false).await, words);
    stage.ask("SET GLOBAL log_bin_trust_function_creators = ON;").await;
    let status = stage.restore("trusted", &stage.server(&login), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
}

/// A table of the engine MEMORY that is larger than the usual limit, and limits within which the program that dumps works, but
/// not every question about the server's own tables.
const LIMITED: &str = "CREATE DATABASE shop; USE shop; CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2);
    SET SESSION max_heap_table_size = 256 * 1024 * 1024;
    CREATE TABLE memory (i INT PRIMARY KEY, t CHAR(200)) ENGINE=MEMORY; INSERT INTO memory SELECT seq, 'x' FROM seq_1_to_100000;
    SET GLOBAL max_statement_time = 20, GLOBAL max_heap_table_size = 16384;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_server_stop_only_affected_dumps() {
    let mut stage = SqlStage::new("sql-limits", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(LIMITED).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;

    // The program that dumps cannot be given settings.
    stage.ask("SET GLOBAL max_join_size = 1;").await;
    stage.back_up("stopped", &stage.server(&json!({})), false).await;
    let (_, text) = stage.failure("stopped").await;
    assert!(text.contains("(1104)") && text.contains("SET GLOBAL max_join_size = DEFAULT"), "{text}");
    stage.ask("SET GLOBAL max_join_size = DEFAULT; DROP TABLE shop.memory; SET GLOBAL max_join_size = 12;").await;
    stage.back_up("within", &stage.server(&json!({})), true).await;
    stage.becomes_of("within", "a verdict", |status| status.verified.first().is_some_and(|it| it.ok)).await;

    // A target that could not be compared is refused before anything is written.
    stage.replace().await;
    stage
        .ask("SET GLOBAL max_heap_table_size = 16384, GLOBAL lock_wait_timeout = 0, GLOBAL max_join_size = 5000;")
        .await;
    let status = stage.restore("small", &stage.server(&json!({})), false).await;
    refused(&status, "max_join_size of the target is 5000");
    assert_eq!(stage.ask("SET SESSION sql_big_selects = ON; SHOW DATABASES LIKE 'shop';").await, "");
    stage.ask("SET GLOBAL max_join_size = 200000;").await;
    let status = stage.restore("large", &stage.server(&json!({})), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cuts_rows_is_not_backed_up() {
    let stage = SqlStage::new("sql-limited", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    stage.ask("CREATE DATABASE shop; CREATE TABLE shop.t (i INT); INSERT INTO shop.t VALUES (1), (2); SET GLOBAL sql_select_limit = 1;").await;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    let (reason, text) = stage.failure(NAME).await;
    assert_eq!(reason, "ServerUnfit", "{text}");
    assert!(text.contains("SET GLOBAL sql_select_limit = DEFAULT"), "{text}");
}
