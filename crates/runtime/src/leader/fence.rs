//! Permission to change the outside world, valid only while this process certainly leads.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// This process does not lead, or cannot be sure that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader: the lease was not renewed in time")]
pub struct NotLeading;

/// Checked before every change outside the cluster. A clone is cheap and shares the same state.
///
/// The answer depends only on the clock, not on the task that renews the lease. If that task hangs, or the whole
/// process was frozen for a while, the fence is closed all the same. Some time always passes between a check and the
/// arrival of the request that follows. So check as late as possible (in the SDK just before each transmission, retries
/// included), and give each attempt less time than `lease_duration - renew_deadline`.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<Gate>>);

#[derive(Debug)]
struct Gate {
    origin: Instant,
    /// Nanoseconds after `origin` at which the gate closes.
    open_for: AtomicU64,
    /// Wakes tasks in [`Fence::wait_until_open`].
    opened: Notify,
}

impl Fence {
    /// A fence that is always open, for a process that needs no lease: tests and one-shot commands.
    pub fn always_open() -> Self {
        Self(None)
    }

    /// A fence that is closed until the lease is held. Without an election it stays closed, for a process that must
    /// change nothing.
    pub fn closed_until_lease() -> Self {
        Self(Some(Arc::new(Gate { origin: super::now(), open_for: AtomicU64::new(0), opened: Notify::new() })))
    }

    /// Opens the fence until `end`; closes it if `end` is `None`.
    pub(crate) fn open_until(&self, end: Option<Instant>) {
        if let Some(gate) = &self.0 {
            let open_for = end.map_or(Duration::ZERO, |end| end.saturating_duration_since(gate.origin));
            gate.open_for.store(u64::try_from(open_for.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
            gate.opened.notify_waiters();
        }
    }

    /// Waits until this process leads.
    pub async fn wait_until_open(&self) {
        let Some(gate) = &self.0 else { return };
        loop {
            let mut opened = pin!(gate.opened.notified());
            // From here on no notification is missed.
            opened.as_mut().enable();
            if self.check().is_ok() {
                return;
            }
            opened.await;
        }
    }

    /// Fails unless this process certainly leads now.
    pub fn check(&self) -> Result<(), NotLeading> {
        let Some(gate) = &self.0 else { return Ok(()) };
        let open_for = Duration::from_nanos(gate.open_for.load(Ordering::SeqCst));
        if super::now().saturating_duration_since(gate.origin) < open_for { Ok(()) } else { Err(NotLeading) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_clock_and_its_clones() {
        let fence = Fence::closed_until_lease();
        let clone = fence.clone();
        assert_eq!(clone.check(), Err(NotLeading));
        fence.open_until(Some(Instant::now() + Duration::from_mins(1)));
        assert_eq!(clone.check(), Ok(()));
        fence.open_until(Some(Instant::now()));
        assert_eq!(clone.check(), Err(NotLeading));
        fence.open_until(Some(Instant::now() + Duration::from_mins(1)));
        fence.open_until(None);
        assert_eq!(clone.check(), Err(NotLeading));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_task_goes_on_when_the_fence_opens() {
        let fence = Fence::closed_until_lease();
        let waits = tokio::spawn({
            let fence = fence.clone();
            async move { fence.wait_until_open().await }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        fence.open_until(None);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!waits.is_finished());
        fence.open_until(Some(crate::leader::now() + Duration::from_secs(5)));
        waits.await.expect("it goes on");
        Fence::always_open().wait_until_open().await;
    }

    #[test]
    fn a_process_without_rivals_is_not_fenced() {
        assert_eq!(Fence::always_open().check(), Ok(()));
    }
}
