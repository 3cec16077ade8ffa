//! Keeps the snapshot fresh in three ways: lists of the whole region in every sweep, details in turn, and a poll of
//! provisioning balancers. None of the three waits for the others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::sleep;

use super::Region;
use super::sweep::List;
use super::turns::look_in_turn;
use crate::targets::Targets;

/// A new balancer is polled soon, then after ever longer pauses: AWS takes minutes, an emulator no time.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// Runs until it is dropped.
pub async fn keep_fresh(region: &Region, targets: &Targets, sweep: Duration) {
    tokio::join!(sweep_lists(region, sweep), watch_provisioning(region), look_in_turn(region, targets, sweep));
}

async fn sweep_lists(region: &Region, every: Duration) {
    let backoff = ExponentialBuilder::default()
        .with_min_delay(FIRST_RETRY)
        .with_max_delay(LONGEST_RETRY)
        .with_jitter()
        .without_max_times();
    let mut retries = backoff.build();
    let mut begun = Instant::now();
    let mut lists: BTreeSet<List> = List::ALL.into();
    loop {
        let failed = region.read_lists(&lists).await;
        let rest = every.saturating_sub(begun.elapsed());
        let pause = if failed.is_empty() {
            retries = backoff.build();
            tracing::debug!(took_ms = u64::try_from(begun.elapsed().as_millis()).ok(), "region read");
            rest
        } else {
            for (list, error) in &failed {
                tracing::warn!(?list, %error, "a list of the region could not be read, trying again");
            }
            retries.next().unwrap_or(LONGEST_RETRY)
        };
        sleep(pause).await;
        // Until the next sweep, only the lists that failed are read again.
        lists = failed.into_keys().collect();
        if lists.is_empty() || begun.elapsed() >= every {
            lists = List::ALL.into();
            begun = Instant::now();
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
            // Without provisioning balancers the poll makes no call.
            Ok(false) => pause = LONGEST_LOOK,
            Err(error) => {
                tracing::warn!(%error, "cannot read the load balancers that are being provisioned");
                pause = (pause * 2).min(LONGEST_LOOK);
            }
        }
    }
}
