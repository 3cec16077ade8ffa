//! A change of the master, as the status records it before anything is done about it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::{View, epochs};
use super::reasons::is_certain_loss;
use crate::names;
use causeway_api::redis::Failover;

/// The change of the master that begins now. If a change is recorded already, this one continues it: the duration
/// counts from the earlier beginning, and a certain loss stays the reason, whichever node takes over in the end.
pub fn failover(view: &View<'_>, from: Option<i32>, to: i32, reason: &str, planned: bool) -> Failover {
    let earlier = view.before.failover.as_ref();
    let reason = earlier.map(|it| it.reason.as_str()).filter(|it| is_certain_loss(it)).unwrap_or(reason);
    let latest = view.before.epoch.max(earlier.map_or(0, |it| it.epoch)).max(epochs::highest(view));
    Failover {
        epoch: latest.saturating_add(1),
        from: from.map(|ordinal| names::pod(view.object, ordinal)),
        target: names::pod(view.object, to),
        reason: reason.to_owned(),
        planned,
        begun: earlier.map_or(Time(view.now), |it| it.begun.clone()),
    }
}

/// The condition's reason while the change is under way.
pub fn reason(failover: &Failover) -> &'static str {
    match (&failover.from, failover.planned) {
        (None, _) => "Creating",
        (_, true) => "SwitchingOver",
        (_, false) => "FailingOver",
    }
}

/// The condition's message while the change is under way.
pub fn describe(failover: &Failover) -> String {
    format!("{} becomes the master: {}", failover.target, failover.reason)
}
