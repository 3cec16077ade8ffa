//! A limit of a login that its sessions may lift: that of the room for temporary files, which sorts, index builds and lists of settings
//! need. A login that may not lift it cannot even connect if it asks for that.
//! <https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-TEMP-FILE-LIMIT>

use super::super::Account;
use super::MAINTENANCE;
use super::session::Session;
use crate::Error;

/// Lifts it, in the form of the options of a connection.
pub const LIFTED: &str = "-c temp_file_limit=-1";
/// The first version in which others than superusers may be allowed to set such settings.
const GRANTED: i64 = 150_000;

/// The same account, with sessions that lift the limit if it has one and may do that.
pub async fn lifted(account: &Account) -> Result<Account, Error> {
    let first = account.database.as_deref().unwrap_or(MAINTENANCE);
    let mut session = Session::log_in(account, first).await?;
    let query = is_to_lift(session.number());
    let (lifts,) = session.one::<(bool,)>(&query).await?;
    Ok(Account { lifts, ..account.clone() })
}

/// The query that says whether there is a limit that this login may lift.
fn is_to_lift(version: i64) -> String {
    let may = if version >= GRANTED {
        "pg_catalog.has_parameter_privilege('temp_file_limit', 'SET')"
    } else {
        "(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)"
    };
    format!("SELECT pg_catalog.current_setting('temp_file_limit') <> '-1' AND {may}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_have_it_are_asked_for_the_right() {
        assert!(is_to_lift(150_018).contains("has_parameter_privilege"));
        assert!(!is_to_lift(140_025).contains("has_parameter_privilege"));
    }
}
