//! A dump of PostgreSQL: roles, then each database as it was in one instant, by `pg_dump`.
//!
//! What the tables hold is asked for in the same snapshot, and the tables stay locked until then by the one that holds it:
//! so it is what the dump has, whatever is written or emptied meanwhile.
//! <https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION>

use std::process::Stdio;

use super::super::dump::Writer;
use super::super::{Account, DUMP, GLOBALS, PROGRAM_SILENCE_TIMEOUT, TABLES};
use super::session::{LOCK_SECONDS, Session};
use super::{MAINTENANCE, locks, program, rights, steps};
use crate::backup::Error;
use crate::backup::manifest::Contents;

/// A server that is to be dumped.
pub struct PostgresDump {
    account: Account,
    databases: Vec<String>,
    /// Only who may do anything may read passwords.
    superuser: bool,
    /// The server's version.
    pub version: String,
}

impl PostgresDump {
    /// Logs in, and looks what there is.
    pub async fn open(account: Account) -> Result<Self, Error> {
        let first = account.database.clone().unwrap_or_else(|| MAINTENANCE.into());
        let mut session = Session::open(&account, &first).await?;
        let databases = match &account.database {
            Some(database) => vec![database.clone()],
            None => session.databases().await?,
        };
        let (version, superuser) = (session.version().await?, session.is_superuser().await?);
        for database in &databases {
            let mut session = Session::open(&account, database).await?;
            rights::check(&mut session, &account, database).await?;
            locks::check(&mut session, &account, database).await?;
        }
        tracing::info!(host = account.host, version, databases = databases.len(), "a server can be dumped");
        Ok(Self { account, databases, superuser, version })
    }

    /// Writes all of it, and tells what it holds.
    pub async fn write(self, into: &mut Writer) -> Result<Contents, Error> {
        let first = self.databases.first().map_or(MAINTENANCE, String::as_str);
        let mut globals = program("pg_dumpall", &self.account, first)?.args([
            "--globals-only",
            "--no-tablespaces",
            "--no-password",
            "--database",
            first,
        ]);
        if !self.superuser {
            tracing::warn!("the user is no superuser: passwords of roles are left out");
            globals = globals.args(["--no-role-passwords"]);
        }
        into.program(GLOBALS, globals.start(Stdio::null())?, PROGRAM_SILENCE_TIMEOUT)
            .await
            .map_err(|it| self.failed(&it))?;
        let mut contents = Contents::default();
        let mut tables = 0;
        for database in &self.databases {
            let (session, snapshot) = Session::holding(&self.account, database).await?;
            // zstd does it better, and what it gets is what is hashed.
            let arguments = ["--format=custom", "--compress=0", "--no-tablespaces", "--no-password"];
            // Behind somebody who waits for our own locks to go, it would wait for ever.
            let patience = format!("--lock-wait-timeout={LOCK_SECONDS}s");
            let dump = program("pg_dump", &self.account, database)?.args(arguments).args([&patience]);
            let dump = dump.args(["--snapshot", &snapshot, "--exclude-schema", steps::MARK]);
            let dump = dump.start(Stdio::null())?;
            into.program(&format!("{DUMP}{database}"), dump, PROGRAM_SILENCE_TIMEOUT)
                .await
                .map_err(|it| self.failed(&it))?;
            let found = Session::open(&self.account, database).await?.tables_in(Some(&snapshot)).await?;
            drop(session);
            tracing::info!(database, tables = found.0.len(), rows = found.rows(), "dumped");
            contents.keys += found.rows();
            tables += found.0.len();
            into.text(&format!("{TABLES}{database}"), &found.text()).await;
        }
        contents.facts.insert("databases".into(), self.databases.len().to_string());
        contents.facts.insert("tables".into(), tables.to_string());
        Ok(contents)
    }

    fn failed(&self, failure: &super::super::child::Failure) -> Error {
        self.account.side.failed(failure)
    }
}
