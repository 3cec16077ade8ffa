//! Finds addresses that are in no subnet of a VPC, because AWS registers those in another way. The subnets decide, not
//! the address ranges of the VPC: <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/3714>, read
//! on 2026-11-23.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout_at;

use causeway_aws::aws::AwsError;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::Target;

/// Subnets are seldom removed, but may be added at any time. So an address counts as outside only by a read that is
/// younger than this. A cluster with all its pods in the VPC reads its subnets only once.
const FRESH: Duration = Duration::from_secs(10);
/// Targets wait this long for a read. It may take longer: then it goes on, and its answer serves those that come later.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// A read that has not ended after this was dropped, because calls have shorter deadlines.
const LOST: Duration = Duration::from_mins(5);

/// Everything known about the subnets of VPCs.
pub struct Zones {
    ec2: Ec2,
    vpcs: Mutex<HashMap<String, Known>>,
}

/// Everything known about a VPC. Many groups wait for one read.
type Known = Arc<watch::Sender<Vpc>>;

#[derive(Default)]
struct Vpc {
    /// `None` while they could not be read.
    networks: Option<Vec<IpNet>>,
    /// When the last read ended.
    asked: Option<Instant>,
    /// When the read that is under way was begun.
    begun: Option<Instant>,
}

impl Zones {
    /// No subnets are known yet.
    pub fn new(ec2: Ec2) -> Self {
        Self { ec2, vpcs: Mutex::default() }
    }

    /// The addresses among the targets that are in no subnet of the VPC. If the subnets cannot be read in time, they
    /// are as they were last; if they were never read, there are no such addresses. Then AWS takes those that are
    /// inside, and refuses the others one by one.
    pub async fn outside(&self, vpc: &str, targets: &[Target]) -> BTreeSet<String> {
        if addresses(targets).next().is_none() {
            return BTreeSet::new();
        }
        let known = self.vpc_state(vpc);
        let now = tokio::time::Instant::now().into_std();
        if known.send_if_modified(|it| it.begin(targets, now)) {
            let (ec2, vpc, known) = (self.ec2.clone(), vpc.to_owned(), known.clone());
            tokio::spawn(async move {
                let answer = ec2.networks(&vpc).await;
                known.send_modify(|it| it.end(&vpc, answer, Instant::now()));
            });
        }
        let deadline = known.borrow().deadline_for(targets, now);
        if let Some(until) = deadline {
            let mut changes = known.subscribe();
            // If it is late, what is known has to do.
            let _ = timeout_at(until.into(), changes.wait_for(|it| it.begun.is_none())).await;
        }
        known.borrow().outside(targets)
    }

    fn vpc_state(&self, vpc: &str) -> Known {
        let mut vpcs = self.vpcs.lock();
        vpcs.entry(vpc.to_owned()).or_default().clone()
    }
}

impl Vpc {
    /// Notes that a read begins, if these targets need one and none is under way. Returns whether that is so.
    fn begin(&mut self, targets: &[Target], now: Instant) -> bool {
        let under_way = self.begun.is_some_and(|begun| now.duration_since(begun) < LOST);
        let begins = !under_way && !self.settles(targets, now);
        if begins {
            self.begun = Some(now);
        }
        begins
    }

    /// Enters the outcome of a read.
    fn end(&mut self, vpc: &str, answer: Result<Vec<IpNet>, AwsError>, now: Instant) {
        match answer {
            Ok(networks) => self.networks = Some(networks),
            Err(error) => tracing::warn!(vpc, %error, "its subnets could not be read"),
        }
        (self.asked, self.begun) = (Some(now), None);
    }

    /// Until when these targets wait for the read that is under way; `None` if they need not.
    fn deadline_for(&self, targets: &[Target], now: Instant) -> Option<Instant> {
        let begun = self.begun.filter(|_| !self.settles(targets, now))?;
        Some(begun + LOOKUP_TIMEOUT)
    }

    /// Reports whether what is known is enough to judge these targets.
    fn settles(&self, targets: &[Target], now: Instant) -> bool {
        let fresh = self.asked.is_some_and(|asked| now.duration_since(asked) < FRESH);
        fresh || (self.networks.is_some() && self.outside(targets).is_empty())
    }

    fn outside(&self, targets: &[Target]) -> BTreeSet<String> {
        let Some(networks) = &self.networks else { return BTreeSet::new() };
        let outside = |address: &IpAddr| !networks.iter().any(|network| network.contains(address));
        addresses(targets).filter(|(_, address)| outside(address)).map(|(id, _)| id.clone()).collect()
    }
}

/// The targets that are addresses, not instances.
fn addresses(targets: &[Target]) -> impl Iterator<Item = (&String, IpAddr)> {
    targets.iter().filter_map(|target| Some((&target.id, target.id.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use aws_credential_types::Credentials;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
    use tokio::time::timeout;

    use super::*;
    use causeway_api::network;
    use causeway_aws::connect;
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    fn targets(ids: &[&str]) -> Vec<Target> {
        ids.iter().map(|id| Target { id: (*id).into(), port: 80 }).collect()
    }

    fn vpc(asked: Instant) -> Vpc {
        let networks = ["10.0.0.0/20", "2001:db8::/64"].iter().filter_map(|it| network::parse(it)).collect();
        Vpc { networks: Some(networks), asked: Some(asked), begun: None }
    }

    /// An EC2 that never answers.
    #[derive(Debug)]
    struct Silent;

    impl HttpConnector for Silent {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            HttpConnectorFuture::new(pending())
        }
    }

    /// Zones that can read nothing, but know the subnets of one VPC from a read that does not count as fresh.
    async fn zones() -> Zones {
        let config = connect::aws()
            .region("us-east-1")
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
            .http_client(http_client_fn(|_, _| SharedHttpConnector::new(Silent)));
        let zones = Zones::new(Ec2::new(&config.load().await, Metrics::new(), Fence::always_open()));
        zones.vpc_state("known").send_replace(Vpc { asked: None, ..vpc(Instant::now()) });
        zones
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_ec2_delays_only_groups_that_need_it() {
        let (zones, begun) = (zones().await, tokio::time::Instant::now());
        let (inside, outside) = (targets(&["10.0.0.1"]), targets(&["10.9.0.1"]));
        let found = timeout(LOOKUP_TIMEOUT * 2, async {
            tokio::join!(zones.outside("new", &inside), zones.outside("known", &outside), async {
                let found = zones.outside("known", &inside).await;
                assert!(begun.elapsed() < LOOKUP_TIMEOUT, "what is known does for these targets");
                found
            })
        });
        let found = found.await.expect("the answer comes before the call fails");
        assert_eq!(found, (BTreeSet::new(), BTreeSet::from(["10.9.0.1".to_owned()]), BTreeSet::new()));
        let later = timeout(LOOKUP_TIMEOUT / 2, zones.outside("new", &inside)).await;
        assert!(later.is_ok(), "who comes later does not wait as long again");
    }

    #[test]
    fn groups_share_a_read_and_repeat_a_lost_one() {
        let (begun, asked) = (Instant::now(), targets(&["10.0.0.1"]));
        let mut known = Vpc::default();
        assert!(known.begin(&asked, begun));
        assert!(!known.begin(&asked, begun + LOOKUP_TIMEOUT), "it goes on although no group waits for it");
        assert_eq!(known.deadline_for(&asked, begun), Some(begun + LOOKUP_TIMEOUT));
        assert!(known.begin(&asked, begun + LOST));
        known.end("vpc-1", Ok(vec![network::parse("10.0.0.0/20").expect("a network")]), begun + LOST);
        assert_eq!(known.deadline_for(&asked, begun + LOST * 2), None);
        assert!(!known.begin(&asked, begun + LOST * 2));
    }

    #[test]
    fn an_address_in_no_subnet_is_outside_an_instance_never() {
        let found =
            vpc(Instant::now()).outside(&targets(&["10.0.0.1", "10.0.16.1", "2001:db8::1", "2001:db9::1", "i-1"]));
        assert_eq!(found, ["10.0.16.1", "2001:db9::1"].map(str::to_owned).into());
    }

    #[test]
    fn subnets_are_read_again_before_an_address_is_outside() {
        let read = Instant::now();
        let known = vpc(read);
        let (inside, outside) = (targets(&["10.0.0.1"]), targets(&["10.0.0.1", "10.9.0.1"]));
        assert!(known.settles(&inside, read + Duration::from_hours(9)));
        assert!(known.settles(&outside, read + Duration::from_secs(1)));
        assert!(!known.settles(&outside, read + FRESH));
    }

    #[test]
    fn unreadable_subnets_keep_no_target_from_registration() {
        let read = Instant::now();
        let unread = Vpc { networks: None, asked: Some(read), begun: None };
        assert!(!Vpc::default().settles(&targets(&["10.9.0.1"]), read));
        assert!(unread.settles(&targets(&["10.9.0.1"]), read), "it is not asked for again at once");
        assert!(unread.outside(&targets(&["10.9.0.1"])).is_empty());
    }
}
