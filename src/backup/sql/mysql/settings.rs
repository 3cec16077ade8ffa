//! Settings of a session by which a server would write something else than a dump says, refuse it, or forget it. Ours get
//! values of their own; a server that does not permit that is refused before anything is written.
//! <https://mariadb.com/kb/en/server-system-variables/>, <https://mariadb.com/kb/en/innodb-system-variables/>,
//! <https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html>

use super::super::Side;
use super::Tools;
use crate::backup::Error;

/// A setting of our sessions.
struct Setting {
    name: &'static str,
    /// Its value as the server prints it.
    shown: &'static str,
    /// Its value in a statement.
    value: &'static str,
    /// What another value does to a restore; none if the restore also goes without.
    otherwise: Option<&'static str>,
}

const fn must(name: &'static str, shown: &'static str, value: &'static str, otherwise: &'static str) -> Setting {
    Setting { name, shown, value, otherwise: Some(otherwise) }
}

const fn wish(name: &'static str, shown: &'static str, value: &'static str) -> Setting {
    Setting { name, shown, value, otherwise: None }
}

/// All rows of a query.
const ALL_ROWS: &str = "18446744073709551615";
/// The setting that no program that dumps can change for its session.
const LIMIT: &str = "sql_select_limit";

/// The settings that matter. A server has some of them, depending on its kind and version. A dump itself sets `sql_mode`,
/// `time_zone`, `foreign_key_checks`, `unique_checks` and the character set.
const SETTINGS: &[Setting] = &[
    must("autocommit", "ON", "1", "would lose rows that no statement commits"),
    must("innodb_strict_mode", "OFF", "OFF", "stops at a table whose rows may become too long (1118)"),
    must("sql_require_primary_key", "OFF", "OFF", "stops at a table without a primary key (3750)"),
    must("sql_generate_invisible_primary_key", "OFF", "OFF", "would add columns to tables without a primary key"),
    must("enforce_storage_engine", "", "NULL", "would change the engine of tables, or stop at them (1286)"),
    must("character_set_collations", "", "''", "would change the collation of tables that name none"),
    must("max_statement_time", "0.000000", "0", "ends statements that take long (1969)"),
    must("transaction_read_only", "OFF", "OFF", "cannot write (1792)"),
    must("tx_read_only", "OFF", "OFF", "cannot write (1792)"),
    must("idle_transaction_timeout", "0", "0", "loses its connection"),
    must("idle_write_transaction_timeout", "0", "0", "loses its connection"),
    must("completion_type", "NO_CHAIN", "NO_CHAIN", "loses its connection"),
    must("sql_safe_updates", "OFF", "OFF", "cannot note how far it is (1175)"),
    // Rows that were there before a check was made, or while checks were off.
    wish("check_constraint_checks", "OFF", "OFF"),
    // A column of the type TIMESTAMP that has no default gets one otherwise.
    wish("explicit_defaults_for_timestamp", "ON", "ON"),
];

/// What a session has: names and values of settings.
type Found = Vec<(String, String)>;

impl Tools {
    /// Chooses the settings of all later sessions, except those of the program that dumps. The error names a setting that the
    /// server has otherwise, and lets this login not change.
    pub async fn prepare(&mut self) -> Result<(), Error> {
        let found = self.settings().await?;
        let chosen = differing(&found);
        if chosen.is_empty() || self.answer(&statement(&chosen)).await?.is_ok() {
            self.session = statement(&chosen);
            return Ok(());
        }
        let mut possible = Vec::new();
        for setting in chosen {
            let Err(failure) = self.answer(&statement(&[setting])).await? else {
                possible.push(setting);
                continue;
            };
            let Some(otherwise) = setting.otherwise else {
                tracing::warn!(setting = setting.name, %failure, "stays as the server has it");
                continue;
            };
            let (name, value) = (setting.name, setting.value);
            return Err(Error::ServerUnfit(format!(
                "{name} of the target is {:?}, with which a restore {otherwise}, and user {} may not change it for itself \
                 ({failure}): SET GLOBAL {name} = {value}, then restore again",
                value_of(&found, name),
                self.account.user()
            )));
        }
        self.session = statement(&possible);
        Ok(())
    }

    /// Checks that the program that dumps, and our own queries, get all rows.
    pub async fn check_dump(&self) -> Result<(), Error> {
        // With a limit of 0 not even this row comes.
        let rows = self.ask(&format!("SELECT @@SESSION.{LIMIT}")).await?;
        let limit = rows.first().map_or("0", String::as_str);
        if limit == ALL_ROWS {
            return Ok(());
        }
        let side = if self.account.side == Side::Source { "server" } else { "target" };
        Err(Error::ServerUnfit(format!(
            "{LIMIT} of the {side} is {limit} for user {}, so that a dump would have no more rows of each table: SET GLOBAL {LIMIT} = \
             DEFAULT, or remove it from init_connect, then try again",
            self.account.user()
        )))
    }

    async fn settings(&self) -> Result<Found, Error> {
        let names: Vec<String> = SETTINGS.iter().map(|setting| format!("'{}'", setting.name)).collect();
        let rows = self.ask(&format!("SHOW SESSION VARIABLES WHERE variable_name IN ({})", names.join(", "))).await?;
        let pair = |row: &String| row.split_once('\t').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(rows.iter().filter_map(pair).collect())
    }
}

fn value_of<'a>(found: &'a Found, name: &str) -> &'a str {
    found.iter().find(|(its, _)| its == name).map_or("", |(_, value)| value)
}

/// The settings that a server has, and has otherwise.
fn differing(found: &Found) -> Vec<&'static Setting> {
    let is_other = |setting: &&Setting| {
        found.iter().any(|(name, value)| name == setting.name && !value.eq_ignore_ascii_case(setting.shown))
    };
    SETTINGS.iter().filter(is_other).collect()
}

/// The statement that makes these settings; empty without any.
fn statement(settings: &[&Setting]) -> String {
    let all: Vec<String> = settings.iter().map(|it| format!("SESSION {} = {}", it.name, it.value)).collect();
    if all.is_empty() { String::new() } else { format!("SET {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Found {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_settings_that_a_server_has_otherwise_are_made() {
        let usual = found(&[("autocommit", "ON"), ("max_statement_time", "0.000000"), ("completion_type", "NO_CHAIN")]);
        assert_eq!(statement(&differing(&usual)), "");
        let strange = found(&[("autocommit", "OFF"), ("innodb_strict_mode", "ON"), ("enforce_storage_engine", "Aria")]);
        assert_eq!(
            statement(&differing(&strange)),
            "SET SESSION autocommit = 1, SESSION innodb_strict_mode = OFF, SESSION enforce_storage_engine = NULL"
        );
    }

    #[test]
    fn a_server_without_a_setting_is_not_asked_for_it() {
        assert!(differing(&Found::new()).is_empty());
        assert_eq!(value_of(&Found::new(), "autocommit"), "");
    }
}
