//! Decides what to do about pods. Pure.

use causeway_api::{MyApp, MyAppStatus};
use causeway_runtime::{Health, Plan};

use super::apply::{Action, SURPLUS};
use super::observe::{Observed, ObservedPod};
use super::resources::{pod_name, revision, selector};

/// Decides how to bring the pods in line with the object.
pub fn decide(object: &MyApp, observed: &Observed) -> Plan<Action, MyAppStatus> {
    let revision = revision(object);
    let is_current = |pod: &ObservedPod| pod.revision == revision && pod.changed_image.is_none();
    let wanted: Vec<(i32, String)> = (0..object.spec.replicas).map(|index| (index, pod_name(object, index))).collect();
    let mut actions = Vec::new();
    for pod in observed.pods.iter().filter(|pod| !pod.terminating) {
        if !wanted.iter().any(|(_, name)| *name == pod.name) {
            actions.push(delete(pod, SURPLUS));
        } else if pod.finished {
            actions.push(delete(pod, "it ended"));
        } else if pod.mislabelled {
            actions.push(Action::Label { name: pod.name.clone(), uid: pod.uid.clone() });
        }
    }
    for (index, name) in &wanted {
        if !observed.pods.iter().any(|pod| pod.name == *name) {
            actions.push(Action::Create { index: *index, name: name.clone() });
        }
    }
    if actions.is_empty() {
        actions.extend(
            next_to_replace(observed, is_current)
                .map(|pod| delete(pod, difference(pod, &revision, &object.spec.image))),
        );
    }
    if observed.denied.is_some() {
        // Pods that already exist stay as they are.
        actions.clear();
    }
    let alive: Vec<&ObservedPod> = observed.pods.iter().filter(|pod| !pod.terminating && !pod.finished).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    Plan {
        status: MyAppStatus {
            replicas: count(alive.len()),
            ready_replicas: count(alive.iter().filter(|pod| pod.ready).count()),
            updated_replicas: count(alive.iter().filter(|pod| is_current(pod)).count()),
            selector: Some(selector(object)),
            ..MyAppStatus::default()
        },
        health: match &observed.denied {
            Some((reason, message)) => Health::stalled(reason, message.clone()),
            None => health(object, observed, &alive, is_current),
        },
        actions,
        write_status_first: false,
        parts: Vec::new(),
        requeue: None,
    }
}

/// Returns the pod to replace now. None is replaced while another starts or stops, so a rollout makes at most one pod
/// unavailable. Pods that do not serve anyway are replaced first. So a revision that never gets ready costs one pod,
/// and the next revision replaces that pod first.
fn next_to_replace(observed: &Observed, is_current: impl Fn(&ObservedPod) -> bool) -> Option<&ObservedPod> {
    let moving = observed.pods.iter().any(|pod| pod.terminating || (is_current(pod) && !pod.ready));
    let outdated = || observed.pods.iter().filter(|pod| !is_current(pod));
    if moving { None } else { outdated().find(|pod| !pod.ready).or_else(|| outdated().next_back()) }
}

fn delete(pod: &ObservedPod, why: impl Into<String>) -> Action {
    Action::Delete { name: pod.name.clone(), uid: pod.uid.clone(), why: why.into() }
}

/// Describes how a pod differs from what the object says.
fn difference(pod: &ObservedPod, revision: &str, image: &str) -> String {
    match &pod.changed_image {
        Some(changed) if pod.revision == revision => format!("its image is {changed} instead of {image}"),
        _ => "its image, banner or command changed".to_owned(),
    }
}

fn health(
    object: &MyApp,
    observed: &Observed,
    alive: &[&ObservedPod],
    is_current: impl Fn(&ObservedPod) -> bool,
) -> Health {
    let wanted = object.spec.replicas;
    let ready = alive.iter().filter(|pod| pod.ready).count();
    let message = format!("{ready} of {wanted} pods ready");
    if let Some((reason, text)) = alive.iter().find_map(|pod| trouble(pod)) {
        return Health::progressing(reason, format!("{message}; {text}"));
    }
    let settled = observed.pods.len() == alive.len()
        && usize::try_from(wanted) == Ok(alive.len())
        && alive.iter().all(|pod| pod.ready && is_current(pod));
    if settled {
        Health::ready("AllPodsReady", message)
    } else if alive.iter().any(|pod| !is_current(pod)) {
        Health::progressing("RollingOut", format!("{message}, replacing one pod at a time"))
    } else {
        Health::progressing("Scaling", message)
    }
}

/// Returns a problem that does not go away by itself, in words that stay the same from one try to the next.
fn trouble(pod: &ObservedPod) -> Option<(&'static str, String)> {
    let name = &pod.name;
    match pod.trouble.as_deref()? {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            Some(("ImagePullFailed", format!("pod {name} cannot pull its image: check spec.image")))
        }
        "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => Some((
            "PodsCrashing",
            format!(
                "pod {name} does not stay up: check spec.command and that spec.image has /bin/sh; see kubectl logs {name}"
            ),
        )),
        "Unschedulable" => {
            Some(("Unschedulable", format!("pod {name} fits on no node: see kubectl describe pod {name}")))
        }
        _ => None,
    }
}
