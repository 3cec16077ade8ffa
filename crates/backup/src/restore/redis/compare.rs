//! Compares the target of a restore with the backup: its keys, and those without a time to live.

use std::collections::BTreeMap;

use super::super::MARK;
use super::super::redis_copy::{Trouble, lasting_of, present_of, scan};
use super::super::redis_room::Room;
use super::{Pair, ask, from, into, keyspace};
use crate::Error;
use crate::source::{Keyspace, Link, LinkError, Node, Reply};

impl Pair<'_> {
    /// How many keys the backup has in a database that have not expired, and how many of them the target lacks. The target is
    /// asked first: what the backup's server still has after that had not expired when the target was asked.
    async fn count_lost(&mut self, number: u32) -> Result<(u64, u64), Error> {
        let (mut cursor, mut all, mut lost) = ("0".to_owned(), 0, 0);
        loop {
            let (next, more, lacking) = self
                .again(number, async |from, into, _| {
                    let (next, mut keys) = scan(from, &cursor).await.map_err(Trouble::From)?;
                    keys.retain(|key| key != MARK.as_bytes());
                    let present = present_of(into, &keys).await.map_err(Trouble::Into)?;
                    let all = keys.len() as u64;
                    let absent: Vec<_> = keys.into_iter().zip(present).filter(|(_, there)| !there).collect();
                    let absent: Vec<Vec<u8>> = absent.into_iter().map(|(key, _)| key).collect();
                    let lacking = lasting_of(from, &absent).await.map_err(Trouble::From)?;
                    Ok((next, all - (absent.len() as u64 - lacking), lacking))
                })
                .await?;
            (all, lost) = (all + more, lost + lacking);
            if next == "0" {
                return Ok((all, lost));
            }
            cursor = next;
        }
    }

    /// Checks that the target has each key of the backup, and as many keys without a time to live.
    pub(super) async fn compare(&mut self, held: &BTreeMap<u32, Keyspace>) -> Result<(), Error> {
        let (mut all, mut lost) = (0, 0);
        for number in held.keys() {
            let (more, lacking) = self.count_lost(*number).await?;
            (all, lost) = (all + more, lost + lacking);
        }
        let now = Room::read(&Node::ask(&mut self.into).await.map_err(into)?);
        let evicted = now.evicted_since(&self.room);
        if lost > 0 && evicted > 0 {
            return Err(now.evicting(evicted, (all - lost, all), self.target));
        }
        if evicted > 0 {
            tracing::warn!(evicted, "keys were evicted meanwhile, and none that the backup has");
        }
        if lost > 0 {
            let message = format!(
                "{} lacks {lost} of {all} keys: others delete keys of it, or another master took over",
                self.target.title
            );
            return Err(Error::Differs(message));
        }
        let held = lasting(&mut self.from).await.map_err(from)?;
        let there = lasting(&mut self.into).await.map_err(into)?;
        if held == there {
            return Ok(());
        }
        let message = format!(
            "keys by database are {there:?}, and {held:?} in the backup: others write to {} meanwhile",
            self.target.title
        );
        Err(Error::Differs(message))
    }
}

/// How many keys without a time to live each database has, without the mark. The mark of a failed restore is such a key.
async fn lasting(link: &mut Link) -> Result<BTreeMap<u32, u64>, LinkError> {
    let marked = ask(link, 0, &["PTTL", MARK]).await? == Reply::Number(-1);
    Ok(without_mark(&keyspace(link).await?, marked))
}

pub(super) fn without_mark(spaces: &BTreeMap<u32, Keyspace>, marked: bool) -> BTreeMap<u32, u64> {
    let keys = spaces.iter().map(|(number, space)| {
        let mark = u64::from(marked && *number == 0);
        (*number, space.keys.saturating_sub(space.expiring + mark))
    });
    keys.filter(|(_, keys)| *keys > 0).collect()
}
