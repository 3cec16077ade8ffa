//! Counts failures by object, so that the delay grows for each object alone, and a success resets it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use parking_lot::Mutex;

use tokio::time::Instant;

use super::Class;
use crate::metrics::Unready;

const FIRST_DELAY: Duration = Duration::from_millis(200);
/// The jitter at most doubles the delay, so no retry comes later than 30 s.
const LONGEST_DELAY: Duration = Duration::from_secs(15);
/// A throttled object is retried soon after the throttling ends. AWS calls share a pause while they are refused (see
/// `external::budget`), so many objects do not cause a storm of calls.
const LONGEST_THROTTLED: Duration = Duration::from_secs(4);
/// Even an immediate retry leaves the watch time to deliver a change that we missed.
const AT_ONCE: Duration = Duration::from_millis(50);
/// More conflicts in a row than this are no race, but two writers that undo each other's changes. Back off as for any
/// other error.
const CONFLICTS_AT_ONCE: u32 = 3;
const SLOW: Duration = Duration::from_mins(1);

/// Failures of a kind's objects, by uid.
#[derive(Default)]
pub struct Failures {
    entries: Mutex<HashMap<String, Entry>>,
    /// Objects that wait for a user, an administrator or another system, whether or not their last reconcile failed,
    /// and the reason of each.
    stalled: Mutex<HashMap<String, &'static str>>,
    /// Objects that should be ready and are not: the reason, and the time since then.
    unready: Mutex<HashMap<String, (&'static str, Timestamp)>>,
}

struct Entry {
    delays: ExponentialBackoff,
    conflicts: u32,
    /// The time of its last failure. During `pause` after that, no event makes it try again.
    failed: Instant,
    pause: Duration,
    /// The version of the object that failed.
    version: u64,
}

impl Failures {
    /// Records a failure of something that has no versions. See [`Self::record_version_failure`].
    pub fn record_failure(&self, uid: &str, class: Class, sweep: Duration) -> Duration {
        self.record_version_failure(uid, 0, class, sweep)
    }

    /// Records a failure of this version of the object; returns how long to wait before the next attempt. `sweep` is the
    /// delay for errors that only a change in the cluster or in AWS resolves.
    pub fn record_version_failure(&self, uid: &str, version: u64, class: Class, sweep: Duration) -> Duration {
        let mut entries = self.entries.lock();
        let entry = entries.entry(uid.to_owned()).or_insert_with(|| Entry {
            delays: ExponentialBuilder::default()
                .with_min_delay(FIRST_DELAY)
                .with_max_delay(LONGEST_DELAY)
                .with_jitter()
                .without_max_times()
                .build(),
            conflicts: 0,
            failed: Instant::now(),
            pause: Duration::ZERO,
            version,
        });
        let delay = match class {
            Class::Invalid => sweep,
            Class::Denied => SLOW.min(sweep),
            Class::Conflict | Class::NotFound if entry.conflicts < CONFLICTS_AT_ONCE => {
                entry.conflicts += 1;
                AT_ONCE
            }
            Class::Throttled => entry.delays.next().unwrap_or(LONGEST_DELAY).min(LONGEST_THROTTLED),
            Class::Conflict | Class::NotFound | Class::NotYet | Class::Transient => {
                entry.delays.next().unwrap_or(LONGEST_DELAY)
            }
        };
        // The event that wakes the object may be the change that resolves such an error, so the pause grows from a short one.
        let pause = if class.needs_person() { entry.delays.next().unwrap_or(LONGEST_DELAY).min(delay) } else { delay };
        (entry.failed, entry.pause, entry.version) = (Instant::now(), pause, version);
        delay
    }

    /// Returns the pause of an event about an object whose last attempts failed: at most `longest` after the last
    /// one. A new version of the object need not wait.
    pub fn pause(&self, uid: &str, version: u64, longest: Duration) -> Option<Duration> {
        let entries = self.entries.lock();
        let entry = entries.get(uid).filter(|entry| entry.version == version)?;
        entry.pause.min(longest).checked_sub(entry.failed.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// Returns true if the last attempt for the object failed.
    pub fn has_failed(&self, uid: &str) -> bool {
        self.entries.lock().contains_key(uid)
    }

    /// Resets an object's failures.
    pub fn record_success(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }

    /// Records the reason for which an object waits for a user, an administrator or another system; `None` if it does
    /// not.
    pub fn set_stalled(&self, uid: &str, reason: Option<&'static str>) {
        let mut all = self.stalled.lock();
        match reason {
            Some(reason) => all.insert(uid.to_owned(), reason),
            None => all.remove(uid),
        };
    }

    /// Counts the objects that wait for a user, an administrator or another system, by reason.
    pub fn stalled_by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for reason in self.stalled.lock().values() {
            *counts.entry(*reason).or_default() += 1;
        }
        counts
    }

    /// Records the reason for which an object is not ready, and the time since then; `None` if it is ready, or need not
    /// be.
    pub fn set_unready(&self, uid: &str, cause: Option<(&'static str, Timestamp)>) {
        let mut all = self.unready.lock();
        match cause {
            Some(cause) => all.insert(uid.to_owned(), cause),
            None => all.remove(uid),
        };
    }

    /// Returns the objects that are not ready, by reason.
    pub fn unready(&self) -> BTreeMap<&'static str, Unready> {
        let mut counts = BTreeMap::new();
        for (reason, since) in self.unready.lock().values() {
            let count = counts.entry(*reason).or_insert(Unready { objects: 0, since: *since });
            *count = Unready { objects: count.objects + 1, since: count.since.min(*since) };
        }
        counts
    }

    /// Forgets an object that was deleted.
    pub fn forget(&self, uid: &str) {
        self.record_success(uid);
        self.set_stalled(uid, None);
        self.set_unready(uid, None);
    }

    /// Counts the objects that fail or are stalled.
    pub fn count(&self) -> usize {
        let entries = self.entries.lock();
        let stalled = self.stalled.lock();
        entries.len() + stalled.keys().filter(|uid| !entries.contains_key(*uid)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: Duration = Duration::from_mins(5);

    #[test]
    fn delays_grow_and_never_pass_thirty_seconds() {
        let failures = Failures::default();
        let delays: Vec<_> = (0..40).map(|_| failures.record_failure("a", Class::Transient, SWEEP)).collect();
        assert!(delays[0] < Duration::from_secs(1));
        assert!(delays[39] >= LONGEST_DELAY);
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(30)), "{delays:?}");
    }

    #[test]
    fn a_throttled_object_never_waits_for_more_than_four_seconds() {
        let failures = Failures::default();
        let delays: Vec<_> = (0..40).map(|_| failures.record_failure("a", Class::Throttled, SWEEP)).collect();
        assert!(delays[0] < Duration::from_secs(1));
        assert_eq!(delays.iter().max(), Some(&LONGEST_THROTTLED), "{delays:?}");
    }

    #[test]
    fn a_stalled_object_counts_once_after_a_successful_reconcile() {
        let failures = Failures::default();
        failures.record_failure("a", Class::Denied, SWEEP);
        failures.set_stalled("a", Some("PermissionMissing"));
        failures.set_stalled("b", Some("QuorumLost"));
        assert_eq!(failures.count(), 2);
        failures.record_success("b");
        failures.set_stalled("b", Some("PermissionMissing"));
        assert_eq!(
            failures.stalled_by_reason(),
            BTreeMap::from([("PermissionMissing", 2)]),
            "each by its newest reason"
        );
        assert_eq!(failures.count(), 2, "what AWS refused is set aside, and waits");
        failures.set_stalled("b", None);
        assert_eq!(failures.count(), 1);
        failures.forget("a");
        assert_eq!((failures.count(), failures.stalled_by_reason()), (0, BTreeMap::new()));
    }

    #[test]
    fn unready_objects_count_by_reason_since_the_first() {
        let failures = Failures::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        failures.set_unready("a", Some(("MasterSilent", at(9))));
        failures.set_unready("b", Some(("MasterSilent", at(7))));
        failures.set_unready("c", Some(("Creating", at(8))));
        let one = |second| Unready { objects: 1, since: at(second) };
        let both = Unready { objects: 2, since: at(7) };
        assert_eq!(failures.unready(), BTreeMap::from([("MasterSilent", both), ("Creating", one(8))]));
        failures.set_unready("b", None);
        failures.forget("c");
        assert_eq!(failures.unready(), BTreeMap::from([("MasterSilent", one(9))]));
        assert_eq!(failures.count(), 0, "none of them failed");
    }

    #[test]
    fn objects_wait_on_their_own_account_and_a_success_forgets() {
        let failures = Failures::default();
        for _ in 0..20 {
            failures.record_failure("a", Class::Transient, SWEEP);
        }
        assert!(failures.record_failure("b", Class::Transient, SWEEP) < Duration::from_secs(1));
        failures.record_success("a");
        assert!(failures.record_failure("a", Class::Transient, SWEEP) < Duration::from_secs(1));
        failures.record_success("a");
        failures.record_success("b");
        assert_eq!(failures.count(), 0);
    }

    #[test]
    fn a_conflict_is_retried_at_once_but_not_forever() {
        let failures = Failures::default();
        for _ in 0..CONFLICTS_AT_ONCE {
            assert_eq!(failures.record_failure("a", Class::Conflict, SWEEP), AT_ONCE);
        }
        assert!(failures.record_failure("a", Class::Conflict, SWEEP) > AT_ONCE);
    }

    #[test]
    fn what_only_the_user_can_mend_waits_for_the_sweep() {
        let failures = Failures::default();
        assert_eq!(failures.record_failure("a", Class::Invalid, SWEEP), SWEEP);
        assert_eq!(failures.record_failure("a", Class::Denied, SWEEP), SLOW);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_edit_makes_a_failing_object_try_sooner() {
        const LONGEST: Duration = Duration::from_mins(1);
        let failures = Failures::default();
        let pause = |version| failures.pause("a", version, LONGEST);
        assert_eq!(pause(1), None, "it has not failed");
        for class in [Class::Transient, Class::Throttled, Class::NotYet, Class::Conflict] {
            let delay = failures.record_version_failure("a", 1, class, SWEEP);
            assert_eq!((pause(1), pause(2)), (Some(delay), None), "{class:?}");
            assert_eq!(failures.pause("a", 1, AT_ONCE), Some(AT_ONCE.min(delay)), "for those who cannot wait");
            tokio::time::advance(delay).await;
            assert_eq!(pause(1), None);
        }
        for class in [Class::Invalid, Class::Denied] {
            let delay = failures.record_version_failure("a", 1, class, SWEEP);
            assert!(pause(1).is_some_and(|pause| pause < delay), "an event may be what resolves it");
        }
        for _ in 0..20 {
            failures.record_version_failure("a", 1, Class::Invalid, SWEEP);
        }
        assert!(pause(1).is_some_and(|pause| pause >= LONGEST_DELAY), "but not again and again");
        failures.record_success("a");
        assert_eq!(pause(1), None);
    }
}
