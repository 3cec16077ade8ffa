//! Comes to each serving node as a new client of the spec does, and wakes the controller when it is turned away.
//!
//! The operator's own connections are logged in. What a new client meets does not show there: the limit of clients, a
//! password that was set by hand, a closed port, a certificate.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use causeway_databases::listeners::{Shared, locked};
use causeway_databases::redis::{Admission, Endpoint, Redis};
use causeway_databases::wake::{Key, Wake};

use super::listened::Node;

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
            let (as_client, endpoint) = {
                let latest = locked(&self.latest);
                if !latest.is_wanted() {
                    return;
                }
                let as_client = latest.node.as_client.clone();
                (as_client.filter(|_| latest.node.takes_clients() && !latest.node.busy), latest.node.endpoint.clone())
            };
            let (admission, is_sure) = match &as_client {
                Some(as_client) => self.come(as_client).await,
                None => (None, false),
            };
            let admission = match admission {
                Some(Admission::Admitted) => Some(self.rights(&endpoint).await),
                other => other,
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

    /// Asks whether clients and the operator's own user, with which replicas log in, may do everything: they may have lost
    /// single commands, keys or channels.
    async fn rights(&self, node: &Endpoint) -> Admission {
        let own = node.login.as_ref().map(|login| login.user.as_str()).filter(|user| !user.is_empty());
        for user in [Some("default"), own.filter(|user| *user != "default")].into_iter().flatten() {
            // A node that does not answer this is noticed by other questions.
            if let Ok(Some(rights)) = self.redis.limits_of(user, node).await {
                return Admission::Refused(format!(
                    "NOPERM the user {user} may not do everything (ACL GETUSER: {rights})"
                ));
            }
        }
        Admission::Admitted
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
