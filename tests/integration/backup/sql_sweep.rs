//! Every setting that an engine lets a login or a server have is given another value at once, for the backup and for the restore:
//! what comes back is the same. The settings come from the engine's own table, so a new version brings its new ones.

use causeway_api::databaserestore::RestorePhase;
use serde_json::{Value, json};

use super::sql_mariadb::MARIADB;
use super::sql_postgres::POSTGRES;
use super::sql_stage::SqlStage;
use super::stage::NAME;
use crate::support::Operator;

/// The password of the login with strange settings.
const PASSWORD: &str = "strange";

/// A PostgreSQL with values whose text depends on settings.
const FILL_POSTGRES: &str = r#"
CREATE DATABASE shop;
\c shop
CREATE TYPE mood AS ENUM ('sad', 'o''k');
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text NOT NULL, b bytea, f float8, r real, n numeric, i interval,
  d date, z timestamptz, m money, a text[], e mood, j jsonb, x xml, u boolean CHECK (u IS NOT NULL)
);
INSERT INTO orders (t, b, f, r, n, i, d, z, m, a, e, j, x, u)
  SELECT E'back\\slash ''quote'' "double" \t' || k, decode(md5(k::text), 'hex'), sqrt(k), 1.0 / (k + 2), k / 7.0,
  make_interval(days => -k, secs => k), '2026-02-01'::date + k, '2026-03-29 00:59:59+00'::timestamptz + k * interval '1 h',
  k::money, ARRAY['NULL', NULL, E'\\', '"'], 'o''k', jsonb_build_object('k', k), '<a/>', k % 2 = 0
  FROM generate_series(0, 50) k;
CREATE TABLE "Lines" (id bigint REFERENCES orders, "Text" text DEFAULT E'a\\b', since timestamptz DEFAULT '2026-01-02 03:04+00');
INSERT INTO "Lines" (id) SELECT id FROM orders;
CREATE FUNCTION norm(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE INDEX ON orders (norm(t)) WHERE t <> '' AND d > '2026-02-03';
CREATE VIEW late AS SELECT * FROM orders WHERE d = '2026-02-03' AND e = NULL;
CREATE TRIGGER no_change BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT lo_from_bytea(4711, '\x00ff');"#;

/// Gives the login `strange` another value of each setting that it may have. A setting that cannot be given by this
/// statement is left out by its error.
const TURN_POSTGRES: &str = "
CREATE ROLE strange SUPERUSER LOGIN PASSWORD 'strange';
\\set ON_ERROR_STOP 0
SELECT format('ALTER ROLE strange SET %I = %L;', name, CASE vartype
    WHEN 'bool' THEN CASE setting WHEN 'on' THEN 'off' ELSE 'on' END
    WHEN 'enum' THEN (SELECT other FROM unnest(enumvals) other WHERE other <> setting ORDER BY 1 LIMIT 1) END)
  FROM pg_settings WHERE context IN ('user', 'superuser') AND vartype IN ('bool', 'enum') AND name NOT LIKE 'transaction\\_%'
\\gexec
SELECT format('ALTER ROLE strange SET %I = 500;', name) FROM pg_settings WHERE context IN ('user', 'superuser') AND name LIKE '%timeout'
\\gexec
ALTER ROLE strange SET datestyle = 'German, DMY';
ALTER ROLE strange SET timezone = 'Pacific/Chatham';
ALTER ROLE strange SET extra_float_digits = -15;
ALTER ROLE strange SET search_path = '';
ALTER ROLE strange SET default_tablespace = 'nowhere';
ALTER ROLE strange SET temp_file_limit = 0;
ALTER ROLE strange SET work_mem = '64kB';
ALTER ROLE strange SET maintenance_work_mem = '1MB';
ALTER ROLE strange SET client_encoding = 'LATIN1';
ALTER ROLE strange SET lc_numeric = 'C.UTF-8';
SELECT count(*) > 60 FROM pg_db_role_setting, unnest(setconfig);";

const LOOK_POSTGRES: &[&str] = &[
    "SELECT orders FROM orders ORDER BY id;",
    "SELECT \"Lines\" FROM \"Lines\" ORDER BY id;",
    "SELECT pg_get_viewdef('late'), pg_get_indexdef('orders_norm_idx'::regclass), pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal;",
    "SELECT conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE conrelid::regclass::text ~ 'orders|Lines' ORDER BY 1;",
    "SELECT attname, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum ORDER BY 1;",
    "SELECT relname, reltablespace, relpersistence FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1;",
    "SELECT lo_get(4711), last_value FROM orders_id_seq;",
];

/// Turns the settings over; the last answer is whether there were many.
async fn turn(stage: &SqlStage, statements: &str, wanted: &str) {
    let answer = stage.ask(statements).await;
    assert!(answer.ends_with(wanted), "the settings: {answer}");
}

fn login() -> Value {
    json!({ "authSecretName": "strange" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_of_a_login_changes_a_restore() {
    let mut stage = SqlStage::new("sql-sweep-p", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.login("strange", PASSWORD).await;
    stage.ask(FILL_POSTGRES).await;
    let before = stage.ask_each("\\c shop", LOOK_POSTGRES).await;
    assert!(before.iter().all(|answer| !answer.starts_with("ERROR")), "{before:#?}");
    turn(&stage, TURN_POSTGRES, "t").await;
    stage.back_up(NAME, &stage.server(&login()), true).await;
    stage.proven().await;

    stage.replace().await;
    turn(&stage, TURN_POSTGRES, "t").await;
    stage.restored("back", &stage.server(&login()), false).await;
    let after = stage.ask_each("\\c shop", LOOK_POSTGRES).await;
    for ((question, before), after) in LOOK_POSTGRES.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{question}");
    }
    stage.restored("again", &stage.server(&login()), true).await;
}

/// A MariaDB with tables and values whose definition or text depends on settings.
const FILL_MARIADB: &str = r#"
CREATE DATABASE `Shop` CHARACTER SET utf8mb4;
USE `Shop`;
SET SESSION sql_mode = '';
CREATE TABLE `select` (
  id BIGINT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(700), n DECIMAL(20, 5), f DOUBLE, d DATETIME(6), z TIMESTAMP NULL, b BLOB, j JSON,
  e ENUM('sad', 'o''k'), g DECIMAL(20, 5) AS (n * 2) STORED, c CHAR(5), y DATE, KEY long_key (t)
) ENGINE=InnoDB;
INSERT INTO `select` (id, t, n, f, d, z, b, j, e, c, y) VALUES
  (0, 'back\\slash ''quote'' "double"', 1 / 7, SQRT(2), '2026-03-29 02:30:00.5', '2026-03-28 23:59:59', X'00FF', '{"a": 1}', 'o''k', 'a ', '0000-00-00'),
  (17, '🚀', -1, 1e300, '1000-01-01', NULL, '', NULL, '', '', '2026-02-30');
UPDATE `select` SET id = 0 WHERE id = 1;
CREATE TABLE child (id BIGINT, ts TIMESTAMP, t TEXT, CONSTRAINT c FOREIGN KEY (id) REFERENCES `select` (id)) ENGINE=InnoDB;
INSERT INTO child VALUES (17, '2026-01-01', 'a||b');
CREATE TABLE plain (i INT) ENGINE=MyISAM CHARACTER SET latin1;
INSERT INTO plain VALUES (1), (2);
CREATE TABLE versions (i INT) WITH SYSTEM VERSIONING;
INSERT INTO versions VALUES (1); UPDATE versions SET i = 2;
CREATE TABLE periods (i INT, rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, re TIMESTAMP(6) GENERATED ALWAYS AS ROW END,
  PERIOD FOR SYSTEM_TIME (rs, re)) WITH SYSTEM VERSIONING;
INSERT INTO periods (i) VALUES (1), (2);
CREATE SEQUENCE numbers INCREMENT BY 3; SELECT NEXTVAL(numbers);
CREATE TABLE numbered (i BIGINT DEFAULT NEXTVAL(numbers), t TEXT); INSERT INTO numbered (t) VALUES ('a');
CREATE VIEW late AS SELECT id, CONCAT(t, "x") AS `Text` FROM `select` WHERE y > '2026-01-01' OR t = 'a';
CREATE TRIGGER noted BEFORE INSERT ON child FOR EACH ROW SET NEW.t = CONCAT(NEW.t, '\\');
CREATE FUNCTION twice(i INT) RETURNS INT DETERMINISTIC RETURN i * 2;
CREATE USER app@'%' IDENTIFIED BY 'of the app'; GRANT SELECT, EXECUTE ON `Shop`.* TO app@'%';
SET SESSION foreign_key_checks = OFF; INSERT INTO child (id, ts) VALUES (4711, '2026-01-02');"#;

/// Gives the server another value of each setting that can be changed, but for those that a restore asks about and refuses
/// (`sql_settings.rs`), and those with which no client could connect or the server would do nothing at all.
const TURN_MARIADB: &str = r"
DELIMITER ;;
CREATE PROCEDURE mysql.turn() BEGIN
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  FOR it IN (SELECT variable_name AS name, variable_type AS type, global_value AS value, enum_value_list AS list
      FROM information_schema.system_variables
      WHERE read_only = 'NO' AND variable_scope IN ('SESSION', 'GLOBAL') AND variable_type IN ('BOOLEAN', 'ENUM', 'SET')
      AND variable_name NOT IN ('SQL_SELECT_LIMIT', 'READ_ONLY', 'REQUIRE_SECURE_TRANSPORT', 'INNODB_FORCE_PRIMARY_KEY',
        'WSREP_ON', 'OLD_PASSWORDS')
      AND variable_name NOT LIKE 'INNODB\_BUFFER%' AND variable_name NOT LIKE 'GTID%') DO
    EXECUTE IMMEDIATE CONCAT('SET GLOBAL ', it.name, ' = ', QUOTE(CASE
      WHEN it.type = 'SET' THEN it.list
      WHEN it.type = 'BOOLEAN' THEN IF(it.value = 'ON', 'OFF', 'ON')
      WHEN SUBSTRING_INDEX(it.list, ',', -1) <> it.value THEN SUBSTRING_INDEX(it.list, ',', -1)
      ELSE SUBSTRING_INDEX(it.list, ',', 1) END));
  END FOR;
END;;
DELIMITER ;
CALL mysql.turn();
SET GLOBAL time_zone = '+12:45', GLOBAL character_set_server = latin2, GLOBAL collation_server = latin2_croatian_ci,
  GLOBAL default_storage_engine = MyISAM, GLOBAL group_concat_max_len = 4, GLOBAL div_precision_increment = 0,
  GLOBAL lock_wait_timeout = 1, GLOBAL innodb_lock_wait_timeout = 1, GLOBAL max_sort_length = 64,
  GLOBAL auto_increment_increment = 7, GLOBAL auto_increment_offset = 3, GLOBAL max_error_count = 0,
  GLOBAL lc_time_names = de_DE, GLOBAL default_week_format = 7, GLOBAL max_recursive_iterations = 0,
  GLOBAL max_statement_time = 0.5;
SELECT COUNT(*) > 60 FROM information_schema.system_variables WHERE global_value <> default_value;";

/// Settings of the session that asks, so that its answers depend on none of the server's.
const ENTER_MARIADB: &str = "SET SESSION sql_mode = '', SESSION time_zone = '+00:00',
  SESSION sql_big_selects = ON, SESSION max_sort_length = 1024, SESSION sql_quote_show_create = ON, SESSION group_concat_max_len = 1000000,
  SESSION old_mode = 'UTF8_IS_UTF8MB3', SESSION system_versioning_alter_history = DEFAULT, SESSION max_statement_time = 0; USE `Shop`;";

const LOOK_MARIADB: &[&str] = &[
    "SELECT id, HEX(t), n, f, d, z, HEX(b), j, HEX(e), g, HEX(c), y FROM `select` ORDER BY id;",
    "SELECT id, ts, HEX(t) FROM child ORDER BY id;",
    "SELECT * FROM plain ORDER BY i;",
    "SELECT i, t FROM numbered;",
    "SELECT i FROM periods ORDER BY i;",
    "SHOW CREATE TABLE numbered;",
    "SELECT i FROM versions ORDER BY i;",
    "SHOW CREATE TABLE `select`;",
    "SHOW CREATE TABLE child;",
    "SHOW CREATE TABLE plain;",
    "SHOW CREATE TABLE versions;",
    "SELECT engine, row_format, table_collation FROM information_schema.tables WHERE table_schema = 'Shop' AND table_type = 'BASE TABLE' ORDER BY table_name;",
    "SELECT index_name, column_name, sub_part FROM information_schema.statistics WHERE table_schema = 'Shop' ORDER BY 1, 2;",
    "SELECT view_definition FROM information_schema.views WHERE table_schema = 'Shop';",
    "SELECT action_statement, sql_mode, character_set_client FROM information_schema.triggers WHERE trigger_schema = 'Shop';",
    "SELECT routine_definition, sql_mode, dtd_identifier FROM information_schema.routines WHERE routine_schema = 'Shop';",
    "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata WHERE schema_name = 'Shop';",
    "SELECT next_not_cached_value, increment FROM numbers;",
    "SHOW GRANTS FOR app@'%';",
    "SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'Shop' AND table_name = 'select';",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_of_a_mariadb_changes_what_comes_back() {
    let mut stage = SqlStage::new("sql-sweep-m", &MARIADB).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(FILL_MARIADB).await;
    let before = stage.ask_each(ENTER_MARIADB, LOOK_MARIADB).await;
    assert!(before.iter().all(|answer| !answer.starts_with("ERROR")), "{before:#?}");
    turn(&stage, TURN_MARIADB, "1").await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;

    stage.replace().await;
    turn(&stage, TURN_MARIADB, "1").await;
    // Two settings that no session can change, and with which there is no room for a table of the backup.
    for (name, words) in [
        ("format", "SET GLOBAL innodb_default_row_format = dynamic"),
        ("times", "SET GLOBAL mysql56_temporal_format = ON"),
    ] {
        let status = stage.restore(name, &stage.server(&json!({})), false).await;
        assert_eq!(status.reason.as_deref(), Some("ServerUnfit"), "{status:?}");
        assert!(status.message.as_deref().is_some_and(|it| it.contains(words)), "{status:?}");
        stage.ask(&format!("{words};")).await;
    }
    let status = stage.restore("back", &stage.server(&json!({})), false).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    let after = stage.ask_each(ENTER_MARIADB, LOOK_MARIADB).await;
    for ((question, before), after) in LOOK_MARIADB.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{question}");
    }
    stage.restored("again", &stage.server(&json!({})), true).await;
}
