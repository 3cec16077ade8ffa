//! A balancer that must answer, and must be repaired after changes by others.

use anyhow::{Context, Result, bail};

use super::super::objects::{self, ANSWER, IDLE_TIMEOUT};
use super::super::operator;
use super::super::scene::{Scene, Watch, require};
use crate::tools;

/// AWS's key of the attribute that `spec.idleTimeout` sets.
const IDLE_KEY: &str = "idle_timeout.timeout_seconds";
/// The value that the test sets.
const FOREIGN_IDLE: &str = "99";

/// Creates an application with a balancer, and sends a request through it.
pub fn answers(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    scene.apply(&objects::namespace(&scene.run))?;
    scene.apply(&objects::app(&scene.run))?;
    let wanted = objects::ingress(&scene.run, &scene.wishes);
    watch.step().note("causeway plan");
    let plan = operator::plan(&scene.kubectl(), &wanted).context("the operator could not make the balancer")?;
    scene.apply(&wanted)?;
    let ingress = object(scene);
    watch.wait(scene, &ingress, "jsonpath={.status.alb.dns}")?;
    let dns = scene.field(&ingress, "{.status.alb.dns}")?;
    watch.wait(scene, &ingress, "condition=Ready")?;
    watch.wait(scene, &ingress, "condition=TargetsHealthy")?;
    let first = request(scene, watch, &dns)?;
    let targets = scene.field(&ingress, "{.status.targets}")?;
    let active = format!("{dns} is active, {targets} targets are healthy");
    let seen = vec![plan, active, format!("curl http://{dns}/ → {first}")];
    scene.dns.set(dns).ok();
    Ok(seen)
}

fn object(scene: &Scene<'_>) -> String {
    format!("myingress/{}", scene.run.ingress())
}

/// The status line of the first successful answer. A new DNS name resolves only some time after the balancer is
/// created.
fn request(scene: &Scene<'_>, watch: &Watch<'_>, dns: &str) -> Result<String> {
    watch.wait_until(&format!("http://{dns}/ to answer"), || {
        let mut curl = scene.place.curl();
        curl.args(["--silent", "--show-error", "--fail", "--include", "--max-time", "10", &format!("http://{dns}/")]);
        let said = tools::output_of(&mut curl)?;
        if !said.contains(ANSWER) {
            bail!("something else answers: {}", said.lines().next().unwrap_or_default());
        }
        Ok(Some(said.lines().next().unwrap_or_default().trim().to_owned()))
    })
}

/// Deletes the listener and changes an attribute with the user's own credentials. Waits until both are repaired.
pub fn drifts(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    let (aws, dns) = (scene.place.aws(), require(&scene.dns, "a balancer")?);
    let balancer = aws.balancer(dns)?;
    let before = aws.listener(&balancer)?.context("the balancer has no listener on port 80")?;
    let changed = format!("Key={IDLE_KEY},Value={FOREIGN_IDLE}");
    let by_hand = [
        vec!["elbv2", "modify-load-balancer-attributes", "--load-balancer-arn", &balancer, "--attributes", &changed],
        vec!["elbv2", "delete-listener", "--listener-arn", &before],
    ];
    for call in &by_hand {
        watch.step().note(format!("aws {}", call.join(" ")));
        aws.call(call)?;
    }
    let reported =
        watch.wait_until("the operator to tell of a repair (event DriftRepaired)", || repair_events(scene))?;
    let after = watch.wait_until("a listener on port 80", || aws.listener(&balancer))?;
    if after == before {
        bail!("the listener was not deleted: {before}");
    }
    let idle = watch.wait_until("the idle timeout to be as the spec says", || {
        let idle = aws.attribute(&balancer, IDLE_KEY)?;
        if idle != IDLE_TIMEOUT {
            bail!("{IDLE_KEY} is {idle}");
        }
        Ok(Some(idle))
    })?;
    let answer = request(scene, watch, dns)?;
    Ok(vec![
        format!("deleted the listener on port 80, set {IDLE_KEY} to {FOREIGN_IDLE}"),
        format!("told: {reported}"),
        format!("another listener on port 80, {IDLE_KEY} is {idle}, curl http://{dns}/ → {answer}"),
    ])
}

/// The operator's events about repairs.
fn repair_events(scene: &Scene<'_>) -> Result<Option<String>> {
    let events = scene.kubectl().run(&[
        "-n",
        &scene.run.namespace(),
        "get",
        "events.events.k8s.io",
        "--field-selector",
        "reason=DriftRepaired",
        "-o",
        "jsonpath={.items[*].note}",
    ])?;
    Ok((!events.trim().is_empty()).then(|| events.trim().to_owned()))
}
