//! Asks masters twice a second whether they would take a write, and wakes the controller when the answer is another.
//!
//! A client's word for it: a full disk, replicas that are missing and memory that is full are told by no role. The write
//! changes nothing and is about fifty bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::time::sleep;

use super::facts::MOMENT;
use super::monitor::{Heard, RHYTHM};
use crate::controllers::wake::{Key, Wake};
use crate::external::redis::Redis;

/// Asks one node.
pub struct Pulse {
    pub redis: Redis,
    pub heard: Arc<Mutex<Heard>>,
    pub key: Key,
    pub wake: Wake,
}

impl Pulse {
    /// Asks as long as somebody wants to know.
    pub async fn beat(self) {
        loop {
            sleep(RHYTHM).await;
            let (node, is_master) = {
                let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                if !heard.is_wanted() {
                    return;
                }
                (heard.node.clone(), heard.is_master)
            };
            // Whether the process lives is heard by others.
            let writes = if is_master { self.redis.writes(&node).await.ok() } else { None };
            let changed = {
                let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                let earlier = heard.writes.take();
                let was = earlier.as_ref().map(|(writes, _)| writes.clone());
                // One answer that is missing says nothing, on a busy machine.
                let kept = || earlier.filter(|(_, at)| at.elapsed() < MOMENT);
                let now = writes.map(|writes| (writes, Instant::now())).or_else(kept);
                heard.writes = now.filter(|_| heard.is_master);
                heard.writes.as_ref().map(|(writes, _)| writes) != was.as_ref()
            };
            if changed && is_master {
                self.wake.wake(&self.key);
            }
        }
    }
}
