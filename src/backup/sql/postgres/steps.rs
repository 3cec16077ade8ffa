//! A database that has more than fits into one transaction, in steps: what is made before the rows, rows of some tables in
//! a transaction each, all other data, and what is made behind them. A table in the target says which step is next. Whoever
//! goes on repeats that one:
//!
//! ```text
//! 0 pre-data │ 1 rows of some tables │ … │ n │ n + 1 other data │ n + 2 post-data
//! ```
//!
//! The first and the last step can be done over what they left behind, and other data overwrite themselves. Rows of a step
//! go before they come again. Over one connection they come all or not at all; over several, rows of one table do.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Account;
use super::contents::{Contents, tables_of};
use super::program;
use super::restore::connection;
use super::session::{OURS, RELATIONS, Session};
use super::target::{ownerless, run, write_list};
use crate::backup::Error;

/// The schema in a target while it is restored in steps. A dump leaves it out.
pub const MARK: &str = "causeway_restore";
/// How long an earlier try may take to end.
const END_TIMEOUT: Duration = Duration::from_mins(1);
/// How often is looked whether it has.
const RHYTHM: Duration = Duration::from_millis(200);
/// Nobody waits for the disk after each statement: whoever notes the next step waits for all of them.
const QUICK: &str = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c \
                     synchronous_commit=off";

/// How far a restore of a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The name of the restore.
    pub run: String,
    /// The step that is next, and may be done.
    pub step: usize,
}

impl Progress {
    /// What a database says; none where no restore in steps of this login is under way. A view of somebody else would be
    /// evaluated with the rights of this login.
    pub async fn of(session: &mut Session) -> Result<Option<Self>, Error> {
        let there = format!(
            "SELECT pg_catalog.json_build_array(1) FROM {RELATIONS} WHERE n.nspname = '{MARK}' AND c.relname = 'progress' AND \
             c.relkind = 'r' AND c.relowner = n.nspowner AND n.nspowner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE \
             r.rolname = current_user)"
        );
        if session.ask::<(u8,)>(&there).await?.is_empty() {
            return Ok(None);
        }
        let query = format!("SELECT pg_catalog.json_build_array(run, step) FROM {MARK}.progress");
        Ok(session.ask(&query).await?.into_iter().next().map(|(run, step)| Self { run, step }))
    }

    /// Notes it. Names of restores are plain.
    async fn note(&self, session: &mut Session) -> Result<(), Error> {
        let Self { run, step } = self;
        let run = run.replace('\'', "''");
        let made = match Self::of(session).await? {
            Some(_) => String::new(),
            None => format!("CREATE SCHEMA {MARK}; CREATE TABLE {MARK}.progress (run text, step bigint); "),
        };
        session
            .tell(&format!(
                "BEGIN; {made}DELETE FROM {MARK}.progress; INSERT INTO {MARK}.progress VALUES ('{run}', {step}); COMMIT"
            ))
            .await
    }

    /// No restore is under way any more. All that was written is on the disk then.
    pub async fn forget(session: &mut Session) -> Result<(), Error> {
        // A schema of that name may be somebody's.
        if Self::of(session).await?.is_none() {
            return Ok(());
        }
        session.tell(&format!("DROP TABLE {MARK}.progress; DROP SCHEMA {MARK}")).await
    }
}

/// A database that is restored in steps.
pub struct Steps<'a> {
    pub account: &'a Account,
    pub dump: &'a Path,
    pub contents: &'a Contents,
    /// What of the dump is restored, unless all of it is.
    pub list: Option<PathBuf>,
    pub into: &'a str,
    pub superuser: bool,
    /// Over how many connections rows are written and indexes are built.
    pub parallelism: u8,
    /// Where lists may be written.
    pub work: &'a Path,
}

impl Steps<'_> {
    /// Does what is left of it.
    pub async fn go_on(&self, mut progress: Progress, again: bool) -> Result<(), Error> {
        let mut session = Session::open(self.account, self.into).await?;
        if again {
            self.end_earlier(&mut session).await?;
        }
        let jobs = (self.parallelism > 1).then(|| format!("--jobs={}", self.parallelism));
        let parts = self.contents.parts();
        let mut again = again;
        let part = progress.step.checked_sub(1).and_then(|at| parts.get(at)).filter(|_| again);
        if let Some(part) = part
            && !self.empty(part, &mut session).await?
        {
            progress.step = 0;
        }
        for step in progress.step..parts.len() + 3 {
            progress.step = step;
            progress.note(&mut session).await?;
            tracing::info!(database = self.into, step, steps = parts.len() + 3, again, "restoring");
            match step.checked_sub(1).map(|at| parts.get(at)) {
                None => self.section("pre-data", again, &[]).await?,
                Some(Some(part)) => {
                    let how = jobs.as_deref().unwrap_or("--single-transaction");
                    self.listed(part, &[how]).await?;
                }
                Some(None) if step == parts.len() + 1 => self.listed(self.contents.others(), &[]).await?,
                Some(None) => self.section("post-data", again, jobs.as_deref().as_slice()).await?,
            }
            again = false;
        }
        Ok(())
    }

    /// Ends what the server still does for an earlier try: it need not know yet that its client died.
    async fn end_earlier(&self, session: &mut Session) -> Result<(), Error> {
        let query = "SELECT pg_catalog.json_build_array(pg_catalog.pg_terminate_backend(pid)) FROM pg_catalog.pg_stat_activity \
                     WHERE datname = pg_catalog.current_database() AND usename = current_user AND application_name = 'causeway \
                     pg_restore'";
        let begun = Instant::now();
        while !session.ask::<(bool,)>(query).await?.is_empty() {
            if begun.elapsed() > END_TIMEOUT {
                let message = format!("an earlier try still writes into database {}, and does not end", self.into);
                return Err(Error::TargetFailed(message));
            }
            tokio::time::sleep(RHYTHM).await;
        }
        Ok(())
    }

    /// Empties the tables of a part that may be there already. Whether they are known.
    async fn empty(&self, part: &[String], session: &mut Session) -> Result<bool, Error> {
        let query = format!(
            "SELECT pg_catalog.json_build_array(n.nspname, c.relname, pg_catalog.format('%I.%I', n.nspname, c.relname)) FROM \
             {RELATIONS} WHERE c.relkind = 'r' AND {OURS}"
        );
        let tables: Vec<(String, String, String)> = session.ask(&query).await?;
        let Some(tables) = tables_of(part, &tables) else { return Ok(false) };
        session.tell(&format!("TRUNCATE ONLY {}", tables.join(", ONLY "))).await?;
        Ok(true)
    }

    async fn section(&self, section: &str, again: bool, how: &[&str]) -> Result<(), Error> {
        let over: &[&str] = if again { &["--clean", "--if-exists"] } else { &[] };
        self.load(section, &[over, how].concat(), self.list.as_deref()).await
    }

    async fn listed(&self, entries: &[String], how: &[&str]) -> Result<(), Error> {
        let list = write_list(self.work, "step.list", entries)?;
        self.load("data", how, Some(&list)).await
    }

    async fn load(&self, section: &str, how: &[&str], list: Option<&Path>) -> Result<(), Error> {
        let arguments = ["--exit-on-error", "--no-tablespaces", "--no-password", "--section", section];
        let mut restore = program("pg_restore", self.account, self.into)?.env("PGOPTIONS", QUICK).args(arguments);
        restore = restore.args(how).args(ownerless(self.superuser)).args(["--dbname", &connection(self.into)]);
        if let Some(list) = list {
            restore = restore.args(["--use-list".as_ref(), list.as_os_str()]);
        }
        run(self.account, restore.args([self.dump])).await.map(drop)
    }
}
