//! Databases as streams of bytes that are verified: a stream reports its end only if the database's own checksum is right.

mod connection;
mod etcd;
mod redis;

use std::path::Path;
use std::time::Duration;

use tokio_util::bytes::Bytes;

use super::Error;
use super::manifest::Contents;
use super::plan::{Server, Source};
use super::relay::{Receipt, Relayed};
use super::report::KeptLog;
use super::sql::SqlDump;

pub use connection::{connect_etcd, etcd_problem};
pub use redis::{Keyspace, Link, LinkError, Node, Reply, command, find_master};

/// How long a server may send nothing while data should flow.
pub const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// A running dump of a database.
pub enum Dump {
    /// etcd's snapshot.
    Etcd(Box<etcd::Snapshot>),
    /// Redis' replication stream.
    Redis(Box<redis::Replication>),
    /// The output of programs of PostgreSQL or MySQL.
    Sql(Box<SqlDump>),
    /// The dump of another container.
    Relayed(Box<Relayed>),
}

impl Dump {
    /// Finds a server that can be backed up and asks it for its data. `slot` is the replication slot of the plan.
    pub async fn open(source: &Source, slot: &str) -> Result<Self, Error> {
        match &source.server {
            Server::Etcd { endpoints, tls, login } => {
                let snapshot = etcd::Snapshot::open(endpoints, tls.as_deref(), login.as_deref()).await?;
                Ok(Self::Etcd(Box::new(snapshot)))
            }
            Server::Redis { addresses, login, tls } => {
                let replication = redis::Replication::open(addresses, tls.as_deref(), login.as_deref()).await?;
                Ok(Self::Redis(Box::new(replication)))
            }
            Server::Postgresql(server) => Ok(Self::Sql(Box::new(SqlDump::postgres(server, slot).await?))),
            Server::Mysql(server) => Ok(Self::Sql(Box::new(SqlDump::mysql(server).await?))),
        }
    }

    /// Asks the container that listens at that socket for the data.
    pub async fn from_socket(socket: &Path, source: &Source) -> Result<Self, Error> {
        Ok(Self::Relayed(Box::new(Relayed::open(socket, source).await?)))
    }

    /// `etcd`, `redis`, `postgresql` and so on, as manifests have it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Etcd(_) => "etcd",
            Self::Redis(_) => "redis",
            Self::Sql(dump) => dump.kind(),
            Self::Relayed(relayed) => relayed.kind(),
        }
    }

    /// How many bytes will come, if that is known.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        match self {
            Self::Etcd(snapshot) => snapshot.expected(),
            Self::Redis(replication) => replication.expected(),
            Self::Sql(_) => None,
            Self::Relayed(relayed) => relayed.expected(),
        }
    }

    /// The log that the server keeps, if it reports that. It does so before the data.
    #[must_use]
    pub fn kept_log(&self) -> Option<KeptLog> {
        match self {
            Self::Etcd(_) | Self::Redis(_) => None,
            Self::Sql(dump) => dump.kept_log(),
            Self::Relayed(relayed) => relayed.kept_log(),
        }
    }

    /// Returns what went wrong although the dump is good, once all data came: a hook after it that failed. Only the container
    /// that dumps runs hooks.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Etcd(_) | Self::Redis(_) | Self::Sql(_) => None,
            Self::Relayed(relayed) => relayed.note(),
        }
    }

    /// The next bytes; none when all of them came and were verified.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Etcd(snapshot) => snapshot.next().await,
            Self::Redis(replication) => replication.next().await,
            Self::Sql(dump) => dump.next().await,
            Self::Relayed(relayed) => relayed.next().await,
        }
    }

    /// The server's version and what the data hold, once they have all come. If another container dumped them, also the
    /// receipt by which that container learns that the backup is complete.
    #[must_use]
    pub fn finish(self) -> (String, Contents, Option<Receipt>) {
        let (version, contents) = match self {
            Self::Etcd(snapshot) => snapshot.finish(),
            Self::Redis(replication) => replication.finish(),
            Self::Sql(dump) => dump.finish(),
            Self::Relayed(relayed) => {
                let (version, contents, receipt) = relayed.finish();
                return (version, contents, Some(receipt));
            }
        };
        (version, contents, None)
    }
}
