//! Logs every few seconds how far a transfer is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the progress is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Counts what passes.
pub struct Progress {
    title: String,
    what: &'static str,
    /// How much is expected in all; 0 if that is not known.
    expected: AtomicU64,
    passed: AtomicU64,
}

impl Progress {
    /// Counts `what`, such as bytes, of `title`.
    #[must_use]
    pub fn new(title: &str, what: &'static str) -> Self {
        let (expected, passed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { title: title.to_owned(), what, expected, passed }
    }

    /// Sets how much is expected in all.
    pub fn expect(&self, all: Option<u64>) {
        self.expected.store(all.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Counts what has just passed.
    pub fn pass(&self, more: u64) {
        self.passed.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns what passed so far.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Does the work, and logs the progress meanwhile.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut before = 0;
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(LOG_INTERVAL) => before = self.log(before),
            }
        }
    }

    fn log(&self, before: u64) -> u64 {
        let passed = self.passed();
        let per_second = passed.saturating_sub(before) / LOG_INTERVAL.as_secs();
        let percent = percent(passed, self.expected.load(Ordering::Relaxed));
        tracing::info!(title = self.title, what = self.what, passed, per_second, percent, "going on");
        passed
    }
}

fn percent(passed: u64, expected: u64) -> Option<u64> {
    passed.saturating_mul(100).checked_div(expected).map(|percent| percent.min(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_told_only_of_a_known_size() {
        assert_eq!(percent(50, 200), Some(25));
        assert_eq!(percent(300, 200), Some(100));
        assert_eq!(percent(300, 0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_done_however_long_it_takes() {
        let progress = Progress::new("etcd", "bytes");
        let done = progress.during(async {
            tokio::time::sleep(LOG_INTERVAL * 3).await;
            progress.pass(7);
            "done"
        });
        assert_eq!(done.await, "done");
        assert_eq!(progress.passed(), 7);
    }
}
