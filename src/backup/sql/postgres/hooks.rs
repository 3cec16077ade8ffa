//! Statements of a user around a dump of PostgreSQL: one session of `psql` for all of them.

use std::time::Duration;

use super::super::Account;
use super::super::child::Failure;
use super::super::hooks::{Broken, Deadline};
use super::MAINTENANCE;
use super::session::{Session, literally};
use crate::backup::Error;

/// Runs the statements up to the first that fails, with the settings that the server has for this user.
pub async fn run(account: &Account, statements: &[String], deadline: Deadline) -> Result<Result<(), Broken>, Error> {
    let database = account.database.as_deref().unwrap_or(MAINTENANCE);
    let account = Account { own_money: true, ..account.clone() };
    let Ok(session) = tokio::time::timeout(deadline.answer_timeout(), Session::log_in(&account, database)).await else {
        return Ok(Err(Broken { index: 0, failure: Failure::Silent("psql", deadline.answer_timeout()) }));
    };
    let mut session = session?;
    for (index, statement) in statements.iter().enumerate() {
        let script = script(statement, deadline.left());
        if let Err(failure) = session.carry_out(&script, deadline.answer_timeout()).await {
            return Ok(Err(Broken { index, failure }));
        }
    }
    Ok(Ok(()))
}

/// The script for `psql` that runs a statement: with a statement timeout, with its rows discarded, and with no way for it to
/// be taken for a command of `psql`.
fn script(statement: &str, limit: Duration) -> String {
    // 0 would be no limit.
    let limit = limit.as_millis().max(1);
    format!("SET statement_timeout = {limit};\n\\o /dev/null\n{}\\o", literally(statement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_reaches_the_server_as_one_text_whatever_it_looks_like() {
        let statement = "SELECT '$causeway0$'; -- \\! id\n\\! id";
        let expected = "SET statement_timeout = 2000;\n\\o /dev/null\nSELECT $causeway1$SELECT '$causeway0$'; -- \\! id\n\\! \
                        id\n$causeway1$ \\gexec\n\\o";
        assert_eq!(script(statement, Duration::from_secs(2)), expected);
        let hurried = script("CHECKPOINT", Duration::ZERO);
        assert!(hurried.starts_with("SET statement_timeout = 1;"), "none would be no limit: {hurried}");
    }
}
