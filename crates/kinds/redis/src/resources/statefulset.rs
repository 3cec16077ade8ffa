//! The pods and their volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource, ExecAction, KeyToPath, Lifecycle,
    LifecycleHandler, ObjectFieldSelector, PodSpec, Probe, SecretVolumeSource, SleepAction, TCPSocketAction, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use causeway_api::Redis;
use causeway_databases::Database;
use causeway_databases::builders::{self, Pods, container_port, mount};
use causeway_runtime::{fingerprint, unprivileged_context};

use super::super::database::RedisDatabase;
use super::super::memory;
use super::super::names::{self, CONF, PORT, REVISION, VOLUME};
use super::super::settings::{FILE, SETTINGS_PATH, USERS_FILE, USERS_PATH, VOLUME_PATH, lasting};
use super::super::tls;
use super::exporter::{self, exporter};
use super::sentinel::{self, sentinel};

/// The user of the official images.
const USER: i64 = 999;
/// Seconds for which a deleted pod goes on serving: time to hand over before its process gets SIGTERM.
const HAND_OVER_SECONDS: i64 = 2;
/// Seconds between two probes whether a node listens.
const OFTEN_SECONDS: i32 = 2;
/// The same where each probe writes a line to the node's log.
const SELDOM_SECONDS: i32 = 30;
/// A container that does not listen after this many seconds is restarted.
const START_SECONDS: i32 = 3600;
/// The script that the container of a node runs.
const START: &str = include_str!("start.sh");
/// Name of the volume with the settings.
const SETTINGS_VOLUME: &str = "settings";
/// Name of the volume with the users.
const USERS_VOLUME: &str = "users";

/// The pods, and the claims of their volumes. `own_image` is for the sentinel containers, `file` has the settings.
pub fn statefulset(object: &Redis, replicas: i32, own_image: &str, file: String) -> StatefulSet {
    let labels = BTreeMap::from([(REVISION.to_owned(), revision(object))]);
    let annotations = BTreeMap::from([(CONF.to_owned(), file)]);
    builders::statefulset::<RedisDatabase>(
        object,
        Pods { first: None, replicas, labels, annotations, spec: pod_spec(object, own_image) },
    )
}

/// Hash of what the pods are made from: another revision means other pods.
pub fn revision(object: &Redis) -> String {
    // A new version of the operator must not replace nodes, so its image is left out.
    let mut pods = pod_spec(object, "");
    // A liveness probe depends on the number of replicas. A node is not replaced to get one, and may keep one when it
    // gets replicas.
    for container in &mut pods.containers {
        container.liveness_probe = None;
    }
    // Strings and numbers cannot fail to serialize.
    let pods = serde_json::to_vec(&pods).unwrap_or_default();
    let settings = serde_json::to_vec(&lasting(object)).unwrap_or_default();
    let user_metadata = builders::user_metadata::<RedisDatabase>(object);
    let mut parts = vec![pods.as_slice(), &settings];
    parts.extend(Some(user_metadata.as_slice()).filter(|it| !it.is_empty()));
    let modules = serde_json::to_vec(&object.spec.modules).unwrap_or_default();
    parts.extend(Some(modules.as_slice()).filter(|_| !object.spec.modules.is_empty()));
    fingerprint(&parts, 16)
}

fn pod_spec(object: &Redis, own_image: &str) -> PodSpec {
    let mut volumes = vec![settings_volume()];
    if object.spec.auth.enabled {
        volumes.push(Volume {
            name: USERS_VOLUME.into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(names::users(object)),
                items: Some(vec![KeyToPath { key: USERS_FILE.into(), path: USERS_FILE.into(), mode: None }]),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    volumes.extend(exporter::volume(object));
    volumes.extend(sentinel::volume(object));
    if object.spec.tls.is_some() {
        volumes.push(Volume {
            name: super::TLS_VOLUME.into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(tls::servers_secret(object)),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    if object.spec.storage.ephemeral {
        volumes.push(Volume {
            name: VOLUME.into(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
    }
    let beside = exporter(object).into_iter().chain(sentinel(object, own_image));
    let containers = std::iter::once(container(object)).chain(beside).collect();
    builders::pod_spec::<RedisDatabase>(object, USER, containers, volumes)
}

/// The file of settings: an annotation of the pod, which the kubelet writes again when it changes.
fn settings_volume() -> Volume {
    let field_path = format!("metadata.annotations['{CONF}']");
    let file = DownwardAPIVolumeFile {
        path: FILE.into(),
        field_ref: Some(ObjectFieldSelector { api_version: Some("v1".into()), field_path }),
        ..DownwardAPIVolumeFile::default()
    };
    let source = DownwardAPIVolumeSource { items: Some(vec![file]), ..DownwardAPIVolumeSource::default() };
    Volume { name: SETTINGS_VOLUME.into(), downward_api: Some(source), ..Volume::default() }
}

fn container(object: &Redis) -> Container {
    Container {
        name: RedisDatabase::APP.into(),
        image: Some(object.spec.node_image()),
        command: Some(vec!["sh".into(), "-c".into(), START.into(), "sh".into(), format!("{SETTINGS_PATH}/{FILE}")]),
        working_dir: Some(VOLUME_PATH.into()),
        ports: Some(vec![container_port("redis", PORT)]),
        startup_probe: object.spec.tls.is_some().then(|| probe(OFTEN_SECONDS, START_SECONDS / OFTEN_SECONDS)),
        // The probe only shows whether the node listens. Whether it may serve is the operator's decision: it takes a
        // replica out of the Services while that reads its data or has lost its master. A node that hangs is replaced
        // after another took over: a probe that kills a busy master does harm. With TLS, a node writes a line to its
        // log for each connection that ends without a word.
        readiness_probe: Some(if object.spec.tls.is_some() {
            probe(SELDOM_SECONDS, 2)
        } else {
            probe(OFTEN_SECONDS, 3)
        }),
        liveness_probe: (object.spec.replicas == 0).then(silence),
        lifecycle: Some(hand_over()),
        volume_mounts: Some(mounts(object)),
        resources: Some(memory::of_node(object)),
        // The end of the log says why Redis refused a setting.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    }
}

/// Keeps a container running for a while when its pod is deleted.
pub fn hand_over() -> Lifecycle {
    Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds: HAND_OVER_SECONDS }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    }
}

/// Probes every `period_seconds` whether the node listens, and fails after `failures` failures in a row.
fn probe(period_seconds: i32, failures: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(PORT.into()), host: None }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(2),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Fails only if the process answers nothing at all for a minute and a half. A process that is loading, is busy, has no
/// space or asks for a password still answers. Of a single node, only the kubelet can know that: one that does not
/// answer the operator may just be cut off from it. With replicas, another node takes over, and the operator replaces
/// the hung one.
fn silence() -> Probe {
    let ask = format!("redis-cli -p {PORT} ping >/dev/null 2>&1 || true");
    Probe {
        exec: Some(ExecAction { command: Some(vec!["sh".into(), "-c".into(), ask]) }),
        period_seconds: Some(15),
        timeout_seconds: Some(10),
        failure_threshold: Some(6),
        // A hung process does not react to SIGTERM.
        termination_grace_period_seconds: Some(5),
        ..Probe::default()
    }
}

fn mounts(object: &Redis) -> Vec<VolumeMount> {
    let mut mounts = vec![mount(VOLUME, VOLUME_PATH, false), mount(SETTINGS_VOLUME, SETTINGS_PATH, true)];
    if object.spec.auth.enabled {
        mounts.push(mount(USERS_VOLUME, USERS_PATH, true));
    }
    if object.spec.tls.is_some() {
        mounts.push(super::certificates());
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::redis;
    use causeway_api::redis::Module;

    #[test]
    fn only_a_single_node_has_a_liveness_probe() {
        let watched = |replicas: i32| container(&redis(replicas)).liveness_probe.is_some();
        assert!(watched(0) && !watched(1) && !watched(2));
        assert_eq!(revision(&redis(0)), revision(&redis(1)));
    }

    #[test]
    fn other_modules_mean_other_pods() {
        let mut object = redis(1);
        object.spec.modules = vec![Module { path: "/lib/x.so".into(), args: Vec::new() }];
        let revisions = [revision(&redis(1)), revision(&object)];
        object.spec.modules[0].args.push("ON".into());
        assert!(!revisions.contains(&revision(&object)) && revisions[0] != revisions[1]);
    }
}
