//! Measures the cost of one object: AWS calls from `LocalStack`'s journal, and writes to Kubernetes from the operator's metrics.

use anyhow::{Result, ensure};

use super::{NO_SWEEP, SUBNETS, WAIT_TIMEOUT};
use crate::bench::aws::{Account, by_operation};
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, is_ready};

/// AWS takes minutes. A tenth of that is enough to show that the operator polls less and less often.
const PROVISIONING_SECONDS: u32 = 20;

pub fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    let scene = bench.scene(2, 50)?;
    let account = &scene.account;
    let watch = scene.watch()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    let first = operator.ready()?;
    // The operator reads the region once before it creates anything.
    scene.apply("warm-up", SUBNETS)?;
    watch.wait_until("the first object to be ready", WAIT_TIMEOUT, is_ready)?;
    scene.delete_all()?;
    watch.wait_until("the first object to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
    ensure!(!account.calls()?.is_empty(), "the journal is empty {first:?} after the start");

    let writes = operator.kubernetes_writes()?;
    scene.apply("one", SUBNETS)?;
    watch.wait_until("it to be ready", WAIT_TIMEOUT, is_ready)?;
    count(report, "create", 3.0, account)?;
    let writes = operator.kubernetes_writes()? - writes;
    report.add("kubernetes_writes_create", writes, "finalizer, status, events");

    let writes = operator.kubernetes_writes()?;
    // The same subnets in another order: a new generation that needs no change.
    scene.apply("one", [SUBNETS[1], SUBNETS[0]])?;
    watch.wait_until("the new generation to be ready", WAIT_TIMEOUT, |event| {
        event.object["metadata"]["generation"] == 2 && is_ready(event)
    })?;
    count(report, "noop", 0.0, account)?;
    report.add("kubernetes_writes_noop", operator.kubernetes_writes()? - writes, "observedGeneration");

    operator.stop()?;
    account.calls()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.reconciled(1)?;
    count(report, "restart_1", 4.0, account)?;

    scene.delete_all()?;
    watch.wait_until("it to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
    count(report, "delete", 2.0, account)?;

    account.provision_in(PROVISIONING_SECONDS)?;
    scene.apply("slow", SUBNETS)?;
    watch.wait_until("the slow one to be ready", WAIT_TIMEOUT, is_ready)?;
    let calls = account.calls()?;
    let key = format!("aws_calls_create_provisioning_{PROVISIONING_SECONDS}_s");
    report.add(&key, amount(calls.len()), format!("{}; up to 20 balancers share a look", by_operation(&calls)));
    scene.delete_all()?;
    watch.wait_until("the slow one to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
    operator.stop()?;
    scene.end()
}

fn count(report: &mut Report, what: &str, goal: f64, account: &Account) -> Result<()> {
    let calls = account.calls()?;
    report.add_calls(&format!("aws_calls_{what}"), &calls, Some(goal));
    Ok(())
}
