//! Serializes the work for each object, whichever task does it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// One lock for each object, by uid, that some task holds or waits for.
#[derive(Default)]
pub struct Busy(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Busy {
    /// Waits until no other task works for the object. No other task starts until the guard is dropped.
    pub async fn lock(&self, uid: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // Drop locks that no task holds or waits for.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(uid.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_same_object_waits_and_another_does_not() {
        let busy = Busy::default();
        let first = busy.lock("a").await;
        assert!(busy.lock("a").now_or_never().is_none());
        assert!(busy.lock("b").now_or_never().is_some());
        drop(first);
        assert!(busy.lock("a").now_or_never().is_some());
    }
}
