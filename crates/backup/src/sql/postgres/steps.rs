//! Restores a database that does not fit into one transaction, in steps: what is made before the rows, the rows of some tables
//! in one transaction each, all other data, and what is made after them. A table in the target says which step is next. An
//! interrupted restore goes on with that step:
//!
//! ```text
//! 0 pre-data │ 1 rows of some tables │ … │ n │ n + 1 other data │ n + 2 post-data
//! ```
//!
//! Steps can be repeated. The first and the last one drop what they had made, and other data overwrite themselves. The tables
//! of a step are emptied before their rows are written again. Over one connection, a step writes all of its rows or none. Over
//! several connections, that holds only for the rows of each table.
//!
//! A database without tables has no rows by which it could be recognized. Until the whole restore is done, the table says that
//! no step of it is left, however it was restored.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::Account;
use super::contents::{Contents, tables_of};
use super::restore::connection;
use super::session::{OURS, RELATIONS, Session};
use super::target::{ownerless, run, write_list};
use super::{options, program};
use crate::Error;

/// The schema in a target while it is restored in steps. A dump leaves it out.
pub const MARK: &str = "causeway_restore";
/// How long an earlier try may take to end.
const END_TIMEOUT: Duration = Duration::from_mins(1);
/// How often to check whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Options without a wait for the disk at each commit. The commit that notes the next step waits for all of them.
pub fn quick(account: &Account) -> String {
    format!("{} -c synchronous_commit=off", options(account))
}

/// How far a restore of a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The name of the restore.
    pub run: String,
    /// The next step, which may be done already.
    pub step: usize,
}

impl Progress {
    /// The progress that a database holds; none if this login has no unfinished restore in steps there. The owner and the kind
    /// of the table are checked first, because a view of somebody else would be evaluated with the rights of this login.
    pub async fn of(session: &mut Session) -> Result<Option<Self>, Error> {
        let there = format!(
            "SELECT c.oid FROM {RELATIONS} WHERE n.nspname = '{MARK}' AND c.relname = 'progress' AND \
             c.relkind = 'r' AND c.relowner = n.nspowner AND n.nspowner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE \
             r.rolname = current_user)"
        );
        if session.ask::<(u32,)>(&there).await?.is_empty() {
            return Ok(None);
        }
        let query = format!("SELECT run, step FROM {MARK}.progress");
        let found: Option<(String, u64)> = session.ask(&query).await?.into_iter().next();
        Ok(found.map(|(run, step)| Self { run, step: usize::try_from(step).unwrap_or(usize::MAX) }))
    }

    /// Writes the progress into the database.
    async fn note(&self, session: &mut Session) -> Result<(), Error> {
        let made = match Self::of(session).await? {
            Some(_) => String::new(),
            None => format!("CREATE SCHEMA {MARK}; CREATE TABLE {MARK}.progress (run text, step bigint); "),
        };
        session.tell(&format!("BEGIN; {made}DELETE FROM {MARK}.progress")).await?;
        let insert = format!("INSERT INTO {MARK}.progress VALUES ($1, $2) RETURNING step");
        let step = i64::try_from(self.step).unwrap_or(i64::MAX);
        session.ask_about::<(i64,)>(&insert, &[(&self.run, Type::TEXT), (&step, Type::INT8)]).await?;
        session.tell("COMMIT").await
    }

    /// Notes that nothing is left to do.
    pub async fn note_end(run: &str, contents: &Contents, session: &mut Session) -> Result<(), Error> {
        Self { run: run.to_owned(), step: end(contents) }.note(session).await
    }

    /// Removes the progress when the restore is done. This commit also waits until all that was written is on the disk.
    pub async fn forget(session: &mut Session) -> Result<(), Error> {
        // A schema of that name may belong to somebody else.
        if Self::of(session).await?.is_none() {
            return Ok(());
        }
        session.tell(&format!("DROP TABLE {MARK}.progress; DROP SCHEMA {MARK}")).await
    }
}

/// The number after that of the last step.
fn end(contents: &Contents) -> usize {
    contents.parts().len() + 3
}

/// The steps that are left when this one is next.
fn left(contents: &Contents, next: usize) -> Range<usize> {
    next..end(contents)
}

/// A database that is restored in steps.
pub struct Steps<'a> {
    pub account: &'a Account,
    pub dump: &'a Path,
    pub contents: &'a Contents,
    /// The list of what is restored of the dump; none for all of it.
    pub list: Option<PathBuf>,
    pub into: &'a str,
    pub superuser: bool,
    /// How many connections write rows and build indexes.
    pub parallelism: u8,
    /// Where lists may be written.
    pub work: &'a Path,
}

impl Steps<'_> {
    /// Does the steps that are left.
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
        for step in left(self.contents, progress.step) {
            progress.step = step;
            progress.note(&mut session).await?;
            tracing::info!(database = self.into, step, steps = end(self.contents), again, "restoring");
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

    /// Ends what the server still does for an earlier try. The server may not know yet that its client died.
    async fn end_earlier(&self, session: &mut Session) -> Result<(), Error> {
        let query = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
                     WHERE datname = pg_catalog.current_database() AND usename = current_user AND application_name = 'causeway \
                     pg_restore'";
        let begun = Instant::now();
        while !session.ask::<(bool,)>(query).await?.is_empty() {
            if begun.elapsed() > END_TIMEOUT {
                let message = format!("an earlier try still writes into database {}, and does not end", self.into);
                return Err(Error::TargetFailed(message));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Truncates the tables of a part, as an earlier try may have written some rows. Returns false if it cannot identify them.
    async fn empty(&self, part: &[String], session: &mut Session) -> Result<bool, Error> {
        let query = format!(
            "SELECT n.nspname, c.relname, pg_catalog.format('%I.%I', n.nspname, c.relname) FROM \
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
        let restore = program("pg_restore", self.account, self.into)?.env("PGOPTIONS", quick(self.account));
        let mut restore = restore.args(arguments);
        restore = restore.args(how).args(ownerless(self.superuser)).args(["--dbname", &connection(self.into)]);
        if let Some(list) = list {
            restore = restore.args(["--use-list".as_ref(), list.as_os_str()]);
        }
        run(self.account, restore.args([self.dump])).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_is_left_of_a_database_whose_end_is_noted() {
        let rows: Vec<String> = (0..450).map(|i| format!("{i}; 0 {i} TABLE DATA public t{i} postgres")).collect();
        for list in [String::new(), "7; 0 7 SCHEMA - pgbouncer postgres".into(), rows.join("\n")] {
            let contents = Contents::of(&list);
            assert_eq!(left(&contents, 0).len(), contents.parts().len() + 3);
            assert_eq!(left(&contents, end(&contents) - 1).len(), 1, "the last step is repeated");
            assert!(left(&contents, end(&contents)).is_empty());
        }
    }
}
