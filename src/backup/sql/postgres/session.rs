//! A long-lived connection to PostgreSQL: a process of `psql`, which gets one query after the other.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::super::child::{Child, Failure};
use super::super::{Account, PROGRAM_SILENCE_TIMEOUT};
use super::program;
use crate::backup::Error;

/// Printed after each answer. It cannot be taken for a row, because rows are JSON.
const END: &str = "causeway-end";
/// Settings by which values are printed in one form, whatever the settings of the database or the user are.
const SETTINGS: &str = "SET search_path = ''; SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = 'UTC'; \
                        SET bytea_output = hex; SET extra_float_digits = 3; SET row_security = off";
/// Settings that end a connection or a transaction after some time, and that not every version has: 14 and 17 brought them.
/// Ours stay idle while programs load, and hold a snapshot as long as a dump takes.
/// <https://www.postgresql.org/docs/current/runtime-config-client.html>
const TIMEOUTS: [&str; 2] = ["idle_session_timeout", "transaction_timeout"];
/// Objects that neither the server nor an extension made.
pub const OURS: &str = "n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'causeway_restore') AND NOT EXISTS (SELECT 1 FROM \
                    pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND \
                    d.objid = c.oid AND d.deptype = 'e')";
/// The tables that [`OURS`] refers to.
pub const RELATIONS: &str = "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";
/// Templates of every server, and the providers' own databases, into which they let no user: of RDS, Cloud SQL and Azure.
/// <https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Appendix.PostgreSQL.CommonDBATasks.Roles.html>
const NOBODYS: &str =
    "'template0', 'template1', 'rdsadmin', 'cloudsqladmin', 'alloydbadmin', 'azure_maintenance', 'azure_sys'";

/// A connection to one database.
pub struct Session {
    pub account: Account,
    child: Child,
    input: Option<ChildStdin>,
    rest: Vec<u8>,
    number: i64,
}

/// Attributes of a user: <https://www.postgresql.org/docs/current/role-attributes.html>.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    pub superuser: bool,
    /// Whether it has `BYPASSRLS`. Superusers bypass row security without that.
    pub bypasses_row_security: bool,
}

/// A script with which `psql` sends a text to the server as it is, and takes no line of it for a command of its own. The lines
/// of a dump are untrusted. `\restrict` alone did not keep commands out of them (CVE-2025-8714, CVE-2026-18408).
/// <https://www.postgresql.org/docs/current/app-psql.html#APP-PSQL-META-COMMAND-GEXEC>
pub fn literally(script: &str) -> String {
    let quote =
        (0..=script.len()).map(|number| format!("$causeway{number}$")).find(|quote| !script.contains(quote.as_str()));
    let quote = quote.unwrap_or_default();
    // The line break keeps the end of the text from becoming a part of the quote.
    format!("SELECT {quote}{script}\n{quote} \\gexec\n")
}

/// The query that turns [`TIMEOUTS`] off, as far as the server has them.
fn without_timeouts() -> String {
    format!(
        "SELECT pg_catalog.json_build_array(pg_catalog.set_config(name, '0', false)) FROM pg_catalog.pg_settings WHERE name IN \
         ('{}')",
        TIMEOUTS.join("', '")
    )
}

impl Session {
    /// Logs in, applies the settings by which values are printed in one form, and turns timeouts off.
    pub async fn open(account: &Account, database: &str) -> Result<Self, Error> {
        let mut session = Self::log_in(account, database).await?;
        session.tell(SETTINGS).await?;
        let _: Vec<(String,)> = session.ask(&without_timeouts()).await?;
        Ok(session)
    }

    /// Logs in, with the settings that the server has for this user and this database.
    pub async fn log_in(account: &Account, database: &str) -> Result<Self, Error> {
        let arguments = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--no-password"];
        let program = program("psql", account, database)?.args(arguments).args(["--set", "ON_ERROR_STOP=1"]);
        let mut child = program.start(Stdio::piped())?;
        let input = child.input();
        let account = Account { database: Some(database.to_owned()), ..account.clone() };
        let mut session = Self { account, child, input, rest: Vec::new(), number: 0 };
        // `psql` connects only now: without an answer there is no connection.
        let hello = "SELECT pg_catalog.json_build_array(pg_catalog.current_setting('server_version_num')::bigint)";
        let numbers: Result<Vec<(i64,)>, Failure> = session.answer(hello).await;
        let numbers = numbers.map_err(|failure| session.account.refused(&failure))?;
        session.number = numbers.first().map_or(0, |(number,)| *number);
        Ok(session)
    }

    /// Runs a statement that returns no rows.
    pub async fn tell(&mut self, statement: &str) -> Result<(), Error> {
        let nothing: Vec<()> = self.ask(statement).await?;
        drop(nothing);
        Ok(())
    }

    /// Asks for rows, each as one array of JSON.
    pub async fn ask<T: DeserializeOwned>(&mut self, query: &str) -> Result<Vec<T>, Error> {
        self.answer(query).await.map_err(|failure| self.account.side.failed(&failure))
    }

    /// The same, with the failure in the words of `psql`. After a failure the connection is gone.
    pub async fn answer<T: DeserializeOwned>(&mut self, query: &str) -> Result<Vec<T>, Failure> {
        if let Some(input) = &mut self.input {
            // The write fails if `psql` has ended. The reason for that is read below.
            // The end is printed by \echo, as a SELECT would fix a transaction's snapshot before it has its locks.
            writeln!(input, "{query};\n\\echo {END}").and_then(|()| input.flush()).ok();
        }
        let mut rows = Vec::new();
        while let Some(line) = self.line(PROGRAM_SILENCE_TIMEOUT).await? {
            if line == END {
                return Ok(rows);
            }
            let row = serde_json::from_str(&line);
            rows.push(row.map_err(|error| Failure::Ended("psql", format!("strange answer: {error}")))?);
        }
        Err(self.child.failure().await)
    }

    /// Lets `psql` run a script that prints no rows.
    pub async fn carry_out(&mut self, script: &str, timeout: Duration) -> Result<(), Failure> {
        if let Some(input) = &mut self.input {
            // The write fails if `psql` has ended. The reason for that is read below.
            writeln!(input, "{script}\n\\echo {END}").and_then(|()| input.flush()).ok();
        }
        while let Some(line) = self.line(timeout).await? {
            if line == END {
                return Ok(());
            }
        }
        Err(self.child.failure().await)
    }

    async fn line(&mut self, timeout: Duration) -> Result<Option<String>, Failure> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..at]).into_owned()));
            }
            match self.child.next(timeout).await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Connects again to the same database.
    pub async fn reopen(&mut self) -> Result<(), Error> {
        let (account, database) = (self.account.clone(), self.account.database.clone().unwrap_or_default());
        *self = Self::open(&account, &database).await?;
        Ok(())
    }

    /// The server's version as a number, such as `150018`.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// The server's version, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub async fn version(&mut self) -> Result<String, Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.current_setting('server_version'))";
        Ok(self.one::<(String,)>(query).await?.0)
    }

    /// The attributes of the user.
    pub async fn attributes(&mut self) -> Result<Attributes, Error> {
        let query = "SELECT pg_catalog.json_build_array(rolsuper, rolbypassrls) FROM pg_catalog.pg_roles WHERE rolname = \
                     current_user";
        let (superuser, bypasses_row_security) = self.one(query).await?;
        Ok(Attributes { superuser, bypasses_row_security })
    }

    /// When the last transaction was committed that the server replayed during recovery.
    /// <https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-RECOVERY-INFO>
    pub async fn replayed(&mut self) -> Result<Option<Timestamp>, Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.to_char(pg_catalog.pg_last_xact_replay_timestamp() AT TIME \
                     ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'))";
        let (instant,): (Option<String>,) = self.one(query).await?;
        Ok(instant.and_then(|instant| instant.parse().ok()))
    }

    /// A superuser who may log in; of several, the oldest one.
    pub async fn superuser(&mut self) -> Result<Option<String>, Error> {
        let query = "SELECT pg_catalog.json_build_array(rolname) FROM pg_catalog.pg_roles WHERE rolsuper AND rolcanlogin ORDER \
                     BY oid LIMIT 1";
        Ok(self.ask::<(String,)>(query).await?.into_iter().next().map(|(name,)| name))
    }

    /// The setting `max_prepared_transactions`.
    pub async fn prepared_transactions(&mut self) -> Result<String, Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.current_setting('max_prepared_transactions'))";
        Ok(self.one::<(String,)>(query).await?.0)
    }

    /// Databases by name, each with whether this user may connect to it. Templates of every server and databases of providers
    /// are left out.
    pub async fn databases(&mut self) -> Result<Vec<(String, bool)>, Error> {
        let query = format!(
            "SELECT pg_catalog.json_build_array(datname, datallowconn AND pg_catalog.has_database_privilege(oid, 'CONNECT')) \
             FROM pg_catalog.pg_database WHERE datname NOT IN ({NOBODYS}) ORDER BY datname"
        );
        self.ask(&query).await
    }

    /// Extensions that the server can make.
    pub async fn extensions(&mut self) -> Result<BTreeSet<String>, Error> {
        let query = "SELECT pg_catalog.json_build_array(name) FROM pg_catalog.pg_available_extensions";
        Ok(self.ask::<(String,)>(query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// Roles, as statements name them.
    pub async fn roles(&mut self) -> Result<Vec<String>, Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.quote_ident(rolname)) FROM pg_catalog.pg_roles";
        Ok(self.ask::<(String,)>(query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// How many tables, views and sequences there are that neither the server nor an extension made.
    pub async fn relations(&mut self) -> Result<u64, Error> {
        let query = format!(
            "SELECT pg_catalog.json_build_array(pg_catalog.count(*)) FROM {RELATIONS} WHERE c.relkind IN ('r', 'p', 'v', \
             'm', 'S', 'f') AND {OURS}"
        );
        Ok(self.one::<(u64,)>(&query).await?.0)
    }

    /// Whether the database is as `CREATE DATABASE` left it: the user's own, without rights, settings and comment.
    pub async fn is_bare(&mut self) -> Result<bool, Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.pg_get_userbyid(d.datdba) = current_user AND d.datacl IS NULL \
                     AND d.datconnlimit = -1 AND NOT d.datistemplate AND pg_catalog.shobj_description(d.oid, 'pg_database') \
                     IS NULL AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_db_role_setting s WHERE s.setdatabase = d.oid)) FROM \
                     pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";
        Ok(self.one::<(bool,)>(query).await?.0)
    }

    /// Tables that hold rows, as statements name them.
    pub async fn table_names(&mut self) -> Result<Vec<String>, Error> {
        let query = format!(
            "SELECT pg_catalog.json_build_array(pg_catalog.format('%I.%I', n.nspname, c.relname)) FROM {RELATIONS} WHERE \
             c.relkind = 'r' AND {OURS} ORDER BY n.nspname, c.relname"
        );
        Ok(self.ask::<(String,)>(&query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// The first row.
    pub async fn one<T: DeserializeOwned>(&mut self, query: &str) -> Result<T, Error> {
        let first = self.ask(query).await?.into_iter().next();
        let failure = || Failure::Ended("psql", "the server gave no answer".into());
        first.ok_or_else(|| self.account.side.failed(&failure()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_ours_has_no_timeout_that_would_end_it_or_its_transaction() {
        let query = without_timeouts();
        for name in ["idle_session_timeout", "transaction_timeout"] {
            assert!(query.contains(&format!("'{name}'")), "{query}");
        }
        // Each row is an array of JSON. On a server without the settings there are no rows, and no error.
        assert!(query.starts_with("SELECT pg_catalog.json_build_array(pg_catalog.set_config(name, '0', false))"));
        assert!(super::super::OPTIONS.contains("-c idle_in_transaction_session_timeout=0"));
    }
}
