//! Commands and answers, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::info::{Info, Position};
use super::tls::Credentials;

/// The address at which a node answers, and the user as which it is called. Equality ignores the certificates: they
/// matter only while a connection is made, and new ones are no reason to close it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Host and port, such as `10.0.0.7:6379`.
    pub address: String,
    /// The user to log in as; `None` does not log in.
    pub login: Option<Login>,
    /// The credentials for TLS; `None` does not speak it.
    pub tls: Option<Arc<Credentials>>,
}

impl Endpoint {
    fn way(&self) -> (&str, Option<&Login>, Option<&str>) {
        let name = self.tls.as_ref().map(|credentials| credentials.server_name.as_str());
        (&self.address, self.login.as_ref(), name)
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.way() == other.way()
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.way().hash(state);
    }
}

/// A user and its password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// The name of the user.
    pub user: String,
    /// The password of the user.
    pub password: String,
}

/// Leaves out the password: actions are logged.
impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:…", self.user)
    }
}

/// A master's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It takes the write.
    Taken,
    /// It refuses the write, in these words.
    Refused(String),
    /// It lets the write wait.
    Waiting,
}

impl Writes {
    /// Returns true if it refuses the write with that code.
    #[must_use]
    pub fn are_refused_for(&self, code: &str) -> bool {
        matches!(self, Self::Refused(words) if words.starts_with(code))
    }
}

/// A node's answer to a new client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It lets the client in.
    Admitted,
    /// It refuses the client, in these words.
    Refused(String),
    /// It does not answer the client at all; in words that follow the node's name.
    Ignored(&'static str),
}

/// A command for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Report the node's role, its master, and how far a master and its replicas are; as cheap as a ping.
    Role,
    /// Report everything about the node and its replicas (`INFO`).
    Info,
    /// Count the keys.
    Keys,
    /// Report how much memory the data take.
    Memory,
    /// List the connected clients.
    Clients,
    /// Try a write that changes nothing. It has a connection of its own: while writes have to wait, so would everything
    /// behind them.
    Probe,
    /// Come as a new client: connect, log in, and read and write a key without a change, over a connection that ends with
    /// that.
    Knock,
    /// Report what this user may do.
    Rights(String),
    /// Report the values of these directives.
    Settings(Vec<String>),
    /// Become a replica of that one.
    Follow {
        /// Address of the master.
        host: String,
        /// The port of the master.
        port: u16,
        /// Close the connections of clients in the same transaction, as Redis Sentinel does: it refuses their writes from
        /// then on. <https://github.com/redis/redis/blob/7.0/src/sentinel.c> (`sentinelSendSlaveOf`)
        drop_clients: bool,
    },
    /// Become a master, if it is still that process: one that was started again may have lost its data.
    Promote {
        /// The id of the process.
        run_id: String,
    },
    /// Become a replica of that node, and close the connections of all clients but this one. Both commands are sent in
    /// one go, so that a process that reads them answers no client in between.
    ///
    /// The call is done when the bytes are in the socket: a hung process does not answer. It succeeds only over a
    /// connection over which the process has answered before. Another connection may lead to another process. And a
    /// process that wakes up reads from a connection that it has yet to accept only after it has answered the requests
    /// that waited.
    StepDown {
        /// Address of the next master.
        host: String,
        /// The port of that node.
        port: u16,
    },
    /// End the process at once, if it runs a script for so long that it answers nothing else. What the script wrote is lost,
    /// and all that was acknowledged is on the disk.
    EndBusy,
    /// Hand over to that replica as soon as it has everything; writes wait meanwhile.
    HandOver {
        /// Address of the replica.
        host: String,
        /// The port of the replica.
        port: u16,
        /// The time in milliseconds after which the handover is off, and the node takes writes again.
        timeout_ms: u64,
    },
    /// Acknowledge its offset to the master now, rather than within the next second.
    Acknowledge,
    /// Abort a handover that is in progress.
    KeepMastership,
    /// Rewrite the append-only file, in the background, so that it holds the present data and no history.
    RewriteLog,
    /// Close the connections of all clients but this one.
    DropClients,
    /// Change settings while it runs.
    Configure(Vec<(String, String)>),
    /// Know these users, and log in to masters as that one.
    SetUsers {
        /// Each a user's name and its rules, passwords only as hashes.
        users: Vec<Vec<String>>,
        /// The user as which it logs in when it is a replica.
        follow_as: Option<Login>,
    },
}

impl Request {
    /// The name of the command, in errors, logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Role => "ROLE",
            Self::Info | Self::Keys | Self::Memory => "INFO",
            Self::Clients => "CLIENT LIST",
            Self::Probe => "SETRANGE",
            Self::Knock => "AUTH",
            Self::Rights(_) => "ACL GETUSER",
            Self::EndBusy => "SHUTDOWN",
            Self::Settings(_) => "CONFIG GET",
            Self::Follow { .. } | Self::StepDown { .. } => "REPLICAOF",
            Self::Promote { .. } => "REPLICAOF NO ONE",
            Self::HandOver { .. } => "FAILOVER TO",
            Self::Acknowledge => "REPLCONF GETACK",
            Self::KeepMastership => "FAILOVER ABORT",
            Self::RewriteLog => "BGREWRITEAOF",
            Self::DropClients => "CLIENT KILL",
            Self::Configure(_) => "CONFIG SET",
            Self::SetUsers { .. } => "ACL SETUSER",
        }
    }

    /// Returns true if the command changes anything.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Role
                | Self::Info
                | Self::Keys
                | Self::Memory
                | Self::Clients
                | Self::Probe
                | Self::Knock
                | Self::Rights(_)
                | Self::Settings(_)
        )
    }

    /// Returns the time to wait for an answer. A node that is asked for its role is waited for longer: its silence is
    /// measured, and a second question would not be answered earlier than the first.
    pub(super) fn deadline(&self) -> Duration {
        match self {
            Self::Role => Duration::from_secs(4),
            // A promotion waits for it.
            Self::StepDown { .. } => Duration::from_millis(500),
            // The status is to tell within three seconds that new clients get no answer: see `door` of the kind.
            Self::Knock => Duration::from_millis(1200),
            _ => Duration::from_secs(1),
        }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to [`Request::Role`].
    Role(Position),
    /// The answer to [`Request::Info`], [`Request::Keys`] and [`Request::Memory`].
    Info(Box<Info>),
    /// The answer to [`Request::Clients`]: how many.
    Clients(usize),
    /// The answer to [`Request::Rights`]: commands, keys and channels, as ACL rules; `off` if it may not log in.
    Rights(Vec<String>),
    /// The answer to [`Request::Settings`]: values by names.
    Settings(BTreeMap<String, String>),
    /// The answer to all others.
    Done,
}
