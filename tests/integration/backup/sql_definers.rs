//! Views, programs and events of MariaDB that stop a dump or a restore in its middle: told before anything is written.

use causeway_api::databaserestore::{DatabaseRestoreStatus, RestorePhase};
use serde_json::json;

use super::sql_mariadb::MARIADB;
use super::sql_stage::SqlStage;
use super::stage::NAME;
use crate::support::Operator;

/// A view on a view of `app`, and one with a function of `ghost`. Both may use what they made, in this database.
const FILL: &str = "
CREATE USER app@'%' IDENTIFIED BY 'of the app'; CREATE USER ghost@'%' IDENTIFIED BY 'of the ghost';
CREATE DATABASE shop; USE shop;
GRANT SELECT ON shop.* TO app@'%'; GRANT SELECT, EXECUTE ON shop.* TO ghost@'%';
CREATE TABLE orders (id INT PRIMARY KEY, t TEXT); INSERT INTO orders VALUES (1, 'one'), (2, 'two');
CREATE DEFINER=ghost@'%' FUNCTION twice(i INT) RETURNS INT DETERMINISTIC RETURN i * 2;
CREATE DEFINER=app@'%' VIEW inner_one AS SELECT id, t FROM orders;
CREATE VIEW outer_one AS SELECT id + 1 AS next FROM inner_one;
CREATE VIEW doubled AS SELECT twice(id) AS t FROM orders;
CREATE DEFINER=ghost@'%' TRIGGER noted BEFORE INSERT ON orders FOR EACH ROW SET NEW.t = UPPER(NEW.t);";

fn refused(status: &DatabaseRestoreStatus, all: &[&str]) {
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("ServerUnfit")), "{status:?}");
    let message = status.message.clone().unwrap_or_default();
    for words in all {
        assert!(message.contains(words), "{message}\nshould say: {words}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definer_without_rights_is_told_before_anything_is_written() {
    let mut stage = SqlStage::new("sql-definers", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(FILL).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;

    // Under another name: the accounts are there, and may use `shop` alone.
    let other = stage.server(&json!({ "database": "other" }));
    let shop = |dry: bool| json!({ "include": { "databases": ["shop"] }, "dryRun": dry });
    let function =
        ["`ghost`@`%`", "function twice", "such as doubled", "GRANT EXECUTE ON `other`.* TO `ghost`@`%`", "(1370)"];
    let status = stage.restore_as("dry", &other, &shop(true)).await;
    let by = status.outlook.as_ref().and_then(|outlook| outlook.refused.as_deref());
    assert_eq!((status.phase, by), (RestorePhase::Planned, Some("ServerUnfit")), "{status:?}");
    refused(&stage.restore_as("function", &other, &shop(false)).await, &function);
    stage.ask("GRANT EXECUTE ON `other`.* TO ghost@'%';").await;
    let view = ["`app`@`%`", "view inner_one", "such as outer_one", "GRANT SELECT ON `other`.* TO `app`@`%`", "(1356)"];
    refused(&stage.restore_as("view", &other, &shop(false)).await, &view);
    let there = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('other', 'causeway_restore');";
    assert_eq!(stage.ask(there).await, "0", "nothing was written");
    stage.ask("GRANT SELECT ON `other`.* TO app@'%';").await;
    let status = stage.restore_as("other", &other, &shop(false)).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    assert_eq!(stage.ask("SELECT SUM(next) FROM other.outer_one; SELECT SUM(t) FROM other.doubled;").await, "5\n6");

    // By a login that can make no account.
    stage.replace().await;
    let mover = "CREATE USER mover@'%' IDENTIFIED BY 'of the mover'; GRANT ALL ON *.* TO mover@'%' WITH GRANT OPTION;
                 REVOKE CREATE USER, INSERT ON *.* FROM mover@'%'; GRANT ALL ON `shop`.* TO mover@'%';
                 GRANT ALL ON causeway_restore.* TO mover@'%';";
    stage.ask(mover).await;
    let login = stage.login("mover", "of the mover").await;
    let words = ["lacks the account `", "(1449)", "CREATE USER `"];
    refused(&stage.restore("absent", &stage.server(&login), false).await, &words);
    assert_eq!(stage.ask("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'shop';").await, "0");
    stage
        .ask("CREATE USER app@'%'; CREATE USER ghost@'%'; GRANT SELECT, EXECUTE ON shop.* TO app@'%', ghost@'%';")
        .await;
    let status = stage.restore("there", &stage.server(&login), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    assert_eq!(stage.ask("SELECT SUM(next) FROM shop.outer_one;").await, "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_dumps_is_named() {
    let stage = SqlStage::new("sql-endless", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    let fill = "CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT); INSERT INTO orders VALUES (1);
                DELIMITER //
                CREATE EVENT tidy ON SCHEDULE EVERY 1 DAY DO BEGIN SET @a = ';;'; END//
                CREATE EVENT fine ON SCHEDULE EVERY 1 DAY DO BEGIN SET @a = '; ;'; END//
                DELIMITER ;";
    stage.ask(fill).await;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    let (reason, text) = stage.failure(NAME).await;
    assert_eq!(reason, "ServerUnfit", "{text}");
    assert!(text.contains("never ends: shop.tidy:") && !text.contains("fine"), "{text}");
    stage.ask("DROP EVENT shop.tidy;").await;
    stage.back_up("again", &stage.server(&json!({})), true).await;
    stage.becomes_of("again", "a verdict", |status| status.verified.first().is_some_and(|it| it.ok)).await;
}
