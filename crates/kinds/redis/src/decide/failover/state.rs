//! The states, and which one follows from the facts and the recorded failover.

use super::super::View;
use super::election::{self, Elected, Wait};
use super::reasons::{MASTER_SILENT, role_lost};
use super::silence::{hangs, is_heard};
use crate::facts::{NodePod, NodeState, Pod};
use crate::names;
use causeway_api::redis::Failover;
use causeway_databases::redis::Info;

/// The state of the master. The table in `failover/mod.rs` has the transitions.
pub enum State<'a> {
    /// The status names no master, and no node can be chosen yet.
    Creating,
    /// The recorded master answers as one.
    Serving { master: i32, pod: &'a Pod, info: &'a Info },
    /// A switchover is recorded, and the earlier master answers: as a master, or while it hands over.
    SwitchingOver { failover: &'a Failover, pod: &'a Pod, info: &'a Info },
    /// The master, or the one that is to hand over, does not answer; nothing shows that it hangs or is gone.
    MasterSilent { pod: &'a Pod, failover: Option<&'a Failover> },
    /// The master is gone, and no node may take the role yet.
    MasterGone { from: i32, wait: Wait },
    /// This node is to be the master, and the status does not say so yet.
    Electing { from: Option<i32>, to: i32, reason: &'a str, planned: bool },
    /// The recorded failover has not promoted its target yet, which is still the right one.
    Promoting(&'a Failover),
    /// The target of the recorded change is a master.
    Finishing { failover: &'a Failover, to: i32 },
}

impl<'a> State<'a> {
    /// The state while that failover is recorded, if any is.
    pub fn derive(view: &'a View<'_>, recorded: Option<&'a Failover>) -> Self {
        let Some(failover) = recorded else { return Self::without_change(view) };
        let ordinal = |name: &String| names::ordinal_of(view.object, name);
        if let Some(to) = ordinal(&failover.target).filter(|to| leads(view, *to)) {
            return Self::Finishing { failover, to };
        }
        let Some(from) = failover.from.as_ref().and_then(ordinal) else {
            return Self::before_the_first(view, recorded);
        };
        let pod = view.pod(from).filter(|_| failover.planned);
        match pod.map(|pod| (pod, &pod.own.state)) {
            Some((pod, NodeState::Answers(info))) if info.is_master() || info.handing_over => {
                Self::SwitchingOver { failover, pod, info }
            }
            // Its process was replaced meanwhile, or its successor went right after it took over.
            Some((pod, NodeState::Answers(info))) => Self::elect_after(view, recorded, from, role_lost(pod, info)),
            // It may be handing over while it does not answer for a moment: it stays the master until it counts as
            // hung or gone.
            Some((pod, NodeState::Silent(silence))) if !hangs(view, pod, *silence) => {
                Self::MasterSilent { pod, failover: recorded }
            }
            Some((pod, NodeState::Gone)) if is_heard(view, pod) => Self::MasterSilent { pod, failover: recorded },
            // The target is chosen again by what is known now: it may have died, or lost its data.
            _ => Self::elect_after(view, recorded, from, &failover.reason),
        }
    }

    /// The state as soon as that change is recorded. A failover promotes its target in any case: even a target that is a
    /// master already needs the fences against the earlier one.
    pub fn derive_begun(view: &'a View<'_>, failover: &'a Failover) -> Self {
        if failover.planned { Self::derive(view, Some(failover)) } else { Self::Promoting(failover) }
    }

    /// No change is recorded: is the recorded master still one?
    fn without_change(view: &'a View<'_>) -> Self {
        let Some(master) = view.master() else { return Self::before_the_first(view, None) };
        let Some(pod) = view.pod(master) else { return Self::elect_after(view, None, master, "MasterGone") };
        match &pod.own.state {
            NodeState::Answers(info) if info.is_master() => Self::Serving { master, pod, info },
            NodeState::Answers(info) => match switched_by_hand(view, master, info) {
                Some(to) => Self::Electing { from: Some(master), to, reason: "SwitchedByHand", planned: true },
                None => Self::elect_after(view, None, master, role_lost(pod, info)),
            },
            NodeState::Gone if !is_heard(view, pod) => Self::elect_after(view, None, master, "MasterGone"),
            NodeState::Silent(silence) if hangs(view, pod, *silence) => {
                Self::elect_after(view, None, master, MASTER_SILENT)
            }
            NodeState::Gone | NodeState::Silent(_) | NodeState::Refuses(_) => {
                Self::MasterSilent { pod, failover: None }
            }
        }
    }

    /// No node was the master before: the first one is to be chosen.
    fn before_the_first(view: &'a View<'_>, recorded: Option<&'a Failover>) -> Self {
        election::elect_first(view).map_or(Self::Creating, |elected| Self::elected(view, recorded, None, elected))
    }

    /// That master is gone.
    fn elect_after(view: &'a View<'_>, recorded: Option<&'a Failover>, from: i32, reason: &'a str) -> Self {
        match election::elect_after(view, recorded, from, reason) {
            Ok(elected) => Self::elected(view, recorded, Some(from), elected),
            Err(wait) => Self::MasterGone { from, wait },
        }
    }

    fn elected(view: &'a View<'_>, recorded: Option<&'a Failover>, from: Option<i32>, elected: Elected<'a>) -> Self {
        let Elected { to, reason } = elected;
        let name = names::pod(view.object, to);
        match recorded.filter(|failover| failover.target == name && !failover.planned) {
            Some(failover) => Self::Promoting(failover),
            None => Self::Electing { from, to, reason, planned: false },
        }
    }

    /// Its name in the table.
    #[cfg(test)]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Serving { .. } => "Serving",
            Self::SwitchingOver { .. } => "SwitchingOver",
            Self::MasterSilent { .. } => "MasterSilent",
            Self::MasterGone { .. } => "MasterGone",
            Self::Electing { .. } => "Electing",
            Self::Promoting(_) => "Promoting",
            Self::Finishing { .. } => "Finishing",
        }
    }
}

/// Reports whether a node answers as a master that keeps the role.
fn leads(view: &View<'_>, ordinal: i32) -> bool {
    view.info(ordinal).is_some_and(|info| info.is_master() && !info.handing_over)
}

/// The master that the recorded one follows now, if a user made that hand over by hand and not through the object.
fn switched_by_hand(view: &View<'_>, master: i32, info: &Info) -> Option<i32> {
    let link = info.link()?;
    let is_successor = |(ordinal, other): &(&i32, &Pod)| {
        let continues = other.info().is_some_and(|it| it.is_master() && it.continues(&info.history));
        **ordinal != master && continues && Some(&link.host) == other.address.as_ref()
    };
    view.observed.set.pods.iter().find(is_successor).map(|(ordinal, _)| *ordinal)
}
