//! Objects of a target that would be dropped together with what a restore replaces: views, constraints and the like that were
//! made after the backup, and partitions that it lacks. `pg_restore` would fail at the first of them, and drop a partition
//! silently.
//!
//! The dependencies are in `pg_depend`: <https://www.postgresql.org/docs/current/catalog-pg-depend.html>.

use tokio_postgres::types::{ToSql, Type};

use super::super::words::some_of;
use super::session::Session;
use crate::Error;

/// How many are named in a refusal.
const NAMED: usize = 3;

/// An object that would be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Its sort and name, such as `view public.totals`.
    pub title: String,
    /// The statement that drops it.
    pub drop: String,
}

/// All objects that depend on what a script drops. `script` is one of `pg_restore --clean`, which begins with the drops.
pub async fn dependents(session: &mut Session, script: &str) -> Result<Vec<Dependent>, Error> {
    let (kinds, names): (Vec<&str>, Vec<String>) = dropped(script).into_iter().unzip();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let dropped: [(&(dyn ToSql + Sync), Type); 2] = [(&kinds, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
    let found: Vec<(String, String)> = session.ask_about(QUERY, &dropped).await?;
    Ok(found.into_iter().map(|(title, drop)| Dependent { title, drop }).collect())
}

/// The error for a database that has such objects, into which nothing is restored.
pub fn refusal(database: &str, dependents: &[Dependent]) -> Error {
    let titles: Vec<&str> = dependents.iter().map(|it| it.title.as_str()).collect();
    Error::DependentsRemain(format!(
        "database {database}: {} depend on what would be replaced, and are not in the backup: drop them, or set \
         spec.onDependents to Cascade to have them dropped",
        some_of(&titles, NAMED)
    ))
}

/// Returns the objects that a script drops before it makes them again: sort and name of each object that others may depend on.
fn dropped(script: &str) -> Vec<(&'static str, String)> {
    let is_drop = |line: &&str| line.starts_with("DROP ") || line.starts_with("ALTER TABLE IF EXISTS ");
    let drops = script.lines().skip_while(|line| !is_drop(line)).take_while(|line| {
        // After the drops it makes objects, whose texts may look like drops.
        !line.starts_with("CREATE ") && !line.starts_with("SET ")
    });
    drops.filter_map(of_statement).collect()
}

fn of_statement(line: &str) -> Option<(&'static str, String)> {
    const SORTS: [(&str, &str); 13] = [
        ("DROP TABLE ", "relation"),
        ("DROP FOREIGN TABLE ", "relation"),
        ("DROP VIEW ", "relation"),
        ("DROP MATERIALIZED VIEW ", "relation"),
        ("DROP SEQUENCE ", "relation"),
        ("DROP INDEX ", "relation"),
        ("DROP TYPE ", "type"),
        ("DROP DOMAIN ", "type"),
        ("DROP FUNCTION ", "function"),
        ("DROP PROCEDURE ", "function"),
        ("DROP SCHEMA ", "schema"),
        ("DROP EXTENSION ", "extension"),
        ("ALTER TABLE ", "constraint"),
    ];
    let (sort, rest) = SORTS.iter().find_map(|(begin, sort)| Some((*sort, line.strip_prefix(begin)?)))?;
    let name = rest.strip_prefix("IF EXISTS ")?.strip_suffix(';')?;
    if sort != "constraint" {
        return Some((sort, name.to_owned()));
    }
    // `ONLY public.orders DROP CONSTRAINT IF EXISTS orders_pkey` becomes the server's form: `orders_pkey on public.orders`.
    let (table, constraint) = name.split_once(" DROP CONSTRAINT IF EXISTS ")?;
    Some((sort, format!("{constraint} on {}", table.strip_prefix("ONLY ").unwrap_or(table))))
}

/// `owned` is what is dropped, and what belongs to it: indexes, triggers, row types, partitions. `every` adds what only uses
/// it. `reported` is what uses it, without what belongs to another reported object; and partitions, because they hold rows.
const QUERY: &str = r"
WITH RECURSIVE dropped (sort, name) AS (SELECT * FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2))),
roots AS (
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid AS classid, pg_catalog.to_regclass(name)::oid AS objid, 0 AS objsubid
    FROM dropped WHERE sort = 'relation'
  UNION SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, pg_catalog.to_regtype(name)::oid, 0 FROM dropped WHERE sort = 'type'
  UNION SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, 0 FROM dropped d JOIN (pg_catalog.pg_proc p JOIN
      pg_catalog.pg_namespace n ON n.oid = p.pronamespace) ON d.name = pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,
      pg_catalog.pg_get_function_identity_arguments(p.oid)) WHERE d.sort = 'function'
  UNION SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass, n.oid, 0 FROM dropped d JOIN pg_catalog.pg_namespace n
      ON d.name = pg_catalog.quote_ident(n.nspname) WHERE d.sort = 'schema'
  UNION SELECT 'pg_catalog.pg_extension'::pg_catalog.regclass, e.oid, 0 FROM dropped d JOIN pg_catalog.pg_extension e
      ON d.name = pg_catalog.quote_ident(e.extname) WHERE d.sort = 'extension'
  UNION SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, c.oid, 0 FROM dropped d JOIN (pg_catalog.pg_constraint c JOIN
      pg_catalog.pg_class t ON t.oid = c.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace)
      ON d.name = pg_catalog.format('%I on %I.%I', c.conname, n.nspname, t.relname) WHERE d.sort = 'constraint'
),
owned AS (
  SELECT * FROM roots WHERE objid IS NOT NULL
  UNION SELECT d.classid, d.objid, d.objsubid FROM owned o JOIN pg_catalog.pg_depend d ON d.refclassid = o.classid AND
    d.refobjid = o.objid AND (o.objsubid = 0 OR d.refobjsubid = o.objsubid) AND d.deptype <> 'n'
),
every AS (
  SELECT * FROM owned
  UNION SELECT x.* FROM every e CROSS JOIN LATERAL (
    SELECT d.classid, d.objid, d.objsubid FROM pg_catalog.pg_depend d WHERE d.refclassid = e.classid AND
      d.refobjid = e.objid AND (e.objsubid = 0 OR d.refobjsubid = e.objsubid)
    UNION ALL SELECT d.refclassid, d.refobjid, 0 FROM pg_catalog.pg_depend d WHERE d.classid = e.classid AND
      d.objid = e.objid AND e.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.deptype = 'i'
  ) x
),
users AS (
  SELECT * FROM every e WHERE NOT EXISTS (SELECT 1 FROM owned o WHERE o.classid = e.classid AND o.objid = e.objid AND
    o.objsubid IN (0, e.objsubid))
),
reported AS (
  SELECT * FROM users u WHERE NOT EXISTS (SELECT 1 FROM users w WHERE u.objsubid > 0 AND w.classid = u.classid AND
      w.objid = u.objid AND w.objsubid = 0) AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d JOIN users o ON o.classid = d.refclassid AND
      o.objid = d.refobjid AND o.objsubid IN (0, d.refobjsubid) WHERE d.classid = u.classid AND d.objid = u.objid AND
      d.objsubid = u.objsubid AND d.deptype IN ('a', 'i', 'P', 'S') AND (o.classid, o.objid, o.objsubid) <> (u.classid, u.objid, u.objsubid))
  UNION SELECT o.* FROM owned o JOIN pg_catalog.pg_class c ON c.oid = o.objid AND c.relkind IN ('r', 'p', 'f') WHERE
    o.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND o.objsubid = 0 AND NOT EXISTS (SELECT 1 FROM roots r WHERE
    r.classid = o.classid AND r.objid = o.objid) AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE
    d.classid = o.classid AND d.objid = o.objid AND d.deptype = 'e') AND c.relnamespace <>
    'pg_toast'::pg_catalog.regnamespace
)
SELECT pg_catalog.pg_describe_object(classid, objid, objsubid), statement FROM (
  SELECT t.*, CASE
    WHEN t.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND t.objsubid > 0 THEN
      (SELECT pg_catalog.format('ALTER TABLE IF EXISTS %s DROP COLUMN IF EXISTS %I CASCADE', a.attrelid::pg_catalog.regclass, a.attname)
       FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.objid AND a.attnum = t.objsubid)
    WHEN t.classid = 'pg_catalog.pg_class'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('DROP %s IF EXISTS %s CASCADE', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
        WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'S' THEN 'SEQUENCE' WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' WHEN 'c' THEN 'TYPE'
        ELSE 'TABLE' END, c.oid::pg_catalog.regclass) FROM pg_catalog.pg_class c WHERE c.oid = t.objid)
    WHEN t.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('ALTER TABLE IF EXISTS %s DROP CONSTRAINT IF EXISTS %I CASCADE', c.conrelid::pg_catalog.regclass, c.conname)
       FROM pg_catalog.pg_constraint c WHERE c.oid = t.objid AND c.conrelid <> 0)
    WHEN t.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::pg_catalog.regprocedure) FROM pg_catalog.pg_proc p
       WHERE p.oid = t.objid AND p.prokind <> 'a')
    WHEN t.classid = 'pg_catalog.pg_type'::pg_catalog.regclass THEN
      pg_catalog.format('DROP TYPE IF EXISTS %s CASCADE', t.objid::pg_catalog.regtype)
    WHEN t.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('DROP TRIGGER IF EXISTS %I ON %s', g.tgname, g.tgrelid::pg_catalog.regclass)
       FROM pg_catalog.pg_trigger g WHERE g.oid = t.objid AND NOT g.tgisinternal)
    WHEN t.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('DROP POLICY IF EXISTS %I ON %s', p.polname, p.polrelid::pg_catalog.regclass)
       FROM pg_catalog.pg_policy p WHERE p.oid = t.objid)
    WHEN t.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass THEN
      (SELECT pg_catalog.format('ALTER TABLE IF EXISTS %s ALTER COLUMN %I DROP DEFAULT', a.attrelid::pg_catalog.regclass, a.attname)
       FROM pg_catalog.pg_attrdef f JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
       WHERE f.oid = t.objid)
  END AS statement FROM reported t
) s WHERE statement IS NOT NULL ORDER BY pg_catalog.pg_describe_object(classid, objid, objsubid)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_read_from_the_beginning_of_a_script() {
        let script = "--\nSET lock_timeout = 0;\nALTER TABLE IF EXISTS ONLY public.lines DROP CONSTRAINT IF EXISTS \"to; order\";\n\
                      DROP TRIGGER IF EXISTS t ON public.lines;\nALTER TABLE IF EXISTS public.lines ALTER COLUMN id DROP DEFAULT;\n\
                      DROP VIEW IF EXISTS public.totals;\nDROP TABLE IF EXISTS \"odd \"\"one\".\"Lines\";\n\
                      DROP FUNCTION IF EXISTS public.f(a integer, b text);\nDROP TYPE IF EXISTS public.mood;\nDROP SCHEMA IF EXISTS app;\n\
                      --\nCREATE SCHEMA app;\nCREATE FUNCTION public.f() AS '\nDROP TABLE IF EXISTS public.other;\n';\n";
        let found: Vec<String> = dropped(script).into_iter().map(|(sort, name)| format!("{sort} {name}")).collect();
        assert_eq!(
            found,
            [
                "constraint \"to; order\" on public.lines",
                "relation public.totals",
                "relation \"odd \"\"one\".\"Lines\"",
                "function public.f(a integer, b text)",
                "type public.mood",
                "schema app",
            ]
        );
    }

    #[test]
    fn who_is_refused_is_told_the_first_names_and_the_field() {
        let dependent = |number: u8| Dependent { title: format!("view public.v{number}"), drop: String::new() };
        let error = refusal("shop", &(1..=5).map(dependent).collect::<Vec<_>>());
        assert_eq!(error.reason(), "DependentsRemain");
        let words =
            "database shop: view public.v1, view public.v2, view public.v3 and 2 more depend on what would be replaced";
        assert!(error.to_string().starts_with(words) && error.to_string().contains("spec.onDependents"), "{error}");
    }
}
