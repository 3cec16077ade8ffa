//! `MyIngress` against a real apiserver and an AWS with AWS's own rules.

pub mod bystander;
mod changes;
mod cost;
mod creation;
mod credentials;
mod deletion;
mod drift;
mod drift_events;
mod edits;
mod emptied;
mod full;
mod full_cost;
mod full_groups;
mod full_policy;
mod full_trouble;
mod isolation;
mod let_in;
mod mistakes;
mod names;
mod orphans;
mod ownership;
mod parts_drift;
mod plan;
mod policy;
mod rivals;
mod slow;
mod targets;
mod trouble;
mod undecodable;

use std::time::{Duration, Instant};

use causeway_api::MyIngress;
use causeway_api::myingress::AlbStatus;
use serde_json::{Value, json};

use crate::support::emulator::Call;
use crate::support::scene::{condition, is_ready, stalled};
use crate::support::{Account, Operator, Scene, wait_for};

/// The spec of the sample, with these fields on top.
pub fn spec(more: Value) -> Value {
    let mut spec = json!({ "subnets": ["subnet-abc", "subnet-def"], "scheme": "internet-facing" });
    let Value::Object(more) = more else { panic!("fields are expected, not {more}") };
    spec.as_object_mut().unwrap().extend(more);
    spec
}

/// An operator that looks at the whole region only when it starts.
async fn operator_without_sweeps(scene: &Scene) -> Operator {
    Operator::start_with(scene, Operator::client().await, scene.aws.clone(), Duration::from_hours(1))
}

/// Creates an object and waits until it is ready.
async fn created(scene: &Scene, name: &str, spec: Value) -> AlbStatus {
    scene.create::<MyIngress>(name, spec).await;
    ready(scene, name).await
}

/// Waits until an object is ready for its present spec.
pub async fn ready(scene: &Scene, name: &str) -> AlbStatus {
    alb(&scene.ingress(name, &format!("{name} to be ready"), is_ready).await)
}

fn alb(object: &MyIngress) -> AlbStatus {
    object.status.clone().and_then(|status| status.alb).expect("a balancer in the status")
}

/// Host and status code of every rule on port 80, in order.
pub async fn answers(scene: &Scene) -> Vec<(String, String)> {
    let account = Account::of(scene).await.0;
    let balancers = account["balancers"].as_object().cloned().unwrap_or_default();
    let rules =
        balancers.values().flat_map(|it| it["listeners"]["80"]["rules"].as_array().cloned().unwrap_or_default());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let answers = rules.filter(|it| it["rule"]["is_default"] != true).map(|it| {
        let rule = &it["rule"];
        (text(&rule["conditions"][0]["values"][0]), text(&rule["actions"][0]["fixed_response_config"]["status_code"]))
    });
    answers.collect()
}

/// Waits until an object is stalled for that reason, in its conditions and in an event with the same message; returns
/// the message.
pub async fn stalled_by(scene: &Scene, name: &str, reason: &str) -> String {
    let is_stalled = |object: &MyIngress| stalled(object).as_deref() == Some(reason);
    let object = scene.ingress(name, &format!("{name} to be stalled by {reason}"), is_stalled).await;
    let status = object.status.unwrap();
    let (_, _, message) = condition(&status.conditions, "Stalled").unwrap();
    assert_eq!(condition(&status.conditions, "Ready"), Some(("False".into(), reason.into(), message.clone())));
    assert_eq!(condition(&status.conditions, "Reconciling"), None);
    let is_recorded = |events: &Vec<(String, String)>| events.contains(&(reason.to_owned(), message.clone()));
    wait_for(&format!("an event {reason} about {name} that says: {message}"), || scene.events(name), is_recorded).await;
    message
}

/// Waits for an event about the object with that reason; returns its note.
async fn event(scene: &Scene, name: &str, reason: &str) -> String {
    let what = format!("an event {reason} about {name}");
    let events = wait_for(&what, || scene.events(name), |events| events.iter().any(|(it, _)| it == reason)).await;
    events.into_iter().find(|(it, _)| it == reason).map(|(_, note)| note).unwrap_or_default()
}

/// Waits until the operator has read the whole region twice more: it has noticed every change by then.
async fn two_sweeps(scene: &Scene) {
    let sweeps = || async {
        let calls = scene.emulator.journal().await.into_iter();
        calls.filter(|call| call.operation == "DescribeLoadBalancers" && call.resource.is_none()).count()
    };
    let before = sweeps().await;
    wait_for("two more sweeps", sweeps, |count| *count >= before + 3).await;
}

/// How many calls AWS refuses during so many sweeps, and how often the same action may be tried in that time: once, and
/// again half a minute after each refusal.
pub async fn refused_during_sweeps(scene: &Scene, sweeps: usize) -> (usize, usize) {
    const AGAIN: Duration = Duration::from_secs(30);
    let begun = Instant::now();
    scene.emulator.clear_journal().await;
    let swept =
        |calls: &Vec<Call>| calls.iter().filter(|call| call.operation == "DescribeLoadBalancers").count() >= sweeps;
    let calls = wait_for(&format!("{sweeps} sweeps"), || scene.emulator.journal(), swept).await;
    let refused = calls.iter().filter(|call| call.outcome.as_deref().is_some_and(|it| it != "OK")).count();
    let again = usize::try_from(begun.elapsed().as_secs() / AGAIN.as_secs()).expect("a few");
    (refused, 1 + again)
}

/// Calls that changed balancers, in order.
async fn changes(scene: &Scene) -> Vec<String> {
    scene.emulator.elb_operations().await.into_iter().filter(|operation| !operation.starts_with("Describe")).collect()
}
