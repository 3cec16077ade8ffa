//! The switchover that the spec asks for.

use super::super::names;
use super::{Step, View, failover};

/// Lets the master hand over to the node that `spec.switchover` names, once for each value.
pub fn step(view: &View<'_>) -> Option<Step> {
    let wanted = &view.object.spec.switchover.as_ref()?.master;
    if view.before.switched_to.as_ref() == Some(wanted) || view.before.master.as_ref() == Some(wanted) {
        return None;
    }
    let (master, ..) = view.serving_master()?;
    let ordinal = names::ordinal_of(view.object, wanted).filter(|ordinal| *ordinal < view.wanted_nodes());
    let Some(ordinal) = ordinal else {
        let message = format!(
            "spec.switchover.master: {wanted} is none of the pods {} to {}",
            names::pod(view.object, 0),
            names::pod(view.object, view.wanted_nodes() - 1)
        );
        return Some(Step::stalled("SwitchoverInvalid", message));
    };
    if !failover::is_ready(view, master, ordinal) {
        return Some(Step::wait("SwitchingOver", format!("waiting for {wanted} to have all data")));
    }
    Some(failover::switch_over(view, master, ordinal, "Asked"))
}
