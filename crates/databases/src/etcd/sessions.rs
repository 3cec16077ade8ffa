//! Connections over which a client has logged in, kept for the next calls.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use etcd_client::Client;
use parking_lot::Mutex;

use super::Endpoint;

/// The time that an unused connection is kept: etcd forgets a login that was not used for five minutes, and connections
/// to members that are not called any more must close.
const IDLE: Duration = Duration::from_mins(4);

/// The connections that no call uses at the moment, by URL.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

struct Session {
    /// The endpoint for which it was made: another password, or another certificate, needs another connection.
    endpoint: Endpoint,
    client: Client,
    used: Instant,
}

impl Sessions {
    /// Takes a connection to that member, which the caller gives back with [`Self::keep`]. If its call hangs, the connection
    /// is gone with that call.
    pub fn take(&self, to: &Endpoint) -> Option<Client> {
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| session.used.elapsed() < IDLE);
        sessions.remove(&to.url).filter(|session| session.endpoint == *to).map(|session| session.client)
    }

    /// Returns another handle of a connection to that member that no call uses at the moment.
    pub fn share(&self, to: &Endpoint) -> Option<Client> {
        let sessions = self.0.lock();
        let session = sessions.get(&to.url).filter(|session| session.endpoint == *to && session.used.elapsed() < IDLE);
        session.map(|session| session.client.clone())
    }

    /// Returns another member to which there is a connection with the same login.
    pub fn other_member(&self, to: &Endpoint) -> Option<Endpoint> {
        let sessions = self.0.lock();
        let alike = |other: &&Endpoint| other.url != to.url && other.login == to.login && other.tls == to.tls;
        sessions.values().map(|session| &session.endpoint).find(alike).cloned()
    }

    /// Keeps a connection for later calls.
    pub fn keep(&self, to: &Endpoint, client: Client) {
        let session = Session { endpoint: to.clone(), client, used: Instant::now() };
        self.0.lock().insert(to.url.clone(), session);
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").finish_non_exhaustive()
    }
}
