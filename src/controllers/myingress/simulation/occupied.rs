//! Target groups that a member of a group wants and cannot have, because there is one of that name. A search has found
//! the names of backends here: the target groups of two of them have one name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Simulation;
use super::guests::{edit, evaluated, home, listeners, reason, rule};
use crate::api::MyIngress;
use crate::controllers::myingress::assets::GroupMember;
use crate::controllers::myingress::model::fixtures::guest;
use crate::external::elbv2::TargetGroup;

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
fn a_target_group_of_another_owner_stalls_only_the_member_that_wants_one_of_its_name() {
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
fn a_target_group_whose_tags_somebody_changed_stalls_only_its_member_and_keeps_following_its_backend() {
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
