//! Checks before a restore that the user will be able to read all rows that it restores: it compares them with the backup.
//!
//! A user that is no superuser owns all that it restores. Row security does not apply to owners, unless a table forces it.
//! <https://www.postgresql.org/docs/current/ddl-rowsecurity.html>

use std::collections::BTreeSet;

use super::super::Account;
use super::super::tables::Tables;
use super::super::words::some_of;
use super::pair::unquoted;
use crate::Error;

/// How many tables a message names.
const NAMED: usize = 3;

/// Checks a user without `BYPASSRLS` against a script of all that a dump makes. The error names tables among those that are
/// restored, and the statement that helps.
pub fn check(script: &str, tables: &Tables, account: &Account, database: &str) -> Result<(), Error> {
    let (enabled, forced) = (all_with(script, "ENABLE"), all_with(script, "FORCE"));
    let is_hidden =
        |table: &&String| unquoted(table).is_some_and(|table| enabled.contains(&table) && forced.contains(&table));
    let hidden: Vec<&str> = tables.0.keys().filter(is_hidden).map(String::as_str).collect();
    if hidden.is_empty() {
        return Ok(());
    }
    let (field, user) = (account.side.field(account.kind, "authSecretName"), account.user());
    Err(Error::RightsMissing(format!(
        "{field}: user {user} could not compare all rows in database {database} with the backup, because row security is forced \
         on the owner of {} (ALTER ROLE \"{}\" BYPASSRLS, or log in as a superuser)",
        some_of(&hidden, NAMED),
        user.replace('"', "\"\"")
    )))
}

/// Schema and name of each table of which the script sets row security in this way.
fn all_with(script: &str, how: &str) -> BTreeSet<(String, String)> {
    let end = format!(" {how} ROW LEVEL SECURITY;");
    let table = |line: &str| {
        let name = line.strip_prefix("ALTER TABLE ")?.strip_suffix(&end)?;
        unquoted(name.strip_prefix("ONLY ").unwrap_or(name))
    };
    script.lines().filter_map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::Side;
    use super::super::super::tables::Table;
    use super::*;

    /// As `pg_dump` 15 writes it.
    const SCRIPT: &str = "CREATE TABLE public.open (i integer);\n\nALTER TABLE ONLY public.open FORCE ROW LEVEL SECURITY;\n\
                          CREATE TABLE public.\"Secret\" (i integer);\n\nALTER TABLE ONLY public.\"Secret\" FORCE ROW LEVEL \
                          SECURITY;\nALTER TABLE public.\"Secret\" ENABLE ROW LEVEL SECURITY;\n\
                          ALTER TABLE public.owned ENABLE ROW LEVEL SECURITY;\n";

    fn checked(tables: &[&str]) -> Result<(), Error> {
        let account = Account::of_tests(Side::Target, "postgresql", "app");
        let tables = Tables(tables.iter().map(|name| ((*name).to_owned(), Table::default())).collect());
        check(SCRIPT, &tables, &account, "shop")
    }

    #[test]
    fn a_table_that_hides_rows_from_its_owner_is_refused_before_it_is_restored() {
        let error = checked(&["public.\"Secret\"", "public.open", "public.owned"]).unwrap_err();
        assert_eq!(error.reason(), "RightsMissing");
        let text = error.to_string();
        assert!(text.starts_with("spec.target.postgresql.authSecretName: user app could not compare"), "{text}");
        assert!(
            text.contains("database shop") && text.contains("the owner of public.\"Secret\" (ALTER ROLE"),
            "{text}"
        );
        assert!(text.contains("(ALTER ROLE \"app\" BYPASSRLS"), "{text}");
    }

    #[test]
    fn row_security_that_is_only_enabled_or_only_forced_or_of_other_tables_hides_nothing() {
        checked(&["public.open", "public.owned", "public.secret", "public.other"]).unwrap();
    }
}
