//! Finds addresses that are in no subnet of a VPC, because AWS registers those in another way. The subnets decide, not
//! the address ranges of the VPC: <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/3714>, read
//! on 2026-11-23.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::external::ec2::Ec2;
use crate::external::elbv2::Target;
use crate::network::Network;

/// Subnets are seldom removed, but may be added at any time. So an address counts as outside only by a read that is
/// younger than this. A cluster with all its pods in the VPC reads its subnets only once.
const FRESH: Duration = Duration::from_secs(10);

/// What is known about the subnets of VPCs.
pub struct Zones {
    ec2: Ec2,
    /// Locked during a read, so many groups share one read.
    vpcs: Mutex<HashMap<String, Vpc>>,
}

#[derive(Default)]
struct Vpc {
    /// `None` while they could not be read.
    networks: Option<Vec<Network>>,
    asked: Option<Instant>,
}

impl Zones {
    /// No subnets are known yet.
    pub fn new(ec2: Ec2) -> Self {
        Self { ec2, vpcs: Mutex::default() }
    }

    /// The addresses among the targets that are in no subnet of the VPC. If the subnets cannot be read, there are none:
    /// then AWS takes those that are inside, and refuses the others one by one.
    pub async fn outside(&self, vpc: &str, targets: &[Target]) -> BTreeSet<String> {
        if addresses(targets).next().is_none() {
            return BTreeSet::new();
        }
        let mut vpcs = self.vpcs.lock().await;
        let known = vpcs.entry(vpc.to_owned()).or_default();
        if !known.settles(targets, Instant::now()) {
            match self.ec2.networks(vpc).await {
                Ok(networks) => known.networks = Some(networks),
                Err(error) => tracing::warn!(vpc, %error, "its subnets could not be read"),
            }
            known.asked = Some(Instant::now());
        }
        known.outside(targets)
    }
}

impl Vpc {
    /// Whether what is known is enough to judge these targets.
    fn settles(&self, targets: &[Target], now: Instant) -> bool {
        let fresh = self.asked.is_some_and(|asked| now.duration_since(asked) < FRESH);
        fresh || (self.networks.is_some() && self.outside(targets).is_empty())
    }

    fn outside(&self, targets: &[Target]) -> BTreeSet<String> {
        let Some(networks) = &self.networks else { return BTreeSet::new() };
        let outside = |address: &IpAddr| !networks.iter().any(|network| network.contains(*address));
        addresses(targets).filter(|(_, address)| outside(address)).map(|(id, _)| id.clone()).collect()
    }
}

/// The targets that are addresses, not instances.
fn addresses(targets: &[Target]) -> impl Iterator<Item = (&String, IpAddr)> {
    targets.iter().filter_map(|target| Some((&target.id, target.id.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(ids: &[&str]) -> Vec<Target> {
        ids.iter().map(|id| Target { id: (*id).into(), port: 80 }).collect()
    }

    fn vpc(asked: Instant) -> Vpc {
        let networks = ["10.0.0.0/20", "2001:db8::/64"].iter().filter_map(|it| Network::parse(it)).collect();
        Vpc { networks: Some(networks), asked: Some(asked) }
    }

    #[test]
    fn an_address_in_no_subnet_is_outside_and_an_instance_never_is() {
        let found =
            vpc(Instant::now()).outside(&targets(&["10.0.0.1", "10.0.16.1", "2001:db8::1", "2001:db9::1", "i-1"]));
        assert_eq!(found, ["10.0.16.1", "2001:db9::1"].map(str::to_owned).into());
    }

    #[test]
    fn subnets_are_read_again_before_an_address_is_believed_to_be_outside() {
        let read = Instant::now();
        let known = vpc(read);
        let (inside, outside) = (targets(&["10.0.0.1"]), targets(&["10.0.0.1", "10.9.0.1"]));
        assert!(known.settles(&inside, read + Duration::from_hours(9)));
        assert!(known.settles(&outside, read + Duration::from_secs(1)));
        assert!(!known.settles(&outside, read + FRESH));
    }

    #[test]
    fn subnets_that_could_not_be_read_keep_nothing_from_being_registered() {
        let read = Instant::now();
        let unread = Vpc { networks: None, asked: Some(read) };
        assert!(!Vpc::default().settles(&targets(&["10.9.0.1"]), read));
        assert!(unread.settles(&targets(&["10.9.0.1"]), read), "it is not asked for again at once");
        assert!(unread.outside(&targets(&["10.9.0.1"])).is_empty());
    }
}
