//! The states, and which one follows from the facts and the recorded failover: whether a master that does not answer is hung or
//! gone, and what its replicas know about it.

use std::time::Duration;

use causeway_api::redis::{Failover, LastFailover};
use causeway_databases::redis::{Info, Link};

use super::super::View;
use super::choice::{self, Elected, Wait};
use crate::applied_config::AppliedConfig;
use crate::facts::{NodePod, NodeState, Pod};
use crate::names;

/// The master does not answer, though nothing shows that it is gone.
pub const MASTER_SILENT: &str = "MasterSilent";
/// The process of the master was started again.
const MASTER_RESTARTED: &str = "MasterRestarted";
/// The process of the master runs, and was made a replica: by a client, or by the operator before it turned back.
const MASTER_DEMOTED: &str = "MasterDemoted";
/// The Kubernetes node of the master does not answer.
pub const NODE_LOST: &str = "NodeLost";
/// The disk of the master refuses writes.
pub const DISK_FAILED: &str = "DiskFailed";
/// Reasons that are reported as a loss.
const LOSSES: [&str; 3] = ["MasterLost", "MasterEmptied", "DataGone"];
/// Losses that no returning node can undo: the data are gone, whichever node becomes the master.
const CERTAIN_LOSSES: [&str; 2] = ["MasterEmptied", "DataGone"];

/// By how many seconds the silence that replicas measured must exceed the hang timeout, before it proves more than a
/// pause.
pub const MEASURED_BEFORE: u64 = 2;
/// A question that has been open for this long counts as unanswered.
const UNANSWERED: Duration = Duration::from_secs(1);
/// A master pings its replicas every second, and Redis counts whole seconds: a healthy link shows at most 1 second,
/// never this many.
const UNHEARD: u64 = 2;
/// A replica that has tried to connect for this long, and never had a link since it was started, would have one to a
/// master that serves.
const TRIED: Duration = Duration::from_secs(10);

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
        choice::elect_first(view).map_or(Self::Creating, |elected| Self::elected(view, recorded, None, elected))
    }

    /// That master is gone.
    fn elect_after(view: &'a View<'_>, recorded: Option<&'a Failover>, from: i32, reason: &'a str) -> Self {
        match choice::elect_after(view, recorded, from, reason) {
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

/// Returns the reason for a master that answers as a replica. Each process has its settings from the operator once, which is
/// recorded with the process.
pub fn role_lost(pod: &Pod, info: &Info) -> &'static str {
    let is_same = AppliedConfig::read(pod).is_some_and(|note| note.run_id == info.run_id);
    if is_same { MASTER_DEMOTED } else { MASTER_RESTARTED }
}

/// Reports whether the data are gone for good.
pub fn is_certain_loss(reason: &str) -> bool {
    CERTAIN_LOSSES.contains(&reason)
}

/// How writes were lost with a change of the master, if they were.
pub fn loss(last: &LastFailover) -> Option<String> {
    let from = last.from.as_deref().unwrap_or_default();
    LOSSES.contains(&last.reason.as_str()).then(|| match last.reason.as_str() {
        "DataGone" => format!("no node had the data of {from} any more, and {} began empty", last.to),
        _ => format!("{} took over from {from} without all of its data", last.to),
    })
}

/// Reports whether a master counts as hung.
///
/// An operator that began to listen a moment ago, as the next leader does, need not measure the hang timeout itself:
/// the replicas have measured the silence meanwhile. An operator that had an answer from the master must measure it.
/// Its replicas may be cut off while the master takes writes: then they lack those writes, and do not know how long the
/// master has been silent to others.
pub fn hangs(view: &View<'_>, master: &Pod, silence: Duration) -> bool {
    let timeout = view.hang_timeout();
    let by_us = silence.as_secs_f64() >= seconds_of(timeout) && is_confirmed(view, master, timeout);
    let is_unknown = !master.own.has_answered && silence >= UNANSWERED;
    by_us || (is_unknown && is_lost_to_replicas(view, master, timeout + MEASURED_BEFORE))
}

/// The timeout, with 50 ms of tolerance: the listener wakes the controller when it has passed, to the millisecond.
#[expect(clippy::cast_precision_loss, reason = "at most a few minutes")]
fn seconds_of(seconds: u64) -> f64 {
    seconds as f64 - 0.05
}

/// Reports whether a master that the operator cannot reach runs nevertheless: a replica receives something from it. A
/// firewall that rejects packets refuses connections as the kernel does for a process that is gone. But the death of a
/// process breaks the links of its replicas at once. If the kubelet reports the end of the container, a link proves
/// nothing.
pub fn is_heard(view: &View<'_>, master: &Pod) -> bool {
    let runs = master.address.is_some() && master.exit_code.is_none();
    runs && !hearers(view, master).is_empty()
}

/// The names of the replicas that receive something from that master.
pub fn hearers<'a>(view: &'a View<'_>, master: &'a Pod) -> Vec<&'a str> {
    let hearers = witnesses(view, master).filter(|witness| witness.hears(UNHEARD));
    hearers.map(|witness| witness.pod.name.as_str()).collect()
}

/// Reports whether any replica could say something about that master.
pub fn has_witness(view: &View<'_>, master: &Pod) -> bool {
    witnesses(view, master).any(|witness| witness.counts())
}

/// Reports whether the replicas receive nothing from their master either: an operator that is itself cut off must not
/// take the role from a master that serves.
fn is_confirmed(view: &View<'_>, master: &Pod, timeout: u64) -> bool {
    has_witness(view, master) && !witnesses(view, master).any(|witness| witness.hears(timeout.max(UNHEARD)))
}

/// Reports whether no replica has received anything from its master for that many seconds, by its own measure.
fn is_lost_to_replicas(view: &View<'_>, master: &Pod, seconds: u64) -> bool {
    let shortest = witnesses(view, master).map(|witness| witness.quiet().unwrap_or_default()).min();
    shortest.is_some_and(|shortest| shortest >= seconds)
}

/// Reports whether a replica received nothing from its master while that still answered the operator. `answered` is how
/// long ago it answered last. The master may have taken writes that the replica lacks. By default Redis reports such a
/// connection as up for 60 s (`repl-timeout`).
pub fn is_cut_off(view: &View<'_>, info: &Info, answered: Duration) -> bool {
    let is_up = info.link().is_some_and(|link| link.up);
    let usual = answered.as_secs() + view.hang_timeout() + MEASURED_BEFORE;
    is_up && info.quiet_seconds.is_some_and(|quiet| quiet > usual)
}

/// Reports whether a replica has missed the end of its master's process, and so what came before: where packets pass,
/// that end breaks the link at once.
pub fn has_missed_its_end(info: &Info) -> bool {
    info.link().is_some_and(|link| link.up) && info.quiet_seconds.is_some_and(|quiet| quiet > UNHEARD)
}

/// A replica of the master that answers.
struct Witness<'a> {
    pod: &'a Pod,
    info: &'a Info,
    link: &'a Link,
}

impl Witness<'_> {
    /// For how many seconds it has received nothing, if it ever had a link.
    fn quiet(&self) -> Option<u64> {
        if self.link.up || self.link.syncing { self.info.quiet_seconds } else { self.info.lost_seconds }
    }

    /// Reports whether it received something within so many seconds.
    fn hears(&self, seconds: u64) -> bool {
        (self.link.up || self.link.syncing) && self.info.quiet_seconds.is_some_and(|quiet| quiet < seconds)
    }

    /// Reports whether its word counts. One that follows the master since a moment ago has not had the time to connect.
    fn counts(&self) -> bool {
        self.link.up || self.link.syncing || self.info.lost_seconds.is_some() || self.pod.own.unchanged >= TRIED
    }
}

/// The replicas of the master that answer. A node that follows another master, or none, knows nothing about this one.
/// Nor does one that loads what it copied: it reads nothing meanwhile.
fn witnesses<'a>(view: &'a View<'_>, master: &'a Pod) -> impl Iterator<Item = Witness<'a>> {
    let others = view.observed.set.pods.values().filter(|pod| pod.uid != master.uid);
    let follows = others.filter_map(|pod| {
        let info = pod.info().filter(|info| !info.loading)?;
        Some(Witness { pod, info, link: info.link()? })
    });
    follows.filter(|witness| master.address.as_ref() == Some(&witness.link.host))
}
