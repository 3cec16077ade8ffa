//! Who may reach a balancer while another one replaces it.

use std::time::Duration;

use serde_json::{Value, json};

use super::Simulation;
use crate::action::{Action, BalancerAction, SecurityAction};
use crate::decide::decide;
use crate::model::fixtures::standing;

fn spec(scheme: &str, port: u16, networks: &[String], targets: &[&str]) -> Value {
    json!({
        "scheme": scheme, "inboundCidrs": networks, "targetSecurityGroups": targets, "listeners": [{ "port": port }],
    })
}

/// Ports and networks that are let in.
fn ingress(simulation: &Simulation) -> Vec<(u16, String)> {
    let all = simulation.aws.assets.security_groups.values().flat_map(|group| &group.ingress);
    all.map(|it| (u16::try_from(it.ports.unwrap().from).unwrap(), format!("{:?}", it.source))).collect()
}

/// One edit of scheme, port, networks and security groups of targets, until the new balancer is being set up.
fn replacing(before: &[String], after: &[String]) -> Simulation {
    let mut simulation = Simulation::with(vec![standing("web", spec("internet-facing", 80, before, &["sg-nodes"]))]);
    simulation.settle(None);
    simulation.grace = Duration::from_mins(2);
    simulation.objects[0].spec = standing("web", spec("internal", 8080, after, &[])).spec;
    simulation.journal.clear();
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    simulation
}

#[test]
fn a_replaced_balancer_is_reachable_until_deleted_despite_new_networks() {
    let mut simulation = replacing(&["0.0.0.0/0".into()], &["10.0.0.0/8".into()]);
    let both = |simulation: &Simulation| {
        assert_eq!(simulation.aws.assets.balancers.len(), 2);
        let open = ingress(simulation);
        let has = |port: u16, network: &str| open.iter().any(|(it, source)| *it == port && source.contains(network));
        assert!(has(80, "0.0.0.0/0") && has(8080, "10.0.0.0/8"), "{open:?}");
        assert_eq!(open.len(), 2, "what the old one does not need is not let in: {open:?}");
        assert_eq!(simulation.aws.assets.entries.len(), 1, "targets let the old one in");
    };
    both(&simulation);
    simulation.activate();
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    both(&simulation);
    simulation.settle(None);
    let open = ingress(&simulation);
    assert!(matches!(&open[..], [(8080, source)] if source.contains("10.0.0.0/8")), "{open:?}");
    assert!(simulation.aws.assets.entries.is_empty());
    let place = |is_it: &dyn Fn(&Action) -> bool| simulation.journal.iter().position(is_it).unwrap();
    let deleted = place(&|it| matches!(it, Action::Balancer(BalancerAction::Delete { .. })));
    let closed = place(&|it| matches!(it, Action::Security(SecurityAction::Revoke { .. })));
    assert!(deleted < closed);
}

#[test]
fn without_room_networks_of_a_replaced_balancer_give_way() {
    let networks = |from: usize| (from..from + 40).map(|it| format!("10.{it}.0.0/16")).collect::<Vec<_>>();
    let simulation = replacing(&networks(0), &networks(100));
    let open = ingress(&simulation);
    assert!(open.len() == 40 && open.iter().all(|(port, _)| *port == 8080), "{open:?}");
}

#[test]
fn a_balancer_in_another_vpc_gets_its_groups_there() {
    let placed = |subnets: [&str; 2], scheme: &str, targets: &[&str]| {
        let mut spec = spec(scheme, 80, &["10.0.0.0/8".into()], targets);
        spec["subnets"] = json!(subnets);
        spec["backends"] = json!([{ "name": "app", "port": 80 }]);
        spec["listeners"][0]["defaultAction"] = json!({ "forward": { "backends": [{ "name": "app" }] } });
        spec
    };
    // Either an administrator deletes the balancer in AWS, or one of the other scheme replaces it.
    for (is_deleted, scheme) in [(true, "internal"), (false, "internet-facing")] {
        let before = placed(["subnet-a", "subnet-b"], "internal", &["sg-nodes"]);
        let mut simulation = Simulation::with(vec![standing("web", before)]);
        simulation.settle(None);
        assert_eq!(simulation.aws.assets.entries.len(), 1);
        if is_deleted {
            simulation.aws.assets.balancers.clear();
            simulation.aws.assets.groups.values_mut().for_each(|member| member.group.balancers.clear());
        }
        simulation.objects[0].spec = standing("web", placed(["subnet-x", "subnet-y"], scheme, &[])).spec;
        let object = simulation.objects[0].clone();
        let first = decide(&object, &simulation.observe(&object), simulation.now).actions;
        assert!(
            matches!(&first[..], [Action::Security(SecurityAction::Create { vpc, .. })] if vpc == "vpc-2"),
            "{first:#?}"
        );
        simulation.settle(None);
        let assets = &simulation.aws.assets;
        let balancers = assets.balancers.values().map(|it| it.balancer.vpc.as_str());
        let groups = assets.groups.values().filter_map(|it| Some(it.group.kind.as_ref()?.vpc.as_str()));
        let security = assets.security_groups.values().map(|it| it.vpc.as_str());
        assert_eq!(balancers.chain(groups).chain(security).collect::<Vec<_>>(), ["vpc-2"; 3]);
        assert!(assets.entries.is_empty());
        let made = simulation.objects[0].status.clone().unwrap().security_group;
        assert_eq!(made.as_ref(), assets.security_groups.keys().next());
    }
}

#[test]
fn only_an_ipv4_balancer_stands_in_subnets_without_ipv6() {
    let spec = |subnet: &str, kind: &str| json!({ "subnets": ["subnet-a", subnet], "ipAddressType": kind });
    let (with, without) = (spec("subnet-b", "dualstack"), spec("subnet-4", "ipv4"));
    let mut simulation = Simulation::with(vec![standing("web", with.clone())]);
    simulation.settle(None);
    for (spec, order) in [(without, ["SetIpAddressType", "SetSubnets"]), (with, ["SetSubnets", "SetIpAddressType"])] {
        simulation.journal.clear();
        simulation.objects[0].spec = standing("web", spec).spec;
        simulation.settle(None);
        let changes = simulation.journal.iter().filter_map(|action| match action {
            Action::Balancer(BalancerAction::SetSubnets { .. }) => Some("SetSubnets"),
            Action::Balancer(BalancerAction::SetIpAddressType { .. }) => Some("SetIpAddressType"),
            _ => None,
        });
        assert_eq!(changes.collect::<Vec<_>>(), order);
    }
}
