//! Which node replicas follow.

use super::super::{View, target};
use crate::action::Action;
use crate::facts::{NodePod, Pod};
use crate::names::PORT;
use crate::settings::NO_MASTER;

/// Makes all others follow that node. A node that took writes loses its clients.
pub fn followers(view: &View<'_>, master: i32) -> Vec<Action> {
    let Some(address) = view.pod(master).and_then(|pod| pod.address.clone()) else { return Vec::new() };
    let mut actions = Vec::new();
    for (_, pod) in view.observed.set.pods.iter().filter(|(ordinal, _)| **ordinal != master) {
        let Some(info) = pod.info().filter(|info| !info.loading && !info.handing_over) else { continue };
        let follows = info.link().is_some_and(|link| link.host == address && link.port == PORT);
        if !follows {
            let drop_clients = info.is_master();
            actions.push(Action::Follow { node: target(pod), master: address.clone(), drop_clients });
        }
    }
    actions
}

/// Makes nodes that follow no master follow a master that does not answer the operator. If it serves, they say so; if
/// they do not reach it either, they confirm that it hangs.
///
/// They lose no data by that. A process that was started again, maybe without data, is itself a replica without a
/// master, and gives nothing to replicas (`NOMASTERLINK`). Only the process that was made the recorded master does.
/// <https://github.com/redis/redis/blob/7.0/src/replication.c> (`syncCommand`)
pub fn without_master(view: &View<'_>, master: &Pod) -> Vec<Action> {
    let Some(address) = &master.address else { return Vec::new() };
    let has_no_master = |pod: &&Pod| {
        let info = pod.info().filter(|info| !info.loading && !info.handing_over && !pod.terminating);
        info.and_then(|info| info.link()).is_some_and(|link| link.host == NO_MASTER)
    };
    let follow = |pod: &Pod| Action::Follow { node: target(pod), master: address.clone(), drop_clients: false };
    view.observed.set.pods.values().filter(has_no_master).map(follow).collect()
}

/// Detaches replicas from their master, unless that is the node that is to become the master.
pub fn attached_elsewhere(view: &View<'_>, to: i32) -> Vec<Action> {
    let heir = view.pod(to).and_then(|pod| pod.address.as_ref());
    let is_attached = |pod: &&Pod| {
        let link = pod.info().filter(|info| !info.loading && !info.handing_over).and_then(|info| info.link());
        link.is_some_and(|link| (link.up || link.syncing) && Some(&link.host) != heir)
    };
    let detach = |pod: &Pod| Action::Follow { node: target(pod), master: NO_MASTER.into(), drop_clients: false };
    view.observed.set.pods.values().filter(is_attached).map(detach).collect()
}
