//! A dump of PostgreSQL: roles, then each database as it was in one instant, by `pg_dump`.
//!
//! While `pg_dump` runs, what the tables hold is queried in the same snapshot. The session that holds the snapshot also keeps
//! the tables locked. So both see the same, whatever is written or truncated meanwhile.
//! <https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION>

use std::process::Stdio;

use super::super::child::Program;
use super::super::dump::Writer;
use super::super::words::listed;
use super::super::{Account, DUMP, ENCODING, GLOBALS, PROGRAM_SILENCE_TIMEOUT, TABLES};
use super::holding::{LOCK_SECONDS, not_locked};
use super::identity::{Identity, foreign_snapshot};
use super::limits::lifted;
use super::restore::connection;
use super::session::Session;
use super::{MAINTENANCE, locks, program, rights, steps};
use crate::Error;
use crate::manifest::{Contents, LEFT_OUT};

/// The fact that names tables that could not be counted.
const UNCOMPARED: &str = "uncompared";

/// A server to dump.
pub struct PostgresDump {
    account: Account,
    databases: Vec<String>,
    /// Databases that this user may not connect to, or that no program of PostgreSQL restores.
    left_out: Vec<String>,
    /// True if the user is a superuser. Only a superuser may read passwords.
    superuser: bool,
    /// The server that every connection has to reach.
    server: Identity,
    /// The server's version.
    pub version: String,
}

impl PostgresDump {
    /// Logs in, and checks each database.
    pub async fn open(account: Account) -> Result<Self, Error> {
        let account = lifted(&account).await?;
        let first = account.database.clone().unwrap_or_else(|| MAINTENANCE.into());
        let mut session = Session::open(&account, &first).await?;
        let found = match &account.database {
            Some(database) => vec![(database.clone(), true)],
            None => session.databases().await?,
        };
        let (version, superuser) = (session.version().await?, session.attributes().await?.superuser);
        let server = Identity::ask(&mut session).await?;
        let (mut databases, mut left_out) = (Vec::new(), Vec::new());
        for (database, open) in found {
            if account.database.is_none() && !is_restorable(&database) {
                tracing::warn!(database, "left out: pg_dumpall and pg_restore take no name with a line break");
                left_out.push(database);
                continue;
            }
            let session = if open { Self::enter(&account, &database).await? } else { None };
            let Some(mut session) = session else {
                tracing::warn!(database, "left out: this user may not connect to it, or nobody may");
                left_out.push(database);
                continue;
            };
            server.check(&mut session, &account).await?;
            rights::check(&mut session, &account, &database).await?;
            locks::check(&mut session, &account, &database).await?;
            databases.push(database);
        }
        tracing::info!(host = account.host, version, databases = databases.len(), "a server can be dumped");
        Ok(Self { account, databases, left_out, superuser, server, version })
    }

    /// Logs in to a database; none if `pg_hba.conf` refuses that for one of several databases. The server was reached before.
    async fn enter(account: &Account, database: &str) -> Result<Option<Session>, Error> {
        match Session::open(account, database).await {
            Ok(session) => Ok(Some(session)),
            Err(Error::SourceUnreachable(why)) if account.database.is_none() && why.contains("pg_hba.conf") => {
                tracing::warn!(database, why, "the server refuses this user");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the whole dump, and returns what it holds.
    pub async fn write(self, into: &mut Writer) -> Result<Contents, Error> {
        let first = self.databases.first().map_or(MAINTENANCE, String::as_str);
        if !self.superuser {
            tracing::warn!("the user is no superuser: passwords of roles are left out");
        }
        let globals = globals(&self.account, first, self.superuser)?;
        into.program(GLOBALS, globals.start(Stdio::null())?, PROGRAM_SILENCE_TIMEOUT)
            .await
            .map_err(|it| self.failed(&it))?;
        let mut contents = Contents::default();
        let (mut tables, mut uncompared) = (0, Vec::new());
        for database in &self.databases {
            let (mut session, snapshot) = Session::holding(&self.account, database).await?;
            self.server.check(&mut session, &self.account).await?;
            // Not compressed here: zstd does that better, and the hash is of what zstd gets.
            let arguments = ["--format=custom", "--compress=0", "--no-tablespaces", "--no-password"];
            // Without a limit, `pg_dump` would wait forever behind a session that itself waits for our locks.
            let lock_timeout = format!("--lock-wait-timeout={LOCK_SECONDS}s");
            let dump = program("pg_dump", &self.account, database)?.args(arguments).args([&lock_timeout]);
            let mut counting = Session::open(&self.account, database).await?;
            self.server.check(&mut counting, &self.account).await?;
            let encoding = counting.encoding().await?;
            let written_in = written_in(&encoding, counting.has_other_names().await?);
            let dump = dump.args(["--snapshot", &snapshot, "--exclude-schema", steps::MARK, "--encoding", written_in]);
            let dump = dump.start(Stdio::null())?;
            let name = format!("{DUMP}{database}");
            let written = async {
                match into.program(&name, dump, PROGRAM_SILENCE_TIMEOUT).await {
                    Ok(()) => Ok(()),
                    Err(failure) => match foreign_snapshot(&failure, &self.account) {
                        Some(error) => Err(error),
                        None => Err(not_locked(&failure, &self.account, database).await),
                    },
                }
            };
            let ((), found) = tokio::try_join!(written, counting.tables_in(&snapshot))?;
            drop((session, counting));
            tracing::info!(database, tables = found.0.len(), rows = found.rows(), "dumped");
            contents.keys += found.rows();
            tables += found.0.len();
            into.text(&format!("{TABLES}{database}"), &found.text()).await;
            into.text(&format!("{ENCODING}{database}"), &encoding).await;
            if let Some(tables) = found.uncompared() {
                tracing::warn!(database, tables, "these are dumped, and a restore will not compare them");
            }
            uncompared
                .extend(found.0.into_iter().filter(|(_, table)| table.uncompared().is_some()).map(|(name, _)| name));
        }
        contents.facts.insert("databases".into(), self.databases.len().to_string());
        contents.facts.insert("tables".into(), tables.to_string());
        contents.facts.extend(listed(&self.left_out).map(|names| (LEFT_OUT.to_owned(), names)));
        contents.facts.extend(listed(&uncompared).map(|names| (UNCOMPARED.to_owned(), names)));
        Ok(contents)
    }

    fn failed(&self, failure: &super::super::child::Failure) -> Error {
        self.account.side.failed(failure)
    }
}

/// The encoding in which a dump is written: that of the database, because not every value has an equivalent in another one. Only
/// names with other characters than those of ASCII need UTF-8, as they are read here. Nothing converts these two encodings.
/// <https://www.postgresql.org/docs/current/multibyte.html>
fn written_in(encoding: &str, has_other_names: bool) -> &str {
    let is_convertible = !matches!(encoding, "SQL_ASCII" | "MULE_INTERNAL");
    if has_other_names && is_convertible { "UTF8" } else { encoding }
}

/// Dumps roles, by a connection to that database.
fn globals(account: &Account, database: &str, superuser: bool) -> Result<Program, Error> {
    let arguments = ["--globals-only", "--no-tablespaces", "--no-password"];
    let dump = program("pg_dumpall", account, database)?.args(arguments);
    // Unlike the variable, the option is read as a connection string if it looks like one.
    let dump = dump.args(["--database", &connection(database)]);
    Ok(dump.args((!superuser).then_some("--no-role-passwords")))
}

/// Reports whether PostgreSQL's own programs can restore a database of that name: they give up at a line break, and with it on all
/// databases that come later.
fn is_restorable(name: &str) -> bool {
    !name.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::super::super::Side;
    use super::*;

    #[test]
    fn a_database_is_never_taken_for_a_server_to_connect_to() {
        let account = Account::of_tests(Side::Source, "postgresql", "u");
        let of = |name: &str, superuser| globals(&account, name, superuser).unwrap().arguments();
        let database = |name: &str| of(name, true).last().cloned();
        assert_eq!(database("shop").as_deref(), Some("dbname='shop'"));
        let evil = " host=1.2.3.4 dbname=postgres sslmode=disable";
        assert_eq!(database(evil), Some(format!("dbname='{evil}'")));
        assert!(of("shop", false).contains(&"--no-role-passwords".into()));
    }

    #[test]
    fn values_are_dumped_in_the_encoding_of_their_database() {
        assert_eq!(written_in("SQL_ASCII", false), "SQL_ASCII");
        assert_eq!(written_in("SQL_ASCII", true), "SQL_ASCII");
        assert_eq!(written_in("WIN1252", false), "WIN1252");
        assert_eq!(written_in("LATIN1", true), "UTF8");
        assert_eq!(written_in("UTF8", true), "UTF8");
    }

    #[test]
    fn a_name_with_a_line_break_keeps_no_other_database_from_being_restored() {
        assert!(!is_restorable("a\nb") && !is_restorable("\r"));
        for name in ["shop", "with space", "tab\there", "quote\"", "ünïcode", "-dash"] {
            assert!(is_restorable(name), "{name}");
        }
    }
}
