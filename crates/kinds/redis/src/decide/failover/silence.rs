//! Judges whether a master that does not answer counts as hung or gone, and what its replicas know about it.

use std::time::Duration;

use super::super::View;
use crate::facts::{NodePod, Pod};
use causeway_databases::redis::{Info, Link};

/// A question that has been open for this long counts as unanswered.
const UNANSWERED: Duration = Duration::from_secs(1);

/// By how many seconds the silence that replicas measured must exceed the hang timeout, before it proves more than a
/// pause.
pub const MEASURED_BEFORE: u64 = 2;

/// A master pings its replicas every second, and Redis counts whole seconds: a healthy link shows at most 1 second,
/// never this many.
const UNHEARD: u64 = 2;

/// A replica that has tried to connect for this long, and never had a link since it was started, would have one to a
/// master that serves.
const TRIED: Duration = Duration::from_secs(10);

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
