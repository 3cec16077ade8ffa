//! Nodes of Redis: a few commands, each to one node, each with a deadline.
//!
//! One connection to each node is held open: when it breaks, that is the quickest sign that a process died.
//! <https://redis.io/docs/latest/commands/>

mod bounded;
mod clients;
mod commands;
mod error;
mod info;
mod knock;
mod reply;
mod tcp;
mod tls;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

pub use error::{RedisError, Trouble};
pub use info::{Attached, Info, Link, Position, Role};
pub use tcp::Tcp;
pub use tls::Credentials;
pub use types::{Admission, Endpoint, Login, Reply, Request, Writes};

/// Carries a command to a node and its answer back; the place where tests let calls go wrong.
pub trait Transport: Send + Sync {
    /// Makes one call, over the connection that is held to the node.
    fn call<'a>(&'a self, to: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>>;

    /// Ends when the connection that is held to the node breaks; at once where none is held.
    fn until_broken<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, ()>;

    /// Makes no more calls over the connection that is held to the node, and keeps it for [`Request::StepDown`]: a hung
    /// node accepts no other.
    fn put_aside(&self, to: &Endpoint);

    /// Closes all connections to the node.
    fn hang_up(&self, to: &Endpoint);
}

/// Calls nodes; makes changes only while this process is the leader.
#[derive(Clone)]
pub struct Redis {
    transport: Arc<dyn Transport>,
    fence: Fence,
    metrics: Metrics,
}

impl Redis {
    /// Calls through `transport`, makes changes only while `fence` is open, and counts into `metrics`.
    pub fn new(transport: Arc<dyn Transport>, fence: Fence, metrics: Metrics) -> Self {
        Self { transport, fence, metrics }
    }

    async fn call(&self, to: &Endpoint, request: Request) -> Result<Reply, RedisError> {
        let operation = request.name();
        if request.is_change() {
            self.may_change(operation)?;
        }
        let answer = tokio::time::timeout(request.deadline(), self.transport.call(to, &request)).await;
        let answer = answer.unwrap_or_else(|_| {
            // The next call must not wait behind this one.
            if !matches!(request, Request::Probe | Request::Knock) {
                self.transport.put_aside(to);
            }
            let text = format!("no answer from {} within {:?}", to.address, request.deadline());
            Err(RedisError::new(operation, Trouble::Unanswered, text))
        });
        let outcome = answer.as_ref().map(drop).map_err(|error| error.class().as_str());
        self.metrics.database_call("redis", operation, outcome);
        if let Err(error) = &answer {
            tracing::debug!(operation, node = to.address, %error, "redis call failed");
        }
        answer
    }

    /// Returns the node's role and its replication offset.
    pub async fn role(&self, node: &Endpoint) -> Result<Position, RedisError> {
        match self.call(node, Request::Role).await? {
            Reply::Role(position) => Ok(position),
            _ => Err(RedisError::unexpected_answer("ROLE")),
        }
    }

    /// Returns the node's own `INFO`.
    pub async fn info(&self, node: &Endpoint) -> Result<Info, RedisError> {
        match self.call(node, Request::Info).await? {
            Reply::Info(info) => Ok(*info),
            _ => Err(RedisError::unexpected_answer("INFO")),
        }
    }

    /// Counts the keys of a node in all its databases.
    pub async fn keys(&self, node: &Endpoint) -> Result<u64, RedisError> {
        match self.call(node, Request::Keys).await? {
            Reply::Info(info) => Ok(info.keys),
            _ => Err(RedisError::unexpected_answer("INFO")),
        }
    }

    /// The bytes of memory that the data of a node take, without buffers that do not count against `maxmemory`.
    pub async fn used_memory(&self, node: &Endpoint) -> Result<u64, RedisError> {
        match self.call(node, Request::Memory).await? {
            Reply::Info(info) => info.used_memory.ok_or_else(|| RedisError::unexpected_answer("INFO")),
            _ => Err(RedisError::unexpected_answer("INFO")),
        }
    }

    /// Counts the clients that are connected to a node, without the operator, other nodes and probes.
    pub async fn clients(&self, node: &Endpoint) -> Result<usize, RedisError> {
        match self.call(node, Request::Clients).await? {
            Reply::Clients(count) => Ok(count),
            _ => Err(RedisError::unexpected_answer("CLIENT LIST")),
        }
    }

    /// Returns a master's answer to a write.
    pub async fn writes(&self, node: &Endpoint) -> Result<Writes, RedisError> {
        match self.call(node, Request::Probe).await {
            Ok(_) => Ok(Writes::Taken),
            Err(error) if error.trouble == Trouble::Refused => Ok(Writes::Refused(error.message)),
            Err(error) if error.trouble == Trouble::Unanswered => Ok(Writes::Waiting),
            Err(error) => Err(error),
        }
    }

    /// Returns a node's answer to a new client that comes as `as_client` says; `None` if that could not be asked.
    pub async fn admission(&self, as_client: &Endpoint) -> Option<Admission> {
        let Err(error) = self.call(as_client, Request::Knock).await else { return Some(Admission::Admitted) };
        match error.trouble {
            Trouble::Refused | Trouble::Unauthenticated => Some(Admission::Refused(error.message)),
            Trouble::Gone => Some(Admission::Ignored("refuses the connection")),
            Trouble::Broken => Some(Admission::Ignored("closes the connection without a word")),
            Trouble::Unanswered => Some(Admission::Ignored("gives no answer")),
            // The connection was made, and the client is known.
            Trouble::Loading | Trouble::Busy => Some(Admission::Admitted),
            Trouble::NotLeading => None,
        }
    }

    /// Returns the rights of a user if it may not do everything. Without them it gets in, and then is refused single
    /// commands; and one that may not log in keeps the connections that it has.
    pub async fn limits_of(&self, user: &str, node: &Endpoint) -> Result<Option<String>, RedisError> {
        match self.call(node, Request::Rights(user.to_owned())).await? {
            Reply::Rights(rights) => {
                let is_all = |rule: &String| ["+@all", "~*", "*", "&*"].contains(&rule.as_str());
                Ok((!rights.iter().all(is_all)).then(|| rights.join(" ")))
            }
            _ => Err(RedisError::unexpected_answer("ACL GETUSER")),
        }
    }

    /// Returns the values of those directives that a node knows.
    pub async fn settings(&self, node: &Endpoint, names: Vec<String>) -> Result<BTreeMap<String, String>, RedisError> {
        match self.call(node, Request::Settings(names)).await? {
            Reply::Settings(settings) => Ok(settings),
            _ => Err(RedisError::unexpected_answer("CONFIG GET")),
        }
    }

    /// Fails unless this process is the leader. It guards changes outside Redis that follow from what nodes answered.
    pub fn may_change(&self, operation: &'static str) -> Result<(), RedisError> {
        self.fence.check().map_err(|error| RedisError::new(operation, Trouble::NotLeading, error.to_string()))
    }

    /// Makes a call whose answer only says that it was done.
    pub async fn change(&self, node: &Endpoint, request: Request) -> Result<(), RedisError> {
        self.call(node, request).await.map(drop)
    }

    /// Ends when the connection that is held to a node breaks.
    pub async fn until_broken(&self, node: &Endpoint) {
        self.transport.until_broken(node).await;
    }

    /// Closes the connection that is held to a node.
    pub fn hang_up(&self, node: &Endpoint) {
        self.transport.hang_up(node);
    }
}
