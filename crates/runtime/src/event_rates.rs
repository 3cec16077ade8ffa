//! Bounds the events that are published. An object that is edited without pause goes from one state to another without
//! pause, and each event with words of its own stays in the memory of the operator for six minutes and in etcd for an
//! hour. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Events about one object: this many at once, and then one in each interval.
const OF_OBJECT: Rate = Rate { at_once: 100, interval: Duration::from_secs(3) };
/// Events about all objects of a kind in one namespace.
const OF_NAMESPACE: Rate = Rate { at_once: 2_000, interval: Duration::from_millis(100) };

struct Rate {
    at_once: u32,
    interval: Duration,
}

/// The events of the recent past.
#[derive(Default)]
pub struct EventRates {
    namespaces: Buckets,
    objects: Buckets,
}

/// The time at which each bucket will be full again, if nothing more is taken from it. Full ones are forgotten.
type Buckets = HashMap<String, Instant>;

impl EventRates {
    /// Returns true if an event about the object may be published now. If so, it is taken from the rate.
    pub fn admits(&mut self, namespace: &str, uid: &str, now: Instant) -> bool {
        let object = after_one(&self.objects, uid, &OF_OBJECT, now);
        let all = after_one(&self.namespaces, namespace, &OF_NAMESPACE, now);
        let (Some(object), Some(all)) = (object, all) else { return false };
        set(&mut self.objects, uid, object, now);
        set(&mut self.namespaces, namespace, all, now);
        true
    }
}

/// Returns the time at which the bucket will be full if one event is taken from it now; `None` if it has none.
fn after_one(buckets: &Buckets, key: &str, rate: &Rate, now: Instant) -> Option<Instant> {
    let full = buckets.get(key).copied().unwrap_or(now).max(now) + rate.interval;
    (full <= now + rate.interval * rate.at_once).then_some(full)
}

fn set(buckets: &mut Buckets, key: &str, full: Instant, now: Instant) {
    if buckets.len() == buckets.capacity() {
        buckets.retain(|_, full| *full > now);
    }
    buckets.insert(key.into(), full);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_changes_without_pause_has_few_events() {
        let (mut rates, now) = (EventRates::default(), Instant::now());
        let hour = (0..36_000).filter(|tenth| rates.admits("shop", "1", now + Duration::from_millis(100 * tenth)));
        assert_eq!(hour.count(), 100 + 1_199);
        assert!(rates.admits("shop", "2", now + Duration::from_hours(1)), "another object has its own");
    }

    #[test]
    fn a_namespace_with_many_such_objects_takes_nothing_from_others() {
        let (mut rates, now) = (EventRates::default(), Instant::now());
        let admitted = (0..10_000).filter(|number| rates.admits("shop", &(number % 1000).to_string(), now)).count();
        assert_eq!(admitted, 2_000);
        assert!(rates.admits("blog", "x", now));
    }

    #[test]
    fn what_had_no_event_for_long_is_forgotten() {
        let (mut rates, now) = (EventRates::default(), Instant::now());
        for number in 0..50_000 {
            assert!(rates.admits("shop", &number.to_string(), now + Duration::from_millis(100 * number)));
        }
        assert!(rates.objects.len() < 200, "{}", rates.objects.len());
    }
}
