//! How many AWS calls each event in the life of a full example costs, in comparison with the minimum.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::full::{Example, has_targets, is_complete, shop_endpoints};
use super::{NO_SWEEP, SUBNETS};
use crate::bench::aws::{Call, by_operation};
use crate::bench::kubernetes::{Event, Watch};
use crate::bench::many::next_sweep;
use crate::bench::operator_process::Operator;
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, Scene, is_ready};
use crate::progress::Step;

const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
const NAME: &str = "shop";

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(1, 50)?;
    let example = Example::staged(&scene)?;
    let mut operator = scene.operator(NO_SWEEP)?;
    // Before the operator is ready, the definitions may not be served.
    operator.ready()?;
    let watch = scene.watch()?;
    // The operator reads the region once before it creates anything.
    scene.apply("warm-up", SUBNETS)?;
    watch.wait_until("the first object to be ready", WAIT_TIMEOUT, is_ready)?;
    scene.delete_all()?;
    watch.wait_until("the first object to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
    scene.account.calls()?;

    step.note("creation");
    let writes = operator.kubernetes_writes()?;
    scene.apply_spec(NAME, &example.spec)?;
    watch.wait_until("the full example to be complete", WAIT_TIMEOUT, is_complete)?;
    beside_least(report, "create", &scene.account.calls()?, example.parts(), "AWS objects");
    report.add("kubernetes_writes_create", operator.kubernetes_writes()? - writes, "finalizer, status, events");

    step.note("nothing new");
    nothing_new(report, &scene, &example, &watch, &operator)?;

    step.note("a new target");
    shop_endpoints(&scene, &["198.18.7.1", "198.18.7.4"])?;
    watch.wait_until("four targets", WAIT_TIMEOUT, |event| has_targets(event, "4/4"))?;
    beside_least(report, "target", &scene.account.calls()?, 1, "registration");

    step.note("another weight");
    scene.apply_spec(NAME, &example.with_other_weights()?)?;
    watch.wait_until("the weight", WAIT_TIMEOUT, |event| is_ready_as(event, 4))?;
    beside_least(report, "weight", &scene.account.calls()?, 1, "rule");

    step.note("a new process");
    operator.stop()?;
    scene.account.calls()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.reconciled(1)?;
    let calls = next_sweep(&scene.account, step)?;
    report.add_calls("aws_calls_restart", &calls, None);

    step.note("deletion");
    scene.delete_all()?;
    watch.wait_until("the full example to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
    beside_least(report, "delete", &scene.account.calls()?, example.parts_to_delete(), "AWS objects");
    operator.stop()?;
    scene.end()
}

/// An annotation, which is not even reconciled, and a new generation that needs no change in AWS.
fn nothing_new(
    report: &mut Report,
    scene: &Scene,
    example: &Example,
    watch: &Watch,
    operator: &Operator,
) -> Result<()> {
    let reconciles = r#"causeway_reconciles_total{kind="MyIngress""#;
    let before = operator.metric(reconciles)?;
    let touched = json!({ "name": NAME, "annotations": { "bench": "touched" } });
    scene.apply_ingress(NAME, &touched, &example.spec)?;
    watch.wait_until("the annotation", WAIT_TIMEOUT, |event| {
        !event.object["metadata"]["annotations"]["bench"].is_null()
    })?;
    let mut spec = example.spec.clone();
    spec["deletionPolicy"] = json!("Retain");
    scene.apply_ingress(NAME, &touched, &spec)?;
    watch.wait_until("the new generation", WAIT_TIMEOUT, |event| is_ready_as(event, 2))?;
    scene.apply_ingress(NAME, &touched, &example.spec)?;
    watch.wait_until("the generation after it", WAIT_TIMEOUT, |event| is_ready_as(event, 3))?;
    let calls = scene.account.calls()?;
    let runs = operator.metric(reconciles)? - before;
    let how = format!("an annotation, deletionPolicy to and fro: {runs} reconciles; {}", by_operation(&calls));
    report.add_with_goal("aws_calls_noop", amount(calls.len()), 0.0, how);
    Ok(())
}

fn is_ready_as(event: &Event, generation: u64) -> bool {
    event.object["metadata"]["generation"] == generation && is_ready(event)
}

fn beside_least(report: &mut Report, what: &str, calls: &[Call], least: usize, of: &str) {
    let count = amount(calls.len());
    report.add_calls(&format!("aws_calls_{what}"), calls, None);
    report.add(&format!("aws_calls_{what}_ratio"), count / amount(least), format!("by {least} {of}, a call for each"));
}
