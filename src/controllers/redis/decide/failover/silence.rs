//! Whether a master that does not answer hangs, and what its replicas know of that.

use std::time::Duration;

use super::super::View;
use crate::external::redis::{Info, Link};

/// A question that was open for so long was not answered.
const UNANSWERED: Duration = Duration::from_secs(1);

/// So many seconds more than the object's patience must replicas have heard nothing of their master for that to say more than
/// a pause would.
const MEASURED_BEFORE: u64 = 2;

/// Whether a master counts as one that hangs. Who began to listen a moment ago, as the next leader does, need not measure
/// for itself what its replicas measured meanwhile. Who has heard the master must: replicas that are cut off from a master
/// that takes writes lack those, and know nothing of how long it answers nobody.
pub fn hangs(view: &View<'_>, master: i32, silence: Duration) -> bool {
    let patience = view.hang_timeout();
    let by_us = silence.as_secs_f64() >= seconds_of(patience) && is_confirmed(view, master, patience);
    let unheard = view.pod(master).is_some_and(|pod| !pod.own.heard);
    by_us || (unheard && silence >= UNANSWERED && is_lost_to_replicas(view, master, patience + MEASURED_BEFORE))
}

/// The listener wakes us when that has passed, to the millisecond.
#[expect(clippy::cast_precision_loss, reason = "at most a few minutes")]
fn seconds_of(seconds: u64) -> f64 {
    seconds as f64 - 0.05
}

/// Whether the replicas do not hear of their master either: whoever is cut off himself must not take the role from a
/// master that serves. A master is heard every second, and Redis counts in whole ones: that may be told as one, not two.
fn is_confirmed(view: &View<'_>, master: i32, patience: u64) -> bool {
    let hears = |(info, link): &(&Info, &Link)| link.up && info.quiet_seconds.is_some_and(|it| it < patience.max(2));
    let mut witnesses = witnesses(view, master).peekable();
    witnesses.peek().is_some() && !witnesses.any(|witness| hears(&witness))
}

/// Whether no replica has heard of its master for so long, by its own measure.
fn is_lost_to_replicas(view: &View<'_>, master: i32, seconds: u64) -> bool {
    let quiet = |(info, link): (&Info, &Link)| if link.up { info.quiet_seconds } else { info.lost_seconds };
    let shortest = witnesses(view, master).map(|witness| quiet(witness).unwrap_or_default()).min();
    shortest.is_some_and(|shortest| shortest >= seconds)
}

/// Whether a replica heard nothing of its master while that answered us, the last time so long ago: the master may have taken
/// writes that the replica lacks. By default Redis calls such a connection up for 60 s (`repl-timeout`).
pub fn is_cut_off(view: &View<'_>, info: &Info, answered: Duration) -> bool {
    let is_up = info.link().is_some_and(|link| link.up);
    let usual = answered.as_secs() + view.hang_timeout() + MEASURED_BEFORE;
    is_up && info.quiet_seconds.is_some_and(|quiet| quiet > usual)
}

/// The replicas that answer. Whoever follows somebody else, or nobody, knows nothing of the master.
fn witnesses<'a>(view: &'a View<'_>, master: i32) -> impl Iterator<Item = (&'a Info, &'a Link)> {
    let address = view.pod(master).and_then(|pod| pod.address.as_ref());
    let others = view.observed.set.pods.keys().filter(move |ordinal| **ordinal != master);
    let follows = others.filter_map(|ordinal| view.info(*ordinal).and_then(|info| Some((info, info.link()?))));
    follows.filter(move |(_, link)| address == Some(&link.host))
}
