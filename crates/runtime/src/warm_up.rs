//! Controllers that start before their process leads. They list, watch and observe, but change nothing until the fence
//! opens.
//!
//! The previous leader may have changed an object in its last moment, after these controllers saw it. So each object is
//! read again before its first reconcile, as if it had been listed after the lease was taken.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::decoding::Decoded;
use super::failure::api_message;
use super::kind::Kind;
use super::reconcile::Reconciler;
use crate::leader::Fence;

/// Pause before the next attempt to read an object.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The objects that may be reconciled.
pub struct WarmUp {
    fence: Fence,
    /// Uids of the objects that were read since the fence opened; `None` if it was open from the start.
    read: Option<Mutex<BTreeSet<String>>>,
}

impl WarmUp {
    /// Serves controllers that start now.
    pub fn new(fence: Fence) -> Self {
        let read = fence.check().is_err().then(Mutex::default);
        Self { fence, read }
    }

    /// Returns true if that object needs to be read before it is reconciled.
    fn is_pending(&self, uid: &str) -> bool {
        self.read.as_ref().is_some_and(|read| !read.lock().contains(uid))
    }

    fn note(&self, uid: String) {
        if let Some(read) = &self.read {
            read.lock().insert(uid);
        }
    }

    /// Forgets the object with that uid, which was deleted.
    pub fn forget(&self, uid: &str) {
        if let Some(read) = &self.read {
            read.lock().remove(uid);
        }
    }
}

impl<K: Kind> Reconciler<K> {
    /// Returns true if the object may be reconciled now. Otherwise waits until it may, and returns false: the object
    /// must be queued again, so that its turn begins with the watch's latest state.
    pub async fn warmed_up(&self, object: &K::Object, namespace: &str) -> bool {
        let uid = object.uid().unwrap_or_default();
        if !self.warm_up.is_pending(&uid) {
            return true;
        }
        if !K::is_suspended(object) && object.meta().deletion_timestamp.is_none() {
            let _turn = self.turns.acquire(namespace).await;
            self.kind.warm_up(object).await;
        }
        self.warm_up.fence.wait_until_open().await;
        let api: Api<Decoded<K::Object>> = Api::namespaced(self.client.clone(), namespace);
        loop {
            match api.get_opt(&object.name_any()).await {
                Ok(live) => {
                    if let Some(live) = live.and_then(Decoded::object) {
                        self.statuses.learn(&live);
                    }
                    self.warm_up.note(uid);
                    return false;
                }
                Err(problem) => {
                    tracing::warn!(problem = %api_message(&problem), "cannot read an object before its first reconcile, trying again");
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }
}
