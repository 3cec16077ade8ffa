//! A node that is listened to, and what it said last.

use std::time::Duration;

use tokio::time::Instant;

use causeway_databases::listeners::Listened;
use causeway_databases::redis::{Admission, Endpoint, Role, Writes};

/// How often a node is asked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A node, and what it said.
pub struct Node {
    /// The name of its pod.
    pub pod: String,
    /// Where it answers, with the certificates for making a connection.
    pub endpoint: Endpoint,
    /// How a client of the spec comes to it; `None` where that is not known.
    pub as_client: Option<Endpoint>,
    /// How long the node must be silent to wake the controller.
    pub timeout: Duration,
    /// Its role by its last answer, and since when it reports exactly that.
    pub role: Option<(Role, Instant)>,
    /// Its answer to a write, as long as it is a master, and the time of that answer.
    pub writes: Option<(Writes, Instant)>,
    /// Its answer to new clients, unless it lets them in.
    pub turned_away: Option<Admission>,
    /// It runs a script, and answers nothing else.
    pub busy: bool,
}

impl Listened for Node {
    type Id = Endpoint;

    fn id(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn refresh(&mut self, now: Self) {
        if self.as_client != now.as_client {
            self.turned_away = None;
        }
        (self.pod, self.endpoint, self.as_client) = (now.pod, now.endpoint, now.as_client);
        self.timeout = now.timeout;
    }
}

impl Node {
    /// A node of which nothing is known yet.
    pub fn new(pod: String, endpoint: Endpoint, as_client: Option<Endpoint>, timeout: Duration) -> Self {
        Self { pod, endpoint, as_client, timeout, role: None, writes: None, turned_away: None, busy: false }
    }

    /// Reports whether clients are to get in: it last answered as a master, or as a replica that has all data.
    pub fn takes_clients(&self) -> bool {
        matches!(&self.role, Some((Role::Master, _))) || matches!(&self.role, Some((Role::Replica(link), _)) if link.up)
    }

    /// Reports whether it last answered that it is a master.
    pub fn is_master(&self) -> bool {
        matches!(self.role, Some((Role::Master, _)))
    }

    /// For how long it has reported that role, and the same link to its master.
    pub fn unchanged(&self, role: &Role) -> Duration {
        let known = self.role.as_ref().filter(|(known, _)| known == role);
        known.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}
