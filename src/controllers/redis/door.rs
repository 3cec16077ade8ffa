//! Comes to each serving node as a new client of the spec does, and wakes the controller when it is turned away.
//!
//! The operator's own connections are logged in. What a new client meets does not show there: the limit of clients, a
//! password that was set by hand, a closed port, a certificate.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::listened::Node;
use crate::external::redis::{Admission, Endpoint, Redis};
use crate::stateful::listeners::{Shared, locked};
use crate::stateful::wake::{Key, Wake};

/// How often it comes.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long it waits for an answer before it comes once more beside itself: one packet may be lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// How soon it comes again after it was turned away: once says nothing on a busy machine, or while settings change.
const AGAIN: Duration = Duration::from_millis(300);

/// The door of one node.
pub struct Door {
    pub redis: Redis,
    pub latest: Shared<Node>,
    pub key: Key,
    pub wake: Wake,
}

impl Door {
    /// Comes for as long as the node is wanted.
    pub async fn watch(self) {
        let mut again = false;
        loop {
            sleep(if again { AGAIN } else { INTERVAL }).await;
            let as_client = {
                let latest = locked(&self.latest);
                if !latest.is_wanted() {
                    return;
                }
                latest.node.as_client.clone().filter(|_| latest.node.takes_clients() && !latest.node.busy)
            };
            let (admission, is_sure) = match &as_client {
                Some(as_client) => self.come(as_client).await,
                None => (None, false),
            };
            let refusal = admission.filter(|admission| *admission != Admission::Admitted);
            let changed = {
                let mut latest = locked(&self.latest);
                let is_first = refusal.is_some() && !is_sure && !again && latest.node.turned_away.is_none();
                again = is_first;
                // The node is down or silent to all, or clients come in another way by now.
                let is_moot = latest.silence() >= INTERVAL || latest.node.as_client != as_client;
                let refusal = refusal.filter(|_| !is_first && !is_moot && latest.node.takes_clients());
                let changed = latest.node.turned_away != refusal;
                latest.node.turned_away = refusal;
                changed
            };
            if changed {
                self.wake.wake(&self.key);
            }
        }
    }

    /// Comes as that client: what it meets, and whether two clients met it.
    async fn come(&self, as_client: &Endpoint) -> (Option<Admission>, bool) {
        let mut first = std::pin::pin!(self.redis.admission(as_client));
        if let Ok(met) = timeout(PATIENCE, &mut first).await {
            return (met, false);
        }
        let (first, second) = tokio::join!(first, self.redis.admission(as_client));
        let is_let_in = [&first, &second].contains(&&Some(Admission::Admitted));
        (if is_let_in { Some(Admission::Admitted) } else { second }, true)
    }
}
