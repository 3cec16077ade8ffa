//! Keeps the snapshot fresh: a sweep of the region now and then, and a look at balancers that are being set up.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{sleep, timeout};

use super::Region;
use crate::controllers::myingress::targets::Targets;

/// A new balancer is looked at soon, then after ever longer pauses: AWS takes minutes, an emulator none.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(15);
/// A group whose targets are not to be had keeps nobody from being looked at for longer.
const RECHECK: Duration = Duration::from_secs(15);

/// Runs until it is dropped.
pub async fn keep_fresh(region: &Region, targets: &Targets, sweep: Duration) {
    tokio::join!(sweep_region(region, targets, sweep), watch_provisioning(region));
}

async fn sweep_region(region: &Region, targets: &Targets, every: Duration) {
    let backoff = ExponentialBuilder::default()
        .with_min_delay(FIRST_RETRY)
        .with_max_delay(LONGEST_RETRY)
        .with_jitter()
        .without_max_times();
    let mut retries = backoff.build();
    loop {
        let begun = Instant::now();
        let pause = match region.sweep().await {
            Ok(groups) => {
                retries = backoff.build();
                recheck(targets, &groups).await;
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

/// Looks at the targets of these groups: others may have changed them.
async fn recheck(targets: &Targets, groups: &[String]) {
    for arn in groups {
        match timeout(RECHECK, targets.recheck(arn)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(arn, %error, "its targets could not be looked at in this sweep"),
            Err(_) => tracing::warn!(arn, "its targets were not looked at in time: the sweep goes on without"),
        }
    }
}

async fn watch_provisioning(region: &Region) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = region.provisioning_began.notified() => {
                pause = FIRST_LOOK;
                sleep(pause).await;
            }
        }
        match region.poll_provisioning().await {
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
