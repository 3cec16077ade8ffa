//! A node that is listened to, and what it said last.

use std::time::Duration;

use tokio::time::Instant;

use crate::external::redis::{Endpoint, Writes};
use crate::stateful::listeners::Listened;

/// How often a node is asked.
pub const RHYTHM: Duration = Duration::from_millis(500);

/// A node, and what it said.
pub struct Node {
    /// Where it answers, with the certificates for making a connection.
    pub endpoint: Endpoint,
    /// How long the node must be silent to wake the controller.
    pub patience: Duration,
    /// Whether it last answered that it is a master.
    pub is_master: bool,
    /// What it answers to a write, as long as it is a master, and when it did.
    pub writes: Option<(Writes, Instant)>,
}

impl Listened for Node {
    type Id = Endpoint;

    fn id(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn refresh(&mut self, now: Self) {
        self.endpoint = now.endpoint;
        self.patience = now.patience;
    }
}
