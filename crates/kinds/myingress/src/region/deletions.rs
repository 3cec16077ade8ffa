//! Deletions of what several objects may want to delete: members of a group share rules and target groups, and each
//! decides from the same snapshot. AWS is asked once. A second call by a client that may delete only tagged resources
//! gets `AccessDenied`, because what is gone has no tags.

use std::pin::pin;

use super::Region;
use crate::action::{Action, ListenerAction};

/// Held while something is being deleted.
pub struct Deleting<'a> {
    region: &'a Region,
    arn: &'a str,
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.region.deleting.lock().remove(self.arn);
        self.region.deletion_ended.notify_waiters();
    }
}

impl Region {
    /// Begins a deletion, once no other task is at it.
    pub async fn begin_deletion<'a>(&'a self, arn: &'a str) -> Deleting<'a> {
        loop {
            let mut ended = pin!(self.deletion_ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            if self.deleting.lock().insert(arn.to_owned()) {
                return Deleting { region: self, arn };
            }
            ended.await;
        }
    }

    /// Reports whether the action deletes what was deleted before. What has not been read may be there.
    pub fn is_deleted(&self, action: &Action) -> bool {
        let known = self.lock();
        match action {
            Action::Listener(ListenerAction::DeleteRule { balancer, listener, arn, .. }) => {
                let member = known.assets.balancers.get(balancer);
                let listeners = member.and_then(|member| member.listeners.as_ref());
                listeners.is_some_and(|all| all.get(listener).is_none_or(|it| !it.rules.contains_key(arn)))
            }
            Action::Listener(ListenerAction::Delete { balancer, arn, .. }) => {
                let member = known.assets.balancers.get(balancer);
                member.and_then(|member| member.listeners.as_ref()).is_some_and(|all| !all.contains_key(arn))
            }
            Action::Group(_) => action.deletes().is_some_and(|arn| !known.assets.groups.contains_key(arn)),
            _ => false,
        }
    }
}
