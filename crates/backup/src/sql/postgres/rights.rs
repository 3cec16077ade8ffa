//! Checks before a dump what the user may not read of a database: `pg_dump` would fail at the first such object.

use super::super::Account;
use super::super::words::some_of;
use super::session::{OURS, RELATIONS, Session};
use crate::Error;

/// How many of each sort are named.
const NAMED: usize = 3;
/// From this version PostgreSQL has a function that says who may read a large object.
/// <https://www.postgresql.org/docs/18/functions-info.html#FUNCTIONS-INFO-ACCESS-TABLE>
const TELLS_OF_LARGE_OBJECTS: i64 = 180_000;

/// The objects that the user cannot read: tables and sequences, tables of which row security hides rows, large objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missing {
    relations: Vec<String>,
    rows: Vec<String>,
    large_objects: Vec<String>,
}

/// Checks that the user may read all of a database. The error names what it may not read, and the statements that permit it.
pub async fn check(session: &mut Session, account: &Account, database: &str) -> Result<(), Error> {
    let names = |rows: Vec<(String,)>| rows.into_iter().map(|(name,)| name).collect::<Vec<_>>();
    let name = "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)";
    let relations = format!(
        "{name} FROM {RELATIONS} WHERE c.relkind IN ('r', 'p', 'S') AND {OURS} AND NOT \
         (pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND CASE c.relkind WHEN 'S' THEN \
         pg_catalog.has_sequence_privilege(c.oid, 'SELECT') ELSE pg_catalog.has_table_privilege(c.oid, 'SELECT') END) ORDER \
         BY 1"
    );
    // `row_security_active` is false for superusers, owners and roles with BYPASSRLS.
    let rows = format!(
        "{name} FROM {RELATIONS} WHERE c.relkind IN ('r', 'p') AND {OURS} AND pg_catalog.row_security_active(c.oid) ORDER BY 1"
    );
    let may_read = if session.number() >= TELLS_OF_LARGE_OBJECTS {
        "pg_catalog.has_largeobject_privilege(m.oid, 'SELECT')"
    } else {
        "pg_catalog.pg_has_role(m.lomowner, 'USAGE') OR EXISTS (SELECT 1 FROM pg_catalog.aclexplode(m.lomacl) a WHERE \
         a.privilege_type = 'SELECT' AND (a.grantee = 0 OR pg_catalog.pg_has_role(a.grantee, 'USAGE')))"
    };
    let large_objects = format!(
        "SELECT m.oid::text FROM pg_catalog.pg_largeobject_metadata m WHERE NOT ({may_read}) AND \
         NOT pg_catalog.current_setting('lo_compat_privileges')::boolean ORDER BY m.oid"
    );
    let missing = Missing {
        relations: names(session.ask(&relations).await?),
        rows: names(session.ask(&rows).await?),
        large_objects: names(session.ask(&large_objects).await?),
    };
    missing.describe(account.user()).map_or(Ok(()), |missing| {
        let field = account.side.field(account.kind, "authSecretName");
        Err(Error::RightsMissing(format!(
            "{field}: user {} cannot read all of database {database}: {missing}",
            account.user()
        )))
    })
}

impl Missing {
    /// In words, with the statements; none if nothing is missing.
    fn describe(&self, user: &str) -> Option<String> {
        let user = format!("\"{}\"", user.replace('"', "\"\""));
        let sorts = [
            ("", &self.relations, format!("GRANT pg_read_all_data TO {user}")),
            ("rows of ", &self.rows, format!("ALTER ROLE {user} BYPASSRLS")),
            (
                "large objects ",
                &self.large_objects,
                format!("GRANT SELECT ON LARGE OBJECT {} TO {user}", named(&self.large_objects)),
            ),
        ];
        let list = sorts.into_iter().filter(|(_, names, _)| !names.is_empty());
        let list: Vec<_> = list.map(|(what, names, fix)| format!("{what}{} ({fix})", some_of(names, NAMED))).collect();
        (!list.is_empty()).then(|| list.join("; "))
    }
}

fn named(names: &[String]) -> String {
    names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_may_not_read_is_named_with_the_statement_that_permits_it() {
        assert_eq!(Missing::default().describe("backup"), None);
        let names = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let missing = Missing {
            relations: names(&["shop.a", "shop.b", "shop.c", "shop.d", "shop.e"]),
            rows: names(&["shop.secret"]),
            large_objects: names(&["16401"]),
        };
        let expected = "shop.a, shop.b, shop.c and 2 more (GRANT pg_read_all_data TO \"back\"\"up\"); rows of shop.secret \
                        (ALTER ROLE \"back\"\"up\" BYPASSRLS); large objects 16401 (GRANT SELECT ON LARGE OBJECT 16401 TO \
                        \"back\"\"up\")";
        assert_eq!(missing.describe("back\"up").as_deref(), Some(expected));
    }
}
