//! A change whose caller was dropped before the outcome was known. Its call may be on its way to AWS. The result is as
//! uncertain as after a lost answer.

use causeway_aws::aws::AwsError;

use super::Region;
use crate::action::Action;
use crate::ownership::Owner;

/// Held while a change is under way.
#[must_use]
pub struct InFlight<'a> {
    region: &'a Region,
    owner: &'a Owner,
    action: &'a Action,
    confirmed: bool,
}

impl<'a> InFlight<'a> {
    pub fn new(region: &'a Region, owner: &'a Owner, action: &'a Action) -> Self {
        Self { region, owner, action, confirmed: false }
    }

    /// Notes that the outcome is known and dealt with.
    pub fn confirmed(mut self) {
        self.confirmed = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.confirmed {
            tracing::warn!(action = ?self.action, "a change was abandoned: its result is read before anything else");
            self.region.distrust(self.owner, self.action, &AwsError::abandoned_call());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Instant;

    use tokio::net::TcpListener;

    use crate::action::{BalancerAction, GroupAction, ListenerAction, SecurityAction};
    use crate::region::assets::{GroupMember, Member};
    use crate::region::fixtures::{balancer, owner, region_at};
    use causeway_api::myingress::Scheme;
    use causeway_aws::elbv2::{IpAddressType, NewBalancer, Pairs, TargetGroup};

    /// A region with a balancer and a target group, whose AWS accepts calls and never answers.
    async fn silent() -> (Region, TcpListener) {
        let aws = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", aws.local_addr().expect("an address"));
        let region = region_at(endpoint).await;
        let group = TargetGroup {
            arn: "tg".into(),
            name: "web-app".into(),
            kind: None,
            health_check: None,
            balancers: BTreeSet::new(),
        };
        {
            let assets = &mut region.lock().assets;
            assets.balancers.insert("lb".into(), Member::new(balancer(), Pairs::new()));
            let member = GroupMember { group, tags: Pairs::new(), attributes: Some(Pairs::new()), fresh: false };
            assets.groups.insert("tg".into(), member);
        }
        (region, aws)
    }

    /// Begins a change, and drops it once its call is on its way.
    async fn abandoned(region: &Region, aws: &TcpListener, action: Action) {
        let owner = owner();
        tokio::select! {
            outcome = region.change(&owner, &action) => panic!("it ended: {outcome:?}"),
            call = aws.accept() => drop(call.expect("a call")),
        }
    }

    #[tokio::test]
    async fn an_abandoned_creation_leaves_its_name_unconfirmed() {
        let (region, aws) = silent().await;
        let new = NewBalancer {
            name: "other-alb".into(),
            scheme: Scheme::Internal,
            ip_address_type: IpAddressType::Ipv4,
            subnets: BTreeSet::new(),
            security_groups: BTreeSet::new(),
            tags: Pairs::new(),
        };
        abandoned(&region, &aws, Action::Balancer(BalancerAction::Create(new))).await;
        assert!(region.lock().unconfirmed.contains_key("other-alb"));
    }

    #[tokio::test]
    async fn an_abandoned_change_of_a_balancer_leaves_it_unconfirmed() {
        let (region, aws) = silent().await;
        let begun = Instant::now();
        let attributes = Pairs::from([("idle_timeout.timeout_seconds".into(), "30".into())]);
        let action = BalancerAction::SetAttributes { arn: "lb".into(), attributes };
        abandoned(&region, &aws, Action::Balancer(action)).await;
        let known = region.lock();
        assert!(known.unconfirmed.contains_key("web-alb"));
        assert!(known.written_since("lb", begun), "a read that was begun before is not believed");
    }

    #[tokio::test]
    async fn an_abandoned_change_of_a_listener_has_all_read() {
        let (region, aws) = silent().await;
        let action = ListenerAction::SetPriorities {
            balancer: "lb".into(),
            listener: "listener".into(),
            port: 80,
            priorities: BTreeMap::from([("rule".into(), 1)]),
        };
        abandoned(&region, &aws, Action::Listener(action)).await;
        assert_eq!(region.lock().assets.balancers["lb"].listeners, None);
    }

    #[tokio::test]
    async fn an_abandoned_change_of_a_target_group_has_it_read() {
        let (region, aws) = silent().await;
        let attributes = Pairs::from([("stickiness.enabled".into(), "true".into())]);
        let action = GroupAction::SetAttributes { arn: "tg".into(), name: "web-app".into(), attributes };
        abandoned(&region, &aws, Action::Group(action)).await;
        let known = region.lock();
        assert_eq!(known.assets.groups["tg"].attributes, None);
        assert!(known.unconfirmed.contains_key("web-app"));
    }

    #[tokio::test]
    async fn an_abandoned_security_group_change_has_its_owners_read() {
        let (region, aws) = silent().await;
        region.lock().security.listed = true;
        let action = SecurityAction::Delete { id: "sg-1".into(), name: "web".into() };
        abandoned(&region, &aws, Action::Security(action)).await;
        let known = region.lock();
        assert_eq!(known.security.unconfirmed.keys().collect::<Vec<_>>(), [&owner().uid]);
        assert!(known.security.listed, "the others' are known");
    }
}
