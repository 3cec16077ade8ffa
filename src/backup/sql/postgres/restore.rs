//! Into PostgreSQL: each database in one transaction, so that it has all of the backup or nothing.
//!
//! All databases are looked at before the first is touched. A second try finds those that are done equal to the backup,
//! and the others as they were.

use std::path::Path;

use super::super::tables::{Tables, alike};
use super::super::{Account, Fetched, GLOBALS, Origin, tools};
use super::database::Database;
use super::globals::missing;
use super::session::Session;
use super::target::{Target, ownerless, run};
use super::{MAINTENANCE, program};
use crate::backup::Error;

/// What is to be done with a database of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is not there.
    Missing,
    /// It holds nothing, and nothing of its own was said of it: as it was made.
    Bare,
    /// It holds nothing.
    Empty,
    /// It holds something that may be replaced.
    Full,
    /// It holds the backup.
    Done,
}

/// A dump, and where it goes.
struct Pair<'a> {
    dump: &'a Path,
    /// The name that the database had.
    name: &'a str,
    into: &'a str,
    tables: Tables,
}

/// Restores all databases of a backup, and compares. Gives the number of rows.
pub async fn restore(
    account: &Account,
    fetched: &Fetched,
    work: &Path,
    force: bool,
    origin: Origin,
) -> Result<u64, Error> {
    tools::check("pg_restore", account, origin).await?;
    let first = account.database.as_deref().unwrap_or(MAINTENANCE);
    let target = Target { account, first, work };
    let mut admin = Session::open(account, first).await?;
    let (version, superuser) = (admin.version().await?, admin.is_superuser().await?);
    let exact = alike(&version, &fetched.version);
    let present = admin.databases().await?;
    let pairs = pairs(account, fetched)?;
    let mut states = Vec::new();
    for pair in &pairs {
        let state = if present.iter().any(|name| name == pair.into) {
            look(account, pair, force, exact).await?
        } else {
            State::Missing
        };
        tracing::info!(database = pair.into, ?state, "looked at");
        states.push(state);
    }
    if states.iter().any(|state| *state != State::Done) {
        make_roles(target, fetched, &mut admin, superuser).await?;
    }
    drop(admin);
    let mut rows = 0;
    for (pair, state) in pairs.iter().zip(states) {
        if matches!(state, State::Missing | State::Bare) {
            let database = Database::read(target, pair.dump, superuser).await?;
            if state == State::Missing {
                database.make(target).await?;
            }
            database.apply_grants(target).await?;
        }
        if state != State::Done {
            load(account, pair, state, superuser).await?;
            let mut session = Session::open(account, pair.into).await?;
            if let Some(difference) = pair.tables.difference(&session.tables().await?, exact) {
                return Err(Error::Differs(format!("in the database {}, {difference}", pair.into)));
            }
        }
        tracing::info!(database = pair.into, rows = pair.tables.rows(), exact, "restored, and equal to the backup");
        rows += pair.tables.rows();
    }
    Ok(rows)
}

/// Which dump goes where: each to the database of its name, or the only one to the database that is named.
fn pairs<'a>(account: &'a Account, fetched: &'a Fetched) -> Result<Vec<Pair<'a>>, Error> {
    let dumps = fetched.dumps();
    let named = account.database.as_deref();
    let of_that_name = dumps.iter().position(|(name, _)| Some(*name) == named);
    let chosen: Vec<(&str, &Path)> = match (named, of_that_name, dumps.as_slice()) {
        (None, ..) => dumps.clone(),
        (Some(_), Some(at), _) => vec![dumps[at]],
        (Some(_), None, [only]) => vec![*only],
        (Some(name), None, several) => {
            let there: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "{}: the backup has no database {name}, and of {}: name one of them, or leave it out for all",
                account.side.field(account.kind, "database"),
                there.join(", ")
            );
            return Err(Error::Unsupported(message));
        }
    };
    let pair = |(name, dump): (&'a str, &'a Path)| {
        Ok(Pair { dump, name, into: named.unwrap_or(name), tables: fetched.tables(name)? })
    };
    chosen.into_iter().map(pair).collect()
}

async fn look(account: &Account, pair: &Pair<'_>, force: bool, exact: bool) -> Result<State, Error> {
    let mut session = Session::open(account, pair.into).await?;
    let relations = session.relations().await?;
    if relations == 0 {
        // A try that died when it had made it.
        let is_bare = pair.name == pair.into && session.is_bare().await?;
        return Ok(if is_bare { State::Bare } else { State::Empty });
    }
    if force {
        return Ok(State::Full);
    }
    // A try that died before it could tell has nothing left to do.
    let there = session.tables().await?;
    let is_done = there.0.len() == pair.tables.0.len() && pair.tables.difference(&there, exact).is_none();
    if is_done && !there.0.is_empty() {
        return Ok(State::Done);
    }
    Err(Error::TargetHoldsTables { database: pair.into.to_owned(), tables: relations })
}

/// Makes the roles that the target lacks, whom its objects belong to.
async fn make_roles(target: Target<'_>, fetched: &Fetched, admin: &mut Session, superuser: bool) -> Result<(), Error> {
    let Some(globals) = fetched.path(GLOBALS) else { return Ok(()) };
    if !superuser {
        tracing::warn!("the user is no superuser: no roles are made, and all that is restored belongs to this user");
        return Ok(());
    }
    let text = std::fs::read_to_string(globals).map_err(|source| Error::Work { path: globals.to_owned(), source })?;
    target.carry_out("roles.sql", &missing(&text, &admin.roles().await?)).await
}

async fn load(account: &Account, pair: &Pair<'_>, state: State, superuser: bool) -> Result<(), Error> {
    let arguments = ["--single-transaction", "--exit-on-error", "--no-tablespaces", "--no-password", "--dbname"];
    let mut restore = program("pg_restore", account, pair.into)?.args(arguments).args([connection(pair.into)]);
    if state == State::Full {
        restore = restore.args(["--clean", "--if-exists"]);
    }
    run(account, restore.args(ownerless(superuser)).args([pair.dump])).await.map(drop)
}

/// A database as a parameter of a connection: a name alone may be taken for more.
fn connection(database: &str) -> String {
    format!("dbname='{}'", database.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_never_taken_for_a_parameter() {
        assert_eq!(connection("shop"), "dbname='shop'");
        assert_eq!(connection("a'b\\c host=evil"), "dbname='a\\'b\\\\c host=evil'");
    }
}
