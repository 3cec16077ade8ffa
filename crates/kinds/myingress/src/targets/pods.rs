//! Writes the readiness gates of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use causeway_api::common::FIELD_MANAGER;
use causeway_aws::elbv2::{TargetState, TargetType};
use causeway_runtime::{Class, Failures, class_of_kubernetes};

use super::cluster::{Cluster, Key};
use super::facts::{CONDITION, Gate, GatedPod};
use super::gate::{Standing, verdict};
use super::group::Group;
use super::lean::LeanPod;
use super::wanted::{Wanted, endpoints};
use super::{Backend, Endpoints, Shared};

/// Patches at the same time for one group.
const AT_ONCE: usize = 4;

/// Writes readiness gates.
pub struct Gates {
    client: Client,
    /// By group, not by pod: pods come and go while their gates cannot be written.
    failures: Failures,
    sweep: std::time::Duration,
}

/// A gate to write.
struct Decision {
    key: Key,
    pod: GatedPod,
    gate: Gate,
}

impl Gates {
    /// Writes through `client`.
    pub fn new(client: Client, sweep: std::time::Duration) -> Self {
        Self { client, failures: Failures::default(), sweep }
    }

    /// Decides about the gates of the group's pods, and writes those that are to change.
    pub async fn write_gates(&self, shared: &Shared, group: &Group) {
        let (decisions, pods_wait) = decide(shared, group);
        let now = Instant::now();
        {
            let mut state = group.state();
            state.pods_wait = pods_wait;
            if state.gates_at.is_some_and(|at| at > now) {
                return;
            }
            state.gates_at = None;
        }
        let written = stream::iter(decisions).map(|decision| self.write(shared, decision)).buffer_unordered(AT_ONCE);
        let failed: Vec<Class> = written.filter_map(std::future::ready).collect().await;
        let uid = gates_of(&group.arn);
        // The soonest decides: one pod whose gate we may not write does not hold up the others.
        let Some(class) = failed.iter().find(|class| !class.needs_person()).or(failed.first()) else {
            self.failures.record_success(&uid);
            return;
        };
        let delay = self.failures.record_failure(&uid, *class, self.sweep);
        tracing::warn!(group = group.arn, gates = failed.len(), ?delay, "readiness gates not written, trying again");
        group.state().gates_at = Some(Instant::now() + delay);
    }

    /// The group is gone.
    pub fn forget(&self, group: &Group) {
        self.failures.forget(&gates_of(&group.arn));
    }

    /// Writes a gate; returns why that failed.
    async fn write(&self, shared: &Shared, Decision { key, pod, gate }: Decision) -> Option<Class> {
        let api: Api<LeanPod> = Api::namespaced(self.client.clone(), &key.0);
        let mut condition = json!({
            "type": CONDITION,
            "status": if gate.open { "True" } else { "False" },
            "reason": gate.reason,
            "message": gate.message,
        });
        if pod.gate.is_none_or(|before| before.open != gate.open) {
            condition["lastTransitionTime"] = json!(Time(Timestamp::now()));
        }
        // The uid keeps the patch off a successor of the same name.
        let patch = json!({ "metadata": { "uid": pod.uid }, "status": { "conditions": [condition] } });
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        match api.patch_status(&key.1, &parameters, &Patch::Strategic(&patch)).await {
            Ok(written) => {
                tracing::debug!(namespace = key.0, pod = key.1, open = gate.open, reason = gate.reason, "gate written");
                if let Some(written) = GatedPod::from_lean(&written, Instant::now()) {
                    shared.cluster().written(&key, written);
                }
                None
            }
            Err(error) => {
                let class = class_of_kubernetes(&error);
                if matches!(class, Class::NotFound | Class::Conflict) {
                    // The pod is gone, and its watch will show that.
                    return None;
                }
                tracing::warn!(namespace = key.0, pod = key.1, %error, "readiness gate not written");
                Some(class)
            }
        }
    }
}

/// Under which name failures to write the gates of a group are counted.
fn gates_of(arn: &str) -> String {
    format!("gates {arn}")
}

/// The gates to write for the pods of a group, and whether any of these pods waits for its target in the group.
fn decide(shared: &Shared, group: &Group) -> (Vec<Decision>, bool) {
    let cluster = shared.cluster();
    let namespace = group.state().backend.namespace.clone();
    let all = known_backends(shared, &cluster, group);
    let open = |pod: &GatedPod| pod.gate.as_ref().is_some_and(|gate| gate.open);
    let in_question: BTreeMap<&str, &GatedPod> = all
        .iter()
        .flat_map(|(_, wanted)| wanted.gated.keys())
        .filter_map(|name| Some((name.as_str(), cluster.pod(&namespace, name)?)))
        .filter(|(_, pod)| !pod.leaving && pod.able != open(pod))
        .collect();
    if in_question.is_empty() {
        return (Vec::new(), false);
    }
    let names: BTreeSet<&str> = in_question.keys().copied().collect();
    let groups = groups_of(shared, &cluster, &namespace, &names);
    let mut pods_wait = false;
    let mut decisions = Vec::new();
    for (name, pod) in in_question {
        let standings = groups.iter().filter_map(|(other, wanted)| {
            let standing = standing(other, wanted, name, pod)?;
            let healthy = standing.health.as_ref().is_some_and(|health| health.state == TargetState::Healthy);
            pods_wait |= other.arn == group.arn && standing.wanted && !healthy;
            Some(standing)
        });
        let standings: Vec<Standing> = standings.collect();
        if let Some(gate) = verdict(pod, &standings) {
            decisions.push(Decision { key: (namespace.clone(), name.to_owned()), pod: pod.clone(), gate });
        }
    }
    (decisions, pods_wait)
}

/// The groups that one of these pods may be a target of, with the targets that they should have.
fn groups_of(shared: &Shared, cluster: &Cluster, namespace: &str, pods: &BTreeSet<&str>) -> Vec<(Arc<Group>, Wanted)> {
    let services = cluster.services_of(namespace, pods);
    let groups = services.iter().flat_map(|service| shared.registry.groups_of(service));
    let pods = |group: Arc<Group>| {
        let known = known_backends(shared, cluster, &group).into_iter();
        let pods = known.filter(|(backend, _)| backend.target_type == TargetType::Ip);
        pods.map(move |(_, wanted)| (group.clone(), wanted)).collect::<Vec<_>>()
    };
    groups.flat_map(pods).collect()
}

/// The backends that the group follows and whose endpoints are known, with the targets that they should have.
fn known_backends(shared: &Shared, cluster: &Cluster, group: &Group) -> Vec<(Backend, Wanted)> {
    let followed = group.state().followed();
    let known = followed.into_iter().filter_map(|backend| {
        match endpoints(cluster, &backend, |namespace| shared.beyond_pods(namespace)) {
            Endpoints::Known(wanted) => Some((backend, wanted)),
            _ => None,
        }
    });
    known.collect()
}

fn standing(group: &Group, wanted: &Wanted, name: &str, pod: &GatedPod) -> Option<Standing> {
    let target = wanted.gated.get(name)?.clone();
    let state = group.state();
    let health = pod.able_since.and_then(|since| state.planner.cache.health_after(&target, since).cloned());
    let trouble = state.trouble(&wanted.targets).map(str::to_owned);
    Some(Standing { group: group.arn.clone(), wanted: wanted.targets.contains(&target), target, health, trouble })
}
