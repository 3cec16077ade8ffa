//! For how long this process has seen a time in the status. Another operator may have recorded that time, and the clocks of
//! two machines differ, or the clock of this one was set: a wait that protects data must not end early for that.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use causeway_runtime::PerObject;

/// The times that were recorded last, and since when this process has seen them, by object.
#[derive(Default)]
pub struct Sightings(PerObject<(Time, Instant)>);

impl Sightings {
    /// For how long that time has been recorded for an object, as far as this process has seen it.
    pub fn age(&self, uid: &str, recorded: Option<&Time>) -> Duration {
        let Some(recorded) = recorded else {
            self.0.forget(uid);
            return Duration::ZERO;
        };
        let begin = || (recorded.clone(), Instant::now());
        self.0.change(uid, begin, |known| {
            if known.0 != *recorded {
                *known = begin();
            }
            known.1.elapsed()
        })
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.0.forget(uid);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_time_is_as_old_as_this_process_has_seen_it() {
        let sightings = Sightings::default();
        let time = |second| Time(Timestamp::from_second(second).unwrap());
        assert_eq!(sightings.age("one", Some(&time(7))), Duration::ZERO, "however long ago that was");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(sightings.age("one", Some(&time(7))), Duration::from_secs(20));
        assert_eq!(sightings.age("two", Some(&time(7))), Duration::ZERO);
        assert_eq!(sightings.age("one", Some(&time(8))), Duration::ZERO, "another wait");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(sightings.age("one", None), Duration::ZERO);
        assert_eq!(sightings.age("one", Some(&time(8))), Duration::ZERO, "it was over meanwhile");
    }
}
