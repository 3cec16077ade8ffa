//! Redis and Valkey: the data come as a replica gets them, without a file on the server's disk if the server supports that.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>

mod count;
mod framing;
mod link;
mod node;
mod rdb;

use std::collections::BTreeMap;
use std::path::Path;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::bytes::Bytes;

use count::Uncounted;
use framing::Framing;
use rdb::{Proof, RdbCheck};

use crate::Error;
use crate::manifest::{Contents, MODULES};

pub use link::{Link, LinkError, Reply, command};
pub use node::{Keyspace, Node, find_master};

/// Bytes that are taken at once.
const CHUNK: u64 = 256 * 1024;
/// Chunks that the count may be behind.
const BEHIND: usize = 8;

/// A running dump.
pub struct Replication {
    link: Link,
    framing: Framing,
    expected: Option<u64>,
    check: Option<RdbCheck>,
    proof: Option<Proof>,
    count: Count,
    node: Node,
}

/// Counts the keys while the data pass, in a thread of its own.
struct Count {
    /// None when all data came, or when the count gave up.
    sender: Option<mpsc::Sender<Bytes>>,
    counting: Option<JoinHandle<Result<BTreeMap<u32, u64>, Uncounted>>>,
    /// Keys by database, if they could be counted.
    counted: Option<BTreeMap<u32, u64>>,
}

impl Count {
    fn begin() -> Self {
        let (sender, receiver) = mpsc::channel(BEHIND);
        let counting = tokio::task::spawn_blocking(move || count::count(receiver));
        Self { sender: Some(sender), counting: Some(counting), counted: None }
    }

    async fn push(&mut self, data: &Bytes) {
        if let Some(sender) = &self.sender
            && sender.send(data.clone()).await.is_err()
        {
            self.sender = None;
        }
    }

    async fn end(&mut self) {
        self.sender = None;
        let Some(counting) = self.counting.take() else { return };
        match counting.await {
            Ok(Ok(counted)) => self.counted = Some(counted),
            Ok(Err(why)) => tracing::warn!(?why, "the keys were counted only roughly"),
            Err(error) => tracing::warn!(%error, "the keys were counted only roughly"),
        }
    }
}

impl Replication {
    /// Asks the first node that is fit for its data.
    pub async fn open(addresses: &[String], tls: Option<&Path>, login: Option<&Path>) -> Result<Self, Error> {
        let mut refusals = Vec::new();
        for address in addresses {
            match Self::open_at(address, tls, login).await {
                Ok(replication) => return Ok(replication),
                Err(error @ Error::Secret { .. }) => return Err(error),
                Err(Error::SourceUnreachable(problem)) => refusals.push(problem),
                Err(error) => refusals.push(error.to_string()),
            }
            tracing::warn!(address, problem = refusals.last(), "not backed up from there");
        }
        Err(Error::SourceUnreachable(refusals.join("; ")))
    }

    async fn open_at(address: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Self, Error> {
        let refused = |problem: String| Error::SourceUnreachable(format!("{address}: {problem}"));
        let mut link = Link::open(address, tls, login).await?;
        let node = Node::ask(&mut link).await.map_err(|error| refused(error.to_string()))?;
        if let Some(why) = node.is_unfit() {
            return Err(refused(why.into()));
        }
        let framing = request(&mut link).await.map_err(|error| refused(error.to_string()))?;
        tracing::info!(
            address,
            version = node.version(),
            server = node.server(),
            role = node.field("role"),
            "a node sends its data"
        );
        let expected = match &framing {
            Framing::Sized(bytes) => Some(*bytes),
            Framing::Marked { .. } => None,
        };
        Ok(Self { link, framing, expected, check: Some(RdbCheck::default()), proof: None, count: Count::begin(), node })
    }

    pub(super) fn expected(&self) -> Option<u64> {
        self.expected
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.framing.is_over() {
            let chunk = self.link.chunk(self.framing.room().min(CHUNK)).await;
            let chunk = chunk.map_err(|error| Error::SourceFailed(error.to_string()))?;
            let data = self.framing.push(chunk);
            if let Some(check) = self.check.as_mut().filter(|_| !data.is_empty()) {
                check.push(&data);
                self.count.push(&data).await;
                return Ok(Some(data));
            }
        }
        if let Some(check) = self.check.take() {
            let proof = check.finish().map_err(Error::SourceDamaged)?;
            if proof == Proof::None {
                tracing::warn!("the server writes no checksum (rdbchecksum no): the data are taken as they came");
            }
            self.proof = Some(proof);
            self.count.end().await;
        }
        Ok(None)
    }

    pub(super) fn finish(self) -> (String, Contents) {
        let mut facts = BTreeMap::new();
        let keys = self.count.counted.unwrap_or_else(|| {
            // The keys before the node began to send. The data also have what was written until then.
            facts.insert("approximate".into(), "true".into());
            self.node.keyspace().into_iter().map(|(number, space)| (number, space.keys)).collect()
        });
        facts.insert("server".into(), self.node.server().into());
        facts.extend(self.node.modules().map(|names| (MODULES.into(), names)));
        facts.insert("checksum".into(), if self.proof == Some(Proof::Checksum) { "crc64" } else { "none" }.into());
        facts.extend(keys.iter().map(|(number, keys)| (format!("db{number}"), keys.to_string())));
        (self.node.version().to_owned(), Contents { keys: keys.values().sum(), facts })
    }
}

/// Asks for the data as a replica does, and reads up to where they begin.
async fn request(link: &mut Link) -> Result<Framing, LinkError> {
    // `rdb-only`: the node need not send what is written later. `capa eof`: a node that can sends without a file on its
    // disk. Older nodes refuse options that they do not know, which does not matter.
    for words in [["REPLCONF", "rdb-only", "1"], ["REPLCONF", "capa", "eof"]] {
        match link.ask(&words).await {
            Ok(_) | Err(LinkError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    link.send(&command(&["PSYNC", "?", "-1"])).await?;
    let mut answer = link.line().await?;
    if answer.starts_with("-ERR unknown command") {
        link.send(&command(&["SYNC"])).await?;
        answer = link.line().await?;
    } else if answer.starts_with("+FULLRESYNC") {
        answer = link.line().await?;
    }
    match answer.strip_prefix('-') {
        Some(message) => Err(LinkError::Refused(message.to_owned())),
        None => Framing::announced(&answer).ok_or(LinkError::Strange(answer)),
    }
}
