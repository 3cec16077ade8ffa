//! Asks masters twice a second whether they would take a write, and wakes the controller when the answer is another.
//!
//! A client's word for it: a full disk, replicas that are missing and memory that is full are told by no role. The write
//! changes nothing and is about fifty bytes.

use tokio::time::{Instant, sleep};

use super::facts::MOMENT;
use super::listened::{Node, RHYTHM};
use crate::external::redis::Redis;
use crate::stateful::listeners::{Shared, locked};
use crate::stateful::wake::{Key, Wake};

/// Asks one node.
pub struct Pulse {
    pub redis: Redis,
    pub latest: Shared<Node>,
    pub key: Key,
    pub wake: Wake,
}

impl Pulse {
    /// Asks as long as somebody wants to know.
    pub async fn beat(self) {
        loop {
            sleep(RHYTHM).await;
            let (node, is_master) = {
                let latest = locked(&self.latest);
                if !latest.is_wanted() {
                    return;
                }
                (latest.node.endpoint.clone(), latest.node.is_master)
            };
            // Whether the process lives is heard by others.
            let writes = if is_master { self.redis.writes(&node).await.ok() } else { None };
            let changed = {
                let mut latest = locked(&self.latest);
                let known = &mut latest.node;
                let earlier = known.writes.take();
                let was = earlier.as_ref().map(|(writes, _)| writes.clone());
                // One answer that is missing says nothing, on a busy machine.
                let kept = || earlier.filter(|(_, at)| at.elapsed() < MOMENT);
                let now = writes.map(|writes| (writes, Instant::now())).or_else(kept);
                known.writes = now.filter(|_| known.is_master);
                known.writes.as_ref().map(|(writes, _)| writes) != was.as_ref()
            };
            if changed && is_master {
                self.wake.wake(&self.key);
            }
        }
    }
}
