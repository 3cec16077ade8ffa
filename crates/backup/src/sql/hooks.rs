//! A user's statements before and after a dump. They run in the container that has the database's login.
//!
//! Their text never reaches a shell, an argument of a program or the log.

use std::time::{Duration, Instant};

use super::child::Failure;
use super::{Account, Side, mysql, postgres};
use crate::Error;
use crate::plan::{BackupPlan, Hooks, Server, Source};

/// A server ends a statement at the deadline. This is how much longer it is waited for if it does not.
const SERVER_ENDS_FIRST: Duration = Duration::from_secs(10);

/// Which of the two lists of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before a dump.
    Before,
    /// When it has ended.
    After,
}

impl When {
    fn field(self) -> &'static str {
        match self {
            Self::Before => "spec.hooks.before",
            Self::After => "spec.hooks.after",
        }
    }

    fn list(self, hooks: &Hooks) -> &[String] {
        match self {
            Self::Before => &hooks.before,
            Self::After => &hooks.after,
        }
    }
}

/// By when a list must have ended.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    fn new(hooks: &Hooks) -> Self {
        Self(Instant::now() + Duration::from_secs(hooks.timeout_seconds))
    }

    /// How long the server may still work.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Checks that the list ended in time: some statements that the server ends at the deadline report no error, such as
    /// `DO SLEEP(60)` of MariaDB.
    fn check(self, statements: &[String]) -> Result<(), Broken> {
        let index = statements.len().saturating_sub(1);
        let broken = || Broken { index, failure: Failure::Silent("the server", self.answer_timeout()) };
        if self.left().is_zero() { Err(broken()) } else { Ok(()) }
    }

    /// How long to wait for the server's answer.
    pub fn answer_timeout(self) -> Duration {
        self.left() + SERVER_ENDS_FIRST
    }
}

/// A statement that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its place in the list, from 0.
    pub index: usize,
    pub failure: Failure,
}

impl Broken {
    /// Which statement, what became of the backup, what to do, and the server's own words.
    fn describe(&self, when: When, hooks: &Hooks) -> String {
        let (field, count) = (when.field(), when.list(hooks).len());
        let fix = match when {
            When::Before => "and nothing was dumped: mend it, or what it needs",
            When::After => "and those behind it did not run: mend it, and run by hand what is left to be done",
        };
        let seconds = hooks.timeout_seconds;
        let words = match &self.failure {
            Failure::Silent(..) => format!("the list did not end within the {seconds} s of spec.hooks.timeout"),
            failure @ Failure::Ended(..) => failure.to_string(),
        };
        format!("{field}: statement {} of {count} failed, {fix} ({words})", self.index + 1)
    }
}

/// Runs one of the lists of a plan. Does nothing, and does not connect, if the list is empty.
pub async fn run_hooks(plan: &BackupPlan, source: &Source, when: When) -> Result<(), Error> {
    let Some(hooks) = plan.hooks.as_ref().filter(|hooks| !when.list(hooks).is_empty()) else { return Ok(()) };
    let (statements, deadline) = (when.list(hooks), Deadline::new(hooks));
    let ran = match &source.server {
        Server::Postgresql(server) if server.method.is_dump() => {
            let account = Account::read(Side::Source, "postgresql", server)?;
            postgres::run_hooks(&account, statements, deadline).await?
        }
        Server::Mysql(server) => {
            let account = Account::read(Side::Source, "mysql", server)?;
            mysql::run_hooks(account, statements, deadline).await?
        }
        _ => {
            let message = format!("{}: {} runs no SQL around a dump", when.field(), source.title);
            return Err(Error::Unsupported(message));
        }
    };
    ran.and_then(|()| deadline.check(statements)).map_err(|broken| Error::HookFailed(broken.describe(when, hooks)))?;
    tracing::info!(source = source.title, ?when, statements = statements.len(), "hooks ran");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(server: &serde_json::Value) -> BackupPlan {
        serde_json::from_value(json!({
            "destination": { "bucket": "b", "owner": "0", "region": "r", "prefix": "p" },
            "sources": [{ "folder": "db", "title": "Redis cache", "server": server }],
            "hooks": { "before": ["CALL pause()", "CALL note('s3cret')"], "timeoutSeconds": 60 },
        }))
        .expect("a plan")
    }

    #[test]
    fn a_failed_hook_has_its_number_and_fix() {
        let hooks = plan(&json!({ "type": "redis", "addresses": [] })).hooks.expect("hooks");
        let failure = Failure::Ended("PostgreSQL", "ERROR:  relation \"audit\" does not exist".into());
        let text = Broken { index: 1, failure: failure.clone() }.describe(When::Before, &hooks);
        let expected = "spec.hooks.before: statement 2 of 2 failed, and nothing was dumped: mend it, or what it needs \
                        (PostgreSQL: ERROR:  relation \"audit\" does not exist)";
        assert_eq!(text, expected);
        let error = Error::HookFailed(text);
        assert_eq!((error.reason(), error.is_final()), ("HookFailed", false), "what it needs may come");
        let hooks = Hooks { after: vec!["CALL resume()".into()], ..hooks };
        let text = Broken { index: 0, failure }.describe(When::After, &hooks);
        assert!(
            text.starts_with("spec.hooks.after: statement 1 of 1 failed, and those behind it did not run"),
            "{text}"
        );
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_hang_is_told_with_the_field_that_bounds_it() {
        let hooks = plan(&json!({ "type": "redis", "addresses": [] })).hooks.expect("hooks");
        let failure = Failure::Silent("PostgreSQL", Duration::from_secs(70));
        let text = Broken { index: 0, failure }.describe(When::Before, &hooks);
        assert!(text.ends_with("(the list did not end within the 60 s of spec.hooks.timeout)"), "{text}");
        let (over, statements) = (Deadline(Instant::now()), ["DO SLEEP(60)".to_owned(), "DO SLEEP(60)".to_owned()]);
        assert_eq!(over.check(&statements).map_err(|broken| broken.index), Err(1), "the server reported no error");
        assert_eq!(Deadline::new(&hooks).check(&statements), Ok(()));
    }

    #[tokio::test]
    async fn only_sql_servers_run_hooks() {
        let wal = json!({ "type": "postgresql", "host": "db", "port": 1, "login": "/none", "method": "Wal" });
        for server in [json!({ "type": "redis", "addresses": [] }), wal] {
            let plan = plan(&server);
            let error = run_hooks(&plan, &plan.sources[0], When::Before).await.expect_err("no SQL");
            assert_eq!((error.reason(), error.is_final()), ("Unsupported", true));
            run_hooks(&plan, &plan.sources[0], When::After).await.expect("nothing is to be done");
        }
    }
}
