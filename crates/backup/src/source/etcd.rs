//! etcd's snapshot: its database file as it is, followed by the SHA-256 of that.
//!
//! The hash is checked as the bytes come, and stored with them, because `etcdutl snapshot restore` checks it again.
//! <https://etcd.io/docs/v3.5/op-guide/recovery/>

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use etcd_client::{Client, Error as EtcdError, GetOptions, SnapshotStreaming};
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tokio_util::bytes::Bytes;

use super::{READ_TIMEOUT, connect_etcd, etcd_problem};
use crate::Error;
use crate::manifest::Contents;

/// Deadline of calls that a member answers from memory.
const DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of the hash of all keys, for which a member reads all of them.
const HASH_DEADLINE: Duration = Duration::from_mins(2);
/// Bytes of the hash at the end.
const HASH: usize = 32;

/// A snapshot that is being received.
pub struct Snapshot {
    stream: SnapshotStreaming,
    /// Keeps the connection open.
    _client: Client,
    tail: HashTail,
    expected: Option<u64>,
    version: String,
    contents: Contents,
}

impl Snapshot {
    /// Asks the first member that is fit for its snapshot.
    pub async fn open(endpoints: &[String], tls: Option<&Path>, login: Option<&Path>) -> Result<Self, Error> {
        let mut refusals = Vec::new();
        for url in endpoints {
            match Self::open_at(url, tls, login).await {
                Ok(snapshot) => return Ok(snapshot),
                Err(error @ Error::Secret { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(endpoint = url, %error, "not backed up from there");
                    refusals.push(error.to_string());
                }
            }
        }
        Err(Error::SourceUnreachable(refusals.join("; ")))
    }

    async fn open_at(url: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Self, Error> {
        let refused = |problem: String| Error::SourceUnreachable(format!("{url}: {problem}"));
        let mut client = connect_etcd(url, tls, login).await?;
        let status = answer(DEADLINE, client.status()).await.map_err(refused)?;
        if status.is_learner() {
            return Err(refused("it is a learner and has not all data yet".into()));
        }
        if status.leader() == 0 {
            return Err(refused("it knows no leader and may be behind".into()));
        }
        let contents = contents(&mut client).await.map_err(refused)?;
        let stream = answer(DEADLINE, client.snapshot()).await.map_err(refused)?;
        let version = status.version().to_owned();
        tracing::info!(
            endpoint = url,
            version,
            database_bytes = status.db_size(),
            keys = contents.keys,
            facts = ?contents.facts,
            "a member sends its snapshot"
        );
        Ok(Self { stream, _client: client, tail: HashTail::default(), expected: None, version, contents })
    }

    pub(super) fn expected(&self) -> Option<u64> {
        self.expected
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let message = match timeout(READ_TIMEOUT, self.stream.message()).await {
                Ok(Ok(message)) => message,
                Ok(Err(error)) => return Err(Error::SourceFailed(etcd_problem(&error))),
                Err(_) => return Err(Error::SourceFailed(format!("nothing came for {} s", READ_TIMEOUT.as_secs()))),
            };
            let Some(message) = message else {
                self.tail.check().map_err(Error::SourceDamaged)?;
                return Ok(None);
            };
            let blob = message.blob();
            if self.expected.is_none() {
                // The remaining bytes that the member reports do not include the hash.
                self.expected = Some(blob.len() as u64 + message.remaining_bytes());
            }
            if !blob.is_empty() {
                self.tail.push(blob);
                return Ok(Some(Bytes::copy_from_slice(blob)));
            }
        }
    }

    pub(super) fn finish(self) -> (String, Contents) {
        (self.version, self.contents)
    }
}

/// Returns what the database holds just before the snapshot: the keys at a revision, and the hash of them and of their history.
///
/// The snapshot has that revision, and what came after it. If a compaction in between removes history, `compactRevision`
/// differs, and the hashes cannot be compared.
async fn contents(client: &mut Client) -> Result<Contents, String> {
    let options = GetOptions::new().with_all_keys().with_count_only();
    let counted = answer(DEADLINE, client.get("", Some(options))).await?;
    let (member, revision) = counted.header().map_or((0, 0), |header| (header.member_id(), header.revision()));
    let mut facts = BTreeMap::from([("revision".to_owned(), revision.to_string())]);
    match answer(HASH_DEADLINE, client.hash_kv(revision)).await {
        Ok(hash) if hash.header().is_some_and(|header| header.member_id() == member) => {
            facts.insert("hash".into(), hash.hash().to_string());
            facts.insert("compactRevision".into(), hash.compact_version().to_string());
        }
        Ok(_) => tracing::warn!("another member answered: a verification will compare keys, but no hash"),
        Err(problem) => tracing::warn!(problem, "no hash: a verification will compare keys, but no hash"),
    }
    Ok(Contents { keys: u64::try_from(counted.count()).unwrap_or_default(), facts })
}

async fn answer<T>(deadline: Duration, asked: impl Future<Output = Result<T, EtcdError>>) -> Result<T, String> {
    match timeout(deadline, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(etcd_problem(&error)),
        Err(_) => Err(format!("no answer within {} s", deadline.as_secs())),
    }
}

/// Hashes all but the last 32 bytes, which are the hash.
#[derive(Default)]
struct HashTail {
    hashed: Sha256,
    last: Vec<u8>,
}

impl HashTail {
    fn push(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        let certain = self.last.len().saturating_sub(HASH);
        self.hashed.update(&self.last[..certain]);
        self.last.drain(..certain);
    }

    fn check(&mut self) -> Result<(), String> {
        if self.last.len() < HASH {
            return Err(format!("the snapshot ended after {} bytes", self.last.len()));
        }
        let found = std::mem::take(&mut self.hashed).finalize();
        if found.as_slice() == self.last.as_slice() {
            return Ok(());
        }
        Err("the snapshot is not what the hash at its end says".into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot(data: &[u8]) -> Vec<u8> {
        let mut whole = data.to_vec();
        whole.extend_from_slice(&Sha256::digest(data));
        whole
    }

    fn check(bytes: &[u8], chunk: usize) -> Result<(), String> {
        let mut tail = HashTail::default();
        bytes.chunks(chunk).for_each(|chunk| tail.push(chunk));
        tail.check()
    }

    proptest! {
        #[test]
        fn a_whole_snapshot_is_good_however_it_is_cut(data in prop::collection::vec(any::<u8>(), 0..2000), chunk in 1..300_usize) {
            prop_assert_eq!(check(&snapshot(&data), chunk), Ok(()));
        }

        #[test]
        fn a_damaged_snapshot_is_detected(
            data in prop::collection::vec(any::<u8>(), 1..500),
            chunk in 1..100_usize,
            at in any::<prop::sample::Index>(),
        ) {
            let whole = snapshot(&data);
            let at = at.index(whole.len());
            prop_assert!(check(&whole[..at], chunk).is_err(), "cut at {}", at);
            let mut flipped = whole;
            flipped[at] ^= 1;
            prop_assert!(check(&flipped, chunk).is_err(), "flipped at {}", at);
        }
    }
}
