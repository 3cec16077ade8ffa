//! Settings of a session by which a server would write something else than a dump says, refuse it, or forget it. Ours get
//! values of their own; a server that does not permit that is refused before anything is written.
//! <https://mariadb.com/kb/en/server-system-variables/>, <https://mariadb.com/kb/en/innodb-system-variables/>,
//! <https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html>

use std::process::Stdio;

use super::super::child::{Failure, Program};
use super::super::{PROGRAM_SILENCE_TIMEOUT, Side};
use super::Tools;
use crate::Error;

/// A setting of our sessions.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    /// Its value as the server prints it.
    shown: &'static str,
    /// Its value in a statement.
    value: &'static str,
    /// The effect of another value on a restore; none if the restore also goes without.
    otherwise: Option<&'static str>,
    /// True if only smaller values matter.
    is_limit: bool,
    /// True if sessions that only read need it, too.
    reads: bool,
}

const fn must(name: &'static str, shown: &'static str, value: &'static str, otherwise: &'static str) -> Setting {
    Setting { otherwise: Some(otherwise), ..wish(name, shown, value) }
}

const fn wish(name: &'static str, shown: &'static str, value: &'static str) -> Setting {
    Setting { name, shown, value, otherwise: None, is_limit: false, reads: false }
}

/// A limit that matters if it is lower than `least`, and is then set to that.
const fn limit(name: &'static str, least: &'static str) -> Setting {
    Setting { is_limit: true, ..wish(name, least, least) }
}

impl Setting {
    const fn reading(self) -> Self {
        Self { reads: true, ..self }
    }

    fn is_met_by(&self, value: &str) -> bool {
        let number = |text: &str| text.parse::<f64>().ok();
        match (number(value), number(self.shown)) {
            (Some(value), Some(least)) if self.is_limit => value >= least,
            _ => value.eq_ignore_ascii_case(self.shown),
        }
    }
}

/// All rows of a query, as many as there may be.
const ALL_ROWS: &str = "18446744073709551615";
/// Set in each session before the server is asked for anything: with these limits not even an answer comes. Every server has
/// them, and lets every login change them for itself.
pub const OPEN: &str = "SET SESSION sql_big_selects = 1, SESSION sql_select_limit = 18446744073709551615";
/// The largest estimate by which MariaDB refuses a question about its own tables.
const OWN_TABLES: u64 = 1000;

/// The settings that matter. A server has some of them, depending on its kind and version. A dump itself sets `sql_mode`,
/// `time_zone`, `foreign_key_checks`, `unique_checks` and the character set.
const SETTINGS: &[Setting] = &[
    must("autocommit", "ON", "1", "would lose rows that no statement commits"),
    must("innodb_strict_mode", "OFF", "OFF", "stops at a table whose rows may become too long (1118)"),
    must("innodb_compression_default", "OFF", "OFF", "would compress tables, or stop at them (1005)"),
    must("sql_if_exists", "OFF", "OFF", "stops at what is there, in spite of IF NOT EXISTS (1050)"),
    must("sql_require_primary_key", "OFF", "OFF", "stops at a table without a primary key (3750)"),
    must("sql_generate_invisible_primary_key", "OFF", "OFF", "would add columns to tables without a primary key"),
    must("enforce_storage_engine", "", "NULL", "would change the engine of tables, or stop at them (1286)"),
    must("character_set_collations", "", "''", "would change the collation of tables that name none"),
    must("max_statement_time", "0.000000", "0", "ends statements that take long (1969)").reading(),
    must("transaction_read_only", "OFF", "OFF", "cannot write (1792)"),
    must("tx_read_only", "OFF", "OFF", "cannot write (1792)"),
    must("idle_transaction_timeout", "0", "0", "loses its connection"),
    must("idle_write_transaction_timeout", "0", "0", "loses its connection"),
    must("completion_type", "NO_CHAIN", "NO_CHAIN", "loses its connection"),
    must("sql_safe_updates", "OFF", "OFF", "cannot note how far it is (1175)"),
    // Of MySQL: queries that take longer are ended (3024).
    wish("max_execution_time", "0", "0").reading(),
    limit("max_session_mem_used", "9223372036854775807").reading(),
    limit("tmp_disk_table_size", ALL_ROWS).reading(),
    // A table of the engine MEMORY that is larger could be filled where it was made, and is "full" (1114) here.
    limit("max_heap_table_size", ALL_ROWS),
    // With 0 the server waits for no lock at all, not even for one of a connection of ours that is about to end (1205).
    limit("lock_wait_timeout", "60"),
    // The errors are read after each statement about accounts. With 0 there never is anything.
    limit("max_error_count", "1"),
    // The text of a view is kept as it is printed: without quotes, a name in it may be taken for a word of the language.
    wish("sql_quote_show_create", "ON", "ON"),
    // Rows that were there before a check was made, or while checks were off.
    wish("check_constraint_checks", "OFF", "OFF"),
    // A column of the type TIMESTAMP that has no default gets one otherwise.
    wish("explicit_defaults_for_timestamp", "ON", "ON"),
];

/// The settings of a session: names and values.
type Found = Vec<(String, String)>;

impl Tools {
    /// Chooses the settings of all later sessions. The error names a setting that the server has otherwise, and lets this
    /// login not change.
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

    /// The same for sessions that only read, as far as the server lets this login.
    pub async fn prepare_to_read(&mut self) -> Result<(), Error> {
        let found = self.settings().await?;
        let mut possible = Vec::new();
        for setting in differing(&found).into_iter().filter(|it| it.reads) {
            match self.answer(&statement(&[setting])).await? {
                Ok(_) => possible.push(setting),
                Err(failure) => tracing::warn!(setting = setting.name, %failure, "stays as the server has it"),
            }
        }
        self.session = statement(&possible);
        Ok(())
    }

    /// Checks that the program that dumps gets all rows. Unless it can be given settings for its session, only the server can
    /// be set otherwise.
    pub async fn check_dump(&mut self) -> Result<(), Error> {
        self.sets_up_dump = self.takes_settings().await?;
        if self.sets_up_dump {
            return Ok(());
        }
        // With a limit of 0 not even this row comes.
        let rows = self.unprepared().ask("SELECT @@SESSION.sql_select_limit").await?;
        let limit = rows.first().map_or("0", String::as_str);
        if limit == ALL_ROWS {
            return Ok(());
        }
        let side = if self.account.side == Side::Source { "server" } else { "target" };
        Err(Error::ServerUnfit(format!(
            "sql_select_limit of the {side} is {limit} for user {}, so that a dump would have no more rows of each table: SET GLOBAL \
             sql_select_limit = DEFAULT, or remove it from init_connect, then try again",
            self.account.user()
        )))
    }

    /// Checks that tables of so many rows can be read back from the target, to compare them.
    pub async fn check_comparison(&self, rows: u64) -> Result<(), Error> {
        if self.sets_up_dump {
            return Ok(());
        }
        let answer = self
            .unprepared()
            .ask("SELECT CONCAT(IF(@@SESSION.sql_big_selects, 1, 0), ' ', @@SESSION.max_join_size)")
            .await?;
        let Some(limit) = answer.first().and_then(|row| row.strip_prefix("0 ")).and_then(|it| it.parse::<u64>().ok())
        else {
            return Ok(());
        };
        if limit >= rows.max(OWN_TABLES) {
            return Ok(());
        }
        Err(Error::ServerUnfit(format!(
            "max_join_size of the target is {limit} for user {}, so that {} could not read back what was restored, to compare it \
             (1104): SET GLOBAL max_join_size = DEFAULT, or remove it from init_connect, then restore again",
            self.account.user(),
            self.dump
        )))
    }

    /// The error of a dump that failed, with the setting that made it fail if that is known.
    pub fn dump_failed(&self, failure: &Failure) -> Error {
        let (message, user) = (failure.api_message(), self.account.user());
        let advice = if message.contains("(1104)") {
            format!(
                "a limit stopped it (1104): SET GLOBAL max_join_size = DEFAULT, or remove it from init_connect of user {user}"
            )
        } else if message.contains("(1356)") {
            let view =
                message.split_once("View '").and_then(|(_, rest)| rest.split('\'').next()).unwrap_or("that it names");
            let dump = self.dump;
            format!(
                "{dump} itself cannot dump view {view}, which uses what is not there or what its definer may not use (1356): drop the \
                 view, or mend what it uses"
            )
        } else if message.contains("(1114)") {
            "no room for a temporary table (1114): SET GLOBAL tmp_disk_table_size = DEFAULT, or make room".into()
        } else if message.contains("(2013)") {
            "the server ended the connection (2013), perhaps as no client read for too long: SET GLOBAL net_write_timeout = 3600".into()
        } else {
            return self.account.side.failed(failure);
        };
        match self.account.side {
            Side::Source => Error::SourceFailed(format!("{advice}: {failure}")),
            Side::Target => Error::TargetFailed(format!("{advice}: {failure}")),
            Side::Scratch => Error::ScratchFailed(failure.to_string()),
        }
    }

    /// The same programs without settings of their sessions: what the server gives this login.
    pub fn unprepared(&self) -> Self {
        Self { session: String::new(), ..self.clone() }
    }

    /// Reports whether the program that dumps takes a statement for the beginning of its session.
    /// <https://jira.mariadb.org/browse/MDEV-28911>
    async fn takes_settings(&self) -> Result<bool, Error> {
        let help = Program::new(self.dump).args(["--no-defaults", "--help"]);
        let printed = help.run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
        Ok(printed.is_ok_and(|text| text.contains("--init-command")))
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
    let is_other =
        |setting: &&Setting| found.iter().any(|(name, value)| name == setting.name && !setting.is_met_by(value));
    SETTINGS.iter().filter(is_other).collect()
}

/// The statement that makes these settings, and those of every session.
fn statement(settings: &[&Setting]) -> String {
    let all: Vec<String> = settings.iter().map(|it| format!(", SESSION {} = {}", it.name, it.value)).collect();
    format!("{OPEN}{}", all.concat())
}

#[cfg(test)]
mod tests {
    use super::super::super::Account;
    use super::*;

    fn session(pairs: &[(&str, &str)]) -> Found {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_settings_that_a_server_has_otherwise_are_made() {
        let usual =
            session(&[("autocommit", "ON"), ("max_statement_time", "0.000000"), ("completion_type", "NO_CHAIN")]);
        assert_eq!(statement(&differing(&usual)), OPEN);
        let strange =
            session(&[("autocommit", "OFF"), ("innodb_strict_mode", "ON"), ("enforce_storage_engine", "Aria")]);
        assert_eq!(
            statement(&differing(&strange)),
            format!(
                "{OPEN}, SESSION autocommit = 1, SESSION innodb_strict_mode = OFF, SESSION enforce_storage_engine = NULL"
            )
        );
        let turned = session(&[("innodb_compression_default", "ON"), ("sql_if_exists", "ON")]);
        let made = statement(&differing(&turned));
        assert!(made.ends_with(", SESSION innodb_compression_default = OFF, SESSION sql_if_exists = OFF"), "{made}");
    }

    #[test]
    fn only_limits_that_are_too_low_are_lifted() {
        let high = session(&[("lock_wait_timeout", "86400"), ("max_heap_table_size", "18446744073709550592")]);
        assert!(differing(&high).is_empty());
        let low = session(&[
            ("lock_wait_timeout", "0"),
            ("max_heap_table_size", "16777216"),
            ("tmp_disk_table_size", "1024"),
        ]);
        assert_eq!(
            statement(&differing(&low)),
            format!(
                "{OPEN}, SESSION tmp_disk_table_size = {ALL_ROWS}, SESSION max_heap_table_size = {ALL_ROWS}, SESSION lock_wait_timeout \
                 = 60"
            )
        );
    }

    #[test]
    fn a_dump_that_met_a_limit_is_told_the_setting() {
        let account = Account::of_tests(Side::Source, "mysql", "backup");
        let tools = Tools::of_tests(account);
        for (printed, words) in [
            ("mariadb-dump: Couldn't execute 'SHOW FULL TABLES': … (1104)", "SET GLOBAL max_join_size = DEFAULT"),
            ("mariadb-dump: Error 2013: Lost connection to server during query (2013)", "net_write_timeout"),
            ("mariadb-dump: The table '(temporary)' is full (1114)", "tmp_disk_table_size"),
            (
                "mariadb-dump: Couldn't execute 'SHOW FIELDS FROM `v`': View 'shop.v' references invalid table(s) or column(s) or \
                 function(s) or definer/invoker of view lack rights to use them (1356)",
                "mariadb-dump itself cannot dump view shop.v, ",
            ),
        ] {
            let error = tools.dump_failed(&Failure::Ended("mariadb-dump", printed.into()));
            assert_eq!(error.reason(), "SourceFailed");
            assert!(error.to_string().contains(printed) && error.to_string().contains(words), "{error}");
        }
        let plain = tools.dump_failed(&Failure::Ended("mariadb-dump", "mariadb-dump: no".into()));
        assert!(plain.to_string().ends_with("mariadb-dump: no"), "{plain}");
    }

    #[test]
    fn a_server_without_a_setting_is_not_asked_for_it() {
        assert!(differing(&Found::new()).is_empty());
        assert_eq!(value_of(&Found::new(), "autocommit"), "");
    }
}
