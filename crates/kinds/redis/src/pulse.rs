//! Asks masters twice a second whether they would take a write, and wakes the controller when the answer changes.
//!
//! Only a write shows what a client would see: a full disk, missing replicas and full memory do not show in the role.
//! The write changes nothing and is about fifty bytes.

use tokio::time::{Instant, sleep};

use causeway_databases::listeners::{Shared, locked};
use causeway_databases::redis::Redis;
use causeway_databases::wake::{Key, Wake};

use super::facts::BRIEF_SILENCE;
use super::listened::{Node, POLL_INTERVAL};

/// Asks one node for its role.
pub struct Pulse {
    pub redis: Redis,
    pub latest: Shared<Node>,
    pub key: Key,
    pub wake: Wake,
}

impl Pulse {
    /// Asks for as long as the node is wanted.
    pub async fn beat(self) {
        loop {
            sleep(POLL_INTERVAL).await;
            let (node, is_master) = {
                let latest = locked(&self.latest);
                if !latest.is_wanted() {
                    return;
                }
                (latest.node.endpoint.clone(), latest.node.is_master())
            };
            // The monitor watches whether the process lives.
            let writes = if is_master { self.redis.writes(&node).await.ok() } else { None };
            let changed = {
                let mut latest = locked(&self.latest);
                let known = &mut latest.node;
                let earlier = known.writes.take();
                let was = earlier.as_ref().map(|(writes, _)| writes.clone());
                // On a busy machine, one missing answer says nothing.
                let kept = || earlier.filter(|(_, at)| at.elapsed() < BRIEF_SILENCE);
                let now = writes.map(|writes| (writes, Instant::now())).or_else(kept);
                known.writes = now.filter(|_| known.is_master());
                known.writes.as_ref().map(|(writes, _)| writes) != was.as_ref()
            };
            if changed && is_master {
                self.wake.wake(&self.key);
            }
        }
    }
}
