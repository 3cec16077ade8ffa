//! The Service for clients of Redis Sentinel comes and goes as the spec says.

use causeway_api::redis::Sentinel;
use causeway_databases::Child;
use causeway_runtime::Health;

use super::Simulation;
use super::story::Mishap;
use crate::decide::decide;
use crate::fixtures::redis;

fn service(simulation: &Simulation) -> Option<&Child> {
    simulation.kubernetes.set.children.get(&("Service".to_owned(), "cache-sentinel".to_owned()))
}

fn where_it_is_asked(simulation: &Simulation) -> Option<String> {
    simulation.object.status.clone()?.connection?.sentinel
}

#[test]
fn the_service_follows_the_spec() {
    let mut simulation = Simulation::settled(redis(2));
    assert!(service(&simulation).is_none() && where_it_is_asked(&simulation).is_none());
    simulation.object.spec.sentinel = Some(Sentinel::default());
    simulation.settle();
    assert!(service(&simulation).is_some());
    assert_eq!(where_it_is_asked(&simulation).as_deref(), Some("cache-sentinel.shop.svc:26379"));
    simulation.object.spec.sentinel = None;
    simulation.settle();
    assert!(service(&simulation).is_none() && where_it_is_asked(&simulation).is_none());
}

#[test]
fn a_foreign_service_of_its_name_stays() {
    let mut simulation = Simulation::settled(redis(0));
    let foreign = Child { value: serde_json::json!({ "metadata": {} }), uid: "foreign".into(), ours: false };
    let key = ("Service".to_owned(), "cache-sentinel".to_owned());
    simulation.object.spec.sentinel = Some(Sentinel::default());
    simulation.kubernetes.set.children.insert(key, foreign.clone());
    simulation.reconcile(&Mishap::default());
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.reason == "NameTaken" && cause.message.contains("Service cache-sentinel"), "{cause:?}");
    assert_eq!(service(&simulation), Some(&foreign));
}

#[test]
fn an_unknown_own_image_is_reported_with_its_option() {
    let mut simulation = Simulation::settled(redis(0));
    simulation.object.spec.sentinel = Some(Sentinel::default());
    let mut observed = simulation.observe();
    observed.own_image = None;
    let plan = decide(&simulation.object, &observed, simulation.now);
    let Health::Stalled(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert!(cause.reason == "ImageUnknown" && cause.message.contains("JOB_IMAGE"), "{cause:?}");
    assert_eq!(plan.actions, []);
    simulation.object.spec.sentinel = Some(Sentinel { image: Some("causeway:1".into()), ..Sentinel::default() });
    assert_ne!(decide(&simulation.object, &observed, simulation.now).actions, []);
}
