//! Gives the dashboards something to show: faults, and actions of users, on the objects of the examples.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::json;

use super::super::backups::Backups;
use super::super::install::{self, NAMESPACE};
use super::super::{Local, traffic};
use crate::e2e::place::Place;
use crate::host;
use crate::progress::Step;

/// The time from the beginning of one act to the beginning of the next.
const PACE: Duration = Duration::from_secs(20);
/// How often all acts are played. A counter has no rate after its first increment.
const ROUNDS: usize = 2;
/// The sweep interval: with the default of five minutes, drift would be found too late for the pictures.
const SWEEP: &str = "20s";
/// The name of an invalid MyIngress.
const WRONG: &str = "wrong-subnet";

type Act = fn(&Local<'_>, &Step) -> Result<()>;

/// The acts, in order.
const ACTS: [(&str, Act); 10] = [
    ("more pods behind a balancer", |local, _| scale_web(local, 6)),
    ("somebody deletes a listener", |local, _| delete_listener(local)),
    ("a MyIngress names a subnet that is not there", |local, _| apply_wrong(local)),
    ("a Redis loses its master", |local, _| lose_master(local)),
    ("backups are taken and proven", |local, step| {
        Backups::of_examples(&local.kubectl).write_and_back_up(step).map(drop)
    }),
    ("the pods behind a balancer are replaced", |local, _| replace_web(local)),
    ("fewer pods behind a balancer", |local, _| scale_web(local, 3)),
    ("an etcd cluster loses a member for a while", |local, _| {
        on_examples(local, &["delete", "pod", "prod-etcd-1", "--wait=false"])
    }),
    ("somebody changes a health check", |local, _| change_health_check(local)),
    ("the wrong MyIngress is deleted", |local, _| delete_wrong(local)),
];

/// Shortens the operator's sweep interval.
pub fn prepare(local: &Local<'_>, step: &Step) -> Result<()> {
    set_sweep(local, &format!("SWEEP_INTERVAL={SWEEP}"), step)
}

/// Plays all acts.
pub fn play(local: &Local<'_>, step: &Step) -> Result<()> {
    let proven = json!({ "spec": { "verify": { "afterEach": true } } }).to_string();
    on_examples(local, &["patch", "databasebackup", "backup", "--type=merge", "--patch", &proven])?;
    for _ in 0..ROUNDS {
        for (what, act) in ACTS {
            step.note(what);
            let begun = Instant::now();
            act(local, step).with_context(|| format!("when {what}"))?;
            thread::sleep(PACE.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

/// Restores the state of the examples.
pub fn clear(local: &Local<'_>, step: &Step) -> Result<()> {
    delete_wrong(local)?;
    let unproven = json!({ "spec": { "verify": null } }).to_string();
    on_examples(local, &["patch", "databasebackup", "backup", "--type=merge", "--patch", &unproven])?;
    install::examples(&local.kubectl, &host::repo_root()?)?;
    set_sweep(local, "SWEEP_INTERVAL-", step)?;
    install::members_healthy(&local.kubectl, step)?;
    install::replicas_follow(&local.kubectl, step)?;
    traffic::wait_for_answer(local, step)
}

fn set_sweep(local: &Local<'_>, option: &str, step: &Step) -> Result<()> {
    step.note(format!("setting {option}"));
    local.kubectl.run(&["-n", NAMESPACE, "set", "env", "deployment/causeway", option])?;
    local.kubectl.run(&["-n", NAMESPACE, "rollout", "status", "deployment/causeway", "--timeout=180s"]).map(drop)
}

fn on_examples(local: &Local<'_>, arguments: &[&str]) -> Result<()> {
    local.kubectl.run(&[&["-n", "default"], arguments].concat()).map(drop)
}

fn scale_web(local: &Local<'_>, replicas: u8) -> Result<()> {
    on_examples(local, &["scale", "myapp/web", &format!("--replicas={replicas}")])
}

fn replace_web(local: &Local<'_>) -> Result<()> {
    let banner = format!("A web server, replaced at {}", Timestamp::now());
    let other = json!({ "spec": { "banner": banner } }).to_string();
    on_examples(local, &["patch", "myapp", "web", "--type=merge", "--patch", &other])
}

/// Kills it at once: a node that is asked to stop hands over first, and then there is no failover.
fn lose_master(local: &Local<'_>) -> Result<()> {
    let ask = ["-n", "default", "get", "redises.example.com/cache", "--output=jsonpath={.status.master}"];
    let master = local.kubectl.run(&ask)?;
    on_examples(local, &["delete", "pod", master.trim(), "--wait=false", "--grace-period=0", "--force"])
}

fn apply_wrong(local: &Local<'_>) -> Result<()> {
    let ingress = json!({
        "apiVersion": "demo.rtfm.co.ua/v1",
        "kind": "MyIngress",
        "metadata": { "name": WRONG, "namespace": "default" },
        "spec": { "subnets": ["subnet-0badc0de", "subnet-0badcafe"], "scheme": "internet-facing" },
    });
    local.kubectl.feed(&["apply", "-f", "-"], &ingress.to_string()).map(drop)
}

fn delete_wrong(local: &Local<'_>) -> Result<()> {
    on_examples(local, &["delete", "myingress", WRONG, "--ignore-not-found", "--timeout=60s"])
}

fn delete_listener(local: &Local<'_>) -> Result<()> {
    let place = Place::administrated(local.cluster, local.localstack);
    let (aws, balancer) = (place.aws(), balancer(local, &place)?);
    let listener = aws.listener(&balancer)?.context("the balancer has no listener on port 80")?;
    aws.call(&["elbv2", "delete-listener", "--listener-arn", &listener]).map(drop)
}

fn change_health_check(local: &Local<'_>) -> Result<()> {
    let place = Place::administrated(local.cluster, local.localstack);
    let (aws, balancer) = (place.aws(), balancer(local, &place)?);
    let groups = aws.call(&["elbv2", "describe-target-groups", "--load-balancer-arn", &balancer])?;
    let group = groups["TargetGroups"][0]["TargetGroupArn"].as_str().context("the balancer has no target group")?;
    let change = ["elbv2", "modify-target-group", "--target-group-arn", group, "--health-check-interval-seconds", "30"];
    aws.call(&change).map(drop)
}

/// The ARN of the web example's balancer.
fn balancer(local: &Local<'_>, place: &Place<'_>) -> Result<String> {
    place.aws().balancer(&install::dns_name(&local.kubectl, "web")?)
}
