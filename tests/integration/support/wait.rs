//! Waiting for conditions: never a fixed pause, and a failure says what was waited for and what was seen last.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; a healthy one needs a fraction.
pub const PATIENCE: Duration = Duration::from_mins(4);
/// Looks are a large part of what the API server does while tests run.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks again and again until `good` holds for what `look` sees; returns that. Panics after [`PATIENCE`].
pub async fn wait_for<T, F>(what: &str, look: impl FnMut() -> F, good: impl Fn(&T) -> bool) -> T
where
    T: Debug,
    F: Future<Output = T>,
{
    wait_within(PATIENCE, what, look, good).await
}

/// The same with another patience.
pub async fn wait_within<T, F>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
    good: impl Fn(&T) -> bool,
) -> T
where
    T: Debug,
    F: Future<Output = T>,
{
    let begun = Instant::now();
    loop {
        let seen = look().await;
        if good(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < patience, "waited {patience:?} for {what}; last seen: {seen:#?}");
        tokio::time::sleep(PAUSE).await;
    }
}
