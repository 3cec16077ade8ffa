//! The account's quotas: read in a sweep once an hour, for they seldom change.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Region;
use crate::controllers::myingress::model::{Limits, is_nearly_used};

const FRESH: Duration = Duration::from_hours(1);
const LIMITS_TIMEOUT: Duration = Duration::from_secs(3);

/// What is known of the account.
#[derive(Default)]
pub struct Account {
    limits: Limits,
    read: Option<Instant>,
    /// They could not be read, and the log says so.
    message: bool,
    /// Quotas of which nearly all is used, and the log says so.
    nearly_used: BTreeSet<&'static str>,
}

impl Region {
    /// How much AWS takes of the account; its defaults while that could not be read.
    pub fn limits(&self) -> Limits {
        self.known().account.limits.clone()
    }

    /// Reads the quotas when it is time, and wakes everybody when they are others. What is known stays where they cannot be
    /// read: the permission `elasticloadbalancing:DescribeAccountLimits` may be missing.
    pub(super) async fn read_limits(&self) {
        if self.known().account.read.is_some_and(|read| read.elapsed() < FRESH) {
            return;
        }
        // An answer that does not come holds nobody up: the next sweep asks again.
        let Ok(api_message) = timeout(LIMITS_TIMEOUT, self.elb.account_limits()).await else { return };
        let mut known = self.known();
        match api_message {
            Ok(api_message) => {
                let limits = Limits::api_message(&api_message);
                let changed = known.account.read.is_some() && known.account.limits != limits;
                known.account.limits = limits;
                known.account.read = Some(Instant::now());
                known.account.message = false;
                if changed {
                    let assets = &known.assets;
                    let tags = assets.balancers.values().map(|it| &it.tags);
                    let woken = tags.filter_map(|tags| self.concerned(tags)).collect();
                    known.wake(woken);
                }
            }
            Err(error) if !known.account.message => {
                tracing::warn!(%error, "the account's quotas could not be read: those of a new account are taken for them");
                known.account.message = true;
            }
            Err(_) => {}
        }
    }

    /// Tells how much of the region's quotas is used, by anybody: in figures always, in the log when it is nearly all.
    pub(super) fn tell_quotas(&self) {
        let mut known = self.known();
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
