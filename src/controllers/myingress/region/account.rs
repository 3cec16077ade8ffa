//! The account's quotas: read in a sweep once an hour, for they seldom change.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Region;
use crate::controllers::myingress::model::Limits;

const FRESH: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of the account.
#[derive(Default)]
pub struct Account {
    limits: Limits,
    read: Option<Instant>,
    /// They could not be read, and the log says so.
    told: bool,
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
        let Ok(said) = timeout(PATIENCE, self.elb.account_limits()).await else { return };
        let mut known = self.known();
        match said {
            Ok(said) => {
                let limits = Limits::said(&said);
                let changed = known.account.read.is_some() && known.account.limits != limits;
                known.account = Account { limits, read: Some(Instant::now()), told: false };
                if changed {
                    let assets = &known.assets;
                    let tags = assets.balancers.values().map(|it| &it.tags);
                    let woken = tags.filter_map(|tags| self.concerned(tags)).collect();
                    known.wake(woken);
                }
            }
            Err(error) if !known.account.told => {
                tracing::warn!(%error, "the account's quotas could not be read: those of a new account are taken for them");
                known.account.told = true;
            }
            Err(_) => {}
        }
    }
}
