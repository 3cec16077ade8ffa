//! Into PostgreSQL: each database in one transaction, so that it has all of the backup or nothing. One that has more than
//! the server has locks for is restored in [steps](super::steps), if it holds nothing.
//!
//! All databases are looked at before the first is touched. A second try finds those that are done equal to the backup,
//! the others as they were, and goes on with the steps of one.

use std::path::Path;

use super::super::tables::{Tables, alike};
use super::super::{Account, Fetched, GLOBALS, How, tools};
use super::contents::Contents;
use super::database::Database;
use super::dependents::{Dependent, dependents, refusal};
use super::globals::missing;
use super::locks::Room;
use super::session::Session;
use super::steps::{Progress, Steps};
use super::target::{Target, ownerless, run};
use super::{MAINTENANCE, program};
use crate::backup::Error;

/// What is to be done with a database of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not there.
    Missing,
    /// It holds nothing, and nothing of its own was said of it: as it was made.
    Bare,
    /// It holds nothing.
    Empty,
    /// It holds something that may be replaced, and with it what depends on that.
    Full(Vec<Dependent>),
    /// It holds what this restore wrote before this step, and perhaps what that writes.
    Half(usize),
    /// It holds the backup.
    Done,
}

/// A dump, and where it goes.
pub struct Pair<'a> {
    dump: &'a Path,
    /// The name that the database had.
    name: &'a str,
    pub into: &'a str,
    pub tables: Tables,
    contents: Contents,
}

/// Both sides, before anything is touched.
pub struct Ground<'a> {
    account: &'a Account,
    /// The database that is there.
    first: &'a str,
    pub admin: Session,
    pub superuser: bool,
    /// Whether both servers write values alike.
    exact: bool,
    room: Room,
    /// Databases of the target.
    present: Vec<String>,
    pub pairs: Vec<Pair<'a>>,
}

/// Restores all databases of a backup, and compares. Gives the number of rows.
pub async fn restore(account: &Account, fetched: &Fetched, how: &How<'_>) -> Result<u64, Error> {
    tools::check("pg_restore", account, how.origin).await?;
    let mut ground = Ground::look_at(account, fetched).await?;
    let mut states = Vec::new();
    for pair in &ground.pairs {
        let state = ground.state(pair, how).await?;
        tracing::info!(database = pair.into, ?state, "looked at");
        states.push(state);
    }
    let target = Target { account, first: ground.first, work: how.work };
    if states.iter().any(|state| *state != State::Done) {
        make_roles(target, fetched, &mut ground.admin, ground.superuser).await?;
    }
    let Ground { pairs, superuser, exact, room, .. } = ground;
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
            pair.load(account, &state, superuser, room, how).await?;
            let mut session = Session::open(account, pair.into).await?;
            if let Some(difference) = pair.tables.difference(&session.tables().await?, exact) {
                return Err(Error::Differs(format!("in the database {}, {difference}", pair.into)));
            }
            Progress::forget(&mut session).await?;
        }
        tracing::info!(database = pair.into, rows = pair.tables.rows(), exact, "restored, and equal to the backup");
        rows += pair.tables.rows();
    }
    Ok(rows)
}

impl<'a> Ground<'a> {
    /// Logs in, and looks what there is.
    pub async fn look_at(account: &'a Account, fetched: &'a Fetched) -> Result<Self, Error> {
        let first = account.database.as_deref().unwrap_or(MAINTENANCE);
        let mut admin = Session::open(account, first).await?;
        let exact = alike(&admin.version().await?, &fetched.version);
        let (superuser, room) = (admin.is_superuser().await?, Room::ask(&mut admin).await?);
        let present = admin.databases().await?.into_iter().map(|(name, _)| name).collect();
        let pairs = pairs(account, fetched).await?;
        Ok(Self { account, first, admin, superuser, exact, room, present, pairs })
    }

    /// Whether the database of a pair is there.
    pub fn has(&self, pair: &Pair<'_>) -> bool {
        self.present.iter().any(|name| name == pair.into)
    }

    /// What is to be done with it; or why it is not touched.
    pub async fn state(&self, pair: &Pair<'_>, how: &How<'_>) -> Result<State, Error> {
        if !self.has(pair) {
            return Ok(State::Missing);
        }
        let mut session = Session::open(self.account, pair.into).await?;
        match Progress::of(&mut session).await? {
            Some(progress) if progress.run == how.run => return Ok(State::Half(progress.step)),
            Some(_) if !how.force => return Err(Error::TargetHoldsHalf { database: pair.into.to_owned() }),
            _ => {}
        }
        let relations = session.relations().await?;
        if relations == 0 {
            // A try that died when it had made it.
            let is_bare = pair.name == pair.into && session.is_bare().await?;
            return Ok(if is_bare { State::Bare } else { State::Empty });
        }
        if how.force {
            return self.full(pair, &mut session, how.cascade).await;
        }
        // A try that died before it could tell has nothing left to do.
        let there = session.tables().await?;
        let is_done = there.0.len() == pair.tables.0.len() && pair.tables.difference(&there, self.exact).is_none();
        if is_done && !there.0.is_empty() {
            return Ok(State::Done);
        }
        Err(Error::TargetHoldsTables { database: pair.into.to_owned(), tables: relations })
    }

    /// What it holds may be replaced, if that fits into a transaction and nothing else goes unasked.
    async fn full(&self, pair: &Pair<'_>, session: &mut Session, cascade: bool) -> Result<State, Error> {
        // What is there goes in the same transaction.
        let what = format!("to replace what database {} holds", pair.into);
        if let Some(error) = self.room.lacks(&what, pair.contents.locks() * 2) {
            return Err(error);
        }
        let found = self.dependents(pair, session).await?;
        if !cascade && !found.is_empty() {
            return Err(refusal(pair.into, &found));
        }
        Ok(State::Full(found))
    }

    /// What would go with what is replaced.
    pub async fn dependents(&self, pair: &Pair<'_>, session: &mut Session) -> Result<Vec<Dependent>, Error> {
        let arguments = ["--clean", "--if-exists", "--schema-only", "--file", "/dev/stdout"];
        let print = program("pg_restore", self.account, pair.into)?.args(arguments).args([pair.dump]);
        dependents(session, &run(self.account, print).await?).await
    }
}

/// Which dump goes where: each to the database of its name, or the only one to the database that is named.
async fn pairs<'a>(account: &'a Account, fetched: &'a Fetched) -> Result<Vec<Pair<'a>>, Error> {
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
    let mut pairs = Vec::new();
    for (name, dump) in chosen {
        let (tables, contents) = (fetched.tables(name)?, contents(account, dump).await?);
        pairs.push(Pair { dump, name, into: named.unwrap_or(name), tables, contents });
    }
    Ok(pairs)
}

/// What is in a dump.
pub async fn contents(account: &Account, dump: &Path) -> Result<Contents, Error> {
    let list = program("pg_restore", account, MAINTENANCE)?.args(["--list"]).args([dump]);
    run(account, list).await.map(|list| Contents::of(&list))
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

impl Pair<'_> {
    /// Whether one transaction restores it, and leaves half of all locks to others.
    fn fits(&self, room: Room) -> bool {
        self.contents.locks() * 2 <= room.locks()
    }

    async fn load(
        &self,
        account: &Account,
        state: &State,
        superuser: bool,
        room: Room,
        how: &How<'_>,
    ) -> Result<(), Error> {
        let Self { dump, into, contents, .. } = self;
        let (again, step) = if let State::Half(step) = state { (true, *step) } else { (false, 0) };
        if again || (!matches!(state, State::Full(_)) && !self.fits(room)) {
            let progress = Progress { run: how.run.to_owned(), step };
            return Steps { account, dump, contents, into, superuser, work: how.work }.go_on(progress, again).await;
        }
        let arguments = ["--single-transaction", "--exit-on-error", "--no-tablespaces", "--no-password", "--dbname"];
        let mut restore = program("pg_restore", account, into)?.args(arguments).args([connection(into)]);
        if let State::Full(dependents) = state {
            // `pg_restore` cannot do that: so it is done before, and what is replaced is there until all of it is.
            let drops: Vec<&str> = dependents.iter().map(|it| it.drop.as_str()).collect();
            if !drops.is_empty() {
                tracing::warn!(database = into, dropped = ?dependents, "these depend on what is replaced");
                let statement = format!("BEGIN; {}; COMMIT", drops.join("; "));
                Session::open(account, into).await?.tell(&statement).await?;
            }
            restore = restore.args(["--clean", "--if-exists"]);
        }
        run(account, restore.args(ownerless(superuser)).args([dump])).await.map(drop)
    }
}

/// A database as a parameter of a connection: a name alone may be taken for more.
pub fn connection(database: &str) -> String {
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
