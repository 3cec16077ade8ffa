//! The nodes that clients of the Services find, whatever happens to pods' readiness, disks, settings and selectors.

use serde_json::json;

use causeway_databases::ChildAction;
use causeway_runtime::Health;

use super::Simulation;
use super::story::Mishap;
use crate::action::Action;
use crate::facts::Child;
use crate::fixtures::redis;
use crate::names::MASTER;
use crate::resources::routes_of;

fn reason(simulation: &Simulation) -> (&'static str, String) {
    match &simulation.health {
        Some(Health::Progressing(cause) | Health::Stalled(cause) | Health::Ready(cause)) => {
            (cause.reason, cause.message.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn master(simulation: &Simulation) -> String {
    simulation.object.status.clone().unwrap().master.unwrap()
}

fn process<'a>(simulation: &'a mut Simulation, name: &str) -> &'a mut super::nodes::Process {
    simulation.kubernetes.set.pods.values_mut().find(|pod| pod.name == name).unwrap().process.as_mut().unwrap()
}

/// The actions that the operator decides on now.
fn first_actions(simulation: &Simulation) -> Vec<Action> {
    super::decide(&simulation.object, &simulation.observe(), simulation.now).actions
}

/// Gives the Services selectors, and has Kubernetes write slices for them in place of the operator's.
fn add_selectors(simulation: &mut Simulation) {
    for (service, role) in [("cache", "master"), ("cache-replicas", "replica")] {
        let own = simulation.kubernetes.slices.remove(&format!("{service}-ipv4")).unwrap();
        let mut value = own.value;
        let name = format!("{service}-x7k2p");
        value["metadata"]["name"] = name.clone().into();
        value["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
            "endpointslice-controller.k8s.io".into();
        simulation.kubernetes.slices.insert(name.clone(), Child { value, uid: name, ours: false });
        let live = simulation.kubernetes.set.children.get_mut(&("Service".to_owned(), service.to_owned())).unwrap();
        live.value["spec"]["selector"] = json!({ "causeway.example.com/role": role });
    }
}

#[test]
fn services_with_foreign_selectors_are_mended_without_a_gap() {
    let mut simulation = Simulation::settled(redis(2));
    add_selectors(&mut simulation);
    for _ in 0..20 {
        for action in first_actions(&simulation) {
            simulation.kubernetes.act(&simulation.object, &action).unwrap();
            assert!(simulation.kubernetes.serves(&simulation.object), "a gap after {action:?}");
        }
    }
    let names: Vec<&String> = simulation.kubernetes.slices.keys().collect();
    assert_eq!(names, ["cache-ipv4", "cache-replicas-ipv4"], "what Kubernetes wrote is gone");
    simulation.settle();
    simulation.assert_settled();
}

/// The slices that Kubernetes wrote stay when a selector goes: only the operator takes a dead master out of them.
#[test]
fn the_operator_may_die_at_any_point_of_mending_services() {
    for dies in 0..8 {
        let mut simulation = Simulation::settled(redis(2));
        add_selectors(&mut simulation);
        simulation.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
        simulation.kubernetes.kill(0);
        simulation.time_passes();
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn an_added_selector_is_removed() {
    let mut simulation = Simulation::settled(redis(1));
    let live = simulation.kubernetes.set.children.get_mut(&("Service".to_owned(), "cache".to_owned())).unwrap();
    live.value["spec"]["selector"] = json!({ "app": "other" });
    simulation.reconcile(&Mishap::default());
    assert!(
        simulation
            .journal
            .iter()
            .any(|action| matches!(action, Action::Unselect { service, .. } if service == "cache"))
    );
    simulation.settle();
    simulation.assert_settled();
}

/// It would come back as a replica, and keep the connections that it got.
#[test]
fn a_dead_master_is_taken_out_first() {
    for size in [0, 2] {
        let mut simulation = Simulation::settled(redis(size));
        simulation.kubernetes.kill(0);
        let actions = first_actions(&simulation);
        let Some(Action::WriteSlice(slice_write)) = actions.first() else { panic!("{size}: {actions:?}") };
        assert_eq!((slice_write.slice.name(), routes_of(&slice_write.slice.value)), ("cache-ipv4", Vec::new()));
    }
}

/// Labels are for people: clients do not wait for them.
#[test]
fn endpoints_change_before_labels() {
    let mut simulation = Simulation::settled(redis(2));
    simulation.kubernetes.kill(0);
    simulation.journal.clear();
    simulation.settle();
    let at = |what: &str, is: fn(&Action) -> bool| {
        simulation.journal.iter().position(is).unwrap_or_else(|| panic!("no {what} in {:#?}", simulation.journal))
    };
    let promoted = at("promotion", |action| matches!(action, Action::Promote { .. }));
    let led = at("route", |action| matches!(action, Action::WriteSlice(it) if it.master.is_some()));
    let labelled = at("label", |action| matches!(action, Action::SetRole { role: Some("master"), .. }));
    assert!(promoted < led && led < labelled, "{:#?}", simulation.journal);
}

/// A user labelled the next master before its time.
#[test]
fn two_pods_are_never_labelled_the_master_beside_each_other() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.set.pods.get_mut(&1).unwrap().role = Some(MASTER.into());
    simulation.kubernetes.set.pods.get_mut(&0).unwrap().process.as_mut().unwrap().hangs = Some(0);
    simulation.time_passes();
    simulation.time_passes();
    // The simulation checks the labels after each action.
    simulation.settle();
    assert_eq!(master(&simulation), "cache-1");
}

/// A master that does not answer for a moment may still serve: it may be the operator that is cut off.
#[test]
fn a_briefly_silent_master_stays_behind_the_service() {
    let simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&0).unwrap().own.state =
        crate::facts::NodeState::Silent(std::time::Duration::from_millis(700));
    let actions = super::decide(&simulation.object, &observed, simulation.now).actions;
    assert!(!actions.iter().any(|action| matches!(action, Action::WriteSlice(_))), "{actions:?}");
}

/// The address of a pod may be given to another owner's pod within seconds.
#[test]
fn a_reused_address_is_not_published() {
    let mut simulation = Simulation::settled(redis(0));
    let address = simulation.kubernetes.set.pods[&0].address.clone();
    simulation.kubernetes.set.pods.remove(&0);
    simulation.time_passes();
    simulation.kubernetes.set.pods.get_mut(&0).unwrap().address = address;
    let actions = first_actions(&simulation);
    let Some(Action::WriteSlice(slice_write)) = actions.first() else { panic!("{actions:?}") };
    assert_eq!(routes_of(&slice_write.slice.value), Vec::new());
}

#[test]
fn an_unknown_slice_that_leads_elsewhere_is_reported() {
    let mut simulation = Simulation::settled(redis(1));
    let mut value = simulation.kubernetes.slices["cache-ipv4"].value.clone();
    value["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "other".into();
    value["endpoints"][0]["addresses"][0] = "10.9.9.9".into();
    simulation.kubernetes.slices.insert("other".into(), Child { value, uid: "other".into(), ours: false });
    simulation.reconcile(&Mishap::default());
    let (reason, text) = reason(&simulation);
    assert!(reason == "ForeignEndpoints" && text.contains("other") && text.contains("10.9.9.9"), "{reason}: {text}");
}

#[test]
fn a_master_with_a_full_disk_hands_over() {
    let mut simulation = Simulation::settled(redis(2));
    let first = master(&simulation);
    process(&mut simulation, &first).full = true;
    simulation.journal.clear();
    simulation.settle();
    simulation.assert_settled();
    let last = simulation.object.status.clone().unwrap().last_failover.unwrap();
    assert_eq!((last.reason.as_str(), last.from.as_deref()), ("DiskFailed", Some(first.as_str())));
    assert!(!simulation.journal.iter().any(|action| matches!(action, Action::Promote { .. })), "no write is lost");
    let data = simulation.data();
    assert!(simulation.acknowledged.iter().all(|write| data.contains(write)));
}

#[test]
fn a_full_disk_of_the_only_node_is_reported() {
    let mut simulation = Simulation::settled(redis(0));
    process(&mut simulation, "cache-0").full = true;
    simulation.reconcile(&Mishap::default());
    let (reason, text) = reason(&simulation);
    assert!(reason == "WritesRefused" && text.contains("spec.storage.size"), "{reason}: {text}");
    // The volume is expanded before anything is waited for.
    simulation.object.spec.storage.size = "2Gi".into();
    simulation.reconcile(&Mishap::default());
    assert!(
        simulation.journal.iter().any(|action| matches!(action, Action::Child(ChildAction::GrowClaim { .. }))),
        "{:?}",
        simulation.journal
    );
}

#[test]
fn a_changed_setting_is_restored_without_a_failover() {
    let mut simulation = Simulation::settled(redis(2));
    let first = master(&simulation);
    process(&mut simulation, &first).tampered = true;
    simulation.journal.clear();
    simulation.settle();
    simulation.assert_settled();
    let mended = simulation.journal.iter().any(|action| {
        matches!(action, Action::Configure { node, mended, .. } if node.name == first && mended == &["min-replicas-to-write"])
    });
    assert!(mended && master(&simulation) == first, "{:#?}", simulation.journal);
}

/// Kubernetes is about to delete its pod, and its Kubernetes node may be gone any moment.
#[test]
fn a_master_on_a_silent_node_hands_over() {
    let simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    let pod = observed.set.pods.get_mut(&0).unwrap();
    (pod.ready, pod.lost_node) = (false, Some("node-1".into()));
    let plan = super::decide(&simulation.object, &observed, simulation.now);
    let begun = plan.status.failover.unwrap();
    assert_eq!((begun.reason.as_str(), begun.planned), ("NodeLost", true));
}

/// A set at the moment when a failover from the first node is recorded as complete.
fn just_failed_over() -> Simulation {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.kill(0);
    for _ in 0..60 {
        simulation.reconcile(&Mishap { dies_after: Some(1), reply_lost: None });
        let last = simulation.object.status.as_ref().and_then(|status| status.last_failover.as_ref());
        if last.is_some_and(|last| last.from.as_deref() == Some("cache-0")) {
            return simulation;
        }
        simulation.time_passes();
    }
    panic!("no failover: {:#?}", simulation.object.status);
}

/// The network led it there before it knew the next master, and all operators were gone for a minute.
#[test]
fn clients_of_an_earlier_master_are_closed_late_too() {
    let mut simulation = just_failed_over();
    process(&mut simulation, "cache-0").client = true;
    (0..60).for_each(|_| simulation.time_passes());
    simulation.settle();
    assert!(!process(&mut simulation, "cache-0").client, "{:#?}", simulation.object.status);
    simulation.assert_settled();
}

/// The connection to its own master is not a client's.
#[test]
fn an_earlier_master_without_clients_is_left_in_peace() {
    let mut simulation = just_failed_over();
    simulation.journal.clear();
    simulation.settle();
    simulation.assert_settled();
    let is_drop = |action: &&Action| matches!(action, Action::DropClients { .. });
    assert_eq!(simulation.journal.iter().find(is_drop), None);
    assert_eq!(simulation.object.status.clone().unwrap().last_failover.unwrap().left, [""; 0]);
}

/// It does not come through the Service, so nothing can lead it elsewhere.
#[test]
fn a_persistent_client_is_left_alone_in_the_end() {
    let mut simulation = just_failed_over();
    for _ in 0..40 {
        process(&mut simulation, "cache-0").client = true;
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    simulation.settle();
    simulation.assert_settled();
    process(&mut simulation, "cache-0").client = true;
    simulation.settle();
    assert!(process(&mut simulation, "cache-0").client);
}
