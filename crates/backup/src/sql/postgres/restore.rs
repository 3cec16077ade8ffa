//! Restores into PostgreSQL. Each database is restored in one transaction, so it gets all of the backup or nothing. If that
//! needs more locks than the server has, and the target is empty, it is restored in [steps](super::steps).
//!
//! A lock in the database lets only one restore write into it at a time. All databases are checked before the first is changed. A second try skips databases that are equal to the backup, goes on
//! with the steps of one that was restored in steps, and finds the others as they were.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::super::tables::{Tables, alike};
use super::super::{Account, Fetched, GLOBALS, How, tools};
use super::MAINTENANCE;
use super::database::Database;
use super::dependents::{Dependent, refusal};
use super::globals::missing;
use super::limits::lifted;
use super::locks::Room;
use super::pair::{Pair, chosen};
use super::session::Session;
use super::steps::Progress;
use super::target::Target;
use crate::Error;
use crate::restored::Restored;

/// The advisory lock of a restore in a database: `causeway` in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"causeway");
/// By these settings the server notices within a minute that a client is gone, and keeps an idle connection open.
const KEEPALIVE: &str = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3";
/// The longest wait for the lock of another restore.
const LOCK_TIMEOUT: Duration = Duration::from_secs(75);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The way in which a database of the target is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not there.
    Missing,
    /// It holds no relation, and has no owner, rights, settings or comment of its own: it is as `CREATE DATABASE` made it.
    Bare,
    /// It holds no relation.
    Empty,
    /// It holds something that may be replaced together with these objects, which depend on it.
    Full(Vec<Dependent>),
    /// It holds something, but nothing of the part that is restored.
    Beside,
    /// It holds what this restore wrote before this step, and perhaps something of this step.
    Half(usize),
    /// It holds the backup.
    Done,
}

/// The facts about backup and target before anything is changed.
pub struct Ground<'a> {
    account: &'a Account,
    /// The database that exists, to which the first connection goes.
    first: &'a str,
    pub admin: Session,
    pub superuser: bool,
    /// True if both servers print values in the same way.
    exact: bool,
    room: Room,
    /// Databases of the target.
    present: Vec<String>,
    /// Extensions that the target can make.
    available: BTreeSet<String>,
    pub pairs: Vec<Pair<'a>>,
}

/// Restores databases of a backup, or parts of them, and compares. Returns the number of rows.
pub async fn restore(account: &Account, fetched: &Fetched, how: &How<'_>) -> Result<Restored, Error> {
    tools::check("pg_restore", account, how.origin).await?;
    let account = &lifted(account).await?;
    let mut ground = Ground::look_at(account, fetched, how).await?;
    let mut states = Vec::new();
    for pair in &ground.pairs {
        let state = ground.state(pair, how).await?;
        tracing::info!(database = pair.into, ?state, "looked at");
        states.push(state);
    }
    let target = ground.target(how);
    let mut databases = Vec::new();
    for (pair, state) in ground.pairs.iter().zip(&states) {
        if *state != State::Done {
            ground.check_extensions(pair)?;
        }
        databases.push(ground.database(pair, state, how).await?);
    }
    let is_part = ground.pairs.iter().any(|pair| pair.is_part);
    if !is_part && states.iter().any(|state| *state != State::Done) {
        make_roles(target, fetched, &mut ground.admin, ground.superuser).await?;
    }
    let (mut rows, mut notes, mut failures) = (0, Vec::new(), Vec::new());
    let (pairs, exact) = (&ground.pairs, ground.exact);
    for ((pair, state), database) in pairs.iter().zip(states).zip(databases) {
        let restored = restore_pair(&ground, pair, state, database, how).await;
        match restored.map_err(|error| reworded(error, |text| format!("database {}: {text}", pair.into))) {
            Ok(said) => {
                tracing::info!(
                    database = pair.into,
                    rows = pair.tables.rows(),
                    exact,
                    "restored, and equal to the backup"
                );
                rows += pair.tables.rows();
                notes.extend(said);
            }
            // The others are restored all the same.
            Err(error) if is_confined(&error) => {
                tracing::error!(database = pair.into, %error, "not restored");
                failures.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    let (failed, all) = (failures.len(), pairs.len());
    if let Some(first) = failures.into_iter().next() {
        let rest = format!(" ({failed} of {all} databases failed, the others are restored)");
        return Err(if failed < all { reworded(first, |text| text + &rest) } else { first });
    }
    for pair in pairs {
        if pair.is_unrecognizable() {
            Progress::forget(&mut Session::open(account, pair.into).await?).await?;
        }
    }
    let left_out: Vec<String> = pairs.iter().flat_map(|pair| pair.left_out().iter().cloned()).collect();
    if !left_out.is_empty() {
        notes.insert(0, format!("left out: {}", left_out.join("; ")));
    }
    Ok(Restored { keys: rows, note: (!notes.is_empty()).then(|| notes.join("; ")) })
}

/// Restores a database, and compares; returns what is to be said of it.
async fn restore_pair(
    ground: &Ground<'_>,
    pair: &Pair<'_>,
    mut state: State,
    database: Option<Database>,
    how: &How<'_>,
) -> Result<Vec<String>, Error> {
    if state == State::Done {
        return Ok(Vec::new());
    }
    let Ground { account, superuser, exact, room, .. } = *ground;
    let target = ground.target(how);
    if state == State::Missing
        && let Some(database) = &database
    {
        database.make(target).await?;
    }
    // It is kept until the end.
    let mut alone = alone(account, pair.into).await?;
    // Another restore may have written since the first look.
    if state != State::Missing {
        state = ground.state(pair, how).await?;
    } else if let tables @ 1.. = alone.relations().await? {
        return Err(Error::TargetHoldsTables { database: pair.into.to_owned(), tables });
    }
    // A restore of a part leaves owner, rights and settings of the database alone.
    if let Some(database) = database.filter(|_| !pair.is_part) {
        database.apply_grants(target).await?;
    }
    if state == State::Done {
        return Ok(Vec::new());
    }
    let mut notes = pair.load(account, &state, superuser, room, how).await?;
    let mut session = Session::open(account, pair.into).await?;
    let otherwise = pair.encoded_otherwise(&mut session).await?;
    let held = held(account, pair, how.parallelism).await?;
    if let Some(difference) = pair.tables.difference(&held, exact && otherwise.is_none()) {
        return Err(Error::Differs(difference));
    }
    notes.extend(otherwise);
    notes.extend(held.uncompared().map(|tables| format!("not compared: {tables}")));
    if pair.is_unrecognizable() {
        // A login may be allowed to make the objects, and no schema. Only another try needs the mark.
        if let Err(error) = Progress::note_end(how.run, &pair.contents, &mut session).await {
            tracing::warn!(database = pair.into, %error, "another try will not see that it is restored");
        }
    } else {
        Progress::forget(&mut session).await?;
    }
    Ok(notes)
}

/// Takes the lock of restores in a database, which the returned session holds. The server may still hold it for an earlier try
/// whose process it does not know to be dead.
async fn alone(account: &Account, database: &str) -> Result<Session, Error> {
    let mut session = Session::open(account, database).await?;
    session.tell(KEEPALIVE).await?;
    let query = format!("SELECT pg_catalog.pg_try_advisory_lock({LOCK})");
    let begun = Instant::now();
    loop {
        if session.ask::<(bool,)>(&query).await?.first().is_some_and(|(is_ours,)| *is_ours) {
            return Ok(session);
        }
        if begun.elapsed() > LOCK_TIMEOUT {
            return Err(Error::TargetHoldsHalf { database: database.to_owned() });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns true if an error is about one database, so that others can be restored.
fn is_confined(error: &Error) -> bool {
    matches!(error, Error::TargetFailed(_) | Error::ScratchFailed(_) | Error::Differs(_))
}

/// An error about one database, in other words. Other errors stay as they are.
fn reworded(error: Error, words: impl FnOnce(String) -> String) -> Error {
    match error {
        Error::TargetFailed(text) => Error::TargetFailed(words(text)),
        Error::ScratchFailed(text) => Error::ScratchFailed(words(text)),
        Error::Differs(text) => Error::Differs(words(text)),
        other => other,
    }
}

/// The rows that the target holds in the tables that are restored.
async fn held(account: &Account, pair: &Pair<'_>, parallelism: u8) -> Result<Tables, Error> {
    let held = pair.tables.shares(parallelism.into()).into_iter().map(|share| async move {
        let mut session = Session::open(account, pair.into).await?;
        session.tables(&share).await
    });
    let all = try_join_all(held).await?;
    Ok(Tables(all.into_iter().flat_map(|share| share.0).collect()))
}

impl<'a> Ground<'a> {
    /// Logs in, and reads what the target has.
    pub async fn look_at(account: &'a Account, fetched: &'a Fetched, how: &How<'_>) -> Result<Self, Error> {
        let first = account.database.as_deref().unwrap_or(MAINTENANCE);
        let mut admin = Session::open(account, first).await?;
        let exact = alike(&admin.version().await?, &fetched.version);
        let (user, room) = (admin.attributes().await?, Room::ask(&mut admin).await?);
        let present: Vec<String> = admin.databases().await?.into_iter().map(|(name, _)| name).collect();
        let available = admin.extensions().await?;
        let mut pairs = Vec::new();
        for dump in chosen(account, fetched, how)? {
            let is_there = present.iter().any(|it| account.database.as_ref().map_or(dump.0, |name| name) == it);
            pairs.push(Pair::of(account, fetched, how, dump, &mut admin, (is_there, user)).await?);
        }
        Ok(Self { account, first, admin, superuser: user.superuser, exact, room, present, available, pairs })
    }

    /// The target, for work that does not concern one of its databases only.
    fn target<'b>(&self, how: &How<'b>) -> Target<'b>
    where
        'a: 'b,
    {
        Target { account: self.account, first: self.first, work: how.work }
    }

    /// Checks that the target can make the extensions of a pair.
    pub fn check_extensions(&self, pair: &Pair<'_>) -> Result<(), Error> {
        let Some(lacking) = pair.contents.extensions().find(|name| !self.available.contains(*name)) else {
            return Ok(());
        };
        let (name, host) = (pair.name, &self.account.host);
        Err(Error::ServerUnfit(format!(
            "database {name} of the backup has the extension {lacking}, which the server {host} lacks: install its package there, or \
             take an image that has it, then restore again"
        )))
    }

    /// Returns the dump's statements about a database that is made, or was just made; none of others. It is an error if the
    /// server cannot make it.
    pub async fn database(&self, pair: &Pair<'_>, state: &State, how: &How<'_>) -> Result<Option<Database>, Error> {
        if !matches!(state, State::Missing | State::Bare) {
            return Ok(None);
        }
        let target = self.target(how);
        let database = Database::read(target, pair.dump, self.superuser).await?;
        if *state == State::Missing {
            database.check(target, pair.into).await?;
        }
        Ok(Some(database))
    }

    /// Reports whether the target has the database of a pair.
    pub fn has(&self, pair: &Pair<'_>) -> bool {
        self.present.iter().any(|name| name == pair.into)
    }

    /// Returns the way in which the database of a pair is restored; an error if it must not be touched.
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
            // Bare: an earlier try may have made it and died then.
            let is_bare = pair.name == pair.into && session.is_bare().await?;
            let empty = if is_bare { State::Bare } else { State::Empty };
            if !pair.replaces_unseen(self.room, how.force) {
                return Ok(empty);
            }
            // No relation does not mean no object: others may depend on the functions or types that are replaced.
            return Ok(match self.full(pair, &mut session, how).await? {
                State::Full(found) if found.is_empty() => empty,
                full => full,
            });
        }
        if pair.is_part && pair.there == 0 {
            let what = format!("to restore a part of database {}", pair.name);
            return self.room.lacks(&what, pair.contents.locks() * 2).map_or(Ok(State::Beside), Err);
        }
        if how.force {
            return self.full(pair, &mut session, how).await;
        }
        // An earlier try that died before it could report has left nothing to do.
        if pair.is_part || session.table_names().await?.len() == pair.tables.0.len() {
            let there = session.tables(&pair.tables).await?;
            let is_known = !there.0.is_empty() && there.uncompared().is_none();
            let exact = self.exact && pair.encoded_otherwise(&mut session).await?.is_none();
            if is_known && pair.tables.difference(&there, exact).is_none() {
                return Ok(State::Done);
            }
        }
        let tables = if pair.is_part { pair.there } else { relations };
        Err(Error::TargetHoldsTables { database: pair.into.to_owned(), tables })
    }

    /// Checks that what it holds can be replaced: in one transaction, and without a drop of other objects that is not allowed.
    async fn full(&self, pair: &Pair<'_>, session: &mut Session, how: &How<'_>) -> Result<State, Error> {
        // Twice the locks: the same transaction also drops what is there.
        let what = format!("to replace what database {} holds", pair.into);
        if let Some(error) = self.room.lacks(&what, pair.contents.locks() * 2) {
            return Err(error);
        }
        let found = pair.dependents(self.account, how.work, session).await?;
        if !how.cascade && !found.is_empty() {
            return Err(refusal(pair.into, &found));
        }
        Ok(State::Full(found))
    }
}

/// Makes the roles that the target lacks, because restored objects belong to them.
async fn make_roles(target: Target<'_>, fetched: &Fetched, admin: &mut Session, superuser: bool) -> Result<(), Error> {
    let Some(globals) = fetched.path(GLOBALS) else { return Ok(()) };
    if !superuser {
        tracing::warn!("the user is no superuser: no roles are made, and all that is restored belongs to this user");
        return Ok(());
    }
    let text = std::fs::read_to_string(globals).map_err(|source| Error::Work { path: globals.to_owned(), source })?;
    target.carry_out(&missing(&text, &admin.roles().await?)).await
}

/// A database as a connection string: a bare name could be taken for a connection string with other parameters.
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
