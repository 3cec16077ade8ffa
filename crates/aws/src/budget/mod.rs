//! Limits the rate of calls to AWS to what it lets an account do. Calls wait here. Those of one namespace go in the
//! order in which they came, and namespaces take turns. So an object with many calls does not hold up the others, nor
//! does a namespace with many objects hold up other namespaces, and hardly any call is throttled.
//!
//! AWS counts per account and region, with a bucket of tokens for each class of operations:
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html>,
//! <https://docs.aws.amazon.com/waf/latest/developerguide/limits.html>.
//!
//! Libraries such as `governor` have the buckets, but neither turns nor calls that yield to all others nor a pause for
//! all of them.

mod bucket;
#[cfg(test)]
mod fairness;
mod rates;
mod refusals;

use std::sync::Arc;

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use bucket::Bucket;
use causeway_runtime::tenant;
use rates::Rates;
use refusals::Refusals;

/// A waiting call checks again after this at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The rates that all callers share. A clone draws on the same ones.
#[derive(Clone, Debug)]
pub struct Budget {
    rates: Option<Arc<Mutex<Rates>>>,
    refusals: Arc<[Refusals; Class::COUNT]>,
    /// True if it makes calls only with tokens that the others leave over.
    background: bool,
}

/// Operations that AWS counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Resource-intensive: a new balancer every five seconds.
    Placements,
    Registrations,
    Reads,
    Changes,
    WebAclReads,
    WebAclChanges,
}

impl Class {
    const COUNT: usize = 6;
    const ALL: [Self; Self::COUNT] =
        [Self::Placements, Self::Registrations, Self::Reads, Self::Changes, Self::WebAclReads, Self::WebAclChanges];

    fn of_operation(operation: &str) -> Self {
        match operation {
            "GetWebACLForResource" => Self::WebAclReads,
            "AssociateWebACL" | "DisassociateWebACL" => Self::WebAclChanges,
            "CreateLoadBalancer" | "SetSubnets" => Self::Placements,
            "RegisterTargets" | "DeregisterTargets" => Self::Registrations,
            _ if ["Describe", "Get", "List", "Head"].iter().any(|read| operation.starts_with(read)) => Self::Reads,
            _ => Self::Changes,
        }
    }

    /// Returns true if it also takes a token of the bucket that the classes of load balancing share.
    fn is_of_load_balancing(self) -> bool {
        !matches!(self, Self::WebAclReads | Self::WebAclChanges)
    }
}

/// Parses the option `AWS_RATE_SHARE`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=100.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0 to 100".into()),
    }
}

impl Budget {
    /// Returns the rates that AWS lets an account use by default.
    pub fn aws() -> Self {
        Self::from_share(1.0)
    }

    /// Returns a share of those rates: less than 1 if others call from the same account, more if AWS raised its limits,
    /// and 0 for no limit.
    pub fn from_share(share: f64) -> Self {
        if share <= 0.0 {
            return Self::without_limit();
        }
        let bucket = |size: f64, per_second: f64| Bucket::new(size * share, per_second * share);
        let classes = [
            bucket(10.0, 0.2),
            bucket(20.0, 4.0),
            bucket(40.0, 10.0),
            bucket(20.0, 3.0),
            // One call a second and one in two seconds. A bucket of one token has none to spare, so it gives up a
            // little of the rate.
            bucket(1.0, 0.9),
            bucket(1.0, 0.45),
        ];
        let rates = Rates::new(bucket(40.0, 10.0), classes);
        Self { rates: Some(Arc::new(Mutex::new(rates))), ..Self::without_limit() }
    }

    /// Returns rates without a limit: calls never wait, unless AWS refuses some.
    pub fn without_limit() -> Self {
        Self { rates: None, refusals: Arc::default(), background: false }
    }

    /// Returns the same rates for work that can wait: it takes only tokens that no other caller needs, and at most four
    /// fifths of the rate.
    #[must_use]
    pub fn in_background(&self) -> Self {
        Self { background: true, ..self.clone() }
    }

    /// Waits until AWS accepts such calls: not at all, unless it throttled the last one.
    pub async fn wait_until_accepted(&self, operation: &str) {
        self.refusals[Class::of_operation(operation) as usize].wait().await;
    }

    /// Waits until the call may be made, and returns how long that took. A wait that is dropped costs no token. `None`
    /// means that the turn would come much later, so the caller had better do something else meanwhile. The call counts
    /// for the namespace that the task works for.
    pub async fn wait(&self, operation: &str) -> Option<Duration> {
        let came = Instant::now();
        let class = Class::of_operation(operation);
        let Some(rates) = &self.rates else { return Some(came.elapsed()) };
        if self.background {
            loop {
                let taken = lock(rates).take_what_is_left_over(class, Instant::now());
                match taken {
                    Ok(()) => return Some(came.elapsed()),
                    Err(pause) => sleep(pause).await,
                }
            }
        }
        let tenant = tenant::tenant();
        let (number, mut turn) = lock(rates).join(class, &tenant, came)?;
        let mut waiting = Waiting { rates, class, number, over: false };
        loop {
            let pause = {
                let mut rates = lock(rates);
                rates.hand_out(Instant::now());
                rates.time_until(class, &tenant).max(SHORTEST_PAUSE)
            };
            tokio::select! {
                biased;
                _ = &mut turn => {
                    waiting.over = true;
                    return Some(came.elapsed());
                }
                () = sleep(pause) => {}
            }
        }
    }

    /// Records that AWS throttled the call, so the next caller waits a little. AWS took no token for it. If a token
    /// takes seconds to come back, it is put back here as well.
    pub fn record_refusal(&self, operation: &str) {
        let class = Class::of_operation(operation);
        self.refusals[class as usize].record_refusal();
        if let Some(rates) = &self.rates {
            lock(rates).record_refusal(class);
        }
    }

    /// Records that AWS accepted the call.
    pub fn record_success(&self, operation: &str) {
        self.refusals[Class::of_operation(operation) as usize].record_success();
    }
}

/// A waiting call. It leaves the queue when it is dropped.
struct Waiting<'a> {
    rates: &'a Mutex<Rates>,
    class: Class,
    number: u64,
    over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.over {
            lock(self.rates).leave(self.class, self.number, Instant::now());
        }
    }
}

fn lock(rates: &Mutex<Rates>) -> MutexGuard<'_, Rates> {
    rates.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::{join, join_all};

    /// Returns how long each of this many calls waits if they are made at once.
    async fn waits(budget: &Budget, operation: &str, calls: usize) -> Vec<Duration> {
        let all = join_all((0..calls).map(|_| budget.wait(operation))).await;
        all.into_iter().map(|wait| wait.expect("no other call waits")).collect()
    }

    fn is_about(duration: Duration, seconds: f64) -> bool {
        (duration.as_secs_f64() - seconds).abs() < 0.01
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_follows_in_order() {
        let waits = waits(&Budget::aws(), "DescribeTags", 56).await;
        assert!(waits[35].is_zero(), "{waits:?}");
        assert!(is_about(waits[36], 0.1) && is_about(waits[55], 2.0), "{waits:?}");
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
            assert!(waits[burst - 1].is_zero() && is_about(waits[burst], next), "{operation}: {waits:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn classes_share_the_accounts_rate_and_none_starves() {
        let budget = Budget::aws();
        waits(&budget, "DescribeTags", 36).await;
        let (reads, registrations) =
            join(waits(&budget, "DescribeTags", 20), waits(&budget, "RegisterTargets", 4)).await;
        assert!(is_about(reads[19], 2.4), "{reads:?}");
        assert!(registrations[3] <= Duration::from_millis(900), "{registrations:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_class_does_not_hold_up_the_others() {
        let budget = Budget::aws();
        let (created, read) = join(waits(&budget, "CreateLoadBalancer", 10), waits(&budget, "DescribeTags", 27)).await;
        assert!(is_about(created[9], 5.0), "{created:?}");
        assert!(read[26].is_zero(), "{read:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_waits_for_a_slow_token_and_others_fail() {
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
    async fn a_call_that_gives_up_takes_no_token() {
        let budget = Budget::aws();
        waits(&budget, "RegisterTargets", 18).await;
        for _ in 0..10 {
            assert!(budget.wait("RegisterTargets").now_or_never().is_none());
        }
        assert!(is_about(budget.wait("RegisterTargets").await.unwrap(), 0.25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_slower_and_no_limit_means_no_wait() {
        let half = waits(&Budget::from_share(0.5), "DescribeTags", 19).await;
        assert!(half[17].is_zero() && is_about(half[18], 0.2), "{half:?}");
        assert!(waits(&Budget::without_limit(), "DescribeTags", 1000).await.iter().all(Duration::is_zero));
    }

    #[tokio::test(start_paused = true)]
    async fn background_work_takes_four_fifths_and_leaves_a_burst() {
        let budget = Budget::aws();
        let background = budget.in_background();
        let begun = Instant::now();
        for _ in 0..80 {
            background.wait("DescribeRules").await.unwrap();
        }
        // 8 of the 10 tokens a second.
        assert!(is_about(begun.elapsed(), 79.0 / 8.0), "{:?}", begun.elapsed());
        let waits = waits(&budget, "DescribeTags", 27).await;
        assert!(waits[26].is_zero(), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn background_work_delays_no_other_call() {
        let budget = Budget::aws();
        let background = budget.in_background();
        let busy = async {
            // As many reads as AWS allows: nothing is left over.
            waits(&budget, "DescribeTags", 136).await
        };
        let spare = async {
            let begun = Instant::now();
            background.wait("DescribeRules").await.unwrap();
            begun.elapsed()
        };
        tokio::time::advance(Duration::from_millis(1)).await;
        let (waits, first) = join(busy, spare).await;
        assert!(is_about(waits[135], 10.0), "{:?}", waits[135]);
        // The bucket is three quarters full again 2.7 s after the last of the others.
        assert!(first.as_secs_f64() > 12.5, "{first:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_call_of_a_slow_class_costs_no_token() {
        let budget = Budget::aws();
        // More than the class has tokens, fewer than all classes share.
        for _ in 0..20 {
            assert!(budget.wait("CreateLoadBalancer").await.unwrap().is_zero());
            budget.record_refusal("CreateLoadBalancer");
        }
        let waits = waits(&budget, "CreateLoadBalancer", 9).await;
        assert!(waits[8].is_zero(), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_holds_up_its_class_only() {
        let budget = Budget::without_limit();
        budget.record_refusal("DescribeTags");
        assert!(budget.wait_until_accepted("DescribeTags").now_or_never().is_none());
        assert!(budget.wait_until_accepted("CreateRule").now_or_never().is_some());
    }
}
