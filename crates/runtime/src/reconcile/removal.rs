//! Removes what an object owned: before its finalizer is removed, or late, if another client removed the finalizer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use tokio::time::sleep;
use tracing::warn;

use super::{Carried, Conflicts, DEADLINE, EARLY_PAUSE, Failed, REMOVAL_RETRY, ROUNDS, Reconciler, Trouble, version};
use crate::events::PendingEvents;
use crate::failure::Failure;
use crate::kind::{Kind, Removal};
use crate::tenant::on_behalf_of;

impl<K: Kind> Reconciler<K> {
    /// Handles the deletion of an object: drops what is remembered about it, and removes what it owned if that has not
    /// been done.
    pub fn handle_deletion(self: &Arc<Self>, object: &K::Object) {
        let uid = object.uid().unwrap_or_default();
        self.note_undecodable(&uid, false);
        self.alive.lock().remove(&uid);
        let removed = self.removed.lock().remove(&uid);
        if K::REMOVES_LATE && !removed {
            let mut object = object.clone();
            // Code that observes the object must see that it is being deleted.
            object.meta_mut().deletion_timestamp.get_or_insert(Time(Timestamp::now()));
            tokio::spawn(self.clone().remove_late(object));
        } else {
            self.forget(&uid);
        }
    }

    /// Removes what an object owned that vanished without its removal. Retries until that succeeds.
    async fn remove_late(self: Arc<Self>, object: K::Object) {
        let uid = object.uid().unwrap_or_default();
        loop {
            let done = {
                let namespace = object.namespace().unwrap_or_default();
                let _turn = self.turns.acquire(&namespace).await;
                let _alone = self.busy.lock(&uid).await;
                let mut news = PendingEvents::default();
                let attempt = on_behalf_of(&namespace, self.dismantle(&object, &mut news));
                let attempt = AssertUnwindSafe(attempt).catch_unwind();
                let done = match tokio::time::timeout(DEADLINE, attempt).await {
                    Ok(Ok(done)) => done,
                    Ok(Err(_)) => Err(Trouble::Panicked.into()),
                    Err(_) => Err(Trouble::Deadline.into()),
                };
                news.publish::<K>(&self.publisher, &self.metrics, &object).await;
                done
            };
            let Err(Failed { trouble, .. }) = done else { break };
            let delay = self
                .failures
                .record_version_failure(&uid, version(&object), trouble.class(), self.sweep)
                .min(REMOVAL_RETRY);
            let (namespace, name) = (object.namespace(), object.name_any());
            warn!(kind = K::NAME, namespace, name, error = %trouble, "cannot clean up yet after a deleted object");
            tokio::select! {
                () = sleep(delay) => {}
                // The next process reports what is left.
                () = self.stop.cancelled() => return,
            }
        }
        self.forget(&uid);
    }

    pub(super) fn forget(&self, uid: &str) {
        self.failures.forget(uid);
        self.replacements.forget(uid);
        self.count_failures();
        self.statuses.forget(uid);
        self.warm_up.forget(uid);
        self.kind.forget(uid);
    }

    pub(super) async fn remove(
        &self,
        object: &K::Object,
        finalizer: &str,
        news: &mut PendingEvents,
    ) -> Result<(), Failed<K>> {
        self.dismantle(object, news).await?;
        let rest = object.finalizers().iter().filter(|held| *held != finalizer).cloned().collect();
        self.removed.lock().insert(object.uid().unwrap_or_default());
        let set = self.set_finalizers(object, rest).await;
        if set.is_err() {
            self.removed.lock().remove(&object.uid().unwrap_or_default());
        }
        set
    }

    /// Removes what the object owned.
    async fn dismantle(&self, object: &K::Object, news: &mut PendingEvents) -> Result<(), Failed<K>> {
        let (mut planned, mut conflicts) = (None, Conflicts::default());
        let failed = self.failures.has_failed(&object.uid().unwrap_or_default());
        while conflicts.rounds < ROUNDS {
            conflicts.rounds += 1;
            let object = &self.newest(object);
            let observed = self.kind.observe(object).await.map_err(Trouble::Kind)?;
            let Removal { actions, final_event } = K::decide_removal(object, &observed);
            if actions.is_empty() {
                if let Some(cause) = K::removal_waits_for(object, &observed) {
                    return Err(Failed { trouble: Trouble::InUse(cause), planned: K::remains(object, &observed) });
                }
                if let Some(event) = final_event {
                    news.action(event);
                }
                return Ok(());
            }
            planned = K::remains(object, &observed);
            match self.carry_out(object, &actions, false, news).await {
                Ok(Carried::All) => conflicts.last = None,
                Ok(Carried::Raced(error)) if conflicts.may_go_on(&error, failed) => conflicts.pause().await,
                Ok(Carried::Raced(_)) => break,
                Ok(Carried::NotYet(error)) => {
                    conflicts.last = Some(error);
                    sleep(EARLY_PAUSE).await;
                }
                Err(trouble) => return Err(Failed { trouble, planned }),
            }
        }
        Err(Failed { trouble: Trouble::Unsettled(conflicts), planned })
    }
}
