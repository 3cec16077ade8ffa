//! Asks masters twice a second whether they would take a write, and wakes the controller when the answer is another.
//!
//! A client's word for it: a full disk, replicas that are missing and memory that is full are told by no role. The write
//! changes nothing and is about fifty bytes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::sleep;

use super::monitor::{Heard, Key, RHYTHM, Wake};
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
                let writes = writes.filter(|_| heard.is_master);
                std::mem::replace(&mut heard.writes, writes.clone()) != writes
            };
            if changed && is_master {
                self.wake.wake(&self.key);
            }
        }
    }
}
