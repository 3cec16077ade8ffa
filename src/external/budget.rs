//! How often we call AWS: as often as it lets an account, and no more. Calls wait here in the order in which they came,
//! so that an object with many calls does not keep the others from theirs, and hardly anybody is throttled.
//!
//! AWS counts per account and region, with a bucket of tokens for each class of operations:
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html>,
//! <https://docs.aws.amazon.com/waf/latest/developerguide/limits.html>.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Calls may arrive closer together than they were made: a tenth of what each bucket holds is left alone.
const SPARED: f64 = 0.1;

/// Less tokens a second than this are worth doing something else meanwhile.
const SLOW: f64 = 0.4;

/// The rates that all callers share; a clone draws on the same ones.
#[derive(Clone, Debug)]
pub struct Budget(Option<Arc<Rates>>);

/// One bucket for each class of operations.
#[derive(Debug)]
struct Rates {
    /// From which every call of Elastic Load Balancing takes a token, beside that of its class.
    load_balancing: Bucket,
    /// Resource-intensive: a new balancer every five seconds.
    placements: Bucket,
    registrations: Bucket,
    reads: Bucket,
    changes: Bucket,
    web_acl_reads: Bucket,
    web_acl_changes: Bucket,
}

impl Budget {
    /// All that AWS lets an account do by default.
    pub fn aws() -> Self {
        Self::share_of_aws(1.0)
    }

    /// A share of that: less than 1 where others call from the same account, more where AWS raised its limits.
    pub fn share_of_aws(share: f64) -> Self {
        let bucket = |size: f64, per_second: f64| Bucket::new(size * share, per_second * share);
        Self(Some(Arc::new(Rates {
            load_balancing: bucket(40.0, 10.0),
            placements: bucket(10.0, 0.2),
            registrations: bucket(20.0, 4.0),
            reads: bucket(40.0, 10.0),
            changes: bucket(20.0, 3.0),
            // One call a second and one in two seconds; there is no token to spare, so a little time is.
            web_acl_reads: bucket(1.0, 0.9),
            web_acl_changes: bucket(1.0, 0.45),
        })))
    }

    /// Never waits.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Waits until the call may be made, and tells how long that took. Given up, it costs nothing. `None` is for a call
    /// whose turn would come much later: its caller had better do something else meanwhile.
    pub async fn wait(&self, operation: &str) -> Option<Duration> {
        let Some(rates) = &self.0 else { return Some(Duration::ZERO) };
        let came = Instant::now();
        let (class, common) = rates.of(operation);
        // Both are at hand before either is taken. The lock of the class keeps the order meanwhile.
        let mut class = if class.is_slow() { class.at_hand_unless_crowded().await? } else { class.at_hand().await };
        if let Some(common) = common {
            common.at_hand().await.tokens -= 1.0;
        }
        class.tokens -= 1.0;
        Some(came.elapsed())
    }
}

impl Rates {
    /// The bucket of an operation's class, and the one that classes have in common.
    fn of(&self, operation: &str) -> (&Bucket, Option<&Bucket>) {
        match operation {
            "GetWebACLForResource" => (&self.web_acl_reads, None),
            "AssociateWebACL" | "DisassociateWebACL" => (&self.web_acl_changes, None),
            "CreateLoadBalancer" | "SetSubnets" => (&self.placements, Some(&self.load_balancing)),
            "RegisterTargets" | "DeregisterTargets" => (&self.registrations, Some(&self.load_balancing)),
            _ if operation.starts_with("Describe") => (&self.reads, Some(&self.load_balancing)),
            _ => (&self.changes, Some(&self.load_balancing)),
        }
    }
}

/// Tokens that come back at a steady rate.
#[derive(Debug)]
struct Bucket {
    size: f64,
    per_second: f64,
    /// Held by who waits for the next token; the others queue for the lock, which is fair.
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(size: f64, per_second: f64) -> Self {
        // A bucket that cannot hold one token would never let anybody pass.
        let size = (size * (1.0 - SPARED)).floor().max(1.0);
        Self { size, per_second, level: Mutex::new(Level { tokens: size, at: Instant::now() }) }
    }

    /// Whether a token takes seconds to come.
    fn is_slow(&self) -> bool {
        self.per_second < SLOW
    }

    /// Waits for a token, and keeps the others from it until it is taken or left.
    async fn at_hand(&self) -> MutexGuard<'_, Level> {
        self.filled(self.level.lock().await).await
    }

    /// The same, unless somebody waits already: tokens that take seconds to come would have every worker wait.
    async fn at_hand_unless_crowded(&self) -> Option<MutexGuard<'_, Level>> {
        Some(self.filled(self.level.try_lock().ok()?).await)
    }

    async fn filled<'a>(&self, mut level: MutexGuard<'a, Level>) -> MutexGuard<'a, Level> {
        self.refill(&mut level);
        if level.tokens < 1.0 {
            tokio::time::sleep(Duration::from_secs_f64((1.0 - level.tokens) / self.per_second)).await;
            self.refill(&mut level);
        }
        level
    }

    fn refill(&self, level: &mut Level) {
        let now = Instant::now();
        let came_back = now.duration_since(level.at).as_secs_f64() * self.per_second;
        *level = Level { tokens: (level.tokens + came_back).min(self.size), at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::{join, join_all};

    /// How long each of so many calls, made at once, waits.
    async fn waits(budget: &Budget, operation: &str, calls: usize) -> Vec<Duration> {
        let all = join_all((0..calls).map(|_| budget.wait(operation))).await;
        all.into_iter().map(|wait| wait.expect("nobody else waits")).collect()
    }

    fn about(duration: Duration, seconds: f64) -> bool {
        (duration.as_secs_f64() - seconds).abs() < 0.01
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_follows_at_the_rate_in_order() {
        let waits = waits(&Budget::aws(), "DescribeTags", 56).await;
        assert!(waits[35].is_zero(), "{waits:?}");
        assert!(about(waits[36], 0.1) && about(waits[55], 2.0), "{waits:?}");
        assert!(waits.is_sorted(), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn every_class_has_its_rate() {
        for (operation, burst, next) in [
            ("DescribeRules", 36, 0.1),
            ("RegisterTargets", 18, 0.25),
            ("DeregisterTargets", 18, 0.25),
            ("CreateLoadBalancer", 9, 5.0),
            ("SetSubnets", 9, 5.0),
            ("CreateRule", 18, 1.0 / 3.0),
            ("ModifyRule", 18, 1.0 / 3.0),
            ("AddTags", 18, 1.0 / 3.0),
            ("AssociateWebACL", 1, 1.0 / 0.45),
            ("GetWebACLForResource", 1, 1.0 / 0.9),
        ] {
            let waits = waits(&Budget::aws(), operation, burst + 1).await;
            assert!(waits[burst - 1].is_zero() && about(waits[burst], next), "{operation}: {waits:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn classes_share_the_accounts_rate_and_none_starves() {
        let budget = Budget::aws();
        waits(&budget, "DescribeTags", 36).await;
        let (reads, registrations) =
            join(waits(&budget, "DescribeTags", 20), waits(&budget, "RegisterTargets", 4)).await;
        assert!(about(reads[19], 2.4), "{reads:?}");
        assert!(registrations[3] <= Duration::from_millis(900), "{registrations:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_class_does_not_hold_up_the_others() {
        let budget = Budget::aws();
        let (created, read) = join(waits(&budget, "CreateLoadBalancer", 10), waits(&budget, "DescribeTags", 27)).await;
        assert!(about(created[9], 5.0), "{created:?}");
        assert!(read[26].is_zero(), "{read:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_waits_for_a_slow_token_and_the_others_are_sent_away() {
        let budget = Budget::aws();
        let waits = join_all((0..12).map(|_| budget.wait("CreateLoadBalancer"))).await;
        assert_eq!(waits.iter().filter(|wait| wait.is_none()).count(), 2, "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_fills_up_but_not_over() {
        let budget = Budget::aws();
        waits(&budget, "ModifyRule", 18).await;
        tokio::time::advance(Duration::from_mins(1)).await;
        let waits = waits(&budget.clone(), "ModifyListener", 19).await;
        assert!(waits[17].is_zero() && !waits[18].is_zero(), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_takes_no_token() {
        let budget = Budget::aws();
        waits(&budget, "RegisterTargets", 18).await;
        for _ in 0..10 {
            assert!(budget.wait("RegisterTargets").now_or_never().is_none());
        }
        assert!(about(budget.wait("RegisterTargets").await.unwrap(), 0.25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_smaller_and_slower_and_without_limit_nobody_waits() {
        let half = waits(&Budget::share_of_aws(0.5), "DescribeTags", 19).await;
        assert!(half[17].is_zero() && about(half[18], 0.2), "{half:?}");
        assert!(waits(&Budget::unlimited(), "DescribeTags", 1000).await.iter().all(Duration::is_zero));
    }
}
