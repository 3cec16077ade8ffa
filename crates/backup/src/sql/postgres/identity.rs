//! Which server a connection has reached: one address may have several behind it, such as a Service with all members of a cluster.
//! A backup is of one server, so all of its connections have to reach the same.

use super::super::Account;
use super::super::child::Failure;
use super::session::Session;
use crate::Error;

/// PostgreSQL's errors about a snapshot that it did not export: before version 16, and since.
const FOREIGN: [&str; 2] = ["invalid snapshot identifier", "snapshot \""];

/// The instant at which a server was started: every login may ask for it, and no two servers have the same.
/// <https://www.postgresql.org/docs/current/functions-info.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// That of the server of a session.
    pub async fn ask(session: &mut Session) -> Result<Self, Error> {
        let query = "SELECT pg_catalog.to_char(pg_catalog.pg_postmaster_start_time() AT TIME ZONE 'UTC', \
                     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
        Ok(Self(session.one::<(String,)>(query).await?.0))
    }

    /// Checks that a session is one of the same server.
    pub async fn check(&self, session: &mut Session, account: &Account) -> Result<(), Error> {
        let other = Self::ask(session).await?;
        if other == *self {
            return Ok(());
        }
        let words = format!("one was started at {}, the other at {}", self.0, other.0);
        Err(several(account, &words))
    }
}

/// The error of a dump that did not find the snapshot; none for other failures.
pub fn foreign_snapshot(failure: &Failure, account: &Account) -> Option<Error> {
    let message = failure.api_message();
    let is_foreign =
        message.contains(FOREIGN[0]) || (message.contains(FOREIGN[1]) && message.contains("does not exist"));
    is_foreign.then(|| several(account, message))
}

fn several(account: &Account, words: &str) -> Error {
    Error::SourceFailed(format!(
        "{}: connections to {}:{} reached different servers: name one, not an address with several behind it, or try again if it \
         was started meanwhile ({words})",
        account.side.field(account.kind, "host"),
        account.host,
        account.port,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::Side;
    use super::*;

    #[test]
    fn a_snapshot_of_another_server_is_told_as_such() {
        let account = Account::of_tests(Side::Source, "postgresql", "backup");
        let told = |message: &str| foreign_snapshot(&Failure::Ended("pg_dump", message.into()), &account);
        for message in [
            "pg_dump: error: query failed: ERROR:  invalid snapshot identifier: \"00000003-00000002-1\"",
            "pg_dump: error: query failed: ERROR:  snapshot \"00000003-00000002-1\" does not exist",
        ] {
            let error = told(message).expect("it is told").to_string();
            assert!(
                error.contains("db:5432 reached different servers") && error.contains("spec.source.postgresql.host"),
                "{error}"
            );
        }
        assert!(told("pg_dump: error: relation \"snapshot\" does not exist").is_none());
    }
}
