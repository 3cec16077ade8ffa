//! Reads the facts about pods and volume claims as Kubernetes has them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PersistentVolumeClaim, Pod as CorePod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use causeway_runtime::lost_node;

use super::names::{self, ADOPTED, EPOCH, INCARNATION, MEMBER, RESTARTED, REVISION};
use super::unlabelled::Names;
use super::{Claim, Database, Pod};
use crate::{pod_trouble, revival};

/// How long a pod is young after it was created, or its deletion began: what was seen of its claim may be older.
const YOUNG_SECONDS: i64 = 20;

/// The pods of an object, by ordinal.
pub fn pods_of<'a, D: Database>(
    object: &D::Object,
    pods: impl IntoIterator<Item = &'a CorePod>,
) -> BTreeMap<i32, Pod<D::Node>> {
    let pods = pods.into_iter().filter(|pod| pod.labels().get(D::LABEL) == Some(&object.name_any()));
    pods.filter_map(|pod| Some((names::ordinal_of(object, &pod.name_any())?, pod_of::<D>(pod)))).collect()
}

/// Reads the facts about a pod.
pub fn pod_of<D: Database>(pod: &CorePod) -> Pod<D::Node> {
    let status = pod.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let container = status.container_statuses.iter().flatten().find(|container| container.name == D::APP);
    let state = container.and_then(|container| container.state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()).or_else(|| {
        state?.waiting.as_ref()?;
        container?.last_state.as_ref()?.terminated.as_ref()
    });
    let has_ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let (trouble, evidence) = pod_trouble::read(pod, D::APP);
    let (made, deleted) = (&pod.metadata.creation_timestamp, &pod.metadata.deletion_timestamp);
    Pod {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        revision: pod.labels().get(REVISION).cloned().unwrap_or_default(),
        restarted: pod.annotations().get(RESTARTED).cloned(),
        // A pod that has ended keeps its address, which may be another pod's by now.
        address: status.pod_ip.clone().filter(|_| !has_ended),
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        terminating: deleted.is_some(),
        controlled: pod.owner_references().iter().any(|owner| owner.controller == Some(true)),
        unlabelled: false,
        young: deleted.as_ref().or(made.as_ref()).is_some_and(is_recent),
        placed: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) && !made.as_ref().is_some_and(is_recent),
        made: made.as_ref().map(|made| made.0),
        reads: reads(pod),
        runs: state.is_some_and(|state| state.running.is_some() || state.terminated.is_some()),
        has_run: container.is_some_and(has_run),
        lasts: state.and_then(|state| state.running.as_ref()?.started_at.as_ref()).is_some_and(|it| !is_recent(it)),
        waits_long: container.is_some_and(revival::waits_long),
        last_words: ended.and_then(|ended| ended.message.clone()),
        exit_code: ended.map(|ended| ended.exit_code),
        restarts: container.map_or(0, |container| container.restart_count),
        trouble,
        evidence,
        revival: revival::cause(pod, D::APP),
        lost_node: lost_node(pod),
        own: D::node(pod),
    }
}

/// Secrets and `ConfigMap`s that a pod needs, if none of its containers has ever started.
fn reads(pod: &CorePod) -> BTreeSet<(&'static str, String)> {
    let status = pod.status.as_ref();
    let first = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let all = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let is_untouched = |container: &ContainerStatus| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let word = waiting.and_then(|waiting| waiting.reason.as_deref());
        let words = ["ContainerCreating", "PodInitializing", "CreateContainerConfigError"];
        container.restart_count == 0 && word.is_some_and(|word| words.contains(&word))
    };
    let Some(spec) = pod.spec.as_ref().filter(|_| !all.is_empty() && first.iter().chain(all).all(is_untouched)) else {
        return BTreeSet::new();
    };
    let volumes = spec.volumes.iter().flatten().flat_map(|volume| {
        let secret = volume.secret.as_ref().and_then(|secret| Some(("Secret", secret.secret_name.clone()?)));
        let config_map = volume.config_map.as_ref().map(|config_map| ("ConfigMap", config_map.name.clone()));
        secret.into_iter().chain(config_map)
    });
    let variables =
        spec.init_containers.iter().flatten().chain(&spec.containers).flat_map(|it| it.env.iter().flatten());
    let keys = variables.filter_map(|variable| {
        let key = variable.value_from.as_ref()?.config_map_key_ref.as_ref()?;
        Some(("ConfigMap", key.name.clone()))
    });
    volumes.chain(keys).collect()
}

/// Reports whether a container was started at least once.
fn has_run(container: &ContainerStatus) -> bool {
    let ends = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
    container.restart_count > 0 || [&container.state, &container.last_state].into_iter().flatten().any(ends)
}

/// The time of a deletion is the end of the grace period, and may lie ahead.
fn is_recent(time: &Time) -> bool {
    Timestamp::now().duration_since(time.0).as_secs() < YOUNG_SECONDS
}

/// The volume claims of an object, by ordinal.
pub fn claims_of<'a, D: Database>(
    object: &D::Object,
    claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
) -> BTreeMap<i32, Claim> {
    let names = Names::new(object);
    let claims = claims.into_iter().filter(|claim| names.set::<D>().has(claim.labels()));
    let facts = claims.map(|claim| claim_of(object, claim));
    facts.filter_map(|facts| Some((names::ordinal_of(object, &facts.name)?, facts))).collect()
}

/// Reads the facts about a volume claim.
pub fn claim_of(object: &impl ResourceExt, claim: &PersistentVolumeClaim) -> Claim {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    let size = requests.and_then(|requests| requests.get("storage").cloned());
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage").cloned());
    Claim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        ours: claim.labels().get(INCARNATION) == object.uid().as_ref(),
        adopted: object.uid().is_some() && claim.annotations().get(ADOPTED) == object.uid().as_ref(),
        unlabelled: false,
        member: claim.annotations().get(MEMBER).and_then(|id| u64::from_str_radix(id, 16).ok()),
        epoch: claim.annotations().get(EPOCH).and_then(|epoch| epoch.parse().ok()),
        terminating: claim.metadata.deletion_timestamp.is_some(),
        bound: claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some()),
        size: size.map_or_else(String::new, |it| it.0),
        capacity: capacity.map_or_else(String::new, |it| it.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::{Redis, RedisSpec};

    #[test]
    fn the_last_epoch_is_read_from_the_claim() {
        let epoch = |annotations: serde_json::Value| {
            let claim = json!({ "metadata": { "name": "data-cache-0", "annotations": annotations } });
            claim_of(&Redis::new("cache", RedisSpec::default()), &serde_json::from_value(claim).unwrap()).epoch
        };
        assert_eq!(epoch(json!({ "causeway.example.com/epoch": "7" })), Some(7));
        assert_eq!(epoch(json!({ "causeway.example.com/epoch": "seven" })), None);
        assert_eq!(epoch(json!({})), None);
    }

    #[test]
    fn an_ended_pod_has_no_address() {
        let address = |phase: &str| {
            let pod = json!({ "metadata": { "name": "db-0" }, "status": { "phase": phase, "podIP": "10.0.0.1" } });
            pod_of::<Cache>(&serde_json::from_value(pod).unwrap()).address
        };
        assert_eq!(address("Running").as_deref(), Some("10.0.0.1"));
        assert_eq!((address("Failed"), address("Succeeded")), (None, None));
    }

    #[test]
    fn the_container_of_a_database_runs_whatever_the_others_do() {
        let runs = |own: &serde_json::Value| {
            let container = |name: &str, state: &serde_json::Value| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            let loops = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
            let all = json!([container("exporter", &loops), container("redis", own)]);
            let pod = json!({ "metadata": { "name": "cache-0" }, "status": { "containerStatuses": all } });
            let pod = pod_of::<Cache>(&serde_json::from_value(pod).unwrap());
            assert!(pod.trouble.is_some());
            pod.runs
        };
        assert!(runs(&json!({ "running": {} })));
        assert!(runs(&json!({ "terminated": { "exitCode": 0 } })), "it is about to be started again");
        for word in ["CrashLoopBackOff", "ImagePullBackOff", "PodInitializing"] {
            assert!(!runs(&json!({ "waiting": { "reason": word } })), "{word}");
        }
    }

    /// As a webhook does: the container of the database is found by its name, wherever it is.
    #[test]
    fn injected_containers_do_not_change_the_facts() {
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        let container = |name: &str, state: &serde_json::Value, restarts: i32| {
            json!({ "name": name, "image": "", "imageID": "",
            "ready": true, "restartCount": restarts, "state": state })
        };
        let limited = |name: &str, limit: &str| json!({ "name": name, "resources": { "limits": { "memory": limit } } });
        let ended = json!({ "terminated": { "exitCode": 1 } });
        let (own, mesh) = (limited("redis", "1Gi"), limited("mesh", "64Mi"));
        let read = |beside: bool| {
            let (first, statuses) = if beside {
                (json!([mesh, own]), json!([container("mesh", &ended, 7), container("redis", &running, 2)]))
            } else {
                (json!([own]), json!([container("redis", &running, 2)]))
            };
            let init = json!([{ "name": "mesh-init", "restartPolicy": "Always" }]);
            let pod = json!({ "metadata": { "name": "db-0", "uid": "1" }, "spec": { "initContainers": init, "containers": first },
                "status": { "phase": "Running", "podIP": "10.0.0.1", "containerStatuses": statuses,
                    "initContainerStatuses": [container("mesh-init", &running, 0)] } });
            pod_of::<Cache>(&serde_json::from_value(pod).unwrap())
        };
        let injected = read(true);
        assert_eq!(injected, read(false));
        assert_eq!((injected.restarts, injected.own), (2, Some(1 << 30)));
    }

    #[test]
    fn a_container_without_image_has_not_run() {
        let pod = |state: serde_json::Value, last: serde_json::Value| {
            let container = json!({ "name": "redis", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state, "lastState": last });
            let pod = json!({ "metadata": { "name": "db-0" }, "status": { "containerStatuses": [container] } });
            let pod = pod_of::<Cache>(&serde_json::from_value(pod).unwrap());
            (pod.has_run, pod.lasts)
        };
        let since = |seconds: i64| {
            let begun = Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap();
            json!({ "running": { "startedAt": begun.to_string() } })
        };
        let waits = |word: &str| json!({ "waiting": { "reason": word } });
        assert_eq!(pod(waits("ImagePullBackOff"), json!({})), (false, false));
        assert_eq!(pod(waits("CrashLoopBackOff"), json!({ "terminated": { "exitCode": 137 } })), (true, false));
        assert_eq!(pod(since(1), json!({})), (true, false), "it may end in a moment");
        assert_eq!(pod(since(60), json!({})), (true, true));
    }

    #[test]
    fn the_objects_that_a_pod_reads_matter_until_its_start() {
        let reads = |container: &serde_json::Value| {
            let pod = json!({ "metadata": { "name": "db-0" },
                "spec": {
                    "volumes": [{ "name": "tls", "secret": { "secretName": "db-peer-tls" } }],
                    "containers": [{ "name": "redis", "env": [{ "name": "A", "valueFrom": {
                        "configMapKeyRef": { "name": "db", "key": "A" } } }] }],
                },
                "status": { "containerStatuses": [container] } });
            pod_of::<Cache>(&serde_json::from_value(pod).unwrap()).reads
        };
        let container = |restarts: i32, state: &serde_json::Value| json!({ "name": "redis", "image": "", "imageID": "", "ready": false, "restartCount": restarts, "state": state });
        let all = BTreeSet::from([("Secret", "db-peer-tls".to_owned()), ("ConfigMap", "db".to_owned())]);
        let waits = |word: &str| json!({ "waiting": { "reason": word } });
        assert_eq!(reads(&container(0, &waits("ContainerCreating"))), all);
        assert_eq!(reads(&container(0, &waits("CreateContainerConfigError"))), all);
        assert!(reads(&container(0, &waits("ImagePullBackOff"))).is_empty());
        assert!(reads(&container(1, &waits("CreateContainerConfigError"))).is_empty());
        assert!(reads(&container(0, &json!({ "running": {} }))).is_empty());
    }
}
