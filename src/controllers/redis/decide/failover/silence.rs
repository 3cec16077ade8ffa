//! Whether a master that does not answer counts as hung, and what its replicas know about it.

use std::time::Duration;

use super::super::View;
use crate::external::redis::{Info, Link};

/// A question that has been open for this long counts as unanswered.
const UNANSWERED: Duration = Duration::from_secs(1);

/// By how many seconds the silence that replicas measured must exceed the hang timeout, before it proves more than a
/// pause.
const MEASURED_BEFORE: u64 = 2;

/// Whether a master counts as hung.
///
/// An operator that began to listen a moment ago, as the next leader does, need not measure the hang timeout itself:
/// the replicas have measured the silence meanwhile. An operator that had an answer from the master must measure it.
/// Its replicas may be cut off while the master takes writes: then they lack those writes, and do not know how long the
/// master has been silent to others.
pub fn hangs(view: &View<'_>, master: i32, silence: Duration) -> bool {
    let patience = view.hang_timeout();
    let by_us = silence.as_secs_f64() >= seconds_of(patience) && is_confirmed(view, master, patience);
    let never_answered = view.pod(master).is_some_and(|pod| !pod.own.has_answered);
    by_us || (never_answered && silence >= UNANSWERED && is_lost_to_replicas(view, master, patience + MEASURED_BEFORE))
}

/// The timeout, with 50 ms of tolerance: the listener wakes the controller when it has passed, to the millisecond.
#[expect(clippy::cast_precision_loss, reason = "at most a few minutes")]
fn seconds_of(seconds: u64) -> f64 {
    seconds as f64 - 0.05
}

/// Whether the replicas receive nothing from their master either: an operator that is itself cut off must not take the
/// role from a master that serves. A master pings its replicas every second, and Redis counts whole seconds: a healthy
/// link shows at most 1 second, never 2.
fn is_confirmed(view: &View<'_>, master: i32, patience: u64) -> bool {
    let hears = |(info, link): &(&Info, &Link)| link.up && info.quiet_seconds.is_some_and(|it| it < patience.max(2));
    let mut witnesses = witnesses(view, master).peekable();
    witnesses.peek().is_some() && !witnesses.any(|witness| hears(&witness))
}

/// Whether no replica has received anything from its master for that many seconds, by its own measure.
fn is_lost_to_replicas(view: &View<'_>, master: i32, seconds: u64) -> bool {
    let quiet = |(info, link): (&Info, &Link)| if link.up { info.quiet_seconds } else { info.lost_seconds };
    let shortest = witnesses(view, master).map(|witness| quiet(witness).unwrap_or_default()).min();
    shortest.is_some_and(|shortest| shortest >= seconds)
}

/// Whether a replica received nothing from its master while that still answered the operator. `answered` is how long
/// ago it answered last. The master may have taken writes that the replica lacks. By default Redis reports such a
/// connection as up for 60 s (`repl-timeout`).
pub fn is_cut_off(view: &View<'_>, info: &Info, answered: Duration) -> bool {
    let is_up = info.link().is_some_and(|link| link.up);
    let usual = answered.as_secs() + view.hang_timeout() + MEASURED_BEFORE;
    is_up && info.quiet_seconds.is_some_and(|quiet| quiet > usual)
}

/// The replicas of the master that answer. A node that follows another master, or none, knows nothing about this one.
fn witnesses<'a>(view: &'a View<'_>, master: i32) -> impl Iterator<Item = (&'a Info, &'a Link)> {
    let address = view.pod(master).and_then(|pod| pod.address.as_ref());
    let others = view.observed.set.pods.keys().filter(move |ordinal| **ordinal != master);
    let follows = others.filter_map(|ordinal| view.info(*ordinal).and_then(|info| Some((info, info.link()?))));
    follows.filter(move |(_, link)| address == Some(&link.host))
}
