//! Which features of a MariaDB come back.

use super::sql::{Feature, Server, feature, probe};
use crate::backup::sql_mariadb::MARIADB;

/// The order matters: later features use tables and accounts of earlier ones.
const FEATURES: &[Feature] = &[
    feature(
        "rows of tables, whatever their types",
        "CREATE TABLE orders (
           id INT PRIMARY KEY, t TEXT CHARACTER SET utf8mb4, n DECIMAL(30, 10), d DATETIME(6), y YEAR, b BIT(12), e ENUM('a', 'b'), s SET('x', 'y'), u UUID, i INET6
         );
         INSERT INTO orders SELECT seq, REPEAT(SHA2(seq, 256), 3), seq / 7, '2026-11-22 00:00:00.123456' + INTERVAL seq SECOND, 1990 + seq % 50,
           seq, ELT(1 + seq % 2, 'a', 'b'), 'x,y', '6ccd780c-baba-1026-9564-5b8c656024db', '2001:db8::1' FROM seq_1_to_500;
         INSERT INTO orders (id, t) VALUES (9999, CONCAT('\\\\ \\' \\n \\0', _utf8mb4 X'F09F9A80'));",
        "SET SESSION group_concat_max_len = 10000000;
         SELECT COUNT(*), SHA2(GROUP_CONCAT(CONCAT_WS('|', id, HEX(t), n, d, y, HEX(b), e, s, u, i) ORDER BY id), 256) FROM orders;",
    ),
    feature(
        "binary values and large objects",
        "CREATE TABLE binaries (id INT, b LONGBLOB, v VARBINARY(300));
         INSERT INTO binaries SELECT seq, REPEAT(UNHEX(SHA2(seq, 256)), 999), UNHEX(LPAD(HEX(seq), 4, '0')) FROM seq_0_to_300;",
        "SET SESSION group_concat_max_len = 10000000;
         SELECT SHA2(GROUP_CONCAT(SHA2(b, 256), HEX(v) ORDER BY id), 256) FROM binaries;",
    ),
    feature(
        "all digits of `DOUBLE`",
        "CREATE TABLE doubles AS SELECT seq AS id, SQRT(seq) / 3e100 AS f FROM seq_1_to_200;",
        "SET SESSION group_concat_max_len = 10000000; SELECT SHA2(GROUP_CONCAT(f ORDER BY id), 256) FROM doubles;",
    ),
    feature(
        "digits of `FLOAT` beyond the sixth",
        "CREATE TABLE floats (id INT, f FLOAT); INSERT INTO floats SELECT seq, SQRT(seq) FROM seq_1_to_200;",
        "SET SESSION group_concat_max_len = 10000000;
         SELECT SHA2(GROUP_CONCAT(CAST(f AS DOUBLE) ORDER BY id), 256) FROM floats;",
    ),
    feature(
        "JSON, and that it is checked",
        "CREATE TABLE documents (j JSON); INSERT INTO documents VALUES ('{\"a\": [1, null, \"\\\\u00e9\"]}');",
        "SELECT j, (SELECT COUNT(*) FROM information_schema.check_constraints WHERE table_name = 'documents') FROM documents;",
    ),
    feature(
        "spatial values and their indexes",
        "CREATE TABLE shapes (g GEOMETRY REF_SYSTEM_ID = 4326 NOT NULL, p POINT, SPATIAL INDEX where_it_is (g));
         INSERT INTO shapes VALUES (ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))', 4326), POINT(1.5, 2.25));",
        "SELECT ST_AsText(g), ST_SRID(g), ST_AsText(p), (SELECT index_type FROM information_schema.statistics WHERE
           index_name = 'where_it_is') FROM shapes;",
    ),
    feature(
        "dates of zeros",
        "SET sql_mode = ''; CREATE TABLE zeros (d DATE, t TIMESTAMP NULL); INSERT INTO zeros VALUES ('0000-00-00', '2026-11-22 03:04:05'); SET sql_mode = DEFAULT;",
        "SET time_zone = '+00:00'; SELECT * FROM zeros;",
    ),
    feature(
        "rows of tables of the engines Aria, MyISAM and MEMORY",
        "CREATE TABLE of_aria (i INT) ENGINE = Aria; CREATE TABLE of_myisam (i INT) ENGINE = MyISAM; CREATE TABLE of_memory (i INT) ENGINE = MEMORY;
         INSERT INTO of_aria VALUES (1); INSERT INTO of_myisam VALUES (2); INSERT INTO of_memory VALUES (3);",
        "SELECT GROUP_CONCAT(engine ORDER BY engine), (SELECT i FROM of_aria), (SELECT i FROM of_myisam), (SELECT i FROM of_memory)
           FROM information_schema.tables WHERE table_name LIKE 'of\\_%' AND table_schema = 'shop';",
    ),
    feature(
        "primary and foreign keys, unique and check constraints",
        "CREATE TABLE `lines` (
           id INT, part INT NOT NULL, PRIMARY KEY (id, part), UNIQUE backwards (part, id), CONSTRAINT some CHECK (part > 0),
           CONSTRAINT known FOREIGN KEY (id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE RESTRICT
         );",
        "SELECT GROUP_CONCAT(column_name, constraint_name ORDER BY constraint_name, ordinal_position), (SELECT check_clause FROM
           information_schema.check_constraints WHERE table_name = 'lines'), (SELECT CONCAT(delete_rule, update_rule)
           FROM information_schema.referential_constraints WHERE table_name = 'lines')
           FROM information_schema.key_column_usage WHERE table_name = 'lines';",
    ),
    feature(
        "indexes, also descending, ignored and full-text ones",
        "CREATE TABLE found (id INT, t TEXT, FULLTEXT words (t), INDEX begins (t(5)), INDEX down (id DESC), INDEX off (id) IGNORED);
         INSERT INTO found VALUES (1, 'an orchard');",
        "SELECT GROUP_CONCAT(index_name, index_type, IFNULL(sub_part, ''), IFNULL(collation, ''), ignored ORDER BY index_name),
           (SELECT COUNT(*) FROM found WHERE MATCH (t) AGAINST ('orchard')) FROM information_schema.statistics WHERE table_name = 'found';",
    ),
    feature(
        "position of `AUTO_INCREMENT`",
        "CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, i INT); INSERT INTO counted (i) VALUES (1), (2), (3), (4); DELETE FROM counted WHERE id > 2;",
        "SELECT auto_increment FROM information_schema.tables WHERE table_name = 'counted';",
    ),
    feature(
        "sequences and their positions",
        "CREATE SEQUENCE counter START 5 INCREMENT 7 MAXVALUE 900 NOCACHE CYCLE; SELECT NEXTVAL(counter), NEXTVAL(counter);",
        "SELECT * FROM counter;",
    ),
    feature(
        "defaults, generated and invisible columns",
        "CREATE TABLE made (
           id INT, t TEXT DEFAULT (UPPER('a')), v INT AS (id * 2) VIRTUAL, g INT AS (id * 3) STORED, h INT INVISIBLE DEFAULT 4,
           at TIMESTAMP DEFAULT '2026-01-01' ON UPDATE CURRENT_TIMESTAMP
         );
         INSERT INTO made (id) VALUES (7);",
        "SELECT id, t, v, g, h, (SELECT GROUP_CONCAT(extra ORDER BY ordinal_position) FROM information_schema.columns
           WHERE table_name = 'made') FROM made;",
    ),
    feature(
        "partitions",
        "CREATE TABLE parts (i INT, p INT) PARTITION BY RANGE (p) SUBPARTITION BY HASH (i) SUBPARTITIONS 2
           (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE);
         INSERT INTO parts SELECT seq, seq FROM seq_1_to_30;",
        "SELECT GROUP_CONCAT(partition_name, subpartition_name, partition_description ORDER BY subpartition_name),
           (SELECT COUNT(*) FROM parts PARTITION (low)) FROM information_schema.partitions WHERE table_name = 'parts';",
    ),
    feature(
        "system-versioned tables with their present rows",
        "CREATE TABLE versioned (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING;
         INSERT INTO versioned VALUES (1, 1), (2, 2); UPDATE versioned SET v = 3 WHERE id = 1;",
        "SELECT table_type, (SELECT GROUP_CONCAT(v ORDER BY id) FROM versioned) FROM information_schema.tables
           WHERE table_name = 'versioned';",
    ),
    feature(
        "history of system-versioned tables",
        "DELETE FROM versioned WHERE id = 2;",
        "SELECT COUNT(*), COUNT(*) > (SELECT COUNT(*) FROM versioned) + 1 FROM versioned FOR SYSTEM_TIME ALL;",
    ),
    feature(
        "periods of application time",
        "CREATE TABLE rented (room INT, f DATE, t DATE, PERIOD FOR during (f, t), UNIQUE (room, during WITHOUT OVERLAPS));
         INSERT INTO rented VALUES (1, '2026-01-01', '2026-02-01');",
        "SELECT COUNT(*), (SELECT COUNT(*) FROM information_schema.statistics WHERE table_name = 'rented') FROM rented;
         SHOW CREATE TABLE rented;",
    ),
    feature(
        "views with their definers",
        "CREATE USER definer@'%' ACCOUNT LOCK; GRANT SELECT ON shop.orders TO definer@'%';
         CREATE DEFINER = definer@'%' SQL SECURITY DEFINER VIEW totals AS SELECT COUNT(id) AS n FROM orders;
         CREATE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW few AS SELECT id FROM orders WHERE id < 9 WITH LOCAL CHECK OPTION;",
        "SELECT GROUP_CONCAT(view_definition, check_option, definer, security_type, algorithm ORDER BY table_name), (SELECT n FROM totals)
           FROM information_schema.views WHERE table_schema = 'shop';",
    ),
    feature(
        "procedures and functions",
        "CREATE FUNCTION seven() RETURNS INT DETERMINISTIC COMMENT '7' RETURN 7;
         CREATE DEFINER = definer@'%' PROCEDURE forget(INOUT n INT) MODIFIES SQL DATA SQL SECURITY INVOKER DELETE FROM `lines`;",
        "SELECT GROUP_CONCAT(routine_name, routine_definition, is_deterministic, security_type, sql_mode, definer ORDER BY routine_name),
           seven() FROM information_schema.routines WHERE routine_schema = 'shop' AND routine_name IN ('seven', 'forget');",
    ),
    feature(
        "packages",
        "SET sql_mode = ORACLE;
         DELIMITER ;;
         CREATE PACKAGE pack AS FUNCTION nine RETURN INT; END;;
         CREATE PACKAGE BODY pack AS FUNCTION nine RETURN INT AS BEGIN RETURN 9; END; END;;
         DELIMITER ;
         SET sql_mode = DEFAULT;",
        "SET sql_mode = ORACLE; SELECT pack.nine();",
    ),
    feature(
        "triggers in their order",
        "CREATE TRIGGER later AFTER DELETE ON orders FOR EACH ROW DELETE FROM found;
         CREATE TRIGGER first AFTER DELETE ON orders FOR EACH ROW PRECEDES later DELETE FROM made;",
        "SELECT GROUP_CONCAT(trigger_name, action_statement, action_order, sql_mode ORDER BY trigger_name) FROM information_schema.triggers
           WHERE trigger_schema = 'shop';",
    ),
    feature(
        "events, also disabled ones",
        "CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2036-01-01' ON COMPLETION PRESERVE COMMENT 'late' DO DELETE FROM found;
         CREATE EVENT never ON SCHEDULE EVERY 1 DAY STARTS '2036-01-01' DISABLE DO DELETE FROM found;",
        "SELECT GROUP_CONCAT(event_name, interval_field, starts, status, on_completion, event_comment ORDER BY event_name)
           FROM information_schema.events WHERE event_schema = 'shop';",
    ),
    feature(
        "comments of tables, columns and indexes",
        "CREATE TABLE noted (i INT COMMENT 'it''s a column', INDEX x (i) COMMENT 'an index') COMMENT 'a table';",
        "SELECT table_comment, (SELECT column_comment FROM information_schema.columns WHERE table_name = 'noted'),
           (SELECT index_comment FROM information_schema.statistics WHERE table_name = 'noted')
           FROM information_schema.tables WHERE table_name = 'noted';",
    ),
    feature(
        "formats of rows, compressed columns and tables",
        "CREATE TABLE dense (t TEXT COMPRESSED) ROW_FORMAT = DYNAMIC PAGE_COMPRESSED = 1 STATS_PERSISTENT = 1;
         INSERT INTO dense VALUES (REPEAT('dense', 500));",
        "SELECT create_options, row_format, (SELECT column_type FROM information_schema.columns WHERE table_name = 'dense'), (SELECT SHA2(t, 256)
           FROM dense) FROM information_schema.tables WHERE table_name = 'dense';",
    ),
    feature(
        "character sets and collations",
        "CREATE TABLE sorted (l VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci, u VARCHAR(9)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
         INSERT INTO sorted VALUES (_utf8mb4 X'C3A4', _utf8mb4 X'C3A4');",
        "SELECT GROUP_CONCAT(collation_name ORDER BY column_name), (SELECT CONCAT(HEX(l), HEX(u)) FROM sorted), (SELECT table_collation
           FROM information_schema.tables WHERE table_name = 'sorted') FROM information_schema.columns WHERE table_name = 'sorted';",
    ),
    feature(
        "character set, collation and comment of a database",
        "ALTER DATABASE shop CHARACTER SET latin2 COLLATE latin2_bin COMMENT 'a shop';",
        "SELECT default_character_set_name, default_collation_name, schema_comment FROM information_schema.schemata
           WHERE schema_name = 'shop';",
    ),
    feature(
        "other databases of the server",
        "CREATE DATABASE `odd ``one`; CREATE TABLE `odd ``one`.`Lines` AS SELECT 1 AS i;",
        "SELECT i FROM `odd ``one`.`Lines`;",
    ),
    feature(
        "accounts with their passwords",
        "CREATE USER app@'10.%' IDENTIFIED BY 'of the app'; CREATE USER other@'%' IDENTIFIED VIA unix_socket;",
        "SELECT GROUP_CONCAT(user, host, JSON_VALUE(priv, '$.plugin'), IFNULL(JSON_VALUE(priv, '$.authentication_string'), '')
           ORDER BY user) FROM mysql.global_priv WHERE user IN ('app', 'other');",
    ),
    feature(
        "limits, locks, expiry and demands for TLS of accounts",
        "ALTER USER other@'%' REQUIRE SSL WITH MAX_USER_CONNECTIONS 7 PASSWORD EXPIRE INTERVAL 90 DAY ACCOUNT LOCK;",
        "SELECT JSON_VALUE(priv, '$.ssl_type'), JSON_VALUE(priv, '$.max_user_connections'), JSON_VALUE(priv, '$.password_lifetime'),
           JSON_VALUE(priv, '$.account_locked') FROM mysql.global_priv WHERE user = 'other';",
    ),
    feature(
        "roles, who has them, and default roles",
        "CREATE ROLE staff; CREATE ROLE boss; GRANT staff TO boss; GRANT boss TO app@'10.%' WITH ADMIN OPTION; SET DEFAULT ROLE boss FOR app@'10.%';",
        "SELECT GROUP_CONCAT(user, host, role, admin_option ORDER BY role, user), (SELECT JSON_VALUE(priv, '$.default_role') FROM
           mysql.global_priv WHERE user = 'app') FROM mysql.roles_mapping WHERE role IN ('staff', 'boss') AND user <> 'backup';",
    ),
    feature(
        "rights on all, on databases, tables, columns and routines",
        "GRANT PROCESS ON *.* TO app@'10.%'; GRANT SELECT, INSERT ON shop.* TO staff; GRANT UPDATE (t) ON shop.orders TO staff;
         GRANT DELETE ON shop.orders TO app@'10.%' WITH GRANT OPTION; GRANT EXECUTE ON FUNCTION shop.seven TO app@'10.%';",
        "SHOW GRANTS FOR staff; SELECT GROUP_CONCAT(privilege_type, is_grantable) FROM information_schema.table_privileges
           WHERE grantee LIKE '%app%'; SELECT routine_name, proc_priv FROM mysql.procs_priv WHERE user = 'app';
         SELECT privilege_type FROM information_schema.user_privileges WHERE grantee LIKE '%app%';",
    ),
    feature(
        "passwords, limits and rights of accounts that the target has",
        "ALTER USER backup@'%' WITH MAX_USER_CONNECTIONS 70;",
        "SELECT JSON_VALUE(priv, '$.max_user_connections') FROM mysql.global_priv WHERE user = 'backup';",
    ),
    feature(
        "statistics of the planner (`ANALYZE TABLE … PERSISTENT`)",
        "ANALYZE TABLE orders PERSISTENT FOR ALL;",
        "SELECT COUNT(*) FROM mysql.column_stats WHERE table_name = 'orders';",
    ),
    feature(
        "servers (`CREATE SERVER`)",
        "CREATE SERVER far FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', DATABASE 'x', USER 'y');",
        "SELECT Server_name, Host FROM mysql.servers;",
    ),
    feature(
        "time zones (tables of `mysql`)",
        "INSERT INTO mysql.time_zone_name VALUES ('Here', 1);",
        "SELECT COUNT(*) FROM mysql.time_zone_name;",
    ),
    feature("settings of the server (`SET GLOBAL`)", "SET GLOBAL max_connections = 77;", "SELECT @@GLOBAL.max_connections;"),
];

const SERVER: Server = Server {
    name: "MariaDB",
    engine: &MARIADB,
    empty: "CREATE DATABASE shop;",
    enter: "USE shop;",
    features: FEATURES,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_features_of_mariadb_match_the_documentation() {
    probe("fidelity-mariadb", &SERVER).await;
}
