//! A node that is listened to, and what it said last.

use std::time::Duration;

use tokio::time::Instant;

use crate::external::redis::{Endpoint, Role, Writes};
use crate::stateful::listeners::Listened;

/// How often a node is asked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A node, and what it said.
pub struct Node {
    /// The name of its pod.
    pub pod: String,
    /// Where it answers, with the certificates for making a connection.
    pub endpoint: Endpoint,
    /// How long the node must be silent to wake the controller.
    pub timeout: Duration,
    /// Its role by its last answer, and since when it reports exactly that.
    pub role: Option<(Role, Instant)>,
    /// What it answers to a write, as long as it is a master, and when it did.
    pub writes: Option<(Writes, Instant)>,
}

impl Listened for Node {
    type Id = Endpoint;

    fn id(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn refresh(&mut self, now: Self) {
        (self.pod, self.endpoint) = (now.pod, now.endpoint);
        self.timeout = now.timeout;
    }
}

impl Node {
    /// Whether it last answered that it is a master.
    pub fn is_master(&self) -> bool {
        matches!(self.role, Some((Role::Master, _)))
    }

    /// For how long it has reported that role, and the same link to its master.
    pub fn unchanged(&self, role: &Role) -> Duration {
        let known = self.role.as_ref().filter(|(known, _)| known == role);
        known.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}
