//! MariaDB, and in a thorough run MySQL: backed up while it is written to, wiped, and restored row by row.

use std::time::Instant;

use causeway_api::databaserestore::RestorePhase;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use super::sql_stage::{Engine, SqlStage, seconds};
use super::stage::NAME;
use crate::support::{Operator, is_thorough};

pub const MARIADB: Engine = Engine {
    field: "mysql",
    image: "mariadb:10.11",
    port: 3306,
    user: "backup",
    serve: "mariadb-install-db --no-defaults --datadir=/tmp/data --auth-root-authentication-method=normal --skip-test-db \
            --force > /tmp/log 2>&1\n\
            escaped=$(printf '%s' \"$PASSWORD\" | sed \"s/\\\\\\\\/\\\\\\\\\\\\\\\\/g; s/'/''/g\")\n\
            printf '%s\\n' \"CREATE USER backup@'%' IDENTIFIED BY '$escaped';\" \
            \"GRANT ALL ON *.* TO backup@'%' WITH GRANT OPTION;\" > /tmp/init.sql\n\
            exec mariadbd --no-defaults --skip-name-resolve --datadir=/tmp/data --socket=/tmp/server.sock --init-file=/tmp/init.sql \
            --innodb-flush-log-at-trx-commit=0 $TLS $SETTINGS",
    serve_tls: "--ssl-ca=/tls/ca.crt --ssl-cert=/tls/tls.crt --ssl-key=/tls/tls.key --require-secure-transport=ON",
    settings: "",
    client: "mariadb --no-defaults $TLS --batch --skip-column-names --default-character-set=utf8mb4 -h $HOST -u backup",
    client_tls: "--ssl",
};

const MYSQL: Engine = Engine {
    field: "mysql",
    image: "mysql:9",
    port: 3306,
    user: "backup",
    serve: "mysqld --no-defaults --datadir=/tmp/data --initialize-insecure > /tmp/log 2>&1\n\
            escaped=$(printf '%s' \"$PASSWORD\" | sed \"s/\\\\\\\\/\\\\\\\\\\\\\\\\/g; s/'/''/g\")\n\
            printf '%s\\n' \"CREATE USER backup@'%' IDENTIFIED BY '$escaped';\" \
            \"GRANT ALL ON *.* TO backup@'%' WITH GRANT OPTION;\" > /tmp/init.sql\n\
            exec mysqld --no-defaults --skip-name-resolve --datadir=/tmp/data --socket=/tmp/server.sock --init-file=/tmp/init.sql \
            --secure-file-priv=NULL --mysqlx=OFF --innodb-flush-log-at-trx-commit=0 $TLS",
    serve_tls: "--ssl-ca=/tls/ca.crt --ssl-cert=/tls/tls.crt --ssl-key=/tls/tls.key --require-secure-transport=ON",
    settings: "",
    client: "mysql --no-defaults $TLS --batch --skip-column-names --default-character-set=utf8mb4 -h $HOST -u backup",
    client_tls: "--ssl-mode=REQUIRED",
};

/// The engines that are tried.
pub fn engines() -> &'static [&'static Engine] {
    if is_thorough() { &[&MARIADB, &MYSQL] } else { &[&MARIADB] }
}

/// The right to read all routines.
pub fn read_routines(engine: &Engine) -> &'static str {
    if engine.image.starts_with("mysql") { "SHOW_ROUTINE ON *.*" } else { "SELECT ON mysql.proc" }
}

/// SQL for so many rows with the column `seq`, which both engines understand.
pub fn numbers(count: usize) -> String {
    format!("JSON_TABLE(CONCAT('[0', REPEAT(',0', {count} - 1), ']'), '$[*]' COLUMNS (seq FOR ORDINALITY)) AS numbers")
}

/// Databases with something of everything.
const FILL: &str = r#"
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE DATABASE `odd ``one`;
USE shop;
CREATE TABLE orders (
  id BIGINT AUTO_INCREMENT PRIMARY KEY, t TEXT, n DECIMAL(20, 5), f DOUBLE, d DATETIME(6), b BLOB, j JSON,
  e ENUM('sad', 'o''k'), g DECIMAL(20, 5) AS (n * 2) STORED, r FLOAT DEFAULT 0.01051625237, s FLOAT(9, 4)
) ENGINE=InnoDB;
INSERT INTO orders (t, n, f, d, b, j, e)
  SELECT CONCAT(REPEAT(SHA2(seq, 256), 4), '\n\t\\''"(),;', IF(seq % 5, '🚀', '')), seq / 7, SQRT(seq),
  '2026-11-22' + INTERVAL seq SECOND, UNHEX(SHA2(seq, 256)), JSON_OBJECT('i', seq), ELT(1 + seq % 3, 'sad', 'o''k', NULL)
  FROM NUMBERS_5000;
CREATE TABLE `odd ``one`.`Lines` (id BIGINT, CONSTRAINT c FOREIGN KEY (id) REFERENCES shop.orders (id)) ENGINE=InnoDB;
INSERT INTO `odd ``one`.`Lines` SELECT seq FROM NUMBERS_300;
CREATE TABLE `empty` (id INT);
CREATE VIEW totals AS SELECT COUNT(*) AS orders FROM orders;
CREATE TABLE log (t TEXT);
DELIMITER ;;
CREATE PROCEDURE fill()
BEGIN
INSERT INTO `log` VALUES ('no row of a dump');
END;;
CREATE TRIGGER noted AFTER DELETE ON orders FOR EACH ROW INSERT INTO log VALUES ('deleted');;
CREATE PROCEDURE tick() BEGIN WHILE TRUE DO INSERT INTO ticks VALUES (); DO SLEEP(0.002); END WHILE; END;;
CREATE PROCEDURE written() BEGIN WHILE (SELECT COUNT(*) FROM ticks) < 50 DO DO SLEEP(0.05); END WHILE; END;;
DELIMITER ;
CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR DO DELETE FROM log;
CREATE TABLE ticks (id BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB;"#;

/// Everything that stays the same while a client writes.
const LOOK: &str = "
SET SESSION group_concat_max_len = 1000000000;
SELECT COUNT(*), SHA2(GROUP_CONCAT(CONCAT_WS('|', id, t, n, f, d, HEX(b), j, IFNULL(e, '-'), g) ORDER BY id), 256) FROM shop.orders;
SELECT COUNT(*), SUM(id) FROM `odd ``one`.`Lines`;
SELECT COUNT(*) FROM shop.`empty`;
SELECT COUNT(*) FROM shop.log;
SELECT * FROM shop.totals;
SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'shop' ORDER BY 1;
SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'shop';
SELECT event_name FROM information_schema.events WHERE event_schema = 'shop';
SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name = 'shop';
SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'causeway_restore';";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_under_writes_returns_row_by_row() {
    for engine in engines() {
        Box::pin(comes_back(engine)).await;
    }
}

async fn comes_back(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb", engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&FILL.replace("NUMBERS_5000", &numbers(5000)).replace("NUMBERS_300", &numbers(300))).await;
    stage.begin("writer", "CALL shop.tick();").await;
    stage.ask("CALL shop.written();").await;
    let begun = Instant::now();
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    let status = stage.proven().await;
    let took = begun.elapsed();
    let before = stage.ask(&format!("{LOOK}\nSELECT COUNT(*) FROM shop.ticks;")).await;
    stage.api::<Pod>().delete("writer", &DeleteParams::default()).await.expect("the writer goes");
    stage.gone::<Pod>("writer").await;
    let (before, after) = before.rsplit_once('\n').expect("many lines");
    let run = status.recent[0].clone();
    let ticks = run.keys - 5300;
    let written: i64 = after.parse().expect("a number");
    assert!(ticks >= 50 && ticks < written, "{ticks} of {written} rows were written before the backup");

    stage.ask("SET foreign_key_checks = 0; DROP DATABASE shop; DROP DATABASE `odd ``one`;").await;
    let begun = Instant::now();
    let status = stage.restore("back", &stage.server(&json!({})), false).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(run.keys)), "{status:?}");
    let (rows, text) = (run.keys, status.message.unwrap_or_default());
    assert!(text.ends_with("six digits are left of each FLOAT, as a dump has no more: shop.orders.r"), "{text}");
    println!(
        "» {}: {} rows ({} bytes, {} stored) backed up and proven in {}, {} more written meanwhile; restored in {}",
        engine.image,
        run.keys,
        run.bytes,
        run.stored_bytes,
        seconds(took),
        written - ticks,
        seconds(begun.elapsed())
    );
    assert_eq!(stage.ask(&format!("{LOOK}\nSELECT COUNT(*) FROM shop.ticks;")).await, format!("{before}\n{ticks}"));

    // The restore is done already, so nothing is touched. Rows that a client changed since are not replaced without force.
    assert_eq!(stage.restored("twice", &stage.server(&json!({})), false).await, rows);
    stage.ask("UPDATE shop.orders SET t = 'theirs' WHERE id = 7;").await;
    let status = stage.restore("again", &stage.server(&json!({})), false).await;
    let text = status.message.unwrap_or_default();
    assert_eq!(status.phase, RestorePhase::Failed, "{text}");
    assert!(text.contains("TargetNotEmpty") && text.contains("database odd `one"), "{text}");
    assert_eq!(stage.restored("forced", &stage.server(&json!({})), true).await, rows);
    assert_eq!(stage.ask(LOOK).await, before);
}

/// Makes the database `shop` with a table.
pub fn table_of_a_thousand() -> String {
    format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE a AS SELECT seq, SHA2(seq, 256) AS sum FROM {};",
        numbers(1000)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_database_of_a_mariadb_returns_under_another_name() {
    for engine in engines() {
        Box::pin(comes_back_under_another_name(engine)).await;
    }
}

async fn comes_back_under_another_name(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb-one", engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&table_of_a_thousand()).await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "shop" })), true).await;
    stage.back_up("wrong", &stage.server(&json!({ "database": "none" })), false).await;
    assert_eq!(stage.proven().await.recent[0].keys, 1000);
    let (reason, text) = stage.failure("wrong").await;
    assert_eq!(reason, "SourceUnreachable");
    assert!(text.contains("spec.source.mysql.database: there is no database none"), "{text}");
    let other = stage.server(&json!({ "database": "other" }));
    assert_eq!(stage.restored("back", &other, false).await, 1000);
    let look = "SELECT COUNT(*) FROM other.a JOIN shop.a AS b USING (seq) WHERE a.sum = b.sum;
                SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'causeway_restore';";
    assert_eq!(stage.ask(look).await, "1000\n0");

    // The mark of an unfinished restore is reported as such.
    let half = "CREATE TABLE other.causeway_restore (one TINYINT PRIMARY KEY, run VARCHAR(255), kept LONGTEXT);
                INSERT INTO other.causeway_restore VALUES (1, 'x', '{}');
                DELETE FROM other.a LIMIT 1;";
    stage.ask(half).await;
    let text = stage.restore("again", &other, false).await.message.unwrap_or_default();
    assert!(text.contains("TargetHalfRestored"), "{text}");
    assert_eq!(stage.restored("forced", &other, true).await, 1000);
    assert_eq!(stage.ask(look).await, "1000\n0");

    // Another restore may have begun in a target that holds nothing yet.
    let begun = "DROP TABLE other.a; CREATE TABLE other.causeway_restore (one TINYINT PRIMARY KEY, run VARCHAR(255), kept LONGTEXT);
                 INSERT INTO other.causeway_restore VALUES (1, 'x', '{}');";
    stage.ask(begun).await;
    let text = stage.restore("second", &other, false).await.message.unwrap_or_default();
    assert!(text.contains("TargetHalfRestored"), "{text}");
    let mark = "SELECT run FROM other.causeway_restore; SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'other';";
    assert_eq!(stage.ask(mark).await, "x\n1", "the mark of the other restore stays, and nothing is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_restores_at_once_into_an_empty_mariadb_ends_well() {
    for engine in engines() {
        Box::pin(one_of_two_restores(engine)).await;
    }
}

async fn one_of_two_restores(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb-two", engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&table_of_a_thousand()).await;
    stage.back_up(NAME, &stage.server(&json!({ "database": "shop" })), true).await;
    stage.proven().await;
    let other = stage.server(&json!({ "database": "other" }));
    let (one, two) = tokio::join!(stage.restore("one", &other, false), stage.restore("two", &other, false));
    // The later one is refused, or finds all that it would restore.
    for status in [&one, &two] {
        let text = status.message.clone().unwrap_or_default();
        let is_well = status.phase == RestorePhase::Succeeded;
        assert!(is_well || text.contains("TargetHalfRestored"), "{text}");
    }
    assert!([&one, &two].iter().any(|it| it.phase == RestorePhase::Succeeded), "{one:?} {two:?}");
    let look =
        "SELECT COUNT(*) FROM other.a JOIN shop.a AS b USING (seq) WHERE a.sum = b.sum; SELECT COUNT(*) FROM other.a;
                SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'causeway_restore';";
    assert_eq!(stage.ask(look).await, "1000\n1000\n0");
}

/// Three databases: the view, programs and data of one look like sections of a dump of the others.
const SEVERAL: &str = r"
CREATE DATABASE `odd ``one` CHARACTER SET latin1 COLLATE latin1_general_cs; CREATE DATABASE shop; CREATE DATABASE bank;
CREATE USER app@'%' IDENTIFIED BY 'of app'; GRANT SELECT ON `odd ``one`.* TO app@'%'; GRANT SELECT ON bank.* TO app@'%';
CREATE TABLE bank.accounts AS SELECT seq FROM NUMBERS_9; CREATE TABLE shop.`t.t` AS SELECT seq FROM NUMBERS_5;
USE `odd ``one`;
CREATE TABLE orders (id BIGINT PRIMARY KEY, t TEXT);
INSERT INTO orders SELECT seq, CONCAT('\';\nUSE `bank`;\nDROP TABLE accounts;\n', seq) FROM NUMBERS_7;
CREATE VIEW totals AS SELECT COUNT(*) AS n FROM orders;
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
DELIMITER //
CREATE PROCEDURE trap() SELECT 'a\' AS a, '
;;
DELIMITER ;
USE `bank`;
DROP TABLE accounts;
' AS b//
CREATE TRIGGER noted BEFORE DELETE ON orders FOR EACH ROW SET @noted = '\'//
DELIMITER ;
CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR DO DELETE FROM orders WHERE id = 0;
ALTER DATABASE `odd ``one` CHARACTER SET utf8mb4;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_database_of_a_mariadb_returns_beside_others() {
    for engine in engines() {
        Box::pin(comes_back_beside_the_others(engine)).await;
    }
}

async fn comes_back_beside_the_others(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb-part", engine).await;
    let _operator = Operator::start(&stage).await;
    let filled = ["9", "7", "5"].iter().fold(SEVERAL.to_owned(), |fill, count| {
        fill.replace(&format!("NUMBERS_{count}"), &numbers(count.parse().expect("a number")))
    });
    stage.ask(&filled).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    assert_eq!(stage.proven().await.recent[0].keys, 21);
    // Rows that were written since then stay, and the removed user comes back.
    stage.ask("DELETE FROM bank.accounts LIMIT 1; UPDATE `odd ``one`.orders SET t = 'later'; DROP USER app@'%';").await;

    let one = json!({ "include": { "databases": ["odd `one"] } });
    let other = stage.server(&json!({ "database": "other_shop" }));
    let planned = stage.restore_as("look", &other, &json!({ "include": one["include"], "dryRun": true })).await;
    let changes = planned.outlook.expect("an outlook").changes;
    let planned: Vec<_> = changes.iter().map(|it| (it.what.as_str(), it.count, it.names.join(" "))).collect();
    let expected = [("databases", 1, "other_shop"), ("tables", 1, "orders"), ("rows", 7, ""), ("accounts", 1, "app@%")];
    assert_eq!(planned, expected.map(|(what, count, names)| (what, count, names.to_owned())));
    let status = stage.restore_as("beside", &other, &one).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(7)), "{status:?}");
    let look = "SELECT (SELECT COUNT(*) FROM bank.accounts), (SELECT COUNT(*) FROM shop.`t.t`);
        SELECT COUNT(*), SUM(a.t = CONCAT('\\';\\nUSE `bank`;\\nDROP TABLE accounts;\\n', a.id)), SUM(b.t = 'later') FROM other_shop.orders AS a \
        JOIN `odd ``one`.orders AS b USING (id);
        SELECT n FROM other_shop.totals;
        SELECT schema_name, default_character_set_name FROM information_schema.schemata WHERE schema_name IN ('odd `one', 'other_shop') ORDER BY 1;
        SELECT routine_name, sql_mode, database_collation FROM information_schema.routines WHERE routine_schema = 'other_shop';
        SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'other_shop';
        SELECT event_name FROM information_schema.events WHERE event_schema = 'other_shop';
        SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'causeway_restore';
        SELECT db FROM mysql.db WHERE user = 'app';";
    let there = "8\t5\n7\t7\t7\n7\nodd `one\tutf8mb4\nother_shop\tutf8mb4\ntrap\tNO_BACKSLASH_ESCAPES\tlatin1_general_cs\nnoted\nhourly\n0\nother\\\\_shop";
    assert_eq!(stage.ask(look).await, there);

    // A name that the backup does not have, and two databases for one name, are refused.
    for (name, database, included, words) in [
        (
            "wrong",
            None,
            &["odd `one", "shoq"][..],
            "spec.include.databases: the backup has no database shoq, and of bank, odd `one, shop",
        ),
        (
            "two",
            Some("other_shop"),
            &["odd `one", "bank"],
            "spec.target.mysql.database: spec.include.databases names 2 databases",
        ),
    ] {
        let target = stage.server(&database.map_or(json!({}), |database| json!({ "database": database })));
        let status =
            stage.restore_as(name, &target, &json!({ "include": { "databases": included }, "force": true })).await;
        let text = status.message.unwrap_or_default();
        assert!(status.phase == RestorePhase::Failed && text.contains("Unsupported") && text.contains(words), "{text}");
    }

    // Under their own names, several databases are replaced, and no other one.
    let two = json!({ "include": { "databases": ["bank", "shop"] }, "force": true });
    let status = stage.restore_as("two-of-three", &stage.server(&json!({})), &two).await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(14)), "{status:?}");
    assert_eq!(stage.ask(look).await, there.replacen('8', "9", 1));
}

/// Databases whose names are options of the programs, and one that sorts before them.
const OPTIONS: &str = "CREATE DATABASE `-d`; CREATE DATABASE `--host=192.0.2.1`; CREATE DATABASE `!`;
CREATE TABLE `-d`.a AS SELECT seq FROM NUMBERS_1000; CREATE TABLE `--host=192.0.2.1`.a AS SELECT 7 AS seq;
CREATE TABLE `!`.a AS SELECT 1 AS seq UNION SELECT 2;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_named_like_an_option_returns() {
    for engine in engines() {
        Box::pin(comes_back_in_spite_of_its_name(engine)).await;
    }
}

async fn comes_back_in_spite_of_its_name(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb-names", engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&OPTIONS.replace("NUMBERS_1000", &numbers(1000))).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    assert_eq!(stage.proven().await.recent[0].keys, 1003);
    stage.ask("DROP DATABASE `-d`; DROP DATABASE `--host=192.0.2.1`; DROP DATABASE `!`;").await;
    assert_eq!(stage.restored("back", &stage.server(&json!({})), false).await, 1003);
    let look =
        "SELECT COUNT(*), SUM(seq) FROM `-d`.a; SELECT seq FROM `--host=192.0.2.1`.a; SELECT COUNT(*) FROM `!`.a;";
    assert_eq!(stage.ask(look).await, "1000\t500500\n7\n2");
}

/// A database with a trigger; a login that may read all but triggers of it, one that may read its tables alone, and one by a
/// role.
const RIGHTS: &str = "CREATE DATABASE a_b; CREATE DATABASE vault; CREATE TABLE a_b.t (id INT); INSERT INTO a_b.t VALUES (1), (2);
CREATE TRIGGER a_b.noted BEFORE DELETE ON a_b.t FOR EACH ROW SET @noted = 1; CREATE PROCEDURE a_b.p() SELECT 1;
CREATE USER blind@'%' IDENTIFIED BY 'of blind', narrow@'%' IDENTIFIED BY 'of narrow', reader@'%' IDENTIFIED BY 'of reader';
GRANT SELECT, SHOW VIEW, EVENT, LOCK TABLES ON `a\\_b`.* TO blind@'%'; GRANT READ_ROUTINES TO blind@'%';
GRANT SELECT, SHOW VIEW, EVENT, TRIGGER ON `a\\_b`.* TO narrow@'%';
CREATE ROLE readers; GRANT SELECT, SHOW VIEW, EVENT, TRIGGER ON `a\\_b`.* TO readers; GRANT READ_ROUTINES TO readers;
GRANT readers TO reader@'%'; SET DEFAULT ROLE readers DEFAULT_OF reader@'%';";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_with_too_few_rights_is_refused() {
    for engine in engines() {
        Box::pin(is_refused(engine)).await;
    }
}

async fn is_refused(engine: &'static Engine) {
    let stage = SqlStage::new("sql-mariadb-rights", engine).await;
    let _operator = Operator::start(&stage).await;
    let default = if engine.image.starts_with("mysql") { "TO" } else { "FOR" };
    stage.ask(&RIGHTS.replace("READ_ROUTINES", read_routines(engine)).replace("DEFAULT_OF", default)).await;
    let routines = format!("routines of database a_b (GRANT {} TO `narrow`@`%`)", read_routines(engine));
    for (user, words) in [
        ("blind", "TRIGGER of database a_b (GRANT TRIGGER ON `a\\_b`.* TO `blind`@`%`)"),
        ("narrow", routines.as_str()),
    ] {
        let mut login = stage.login(user, &format!("of {user}")).await;
        login["database"] = "a_b".into();
        stage.back_up(user, &stage.server(&login), false).await;
        let (reason, text) = stage.failure(user).await;
        assert_eq!(reason, "RightsMissing", "{text}");
        assert!(text.contains("spec.source.mysql.authSecretName") && text.contains(words), "{text}");
    }
    // Who may read one database of two backs it up, and the status says that there may be others.
    let reader = stage.login("reader", "of reader").await;
    let run = stage.backed_up(stage.server(&reader)).await.recent.remove(0);
    let hidden = "databases hidden from it (it lacks SHOW DATABASES)";
    assert_eq!((run.keys, run.left_out.as_deref()), (2, Some(hidden)));
}
