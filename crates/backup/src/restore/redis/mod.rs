//! Redis and Valkey: every key is copied as its server dumps it, with its time to live, database after database, and
//! functions with them.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use causeway_api::databaserestore::RestoreAction;

use super::redis_copy::{Times, Trouble, copy, present_of, scan, unlink_lacking};
use super::redis_room::{Room, bytes_of_keys, share};
use super::{MARK, ready};
use crate::Error;
use crate::manifest::Manifest;
use crate::outlook::Outlook;
use crate::plan::{Server, Source};
use crate::progress::Progress;
use crate::source::{Keyspace, Link, LinkError, Node, Reply, find_master};
use crate::store::pauses;

/// Milliseconds for which the mark of a finished restore stays if its process dies before it has written its report. Otherwise
/// the mark is removed right after the report.
const REMEMBERED: &str = "600000";
/// The prefix of an error if a node has no memory left and evicts nothing.
const FULL: &str = "OOM ";
/// The prefix of the mark of a finished restore.
const DONE: &str = "done:";

/// Both ends of a restore.
struct Pair<'a> {
    scratch: &'a str,
    target: &'a Source,
    from: Link,
    into: Link,
    times: Times,
    /// The bytes that the keys of the backup take, if its server reports that.
    bytes: Option<u64>,
    /// The target's memory before the restore; after a failover, that of the new master.
    room: Room,
    /// How often both connections were made again.
    reopened: u32,
}

/// Copies all keys into the target's master.
pub async fn restore(scratch: &str, target: &Source, force: bool, run: &str) -> Result<u64, Error> {
    let mut pair = Pair::open(scratch, target).await?;
    let (held, there) = (keyspace(&mut pair.from).await.map_err(from)?, keyspace(&mut pair.into).await.map_err(into)?);
    let all = number_of_keys(&mut pair.from, &held).await.map_err(from)?;
    let keys = number_of_keys(&mut pair.into, &there).await.map_err(into)?;
    let mark = ask(&mut pair.into, 0, &["GET", MARK]).await.map_err(into)?;
    let done = format!("{DONE}{run}");
    if mark.text() == done {
        tracing::info!(target = target.title, keys, "restored before");
        return Ok(all);
    }
    if let Some(refusal) = refusal(keys, force, run, &mark) {
        return Err(refusal);
    }
    let last = held.keys().next_back().copied().unwrap_or_default();
    pair.check_databases(last).await?;
    let present = if pair.room.is_bounded() && keys > 0 { pair.present(held.keys()).await? } else { (all, 0) };
    if let Some(error) = pair.room.lacks(pair.needed(present), target) {
        return Err(error);
    }
    let lacking: Vec<u32> = there.into_keys().filter(|_| force).collect();
    let over = mark.text();
    let copied = match pair.copy_all(&held, &lacking, (force, (run, &over), all)).await {
        Err(Error::TargetFailed(message)) if message.starts_with(FULL) && pair.room.is_bounded() => {
            return Err(pair.room.full(pair.bytes.unwrap_or_default(), target));
        }
        copied => copied?,
    };
    pair.compare(&held).await?;
    pair.check_mark(run).await?;
    ask(&mut pair.into, 0, &["SET", MARK, &done, "PX", REMEMBERED]).await.map_err(into)?;
    tracing::info!(target = target.title, keys = copied, "restored, and all keys of the backup are there");
    Ok(copied)
}

/// Predicts what a restore would do: how many keys it would create, replace and drop.
pub async fn outlook(scratch: &str, target: &Source, force: bool, run: &str) -> Result<Outlook, Error> {
    let mut pair = Pair::open(scratch, target).await?;
    let (held, there) = (keyspace(&mut pair.from).await.map_err(from)?, keyspace(&mut pair.into).await.map_err(into)?);
    let keys = number_of_keys(&mut pair.into, &there).await.map_err(into)?;
    let mark = ask(&mut pair.into, 0, &["GET", MARK]).await.map_err(into)?;
    let mut outlook = Outlook::default();
    if let Some(refusal) = refusal(keys, force, run, &mark) {
        outlook.refuse(&refusal);
    }
    let last = held.keys().next_back().copied().unwrap_or_default();
    outlook.note(pair.check_databases(last).await)?;
    let (all, present) = pair.present(held.keys()).await?;
    outlook.note(pair.room.lacks(pair.needed((all, present)), target).map_or(Ok(()), Err))?;
    outlook.count(RestoreAction::Create, "keys", all - present);
    outlook.count(RestoreAction::Replace, "keys", present);
    outlook.count(RestoreAction::Drop, "keys", keys.saturating_sub(present));
    Ok(outlook)
}

/// Removes the mark of a finished restore.
pub async fn forget(target: &Source) -> Result<(), Error> {
    let mut link = master_of(target).await?.0;
    if ask(&mut link, 0, &["GET", MARK]).await.map_err(into)?.text().starts_with(DONE) {
        ask(&mut link, 0, &["DEL", MARK]).await.map_err(into)?;
    }
    Ok(())
}

async fn master_of(target: &Source) -> Result<(Link, Node), Error> {
    let Server::Redis { addresses, login, tls } = &target.server else {
        return Err(Error::Unsupported(format!("{} is no Redis", target.title)));
    };
    find_master(addresses, tls.as_deref(), login.as_deref()).await
}

/// Explains why a target with that many keys is not touched; none if it may be.
fn refusal(keys: u64, force: bool, run: &str, mark: &Reply) -> Option<Error> {
    // A restore that has just begun has written its mark and no key yet.
    let half = *mark != Reply::Nil && !mark.text().starts_with(DONE);
    ((keys > 0 || half) && !force && mark.text() != run)
        .then(|| if half { Error::TargetHalfRestored { keys } } else { Error::TargetNotEmpty { keys } })
}

/// Compares the server that holds the backup with what was counted when it was made.
pub async fn verify(scratch: &str, manifest: &Manifest) -> Result<u64, Error> {
    let node = scratch_link(scratch).await?.1;
    let loaded = node.number("rdb_last_load_keys_loaded");
    let found = match loaded {
        Some(loaded) => loaded + node.number("rdb_last_load_keys_expired").unwrap_or_default(),
        // Before Redis 7.0: keys that expired meanwhile are not counted.
        None => node.keyspace().values().map(|space| space.keys).sum(),
    };
    let expected = manifest.contents.keys;
    let exact = loaded.is_some() && !manifest.contents.facts.contains_key("approximate");
    if (exact && found != expected) || (expected > 0 && found == 0 && loaded.is_some()) {
        return Err(Error::Differs(format!("{found} keys were loaded, and there were {expected}")));
    }
    tracing::info!(keys = found, exact, "verified");
    Ok(found)
}

impl<'a> Pair<'a> {
    async fn open(scratch: &'a str, target: &'a Source) -> Result<Self, Error> {
        let (from, node) = scratch_link(scratch).await?;
        let (into, master) = master_of(target).await?;
        let major = node.field("redis_version").split('.').next().and_then(|major| major.parse::<u32>().ok());
        let times = if major.is_some_and(|major| major >= 7) { Times::Absolute } else { Times::Relative };
        let (bytes, room) = (bytes_of_keys(&node), Room::read(&master));
        Ok(Self { scratch, target, from, into, times, bytes, room, reopened: 0 })
    }

    /// Does work on a database that may be done twice, until it succeeds or its error is not transient. In between, the
    /// target may have got another master.
    async fn again<T>(
        &mut self,
        number: u32,
        mut work: impl AsyncFnMut(&mut Link, &mut Link, Times) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let mut pauses = pauses();
        loop {
            let done = async {
                select(&mut self.from, number).await.map_err(Trouble::From)?;
                select(&mut self.into, number).await.map_err(Trouble::Into)?;
                work(&mut self.from, &mut self.into, self.times).await
            };
            let mut error = match done.await {
                Ok(done) => return Ok(done),
                Err(trouble) if passes(&trouble) => error_of(trouble),
                Err(trouble) => return Err(error_of(trouble)),
            };
            // Late answers must not be taken for those of the next try: both connections are made again.
            loop {
                let Some(pause) = pauses.next() else { return Err(error) };
                tracing::warn!(%error, again_ms = pause.as_millis(), "interrupted");
                tokio::time::sleep(pause).await;
                match Self::open(self.scratch, self.target).await {
                    Ok(pair) => {
                        let is_same = pair.room.is_same_process(&self.room);
                        let room = if is_same { self.room.clone() } else { pair.room.clone() };
                        *self = Self { reopened: self.reopened + 1, room, ..pair };
                        break;
                    }
                    Err(other) => error = other,
                }
            }
        }
    }

    /// Copies everything, and with `force` deletes what the backup lacks. Returns how many keys were copied.
    async fn copy_all(
        &mut self,
        held: &BTreeMap<u32, Keyspace>,
        lacking: &[u32],
        (force, (run, over), all): (bool, (&str, &str), u64),
    ) -> Result<u64, Error> {
        let progress = Progress::new(&self.target.title, "keys");
        loop {
            let (reopened, before) = (self.reopened, progress.passed());
            progress.expect(Some(before + all));
            self.mark(run, over).await?;
            self.add_functions(force).await?;
            for number in held.keys() {
                progress.during(self.copy_database(*number, &progress)).await?;
            }
            // Only after all is copied: a target that cannot take what the backup has keeps what it had.
            for number in lacking {
                self.delete_lacking(*number).await?;
            }
            if force {
                self.load_functions("FLUSH").await?;
            }
            if self.reopened == reopened {
                return Ok(progress.passed() - before);
            }
            // A new master may lack what the old one acknowledged. If the server that holds the backup was restarted, it
            // returns its keys in another order. Copying a key twice does no harm.
            tracing::warn!("connections were opened again meanwhile: everything is copied once more");
        }
    }

    /// Checks that the target has the last database of the backup, and so the others.
    async fn check_databases(&mut self, last: u32) -> Result<(), Error> {
        match select(&mut self.into, last).await {
            Err(LinkError::Refused(message)) if message.contains("out of range") => Err(Error::ServerUnfit(format!(
                "the backup has keys in database {last}, which {} does not have: set databases of its configuration to {} or \
                 more, start it again, then restore again",
                self.target.title,
                last + 1
            ))),
            selected => selected.map_err(into),
        }
    }

    /// How many bytes the target needs for the backup, if it has some of the backup's keys.
    fn needed(&self, (all, present): (u64, u64)) -> u64 {
        self.bytes.map_or(0, |bytes| share(bytes, all.saturating_sub(present), all))
    }

    /// How many keys the backup has in these databases, and how many of them the target has.
    async fn present(&mut self, numbers: impl Iterator<Item = &u32>) -> Result<(u64, u64), Error> {
        let (mut all, mut present) = (0, 0);
        for number in numbers {
            let (more, found) = self.count_present(*number).await?;
            (all, present) = (all + more, present + found);
        }
        Ok((all, present))
    }

    /// Writes the mark, over that of an earlier try or of the run `over`. It is an error if yet another restore has the target.
    async fn mark(&mut self, run: &str, over: &str) -> Result<(), Error> {
        let is_ours = self.again(0, async |_, into, _| claim(into, run, over).await.map_err(Trouble::Into)).await?;
        if is_ours { Ok(()) } else { Err(self.taken().await?) }
    }

    /// Checks that no other restore took the target over by force. A new master may lack the mark.
    async fn check_mark(&mut self, run: &str) -> Result<(), Error> {
        let mark = self.again(0, async |_, into, _| into.ask(&["GET", MARK]).await.map_err(Trouble::Into)).await?;
        if mark == Reply::Nil || mark.text() == run { Ok(()) } else { Err(self.taken().await?) }
    }

    /// The error if another restore has the target.
    async fn taken(&mut self) -> Result<Error, Error> {
        let there = keyspace(&mut self.into).await.map_err(into)?;
        let keys = number_of_keys(&mut self.into, &there).await.map_err(into)?;
        Ok(Error::TargetHalfRestored { keys })
    }

    async fn copy_database(&mut self, number: u32, progress: &Progress) -> Result<(), Error> {
        let mut cursor = "0".to_owned();
        loop {
            let (next, copied) = self
                .again(number, async |from, into, times| {
                    let (next, mut keys) = scan(from, &cursor).await.map_err(Trouble::From)?;
                    keys.retain(|key| key != MARK.as_bytes());
                    Ok((next, copy(from, into, &keys, times).await?))
                })
                .await?;
            progress.pass(copied);
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn delete_lacking(&mut self, number: u32) -> Result<(), Error> {
        let (mut cursor, mut deleted) = ("0".to_owned(), 0);
        loop {
            let (next, more) = self
                .again(number, async |from, into, _| {
                    let (next, mut keys) = scan(into, &cursor).await.map_err(Trouble::Into)?;
                    keys.retain(|key| key != MARK.as_bytes());
                    Ok((next, unlink_lacking(from, into, &keys).await?))
                })
                .await?;
            deleted += more;
            if next == "0" {
                tracing::info!(database = number, keys = deleted, "deleted what the backup lacks");
                return Ok(());
            }
            cursor = next;
        }
    }

    /// How many keys the backup has in a database, and how many of them the target has. A key that SCAN returns twice is
    /// counted twice.
    async fn count_present(&mut self, number: u32) -> Result<(u64, u64), Error> {
        let (mut cursor, mut all, mut present) = ("0".to_owned(), 0, 0);
        loop {
            let (next, more, found) = self
                .again(number, async |from, into, _| {
                    let (next, mut keys) = scan(from, &cursor).await.map_err(Trouble::From)?;
                    keys.retain(|key| key != MARK.as_bytes());
                    let found = present_of(into, &keys).await.map_err(Trouble::Into)?;
                    Ok((next, keys.len() as u64, found.iter().filter(|it| **it).count() as u64))
                })
                .await?;
            (all, present) = (all + more, present + found);
            if next == "0" {
                return Ok((all, present));
            }
            cursor = next;
        }
    }

    /// Adds the functions to those of the target, and replaces libraries of the same name. With `force`, functions that cannot
    /// be beside those of the target are left for later: they are loaded in their place.
    async fn add_functions(&mut self, force: bool) -> Result<(), Error> {
        match self.load_functions("REPLACE").await {
            Err(Error::TargetFailed(message)) if force && message.contains("already exists") => {
                tracing::info!(problem = message, "the functions are loaded after the keys");
                Ok(())
            }
            done => done,
        }
    }

    /// Loads the functions by this policy: `REPLACE` keeps libraries that the backup lacks, and `FLUSH` drops them.
    /// <https://redis.io/docs/latest/commands/function-restore/>
    async fn load_functions(&mut self, policy: &str) -> Result<(), Error> {
        self.again(0, async |from, into, _| {
            let functions = match from.ask(&["FUNCTION", "DUMP"]).await {
                Ok(Reply::Bytes(functions)) => functions,
                // Redis before 7.0 has none.
                Ok(_) | Err(LinkError::Refused(_)) => return Ok(()),
                Err(error) => return Err(Trouble::From(error)),
            };
            let parts = [b"FUNCTION".as_slice(), b"RESTORE", &functions, policy.as_bytes()];
            into.ask(&parts).await.map(drop).map_err(Trouble::Into)
        })
        .await
    }
}

/// Writes the mark if there is none, or that of the run `over`. Returns whether the mark then is that of `run`: of two restores
/// at once, only one finds none.
async fn claim(link: &mut Link, run: &str, over: &str) -> Result<bool, LinkError> {
    if link.ask(&["SET", MARK, run, "NX"]).await? != Reply::Nil {
        return Ok(true);
    }
    let there = link.ask(&["GET", MARK]).await?.text();
    if there != run && there != over {
        return Ok(false);
    }
    // The mark of a finished restore expires: this one must not.
    link.ask(&["SET", MARK, run]).await.map(|_| true)
}

async fn select(link: &mut Link, number: u32) -> Result<(), LinkError> {
    link.ask(&["SELECT", &number.to_string()]).await.map(drop)
}

async fn ask(link: &mut Link, number: u32, parts: &[&str]) -> Result<Reply, LinkError> {
    select(link, number).await?;
    link.ask(parts).await
}

async fn keyspace(link: &mut Link) -> Result<BTreeMap<u32, Keyspace>, LinkError> {
    Node::ask(link).await.map(|node| node.keyspace())
}

/// How many keys one of the two servers has besides the mark, which may also have been in it when it was backed up.
async fn number_of_keys(link: &mut Link, spaces: &BTreeMap<u32, Keyspace>) -> Result<u64, LinkError> {
    let marked = ask(link, 0, &["EXISTS", MARK]).await? == Reply::Number(1);
    Ok(spaces.values().map(|space| space.keys).sum::<u64>().saturating_sub(u64::from(marked)))
}

async fn scratch_link(address: &str) -> Result<(Link, Node), Error> {
    ready(address, async || {
        let mut link = Link::open(address, None, None).await.map_err(|error| error.to_string())?;
        let node = Node::ask(&mut link).await.map_err(|error| error.to_string())?;
        if node.is_loading() { Err("it is loading the backup".to_owned()) } else { Ok((link, node)) }
    })
    .await
}

/// Reports whether the next try may succeed: the connection broke, or the node is no longer the master.
fn passes(trouble: &Trouble) -> bool {
    let (Trouble::From(error) | Trouble::Into(error)) = trouble;
    match error {
        LinkError::Broken(_) | LinkError::Silent => true,
        LinkError::Refused(message) => ["LOADING", "READONLY", "NOREPLICAS", "MASTERDOWN", "TRYAGAIN", "BUSY "]
            .iter()
            .any(|word| message.starts_with(word)),
        LinkError::Strange(_) => false,
    }
}

fn error_of(trouble: Trouble) -> Error {
    match trouble {
        Trouble::From(error) => from(error),
        Trouble::Into(error) => into(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn from(error: LinkError) -> Error {
    Error::ScratchFailed(error.to_string())
}

fn into(error: LinkError) -> Error {
    match error {
        LinkError::Refused(message) if message.contains("DUMP payload version") => Error::Unsupported(format!(
            "the target is of an older version than the server that was backed up, and cannot read its values: {message}"
        )),
        error => Error::TargetFailed(error.to_string()),
    }
}
