//! The pause of a watch after a failure.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// The delays of kube's default: from 0.8 s, twice as long each time, up to half a minute, and at random up to twice that.
///
/// A watcher emits `Init` before it lists. The default starts over at every good event, so it would try a list that is
/// refused about once a second for ever. Here the first good event after a failure does not count.
#[derive(Default)]
pub struct WatchBackoff {
    delays: DefaultBackoff,
    /// True until something good arrives after the last failure.
    failed: bool,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failed = true;
        self.delays.next()
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        if !std::mem::take(&mut self.failed) {
            self.delays.reset();
        }
    }
}

/// No delay, for a controller as a whole: it polls all its watches as one stream, and a delay after the error of one would
/// hold up all the others, and whatever else wakes it. Each watch must have a back-off of its own.
pub struct AtOnce;

impl Iterator for AtOnce {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl Backoff for AtOnce {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_list_is_retried_slowly_until_one_arrives() {
        let mut backoff = WatchBackoff::default();
        let mut delays = Vec::new();
        for _ in 0..12 {
            delays.extend(backoff.next());
            // `Init`
            backoff.reset();
        }
        let (soon, seldom) = (Duration::from_secs(2), Duration::from_secs(30));
        assert!(delays[0] < soon && delays[11] >= seldom, "{delays:?}");
        // `InitDone`
        backoff.reset();
        assert!(backoff.next().is_some_and(|delay| delay < soon));
    }
}
