//! Security groups of others: those that a spec names, and those of the targets. Also named ports of health checks.

use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_aws::ec2::{Entry, PortRange};
use causeway_runtime::Health;

use super::Simulation;
use crate::action::{Action, GroupAction, SecurityAction};
use crate::decide::bindings;
use crate::model::fixtures::{born, joining, standing};
use crate::ownership::entry_mark;
use crate::targets::CheckPort;

fn reaching(name: &str, targets: &[&str]) -> MyIngress {
    standing(name, json!({ "inboundCidrs": ["10.0.0.0/8"], "targetSecurityGroups": targets }))
}

fn settled(objects: Vec<MyIngress>) -> Simulation {
    let mut simulation = Simulation::with(objects);
    simulation.settle(None);
    simulation
}

fn set(simulation: &mut Simulation, name: &str, field: &str, value: &Value) {
    let mut spec = json!(simulation.object(name).spec);
    let fields = spec.as_object_mut().unwrap();
    fields.remove(field);
    fields.extend((!value.is_null()).then(|| (field.to_owned(), value.clone())));
    simulation.object(name).spec = serde_json::from_value(spec).unwrap();
}

/// The security groups that let in the balancer of an object.
fn let_in(simulation: &Simulation, object: &MyIngress) -> Vec<String> {
    let mark = entry_mark(&Simulation::owner(object));
    let own = simulation.aws.assets.entries.iter().filter(|entry| entry.description == mark);
    own.map(|entry| entry.group.clone()).collect()
}

fn stalled(simulation: &Simulation, name: &str) -> (&'static str, String) {
    match simulation.health.iter().find(|((_, it), _)| it == name) {
        Some((_, Health::Stalled(cause))) => (cause.reason, cause.message.clone()),
        other => panic!("not stalled: {other:?}"),
    }
}

#[test]
fn balancers_with_one_group_of_nodes_leave_each_other_alone() {
    for crash in 0..16 {
        let (one, other) = (reaching("one", &["nodes"]), reaching("other", &["sg-nodes", "pods"]));
        let mut simulation = Simulation::with(vec![one.clone(), other.clone()]);
        simulation.settle(Some(crash));
        assert_eq!(
            (let_in(&simulation, &one), let_in(&simulation, &other)),
            (vec!["sg-nodes".into()], vec!["sg-nodes".to_owned(), "sg-pods".into()])
        );
        simulation.delete("one");
        simulation.aws.lingering = 1;
        simulation.settle(Some(crash));
        assert_eq!(
            (let_in(&simulation, &one).len(), let_in(&simulation, &other).len()),
            (0, 2),
            "after {crash} actions"
        );
        simulation.delete("other");
        simulation.settle(None);
        assert_eq!(simulation.aws.assets, crate::region::assets::Assets::default());
    }
}

#[test]
fn a_group_that_does_not_agree_is_reported_and_unchanged() {
    let object = reaching("web", &["vault", "nodes"]);
    let simulation = settled(vec![object.clone()]);
    assert_eq!(let_in(&simulation, &object), ["sg-nodes"]);
    let (reason, message) = stalled(&simulation, "web");
    assert_eq!(reason, "TargetSecurityGroupRefused");
    let words = "aws ec2 create-tags --resources sg-vault --tags Key=causeway.example.com/let-in,Value=prod";
    assert!(message.starts_with("spec.targetSecurityGroups: ") && message.contains(words), "{message}");
}

#[test]
fn unwanted_entries_go_and_uncertain_ones_stay() {
    let object = reaching("web", &["nodes"]);
    let mut simulation = settled(vec![object.clone()]);
    set(&mut simulation, "web", "targetSecurityGroups", &json!(["pods", "mistyped"]));
    simulation.settle(None);
    assert_eq!(let_in(&simulation, &object), ["sg-nodes", "sg-pods"], "no group has the name mistyped");
    assert_eq!(stalled(&simulation, "web").0, "SecurityGroupNotFound");
    set(&mut simulation, "web", "targetSecurityGroups", &json!(["pods"]));
    simulation.settle(None);
    assert_eq!(let_in(&simulation, &object), ["sg-pods"]);
    set(&mut simulation, "web", "inboundCidrs", &Value::Null);
    set(&mut simulation, "web", "targetSecurityGroups", &Value::Null);
    set(&mut simulation, "web", "securityGroups", &json!(["edge"]));
    simulation.settle(None);
    assert_eq!(let_in(&simulation, &object), [""; 0]);
    assert!(simulation.aws.assets.security_groups.is_empty(), "it goes once no group lets it in");
}

#[test]
fn a_persons_rule_is_enough_and_never_removed() {
    let object = reaching("web", &["nodes"]);
    let mut simulation = settled(vec![standing("web", json!({ "inboundCidrs": ["10.0.0.0/8"] }))]);
    let own = simulation.aws.assets.security_groups.keys().next().unwrap().clone();
    let ports = Some(PortRange { from: 0, to: 65535 });
    let (group, protocol, description) = ("sg-nodes".into(), "tcp".into(), "by hand".into());
    let by_hand = Entry { group, from: own, protocol, ports, description };
    simulation.aws.assets.entries.insert(by_hand.clone());
    simulation.object("web").spec = object.spec;
    simulation.settle(None);
    set(&mut simulation, "web", "targetSecurityGroups", &json!(["pods"]));
    simulation.settle(None);
    let entries: Vec<&str> = simulation.aws.assets.entries.iter().map(|entry| entry.group.as_str()).collect();
    assert_eq!(entries, ["sg-nodes", "sg-pods"]);
    assert!(simulation.aws.assets.entries.contains(&by_hand));
}

#[test]
fn members_add_their_targets_and_a_suspended_one_keeps_its() {
    let group = json!({ "name": "all" });
    let first = standing("a", json!({ "group": group, "inboundCidrs": ["::/0"], "targetSecurityGroups": ["nodes"] }));
    let second = joining("b", json!({ "targetSecurityGroups": ["pods"] }));
    let mut simulation = settled(vec![first.clone(), second]);
    assert_eq!(let_in(&simulation, &first), ["sg-nodes", "sg-pods"]);
    simulation.object("b").spec.suspend = true;
    simulation.settle(None);
    assert_eq!(let_in(&simulation, &first), ["sg-nodes", "sg-pods"]);
    simulation.object("b").spec.suspend = false;
    simulation.delete("b");
    simulation.settle(None);
    assert_eq!(let_in(&simulation, &first), ["sg-nodes"]);
    // Without a security group of our own there is nothing to let in.
    let third = joining("c", json!({ "targetSecurityGroups": ["pods"] }));
    let bare = settled(vec![standing("a", json!({ "group": group })), third]);
    assert!(stalled(&bare, "c").1.starts_with("spec.targetSecurityGroups needs a security group that is made"));
}

#[test]
fn groups_have_names() {
    let named = |groups: Value| standing("web", json!({ "securityGroups": groups }));
    let simulation = settled(vec![named(json!(["edge", "sg-1"]))]);
    let balancer = simulation.aws.assets.balancers.values().next().unwrap();
    assert_eq!(balancer.balancer.security_groups, ["sg-1".to_owned(), "sg-2".to_owned()].into());
    let simulation = settled(vec![named(json!(["nowhere"]))]);
    assert!(simulation.aws.assets.is_empty(), "nothing is half-made");
    let (reason, message) = stalled(&simulation, "web");
    assert_eq!(reason, "SecurityGroupNotFound");
    assert!(message.starts_with("spec.securityGroups: AWS knows no security group with the tag Name=nowhere"));
}

#[test]
fn our_own_group_is_made_in_the_chosen_vpc() {
    let selector = json!({ "tags": { "of": [] }, "vpcId": "vpc-1" });
    let simulation =
        settled(vec![born("web", 0, json!({ "subnetSelector": selector, "inboundCidrs": ["10.0.0.0/8"] }))]);
    assert_eq!(simulation.aws.assets.security_groups.values().next().unwrap().vpc, "vpc-1");
}

#[test]
fn a_named_port_of_checks_follows_its_service() {
    let checked = json!({
        "backends": [{ "name": "app", "port": 80, "healthCheck": { "port": "metrics" } }],
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "app" }] } } }],
    });
    let mut simulation = settled(vec![standing("web", checked)]);
    let port = |simulation: &Simulation| {
        let group = simulation.aws.assets.groups.values().next().unwrap();
        group.group.health_check.as_ref().unwrap().port
    };
    assert_eq!(port(&simulation), Some(9100));
    let both = || CheckPort::Differs([9000, 9100].into());
    let missing = || CheckPort::Missing { ports: vec!["80 (http)".into()] };
    for (now, checked_on, reason, words) in [
        (both(), 9100, Some("PortAmbiguous"), "port metrics of Service app is 9000 and 9100 on different pods"),
        (CheckPort::Is(9000), 9000, None, ""),
        (
            missing(),
            9000,
            Some("PortNotFound"),
            "Service app has no port called metrics: use a number, or the name of one",
        ),
        (CheckPort::Unknown, 9000, None, ""),
    ] {
        simulation.metrics = now;
        simulation.journal.clear();
        simulation.settle(None);
        assert_eq!(port(&simulation), Some(checked_on));
        let Some(reason) = reason else {
            assert!(matches!(simulation.health.values().next(), Some(Health::Ready(_))));
            continue;
        };
        let (text, message) = stalled(&simulation, "web");
        assert_eq!(text, reason);
        assert!(message.starts_with("spec.backends[0].healthCheck.port: ") && message.contains(words), "{message}");
    }
    simulation.metrics = CheckPort::Is(9200);
    simulation.settle(None);
    let is_check = |action: &Action| matches!(action, Action::Group(GroupAction::SetHealthCheck { .. }));
    assert!(simulation.journal.iter().any(is_check));
    assert_eq!(simulation.repaired, [], "a Service that changes is no drift");
    let touched = |action: &&Action| matches!(action, Action::Security(SecurityAction::LetIn(_)));
    assert_eq!(simulation.journal.iter().filter(touched).count(), 0);
}

#[test]
fn targets_of_a_suspended_object_stand_still_over_a_restart() {
    let backed = |port: u16| {
        json!({
            "backends": [{ "name": "app", "port": 80 }],
            "listeners": [{ "port": port, "defaultAction": { "forward": { "backends": [{ "name": "app" }] } } }],
        })
    };
    let mut first = backed(80);
    first["group"] = json!({ "name": "all" });
    let alone = Simulation::with(vec![standing("a", backed(80))]);
    let grouped = Simulation::with(vec![standing("a", first), joining("b", backed(81))]);
    for (mut simulation, others) in [(alone, 0), (grouped, 1)] {
        simulation.settle(None);
        let owner = Simulation::owner(simulation.object("a"));
        assert_eq!(simulation.followed(&owner).len(), others + 1);
        simulation.object("a").spec.suspend = true;
        simulation.settle(None);
        assert_eq!(simulation.followed(&owner).len(), others, "before");
        simulation.die();
        for name in ["a", "b"].into_iter().take(others + 1) {
            let object = simulation.object(name).clone();
            let observed = simulation.observe(&object);
            let early = bindings(observed.built.model.as_ref(), &observed.members, &owner, &observed.assets);
            assert_eq!(early.len(), others, "as soon as it is known what there is");
        }
        simulation.settle(None);
        simulation.object("a").spec.suspend = false;
        simulation.settle(None);
        assert_eq!(simulation.followed(&owner).len(), others + 1, "afterwards");
    }
}
