//! Controllers that begin before their process leads: they list, watch and look, and change nothing until the fence opens.
//!
//! What they know of an object then, the leader before may have changed in its last moment. So each object is read again before
//! its first reconcile, as a list would have done that came after the lease was taken.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::{Api, Resource, ResourceExt};
use tokio::time::sleep;

use super::decoding::Decoded;
use super::failure::api_message;
use super::kind::Kind;
use super::reconcile::Reconciler;
use crate::leader::Fence;

/// Pause before an object that could not be read is read again.
const AGAIN: Duration = Duration::from_millis(200);

/// Which objects may be reconciled.
pub struct WarmUp {
    fence: Fence,
    /// Uids of the objects that were read since the fence opened; nothing where it was open from the beginning.
    read: Option<Mutex<BTreeSet<String>>>,
}

impl WarmUp {
    /// Of controllers that begin now.
    pub fn new(fence: Fence) -> Self {
        let read = fence.check().is_err().then(Mutex::default);
        Self { fence, read }
    }

    /// Whether that object needs to be read before it is reconciled.
    fn is_pending(&self, uid: &str) -> bool {
        self.read.as_ref().is_some_and(|read| !read.lock().unwrap_or_else(PoisonError::into_inner).contains(uid))
    }

    fn note(&self, uid: String) {
        if let Some(read) = &self.read {
            read.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
        }
    }

    /// The object with that uid is gone.
    pub fn forget(&self, uid: &str) {
        if let Some(read) = &self.read {
            read.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        }
    }
}

impl<K: Kind> Reconciler<K> {
    /// Whether the object may be reconciled. Where it may not, waits until it may: then it has its next turn at once, with what
    /// the watch has of it by then.
    pub async fn warmed_up(&self, object: &K::Object, namespace: &str) -> bool {
        let uid = object.uid().unwrap_or_default();
        if !self.warm_up.is_pending(&uid) {
            return true;
        }
        if !K::suspended(object) && object.meta().deletion_timestamp.is_none() {
            let _turn = self.turns.acquire(namespace).await;
            self.kind.warm_up(object).await;
        }
        self.warm_up.fence.opened().await;
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
                    tracing::warn!(problem = %api_message(&problem), "an object cannot be read before its first turn, trying again");
                }
            }
            sleep(AGAIN).await;
        }
    }
}
