//! Target groups that a member of a group wants and cannot have, because there is one of that name. A search has found
//! the names of backends here: the target groups of two of them have one name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::TargetGroup;
use causeway_runtime::Health;

use super::Simulation;
use super::guests::{edit, evaluated, home, listeners, reason, rule};
use crate::decide::bindings;
use crate::members::key;
use crate::members::occupied::Occupied;
use crate::model::fixtures::{born, guest, secrets};
use crate::model::{Inputs, Limits, build_beside};
use crate::region::assets::GroupMember;

/// A rule that forwards requests for that host to that backend.
fn forward(host: &str, backend: &str) -> Value {
    json!({ "hosts": [host], "action": { "forward": { "backends": [{ "name": backend }] } } })
}

/// Gives the object these rules, and one backend.
fn serve(object: &mut MyIngress, backend: &str, rules: &[Value]) {
    object.spec.listeners = serde_json::from_value(listeners(rules)).unwrap();
    object.spec.backends = serde_json::from_value(json!([{ "name": backend, "service": "app", "port": 80 }])).unwrap();
}

fn names(simulation: &Simulation) -> Vec<&str> {
    simulation.aws.assets.groups.values().map(|member| member.group.name.as_str()).collect()
}

#[test]
fn a_foreign_target_group_stalls_only_the_member_it_hinders() {
    let name = "homehomeho-app-9b7864be0c";
    let greedy = guest("homehomehoa", 0, json!({ "listeners": listeners(&[rule("g.example.com", None)]) }));
    let mut simulation = Simulation::with(vec![greedy, home(&[rule("a.example.com", None)])]);
    simulation.settle(None);
    // The guest's own group has it for `homehomehob`, with the backend `app-------b4ca6`.
    let own = guest("homehomehob", 0, json!({ "group": { "name": "own" } }));
    let (arn, balancers) = ("theirs".to_owned(), BTreeSet::new());
    let group = TargetGroup { arn: arn.clone(), name: name.into(), kind: None, health_check: None, balancers };
    let theirs = GroupMember { group, tags: Simulation::owner(&own).tags(), attributes: None, fresh: false };
    simulation.aws.assets.groups.insert(arn.clone(), theirs.clone());
    let backend = "app-------22f7b0";
    serve(simulation.object("homehomehoa"), backend, &[forward("g.example.com", backend)]);
    edit(&mut simulation, "home", &[rule("a.example.com", None), rule("new.example.com", None)]);
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "home new", "homehomehoa g"]);
    assert_eq!((reason(&simulation, "home"), reason(&simulation, "homehomehoa")), ("", "OwnershipLost"));
    assert_eq!(simulation.aws.assets.groups, [(arn, theirs)].into());
    // Once the other one is gone, the guest gets what it wants.
    simulation.aws.assets.groups.clear();
    simulation.settle(None);
    assert_eq!((names(&simulation), reason(&simulation, "homehomehoa")), (vec![name], ""));
}

#[test]
fn a_target_group_with_changed_tags_stalls_only_its_member() {
    let mut simulation = Simulation::with(vec![home(&[rule("a.example.com", None)]), guest("guest", 0, json!({}))]);
    serve(simulation.object("guest"), "app", &[forward("g.example.com", "app")]);
    simulation.settle(None);
    let owner = Simulation::owner(simulation.object("home"));
    let arn = simulation.aws.assets.groups.keys().next().unwrap().clone();
    let tags = std::mem::take(&mut simulation.aws.assets.groups.get_mut(&arn).unwrap().tags);
    edit(&mut simulation, "home", &[rule("a.example.com", None), rule("new.example.com", None)]);
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "home new", "guest g"]);
    assert_eq!((reason(&simulation, "home"), reason(&simulation, "guest")), ("", "OwnershipLost"));
    assert_eq!(simulation.followed(&owner), [arn.clone()].into());
    simulation.aws.assets.groups.get_mut(&arn).unwrap().tags = tags;
    simulation.settle(None);
    assert_eq!((reason(&simulation, "guest"), simulation.followed(&owner)), ("", [arn].into()));
}

/// The target group of `shop/home` for the backend `OURS`, and of `guests/home` for the backend `THEIRS`, on a balancer
/// that faces the internet.
const NAME: &str = "home-app-2b33ca1f0d";
const OURS: &str = "app-------21efd3";
const THEIRS: &str = "app-------a0dd5";

/// `home` has no backend yet. Like it, `second` says where the balancer stands.
fn at_home() -> Vec<MyIngress> {
    let listeners = listeners(&[rule("b.example.com", None)]);
    let subnets = ["subnet-a", "subnet-b"];
    let second = json!({ "group": { "name": "all" }, "subnets": subnets, "listeners": listeners });
    vec![home(&[]), born("second", 10, second)]
}

/// The group with the backend of `home`.
fn serving() -> Simulation {
    let mut simulation = Simulation::with(at_home());
    serve(simulation.object("home"), OURS, &[forward("a.example.com", OURS)]);
    simulation.settle(None);
    assert_eq!(names(&simulation), [NAME]);
    simulation
}

/// The guest that is called `home`, too.
fn greedy() -> MyIngress {
    let mut greedy = guest("home", 0, json!({}));
    serve(&mut greedy, THEIRS, &[forward("g.example.com", THEIRS)]);
    greedy
}

/// Returns the reason why the object called `home` in that namespace is stalled; an empty text if it is not.
fn stalled(simulation: &Simulation, namespace: &str) -> &'static str {
    match simulation.health.get(&(namespace.to_owned(), "home".to_owned())) {
        Some(Health::Stalled(cause)) => cause.reason,
        _ => "",
    }
}

/// The namespaces of the backends that this target group follows.
fn followed_in(simulation: &Simulation, arn: &str) -> Vec<String> {
    let all = simulation.bound.all().filter(|binding| binding.group_arn.as_deref() == Some(arn));
    all.map(|binding| binding.backend.namespace.clone()).collect()
}

#[test]
fn a_guest_does_not_get_an_absent_members_target_group() {
    for suspended in [false, true] {
        let mut simulation = serving();
        if suspended {
            simulation.object("home").spec.suspend = true;
        } else {
            simulation.object("home").spec.tags.insert("aws:reserved".into(), "x".into());
        }
        simulation.objects.push(greedy());
        let before = simulation.aws.assets.groups.clone();
        simulation.settle(None);
        assert_eq!(simulation.aws.assets.groups, before, "suspended: {suspended}");
        assert_eq!(
            (evaluated(&simulation).join(", "), stalled(&simulation, "guests")),
            ("home a, second b".into(), "BackendInvalid")
        );
        let arn = before.keys().next().unwrap();
        let follows = if suspended { Vec::new() } else { vec!["shop".to_owned()] };
        assert_eq!(followed_in(&simulation, arn), follows);
        // After a restart, the operator does not know yet where requests go.
        let second = simulation.object("second").clone();
        let observed = simulation.observe(&second);
        let (secrets, limits, occupied) = (secrets(), Limits::default(), Occupied::default());
        let owner = &observed.owner;
        let inputs = Inputs { owner, secrets: &secrets, limits: &limits, certificates: None, occupied: &occupied };
        let model = build_beside(&[Scheme::InternetFacing], &observed.members, &inputs).model.unwrap();
        assert_eq!(model.groups[NAME].member.0, "guests");
        let early = bindings(Some(&model), &observed.members, owner, &observed.assets);
        assert_eq!(early.into_iter().map(|binding| binding.backend.namespace).collect::<Vec<_>>(), follows);
    }
}

#[test]
fn a_replaced_balancers_target_group_follows_no_guest() {
    let mut simulation = serving();
    simulation.objects.push(greedy());
    simulation.settle(None);
    assert_eq!(stalled(&simulation, "guests"), "BackendInvalid");
    let arn = simulation.aws.assets.groups.keys().next().unwrap().clone();
    // On an internal balancer, the names of the two groups differ.
    for name in ["home", "second"] {
        simulation.object(name).spec.scheme = Scheme::Internal;
    }
    let which = key(simulation.object("home"));
    let mut seen = 0;
    for _ in 0..10 {
        simulation.reconcile(&which);
        if simulation.aws.assets.balancers.len() == 2 {
            assert_eq!(followed_in(&simulation, &arn), ["shop"]);
            seen += 1;
        }
        simulation.aws.time_passes();
        simulation.sweep();
    }
    assert!(seen > 0 && !simulation.aws.assets.groups.contains_key(&arn));
    assert_eq!(names(&simulation).len(), 2);
}

#[test]
fn a_guests_target_group_serves_no_other_namespace_meanwhile() {
    let mut simulation = Simulation::with([at_home(), vec![greedy()]].concat());
    simulation.settle(None);
    assert_eq!((names(&simulation), evaluated(&simulation).join(", ")), (vec![NAME], "second b, home g".into()));
    let before = simulation.aws.assets.groups.clone();
    serve(simulation.object("home"), OURS, &[forward("a.example.com", OURS)]);
    simulation.settle(None);
    assert_eq!((stalled(&simulation, "shop"), stalled(&simulation, "guests")), ("BackendInvalid", ""));
    assert_eq!(
        (&simulation.aws.assets.groups, evaluated(&simulation).join(", ")),
        (&before, "second b, home g".into())
    );
    simulation.object("home").spec.group.as_mut().unwrap().allowed_namespaces.clear();
    simulation.settle(None);
    assert_eq!((names(&simulation), evaluated(&simulation).join(", ")), (vec![NAME], "home a, second b".into()));
    let arn = simulation.aws.assets.groups.keys().next().unwrap();
    assert_eq!((stalled(&simulation, "shop"), followed_in(&simulation, arn)), ("", vec!["shop".to_owned()]));
}
