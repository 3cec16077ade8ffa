//! Which features of a PostgreSQL come back.

use super::sql::{Feature, Server, feature, probe};
use crate::backup::sql_postgres::POSTGRES;

/// The order matters: later features use tables and roles of earlier ones.
const FEATURES: &[Feature] = &[
    feature(
        "rows of tables, whatever their types",
        "CREATE TABLE orders (
           id int PRIMARY KEY, t text, n numeric, r real, f float8, d timestamptz, b bytea, j jsonb, a int[], u uuid, x xml
         );
         INSERT INTO orders SELECT i, repeat(md5(i::text), 3), i / 7.0, sqrt(i), sqrt(i), '2026-11-22'::timestamptz + i * interval '1 s',
           decode(md5(i::text), 'hex'), jsonb_build_object('i', i), ARRAY[i, NULL], md5(i::text)::uuid, '<a/>'
           FROM generate_series(1, 500) i;",
        "SELECT count(*), md5(string_agg(o::text, ',' ORDER BY id)) FROM orders o;",
    ),
    feature(
        "rows of unlogged tables",
        "CREATE UNLOGGED TABLE notes (t text); INSERT INTO notes VALUES ('one'), ('two');",
        "SELECT relpersistence, (SELECT count(*) FROM notes) FROM pg_class WHERE relname = 'notes';",
    ),
    feature(
        "large objects",
        "SELECT lo_from_bytea(4711, repeat('large', 5000)::bytea);",
        "SELECT md5(lo_get(4711));",
    ),
    feature(
        "primary and foreign keys, unique, check and exclusion constraints",
        "CREATE TABLE lines (
           id int REFERENCES orders DEFERRABLE, part int NOT NULL CHECK (part > 0), during int4range,
           PRIMARY KEY (id, part), UNIQUE (part, id), EXCLUDE USING gist (during WITH &&)
         );
         ALTER TABLE lines ADD CONSTRAINT late CHECK (part < 99) NOT VALID;",
        "SELECT string_agg(pg_get_constraintdef(oid), ';' ORDER BY conname) FROM pg_constraint
           WHERE conrelid = 'lines'::regclass;",
    ),
    feature(
        "indexes, also partial ones and those of expressions",
        "CREATE INDEX lower ON orders (lower(t)) WHERE id > 9; CREATE INDEX inside ON orders USING gin (j jsonb_path_ops);",
        "SELECT string_agg(indexdef, ';' ORDER BY indexname) FROM pg_indexes WHERE indexname IN ('lower', 'inside');",
    ),
    feature(
        "defaults, generated columns and identity columns",
        "CREATE TABLE made (
           id bigint GENERATED ALWAYS AS IDENTITY (INCREMENT 3), t text DEFAULT upper('a'),
           g bigint GENERATED ALWAYS AS (length(t)) STORED
         );
         INSERT INTO made (t) VALUES (DEFAULT), ('bc');",
        "SELECT string_agg(concat(attidentity, attgenerated, pg_get_expr(adbin, adrelid)), ';' ORDER BY attnum),
           (SELECT string_agg(m::text, ';' ORDER BY id) FROM made m)
           FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
           WHERE attrelid = 'made'::regclass AND attnum > 0;",
    ),
    feature(
        "positions of sequences",
        "CREATE SEQUENCE counter INCREMENT 7; SELECT nextval('counter'), nextval('counter');",
        "SELECT (SELECT last_value FROM made_id_seq), last_value, is_called FROM counter;",
    ),
    feature(
        "partitions",
        "CREATE TABLE parts (i int, p int) PARTITION BY LIST (p);
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1) PARTITION BY RANGE (i);
         CREATE TABLE parts_1_low PARTITION OF parts_1 FOR VALUES FROM (MINVALUE) TO (50);
         CREATE TABLE parts_other PARTITION OF parts DEFAULT; CREATE INDEX ON parts (i);
         INSERT INTO parts SELECT i, i % 3 FROM generate_series(1, 40) i;",
        "SELECT string_agg(part, ';' ORDER BY part) FROM (
           SELECT tableoid::regclass || ':' || count(*) AS part FROM parts GROUP BY tableoid
         ) AS all_parts;",
    ),
    feature(
        "inheritance",
        "CREATE TABLE places (name text); CREATE TABLE capitals (state text) INHERITS (places);
         INSERT INTO capitals VALUES ('Bern', 'BE'); ALTER TABLE places ADD COLUMN area int; UPDATE capitals SET area = 52;",
        "SELECT (SELECT count(*) FROM ONLY places), (SELECT count(*) FROM places), (SELECT area || state FROM capitals);",
    ),
    feature(
        "views and rules",
        "CREATE VIEW totals WITH (security_barrier) AS SELECT count(*) AS n FROM orders;
         CREATE VIEW few AS SELECT id FROM orders WHERE id < 10 WITH CHECK OPTION;
         CREATE RULE quiet AS ON DELETE TO notes DO INSTEAD NOTHING;",
        "SELECT string_agg(pg_get_viewdef(oid) || reloptions::text, ';' ORDER BY relname), (SELECT n FROM totals),
           (SELECT definition FROM pg_rules WHERE rulename = 'quiet') FROM pg_class WHERE relname IN ('totals', 'few');",
    ),
    feature(
        "materialized views",
        "CREATE MATERIALIZED VIEW filled AS SELECT count(*) AS n FROM notes;
         CREATE MATERIALIZED VIEW unfilled AS SELECT count(*) AS n FROM notes WITH NO DATA;",
        "SELECT string_agg(matviewname || ispopulated, ';' ORDER BY matviewname), (SELECT count(*) FROM filled)
           FROM pg_matviews;",
    ),
    feature(
        "rows of materialized views as they were (they are refreshed)",
        "INSERT INTO notes VALUES ('three');",
        "SELECT n, (SELECT count(*) FROM notes) > n FROM filled;",
    ),
    feature(
        "functions, procedures, aggregates, operators and casts",
        "CREATE FUNCTION seven() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7';
         CREATE PROCEDURE forget() LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS 'DELETE FROM lines';
         CREATE FUNCTION product(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * $2';
         CREATE AGGREGATE product(int) (SFUNC = product, STYPE = int, INITCOND = '1');
         CREATE OPERATOR |*| (FUNCTION = product, LEFTARG = int, RIGHTARG = int);
         CREATE FUNCTION as_text(point) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''point''';
         CREATE CAST (point AS text) WITH FUNCTION as_text(point) AS ASSIGNMENT;",
        "SELECT 3 |*| seven(), product(i) FROM generate_series(1, 4) i;
         SELECT prosecdef, proconfig, (SELECT castcontext FROM pg_cast WHERE castfunc = 'as_text'::regproc) FROM pg_proc
           WHERE proname = 'forget';",
    ),
    feature(
        "triggers, also disabled ones",
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TRIGGER kept BEFORE UPDATE OF part ON lines FOR EACH ROW WHEN (NEW.part > 5) EXECUTE FUNCTION nothing();
         CREATE TRIGGER off BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION nothing(); ALTER TABLE lines DISABLE TRIGGER off;",
        "SELECT string_agg(concat(pg_get_triggerdef(oid), tgenabled), ';' ORDER BY tgname) FROM pg_trigger
           WHERE tgrelid = 'lines'::regclass AND NOT tgisinternal;",
    ),
    feature(
        "event triggers",
        "CREATE FUNCTION watched() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN NULL; END';
         CREATE EVENT TRIGGER watch ON ddl_command_end WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION watched();",
        "SELECT evtname, evtevent, evttags FROM pg_event_trigger;",
    ),
    feature(
        "enum, composite, domain and range types",
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok'; CREATE TYPE pair AS (a int, b mood);
         CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TYPE span AS RANGE (SUBTYPE = float8);
         CREATE TABLE typed (m mood, p pair, d positive, s span); INSERT INTO typed VALUES ('so so', (1, 'ok'), 5, '[1,2)');",
        "SELECT t, enum_range(NULL::mood) FROM typed t;",
    ),
    feature(
        "collations",
        "CREATE COLLATION phonebook (provider = icu, locale = 'de-u-co-phonebk', deterministic = false);",
        "SELECT collname, collprovider, colliculocale, collisdeterministic FROM pg_collation WHERE collname = 'phonebook';",
    ),
    feature(
        "text search configurations and dictionaries",
        "CREATE TEXT SEARCH DICTIONARY exact (TEMPLATE = simple, ACCEPT = false);
         CREATE TEXT SEARCH CONFIGURATION ours (COPY = english);
         ALTER TEXT SEARCH CONFIGURATION ours ALTER MAPPING FOR asciiword WITH exact, english_stem;",
        "SELECT to_tsvector('ours', 'the running'), dictinitoption FROM pg_ts_dict WHERE dictname = 'exact';",
    ),
    feature(
        "extensions that the target's image has",
        "CREATE SCHEMA ext; CREATE EXTENSION hstore SCHEMA ext; CREATE TABLE extended (h ext.hstore);
         INSERT INTO extended VALUES ('a=>1');",
        "SELECT extname, extversion, extnamespace::regnamespace, (SELECT h FROM extended) FROM pg_extension
           WHERE extname = 'hstore';",
    ),
    feature(
        "foreign servers, user mappings with passwords and foreign tables",
        "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
         CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'a', password 'b');
         CREATE FOREIGN TABLE there (i int) SERVER far OPTIONS (table_name 'here');",
        "SELECT srvoptions, (SELECT string_agg(o, ';' ORDER BY o) FROM pg_user_mappings, unnest(umoptions) o), (SELECT ftoptions FROM pg_foreign_table)
           FROM pg_foreign_server;",
    ),
    feature(
        "comments",
        "COMMENT ON TABLE orders IS 'it''s ours'; COMMENT ON COLUMN orders.t IS 'text'; COMMENT ON FUNCTION seven IS '7';
         COMMENT ON DATABASE shop IS 'a shop';",
        "SELECT obj_description('orders'::regclass), col_description('orders'::regclass, 2),
           obj_description('seven'::regproc), shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'shop';",
    ),
    feature(
        "storage parameters, replica identity, clustering and compression",
        "ALTER TABLE lines SET (fillfactor = 70), REPLICA IDENTITY FULL, CLUSTER ON lines_pkey;
         ALTER TABLE orders ALTER t SET STORAGE EXTERNAL, ALTER t SET STATISTICS 7; ALTER TABLE orders ALTER b SET COMPRESSION pglz;",
        "SELECT reloptions, relreplident, (SELECT indisclustered FROM pg_index WHERE indexrelid = 'lines_pkey'::regclass),
           (SELECT string_agg(concat(attstorage, attstattarget, attcompression), ';' ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = 'orders'::regclass AND attname IN ('t', 'b')) FROM pg_class WHERE relname = 'lines';",
    ),
    feature(
        "statistics objects",
        "CREATE STATISTICS together (dependencies, ndistinct) ON id, t FROM orders;",
        "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext;",
    ),
    feature(
        "statistics of the planner",
        "CREATE TABLE measured WITH (autovacuum_enabled = off) AS SELECT generate_series(1, 50) AS i; ANALYZE measured;",
        "SELECT n_distinct FROM pg_stats WHERE tablename = 'measured';",
    ),
    feature(
        "publications",
        "CREATE PUBLICATION news FOR TABLE orders (id, t) WHERE (id > 3) WITH (publish = 'insert');",
        "SELECT pubinsert, pubdelete, attnames, rowfilter FROM pg_publication JOIN pg_publication_tables USING (pubname);",
    ),
    feature(
        "subscriptions",
        "CREATE SUBSCRIPTION feed CONNECTION 'host=127.0.0.1 port=1' PUBLICATION news WITH (connect = false, streaming = on);",
        "SELECT subname, subconninfo, subpublications, subslotname, substream FROM pg_subscription;",
    ),
    feature(
        "whether subscriptions are enabled (they come back disabled)",
        "ALTER SUBSCRIPTION feed ENABLE;",
        "SELECT subenabled FROM pg_subscription;",
    ),
    feature(
        "roles with their attributes, passwords and comments",
        "CREATE ROLE app LOGIN PASSWORD 'of the app' CONNECTION LIMIT 9 VALID UNTIL '2040-01-01 00:00:00Z' BYPASSRLS;
         COMMENT ON ROLE app IS 'an app'; CREATE ROLE staff NOLOGIN CREATEROLE;",
        "SELECT rolpassword, rolconnlimit, rolvaliduntil, rolbypassrls, shobj_description(oid, 'pg_authid'),
           (SELECT rolcreaterole FROM pg_roles WHERE rolname = 'staff') FROM pg_authid WHERE rolname = 'app';",
    ),
    feature(
        "memberships of roles",
        "GRANT staff TO app WITH ADMIN OPTION; GRANT pg_monitor TO staff;",
        "SELECT string_agg(roleid::regrole || ' ' || member::regrole || admin_option, ';' ORDER BY roleid::regrole::text)
           FROM pg_auth_members WHERE member IN (SELECT oid FROM pg_roles WHERE rolname IN ('app', 'staff'));",
    ),
    feature(
        "settings of roles, also in one database",
        "ALTER ROLE app SET work_mem TO '6MB'; ALTER ROLE app IN DATABASE shop SET search_path TO public, pg_temp;",
        "SELECT string_agg(setconfig::text, ';' ORDER BY setconfig::text) FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole
           WHERE rolname = 'app';",
    ),
    feature(
        "settings and memberships of roles that the target has",
        "ALTER ROLE postgres SET application_name TO 'ours'; GRANT staff TO postgres;",
        "SELECT setconfig, (SELECT count(*) FROM pg_auth_members WHERE member = setrole) FROM pg_db_role_setting
           WHERE setrole = 'postgres'::regrole;",
    ),
    feature(
        "owners",
        "ALTER TABLE capitals OWNER TO app; ALTER FUNCTION seven OWNER TO app; ALTER DATABASE shop OWNER TO app;",
        "SELECT relowner::regrole, (SELECT proowner::regrole FROM pg_proc WHERE proname = 'seven'),
           (SELECT datdba::regrole FROM pg_database WHERE datname = 'shop') FROM pg_class WHERE relname = 'capitals';",
    ),
    feature(
        "rights on tables, columns, sequences, schemas, functions, types and large objects",
        "GRANT SELECT, INSERT ON orders TO app WITH GRANT OPTION; GRANT UPDATE (t) ON orders TO staff; GRANT USAGE ON SEQUENCE counter TO app;
         GRANT CREATE ON SCHEMA ext TO app; REVOKE EXECUTE ON FUNCTION seven FROM PUBLIC; REVOKE USAGE ON TYPE mood FROM PUBLIC;
         GRANT SELECT ON LARGE OBJECT 4711 TO app; REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT CREATE ON SCHEMA public TO staff;",
        "SELECT string_agg(item, ';' ORDER BY item) FROM (
           SELECT relname || unnest(relacl) FROM pg_class WHERE relname IN ('orders', 'counter')
           UNION ALL SELECT attname || unnest(attacl) FROM pg_attribute WHERE attrelid = 'orders'::regclass
           UNION ALL SELECT nspname || unnest(nspacl) FROM pg_namespace WHERE nspname IN ('ext', 'public')
           UNION ALL SELECT proname || unnest(proacl) FROM pg_proc WHERE proname = 'seven'
           UNION ALL SELECT typname || unnest(typacl) FROM pg_type WHERE typname = 'mood'
           UNION ALL SELECT oid::text || unnest(lomacl) FROM pg_largeobject_metadata
         ) AS all_rights (item);",
    ),
    feature(
        "default privileges",
        "ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA public GRANT SELECT ON TABLES TO staff;
         ALTER DEFAULT PRIVILEGES FOR ROLE app REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;",
        "SELECT string_agg(concat(defaclobjtype, defaclacl), ';' ORDER BY defaclobjtype) FROM pg_default_acl;",
    ),
    feature(
        "rights on databases and on parameters of the server",
        "GRANT TEMPORARY ON DATABASE shop TO app WITH GRANT OPTION; REVOKE CONNECT ON DATABASE shop FROM PUBLIC;
         GRANT SET ON PARAMETER log_statement TO staff;",
        "SELECT string_agg(a::text, ';' ORDER BY a::text), (SELECT string_agg(paracl::text, ';') FROM pg_parameter_acl)
           FROM pg_database, unnest(datacl) AS a WHERE datname = 'shop';",
    ),
    feature(
        "row-level security",
        "ALTER TABLE lines ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         CREATE POLICY own ON lines AS RESTRICTIVE FOR UPDATE TO app USING (part < 9) WITH CHECK (part < 5);",
        "SELECT permissive, roles, cmd, qual, with_check, (SELECT relforcerowsecurity FROM pg_class WHERE relname = 'lines')
           FROM pg_policies;",
    ),
    feature(
        "settings and connection limit of a database",
        "ALTER DATABASE shop SET work_mem TO '7MB'; ALTER DATABASE shop CONNECTION LIMIT 90;",
        "SELECT datconnlimit, (SELECT setconfig FROM pg_db_role_setting WHERE setdatabase = d.oid AND setrole = 0)
           FROM pg_database d WHERE datname = 'shop';",
    ),
    feature(
        "databases that are read-only by default",
        "CREATE DATABASE archive;
         \\c archive
         CREATE TABLE settled AS SELECT generate_series(1, 5) AS i;
         ALTER DATABASE archive SET default_transaction_read_only TO on;",
        "\\c archive
         SELECT count(*), current_setting('default_transaction_read_only') FROM settled;",
    ),
    feature(
        "encoding and locale of a database",
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;",
        "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = 'latin';",
    ),
    feature(
        "tables in the database `postgres`",
        "\\c postgres
         CREATE TABLE misplaced AS SELECT generate_series(1, 5) AS i;",
        "\\c postgres
         SELECT count(*) FROM misplaced;",
    ),
    feature(
        "what was added to `template1`",
        "\\c template1
         CREATE TABLE of_all (i int);",
        "\\c template1
         SELECT count(*) FROM of_all;",
    ),
    feature(
        "databases that are templates",
        "CREATE DATABASE pattern IS_TEMPLATE true;",
        "SELECT datistemplate FROM pg_database WHERE datname = 'pattern';",
    ),
    feature(
        "databases that take no connections",
        "CREATE DATABASE closed ALLOW_CONNECTIONS false;",
        "SELECT datallowconn FROM pg_database WHERE datname = 'closed';",
    ),
    feature(
        "tablespaces (tables come back in the default one)",
        "COPY (SELECT 1) TO PROGRAM 'mkdir /tmp/space';
         CREATE TABLESPACE space LOCATION '/tmp/space'; CREATE TABLE spaced (i int) TABLESPACE space;",
        "SELECT spcname FROM pg_class c JOIN pg_tablespace t ON t.oid = reltablespace WHERE relname = 'spaced';",
    ),
    feature(
        "replication slots",
        "SELECT pg_create_physical_replication_slot('standby');",
        "SELECT slot_name FROM pg_replication_slots;",
    ),
    feature(
        "settings of the server",
        "ALTER SYSTEM SET work_mem TO '9MB';",
        "SELECT setting FROM pg_file_settings WHERE name = 'work_mem';",
    ),
];

const SERVER: Server = Server {
    name: "PostgreSQL",
    engine: &POSTGRES,
    empty: "CREATE DATABASE shop;",
    enter: "\\c shop",
    features: FEATURES,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_features_of_postgresql_match_the_documentation() {
    probe("fidelity-postgres", &SERVER).await;
}
