//! Statements of a user around a dump of PostgreSQL: one session for all of them.

use std::time::Duration;

use super::super::Account;
use super::super::child::Failure;
use super::super::hooks::{Broken, Deadline};
use super::MAINTENANCE;
use super::connection::SERVER;
use super::session::Session;
use crate::Error;

/// Runs the statements up to the first that fails, with the settings that the server has for this user.
pub async fn run(account: &Account, statements: &[String], deadline: Deadline) -> Result<Result<(), Broken>, Error> {
    let database = account.database.as_deref().unwrap_or(MAINTENANCE);
    let account = Account { own_money: true, ..account.clone() };
    let Ok(session) = tokio::time::timeout(deadline.answer_timeout(), Session::log_in(&account, database)).await else {
        return Ok(Err(Broken { index: 0, failure: Failure::Silent(SERVER, deadline.answer_timeout()) }));
    };
    let mut session = session?;
    for (index, statement) in statements.iter().enumerate() {
        let ran = async {
            session.carry_out(&limit(deadline.left()), deadline.answer_timeout()).await?;
            session.carry_out(statement, deadline.answer_timeout()).await
        };
        if let Err(failure) = ran.await {
            return Ok(Err(Broken { index, failure }));
        }
    }
    Ok(Ok(()))
}

/// The statement that bounds the next one.
fn limit(left: Duration) -> String {
    // 0 would be no limit.
    format!("SET statement_timeout = {}", left.as_millis().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_bounded_by_what_is_left_of_its_list() {
        assert_eq!(limit(Duration::from_secs(2)), "SET statement_timeout = 2000");
        assert_eq!(limit(Duration::ZERO), "SET statement_timeout = 1", "none would be no limit");
    }
}
