//! Which replica a serving master can hand over to without loss.

use std::cmp::Reverse;

use super::super::View;

/// How many bytes a successor may lag behind: writes wait until it has caught up.
const CLOSE: u64 = 1 << 20;

/// The replica that can take over best.
pub fn best(view: &View<'_>, master: i32) -> Option<i32> {
    let fit = |ordinal: &i32| *ordinal < view.wanted_nodes() && is_ready(view, master, *ordinal);
    let rank = |ordinal: &i32| {
        let current = view.pod(*ordinal).is_some_and(|pod| !view.is_outdated(pod));
        let ready = view.pod(*ordinal).is_some_and(|pod| pod.ready);
        (ready, current, view.info(*ordinal).map_or(0, |info| info.offset), Reverse(*ordinal))
    };
    view.observed.set.pods.keys().copied().filter(fit).max_by_key(rank)
}

/// Reports whether the master could hand over to that replica at once.
pub fn is_ready(view: &View<'_>, master: i32, ordinal: i32) -> bool {
    let (Some(own), Some(info), Some(pod)) = (view.info(ordinal), view.info(master), view.pod(ordinal)) else {
        return false;
    };
    let attached = info.attached.iter().any(|it| it.online && Some(&it.host) == pod.address.as_ref());
    let is_near = own.offset + CLOSE >= info.offset;
    // Clients reach it whether its pod is ready or not. But a pod on a Kubernetes node that does not answer may be gone
    // any moment.
    let is_there = !pod.terminating && pod.lost_node.is_none();
    view.follows(ordinal) && attached && is_there && is_near && view.persists(own)
}
