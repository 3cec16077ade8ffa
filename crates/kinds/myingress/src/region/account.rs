//! The account's quotas. They seldom change, so a sweep reads them once an hour.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Region;
use crate::model::{Limits, is_nearly_used};

const FRESH: Duration = Duration::from_hours(1);
const LIMITS_TIMEOUT: Duration = Duration::from_secs(3);

/// Everything known about the account.
#[derive(Default)]
pub struct Account {
    limits: Limits,
    read: Option<Instant>,
    /// True if the log says already that the quotas could not be read.
    logged: bool,
    /// Quotas that are nearly used up, as the log says already.
    nearly_used: BTreeSet<&'static str>,
}

impl Region {
    /// The account's quotas, or AWS's defaults while they could not be read.
    pub fn limits(&self) -> Limits {
        self.lock().account.limits.clone()
    }

    /// Reads the quotas when it is time, and wakes all objects if they changed. What was read before stays if they
    /// cannot be read now: the permission `elasticloadbalancing:DescribeAccountLimits` may be missing.
    pub(super) async fn read_limits(&self) {
        if self.lock().account.read.is_some_and(|read| read.elapsed() < FRESH) {
            return;
        }
        // A missing answer holds no object up: the next sweep asks again.
        let Ok(answer) = timeout(LIMITS_TIMEOUT, self.elb.account_limits()).await else { return };
        let mut known = self.lock();
        match answer {
            Ok(answer) => {
                let limits = Limits::of_answer(&answer);
                let changed = known.account.read.is_some() && known.account.limits != limits;
                known.account.limits = limits;
                known.account.read = Some(Instant::now());
                known.account.logged = false;
                if changed {
                    let assets = &known.assets;
                    let tags = assets.balancers.values().map(|it| &it.tags);
                    let woken = tags.filter_map(|tags| self.concerned(tags)).collect();
                    known.wake(woken);
                }
            }
            Err(error) if !known.account.logged => {
                tracing::warn!(%error, "cannot read the account's quotas: assuming those of a new account");
                known.account.logged = true;
            }
            Err(_) => {}
        }
    }

    /// Reports how much of the region's quotas is used, by all clients together: always as metrics, and in the log when
    /// a quota is nearly used up.
    pub(super) fn tell_quotas(&self) {
        let mut known = self.lock();
        let limits = known.account.limits.clone();
        for (quota, used, limit) in [
            ("application-load-balancers", known.assets.balancers.len(), limits.balancers),
            ("target-groups", known.assets.groups.len(), limits.groups_of_region),
        ] {
            self.metrics.set_quota(quota, used, limit);
            if !is_nearly_used(used, limit) {
                known.account.nearly_used.remove(quota);
            } else if known.account.nearly_used.insert(quota) {
                tracing::warn!(quota, used, limit, "the quota is nearly used up: ask for more in Service Quotas");
            }
        }
    }
}
