//! Keeps the snapshot fresh: a sweep of the region now and then, and a look at balancers that are being set up.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::sleep;

use super::fleet::Fleet;

/// A new balancer is looked at soon, then after ever longer pauses: AWS takes minutes, an emulator none.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// Runs until it is dropped.
pub async fn keep_fresh(fleet: &Fleet, sweep: Duration) {
    tokio::join!(sweep_region(fleet, sweep), watch_provisioning(fleet));
}

async fn sweep_region(fleet: &Fleet, every: Duration) {
    let backoff = ExponentialBuilder::default()
        .with_min_delay(FIRST_RETRY)
        .with_max_delay(LONGEST_RETRY)
        .with_jitter()
        .without_max_times();
    let mut retries = backoff.build();
    loop {
        let begun = Instant::now();
        let pause = match fleet.sweep().await {
            Ok(()) => {
                retries = backoff.build();
                tracing::debug!(took_ms = u64::try_from(begun.elapsed().as_millis()).ok(), "region read");
                every.saturating_sub(begun.elapsed())
            }
            Err(error) => {
                tracing::warn!(%error, "the region could not be read, trying again");
                retries.next().unwrap_or(LONGEST_RETRY)
            }
        };
        sleep(pause).await;
    }
}

async fn watch_provisioning(fleet: &Fleet) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = fleet.provisioning_began.notified() => {
                pause = FIRST_LOOK;
                sleep(pause).await;
            }
        }
        match fleet.poll_provisioning().await {
            Ok(true) => pause = (pause * 2).min(LONGEST_LOOK),
            // Without balancers to look at this costs no call.
            Ok(false) => pause = LONGEST_LOOK,
            Err(error) => {
                tracing::warn!(%error, "balancers that are being set up could not be looked at");
                pause = (pause * 2).min(LONGEST_LOOK);
            }
        }
    }
}
