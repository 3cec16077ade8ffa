//! The members' pods and volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
    StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    ConfigMapKeySelector, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, KeyToPath,
    ObjectFieldSelector, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, SeccompProfile, SecretVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::super::names::{
    self, CLIENT_PORT, CONTAINER, FORCED, INCARNATION, METRICS_PORT, PEER_PORT, PEER_TLS_PORT, REVISION, VOLUME,
};
use super::super::settings::{ADVERTISED_PORT, ADVERTISED_SCHEME, AT_FIRST_START, VOLUME_PATH, lasting, listening};
use super::super::tls::{Side, Transport};
use super::{Begin, Shape, anew, metadata};
use crate::api::{DeletionPolicy, EtcdCluster};
use crate::controllers::placement::Placement;
use crate::runtime::{fingerprint, requirements, unprivileged};

/// An unprivileged user; etcd needs no other rights than those on its volume.
const USER: i64 = 65_532;
/// etcd hands leadership over when it is told to stop, which takes up to an election.
const STOP_SECONDS: i64 = 30;

/// The pods are made all at once, and replaced only when somebody deletes them: the order is for us to choose.
pub fn statefulset(object: &EtcdCluster, shape: Shape<'_>, transport: &Transport) -> StatefulSet {
    let policy = match object.spec.deletion_policy {
        DeletionPolicy::Delete => "Delete",
        DeletionPolicy::Retain => "Retain",
    };
    StatefulSet {
        metadata: metadata(object, object.name_any()),
        spec: Some(StatefulSetSpec {
            replicas: Some(shape.replicas),
            ordinals: Some(StatefulSetOrdinals { start: Some(shape.first) }),
            service_name: Some(names::peers(object)),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                ..StatefulSetUpdateStrategy::default()
            }),
            // A volume is deleted after its member was removed, and not because a number became smaller.
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some(policy.into()),
                when_scaled: Some("Retain".into()),
            }),
            selector: LabelSelector { match_labels: Some(names::selector(object)), match_expressions: None },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some({
                        let mut labels = names::labels(object);
                        labels.insert(REVISION.into(), revision(object, shape.begin, transport));
                        labels.extend(transport_labels(transport));
                        if shape.begin.is_anew() {
                            labels.insert(FORCED.into(), "true".into());
                        }
                        labels
                    }),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(object, shape.begin, transport)),
            },
            volume_claim_templates: Some(vec![claim(object)]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Hash of what the pods are made from: another revision means other pods.
pub fn revision(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> String {
    // Strings and numbers cannot fail to serialize.
    let pods = serde_json::to_vec(&pod_spec(object, begin, transport)).unwrap_or_default();
    let settings = serde_json::to_vec(&lasting(object)).unwrap_or_default();
    let labels = serde_json::to_vec(&transport_labels(transport)).unwrap_or_default();
    fingerprint(&[&pods, &settings, &labels], 16)
}

/// What a member speaks, and whom it trusts: etcd reads certificates anew for each connection, but authorities only when
/// it starts.
fn transport_labels(transport: &Transport) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for side in Side::ALL {
        let channel = transport.side(side);
        if channel.mode.has_files() {
            labels.insert(side.mode_label().to_owned(), channel.mode.word().to_owned());
            labels.extend(channel.trust.clone().map(|trust| (side.trust_label().to_owned(), trust)));
        }
    }
    labels
}

fn claim(object: &EtcdCluster) -> PersistentVolumeClaim {
    let mut labels = names::labels(object);
    labels.insert(INCARNATION.into(), object.uid().unwrap_or_default());
    PersistentVolumeClaim {
        metadata: ObjectMeta { name: Some(VOLUME.into()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            storage_class_name: object.spec.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".into(), Quantity(object.spec.storage_size.clone()))])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// Restricted by Kubernetes' Pod Security Standards.
/// <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
fn pod_spec(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> PodSpec {
    let placement = Placement {
        pods: names::selector(object),
        node_selector: &object.spec.node_selector,
        tolerations: &object.spec.tolerations,
        affinity: object.spec.affinity.as_ref(),
        constraints: object.spec.topology_spread_constraints.as_ref(),
        alone: false,
    };
    let pod = placement.put(PodSpec {
        volumes: Some(certificates(object, transport)).filter(|all| !all.is_empty()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(STOP_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            // Changing the owner of every file takes long on a large volume, and is needed only once.
            fs_group_change_policy: Some("OnRootMismatch".into()),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        priority_class_name: object.spec.priority_class_name.clone(),
        containers: vec![container(object, begin, transport)],
        ..PodSpec::default()
    });
    match begin {
        Begin::Anew { own_image: Some(own_image) } => {
            anew::above(object, pod, own_image, variables(object, Begin::Usual, transport))
        }
        _ => pod,
    }
}

fn container(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> Container {
    let mut mounts =
        vec![VolumeMount { name: VOLUME.into(), mount_path: VOLUME_PATH.into(), ..VolumeMount::default() }];
    mounts.extend(sides(transport).map(|side| VolumeMount {
        name: volume_of(side),
        mount_path: side.files(),
        read_only: Some(true),
        ..VolumeMount::default()
    }));
    let mut ports = vec![port("client", CLIENT_PORT), port("peer", PEER_PORT), port("metrics", METRICS_PORT)];
    if transport.peer.mode.has_files() {
        ports.push(port("peer-tls", PEER_TLS_PORT));
    }
    Container {
        name: CONTAINER.into(),
        image: Some(object.spec.image.clone().unwrap_or_else(|| image(&object.spec.version))),
        command: Some(vec!["/usr/local/bin/etcd".into()]),
        env: Some(variables(object, begin, transport)),
        ports: Some(ports),
        // Recovering a large database takes minutes; afterwards a member that cannot answer for itself is restarted.
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(1800),
            ..probe("/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT")
        }),
        liveness_probe: Some(Probe {
            period_seconds: Some(10),
            failure_threshold: Some(6),
            ..probe("/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT")
        }),
        // Out of space, a member still answers reads.
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            failure_threshold: Some(2),
            ..probe("/health?exclude=NOSPACE")
        }),
        volume_mounts: Some(mounts),
        resources: Some(requirements(object.spec.resources.as_ref(), ("50m", "64Mi"))),
        // The reason for which etcd gave up is in its last words.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged()),
        ..Container::default()
    }
}

/// The sides that speak TLS.
fn sides(transport: &Transport) -> impl Iterator<Item = Side> {
    Side::ALL.into_iter().filter(|side| transport.side(*side).mode.has_files())
}

fn volume_of(side: Side) -> String {
    format!("{}-tls", side.word())
}

/// The Secrets that members read. What else somebody puts into them stays outside.
fn certificates(object: &EtcdCluster, transport: &Transport) -> Vec<Volume> {
    let files = ["tls.crt", "tls.key", "ca.crt"];
    let items = files.map(|name| KeyToPath { key: name.into(), path: name.into(), mode: None });
    sides(transport)
        .map(|side| Volume {
            name: volume_of(side),
            secret: Some(SecretVolumeSource {
                secret_name: Some(side.secret(object)),
                default_mode: Some(0o440),
                items: Some(items.to_vec()),
                optional: None,
            }),
            ..Volume::default()
        })
        .collect()
}

/// The settings by their names, so that nothing that somebody adds to the `ConfigMap` reaches a member; and what differs
/// among the members: names of variables in values are expanded by the kubelet.
fn variables(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> Vec<EnvVar> {
    let names = lasting(object).into_keys().chain(AT_FIRST_START.map(str::to_owned));
    let mut variables: Vec<EnvVar> = names.map(|name| setting(object, name)).collect();
    variables.extend(listening(object, transport).iter().map(|(name, value)| variable(name, value)));
    variables.extend([
        EnvVar {
            name: "ETCD_NAME".into(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: "metadata.name".into(),
                    api_version: Some("v1".into()),
                }),
                ..EnvVarSource::default()
            }),
            value: None,
        },
        variable(
            "ETCD_INITIAL_ADVERTISE_PEER_URLS",
            &format!("$({ADVERTISED_SCHEME})://{}:$({ADVERTISED_PORT})", names::host(object, "$(ETCD_NAME)")),
        ),
        variable("ETCD_ADVERTISE_CLIENT_URLS", &advertised(object, transport)),
    ]);
    if begin.is_anew() {
        variables.push(variable("ETCD_FORCE_NEW_CLUSTER", "true"));
    }
    variables
}

/// Where clients are told to go.
fn advertised(object: &EtcdCluster, transport: &Transport) -> String {
    let schemes = ["http", "https"].into_iter().filter(|scheme| transport.client.mode.serves(scheme));
    let host = names::host(object, "$(ETCD_NAME)");
    schemes.map(|scheme| format!("{scheme}://{host}:{CLIENT_PORT}")).collect::<Vec<_>>().join(",")
}

/// The image of a version, as etcd's makers publish it.
pub(super) fn image(version: &str) -> String {
    format!("quay.io/coreos/etcd:v{version}")
}

fn setting(object: &EtcdCluster, name: String) -> EnvVar {
    let key = ConfigMapKeySelector { name: object.name_any(), key: name.clone(), optional: None };
    let value_from = EnvVarSource { config_map_key_ref: Some(key), ..EnvVarSource::default() };
    EnvVar { name, value_from: Some(value_from), value: None }
}

pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: number.into(),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::Int(METRICS_PORT.into()),
            scheme: Some("HTTP".into()),
            ..HTTPGetAction::default()
        }),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}
