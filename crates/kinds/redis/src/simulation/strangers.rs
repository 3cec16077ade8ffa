//! Additions of others to our objects are left, and hold up nothing.

use causeway_databases::ChildAction;

use super::Simulation;
use super::story::Edit;
use crate::action::Action;
use crate::fixtures::redis;

/// The first claim asks for more than the spec, and has it.
#[test]
fn a_claim_grown_by_hand_stays() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.journal.clear();
    let claim = &mut simulation.kubernetes.set.claims.get_mut(&0).unwrap().facts;
    (claim.size, claim.capacity) = ("3Gi".into(), "3Gi".into());
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.journal, [], "nothing is to be done about it");
    assert_eq!(simulation.object.status.as_ref().unwrap().volume_size.as_deref(), Some("3Gi"));
    Edit::Size("2Gi").happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    let grown = simulation.journal.iter().filter_map(|action| match action {
        Action::Child(ChildAction::GrowClaim { name, size, .. }) => Some((name.as_str(), size.as_str())),
        _ => None,
    });
    assert_eq!(grown.collect::<Vec<_>>(), [("data-cache-1", "2Gi")]);
}

/// As injectors and policies do.
#[test]
fn what_others_add_to_children_stays() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.journal.clear();
    for ((kind, _), child) in &mut simulation.kubernetes.set.children {
        child.value["metadata"]["annotations"]["example.com/note"] = "theirs".into();
        child.value["metadata"]["labels"]["team"] = "theirs".into();
        if kind == "StatefulSet" {
            let pod = &mut child.value["spec"]["template"]["spec"];
            let theirs = serde_json::json!({ "name": "mesh", "image": "mesh:1" });
            pod["containers"].as_array_mut().unwrap().insert(0, theirs.clone());
            pod["initContainers"] = serde_json::json!([theirs]);
        }
    }
    simulation.settle();
    assert_eq!(simulation.journal, []);
}
