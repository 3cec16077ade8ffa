//! PostgreSQL: connections of our own, and `pg_dump`, `pg_restore` and their like.

mod answer;
mod base;
mod connection;
mod contents;
mod counting;
mod database;
mod dependents;
mod globals;
mod holding;
mod hooks;
mod identity;
mod limits;
mod locks;
mod log;
mod outlook;
mod pair;
mod present;
mod recovered;
mod remedy;
mod restore;
mod rights;
mod row_security;
mod rows;
mod scratch;
mod selection;
mod session;
mod source;
mod steps;
mod target;
mod tls;
mod toc;
mod wal;

pub use base::BaseBackup;
pub use hooks::run as run_hooks;
pub use outlook::outlook;
pub use recovered::{Recovered, recover};
pub use restore::restore;
pub use scratch::verify;
pub use source::PostgresDump;
pub use wal::{WalDump, acknowledge, release};

use super::child::Program;
use super::{Account, CONNECT_TIMEOUT};
use crate::Error;

/// The database to connect to for questions about the others.
const MAINTENANCE: &str = "postgres";
/// Settings of each connection. They take precedence over those of the database and the user, by which a server could end our
/// work, refuse to be written to, read values in another sense, or write names in another form. Only settings that PostgreSQL has
/// since 9.6: older servers refuse a connection with others.
/// <https://www.postgresql.org/docs/current/runtime-config-client.html>,
/// <https://www.postgresql.org/docs/current/runtime-config-compatible.html>
const OPTIONS: &str = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c \
                       default_transaction_read_only=off -c array_nulls=on -c transform_null_equals=off -c \
                       quote_all_identifiers=off -c intervalstyle=postgres -c role=none";
/// A server reads values of `money` only as its setting says, and the servers of a dump and of its restore may differ in that.
/// <https://www.postgresql.org/docs/current/datatype-money.html>
const MONEY: &str = "-c lc_monetary=C";

/// Settings of the connections of an account.
fn options(account: &Account) -> String {
    let lifted = if account.lifts { format!(" {}", limits::LIFTED) } else { String::new() };
    if account.own_money { format!("{OPTIONS}{lifted}") } else { format!("{OPTIONS}{lifted} {MONEY}") }
}

/// A program of PostgreSQL that talks to the server. How to reach it is in the program's environment.
/// <https://www.postgresql.org/docs/current/libpq-envars.html>
fn program(name: &'static str, account: &Account, database: &str) -> Result<Program, Error> {
    let program = Program::new(name)
        .env("PGHOST", &account.host)
        .env("PGPORT", account.port.to_string())
        .env("PGUSER", account.user())
        .env("PGDATABASE", database)
        .env("PGCONNECT_TIMEOUT", CONNECT_TIMEOUT.as_secs().to_string())
        .env("PGCLIENTENCODING", "UTF8")
        .env("PGAPPNAME", format!("causeway {name}"))
        .env("PGOPTIONS", options(account))
        .secret("PGPASSWORD", &account.login.password);
    let Some(tls) = &account.tls else { return Ok(program) };
    let mut program = program.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", &tls.authority);
    if let Some((certificate, key)) = &tls.identity {
        program = program.env("PGSSLCERT", certificate).env("PGSSLKEY", private(key)?);
    }
    Ok(program)
}

/// Makes a copy of a key that only this user can read: libpq refuses other keys.
fn private(key: &std::path::Path) -> Result<std::path::PathBuf, Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let path = std::env::temp_dir().join(format!("causeway-{}.key", std::process::id()));
    let failed = |source| Error::Work { path: path.clone(), source };
    let bytes = std::fs::read(key).map_err(failed)?;
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(&bytes)).map_err(failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    #[test]
    fn settings_of_a_database_do_not_change_what_our_programs_do() {
        let account = Account::of_tests(Side::Target, "postgresql", "backup");
        let started = program("pg_restore", &account, "shop").unwrap().variable("PGOPTIONS").unwrap();
        for options in [started, steps::quick(&account)] {
            for setting in [
                "statement_timeout=0",
                "lock_timeout=0",
                "idle_in_transaction_session_timeout=0",
                "default_transaction_read_only=off",
                "array_nulls=on",
                "transform_null_equals=off",
                "quote_all_identifiers=off",
                "intervalstyle=postgres",
                "role=none",
            ] {
                assert!(options.split(" -c ").any(|it| it.trim_start_matches("-c ") == setting), "{options}");
            }
        }
    }

    #[test]
    fn a_limit_is_lifted_only_if_the_login_may_do_that() {
        let account = Account::of_tests(Side::Target, "postgresql", "backup");
        let started = |lifts| options(&Account { lifts, ..account.clone() });
        assert!(started(true).contains(" -c temp_file_limit=-1 ") && !started(false).contains("temp_file_limit"));
    }

    #[test]
    fn money_is_in_the_locale_c_but_where_statements_of_users_run() {
        let account = Account::of_tests(Side::Target, "postgresql", "backup");
        let of_users = Account { own_money: true, ..account.clone() };
        for name in ["pg_dump", "pg_restore"] {
            let options = |account: &Account| program(name, account, "shop").unwrap().variable("PGOPTIONS").unwrap();
            assert!(options(&account).ends_with(" -c lc_monetary=C"), "{name}: {}", options(&account));
            assert_eq!(options(&of_users), OPTIONS, "{name}");
        }
        assert!(steps::quick(&account).contains(" -c lc_monetary=C "));
    }
}
