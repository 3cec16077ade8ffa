//! The pauses between attempts to watch a kind that may not be installed.

use std::time::{Duration, Instant};

use kube::runtime::utils::Backoff;

/// The longest delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// The delay before the first retry.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Delays that grow. A watcher emits `Init` before the list fails, so a back-off that every good event resets would
/// never grow. This one starts over only after no failure for a while.
#[derive(Default)]
pub struct SlowBackoff {
    last: Option<(Instant, Duration)>,
}

impl Iterator for SlowBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let recent = self.last.filter(|(at, _)| now.duration_since(*at) < 2 * LONGEST_DELAY);
        let delay = recent.map_or(FIRST_DELAY, |(_, delay)| (2 * delay).min(LONGEST_DELAY));
        self.last = Some((now, delay));
        Some(delay)
    }
}

impl Backoff for SlowBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kind_is_looked_for_less_and_less() {
        let mut backoff = SlowBackoff::default();
        let mut delays = Vec::new();
        for _ in 0..12 {
            delays.extend(backoff.next());
            backoff.reset();
        }
        assert_eq!((delays.first(), delays.last()), (Some(&FIRST_DELAY), Some(&LONGEST_DELAY)));
    }
}
