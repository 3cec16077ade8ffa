//! The members' pods and volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    ConfigMapKeySelector, Container, EnvVar, EnvVarSource, HTTPGetAction, KeyToPath, ObjectFieldSelector, PodSpec,
    Probe, SecretVolumeSource, Volume,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::Database;
use causeway_databases::builders::{self, Pods, container_port, mount};
use causeway_runtime::{fingerprint, unprivileged_context};

use super::super::database::EtcdDatabase;
use super::super::names::{self, CLIENT_PORT, FORCED, METRICS_PORT, PEER_PORT, PEER_TLS_PORT, REVISION, VOLUME};
use super::super::settings::{
    ADVERTISED_PORT, ADVERTISED_SCHEME, AT_FIRST_START, VOLUME_PATH, lasting, lasting_by_value, listening,
};
use super::super::tls::{Side, Transport};
use super::member::{requirements_of, variable};
use super::{Begin, Shape, force_new_cluster};

/// An unprivileged user; etcd needs no other rights than those on its volume.
const USER: i64 = 65_532;
/// The pods, and the claims of their volumes.
pub fn statefulset(object: &EtcdCluster, shape: Shape<'_>, transport: &Transport) -> StatefulSet {
    let mut labels = transport_labels(transport);
    labels.insert(REVISION.into(), revision(object, shape.begin, transport));
    if shape.begin.forces_new_cluster() {
        labels.insert(FORCED.into(), "true".into());
    }
    let spec = pod_spec(object, shape.begin, transport);
    builders::statefulset::<EtcdDatabase>(
        object,
        Pods { first: Some(shape.first), replicas: shape.replicas, labels, annotations: BTreeMap::new(), spec },
    )
}

/// Hash of what the pods are made from: another revision means other pods.
pub fn revision(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> String {
    let lasting = lasting(object);
    // Strings and numbers cannot fail to serialize.
    let pods = serde_json::to_vec(&by_name(object, pod_spec(object, begin, transport), &lasting)).unwrap_or_default();
    let settings = serde_json::to_vec(&lasting_by_value(object)).unwrap_or_default();
    let labels = serde_json::to_vec(&transport_labels(transport)).unwrap_or_default();
    let user_metadata = builders::user_metadata::<EtcdDatabase>(object);
    let mut parts = vec![pods.as_slice(), &settings, &labels];
    parts.extend(Some(user_metadata.as_slice()).filter(|it| !it.is_empty()));
    fingerprint(&parts, 16)
}

/// The pods with the names of their settings alone: the hash has the values apart, so that the same value in other words is no
/// other revision.
fn by_name(object: &EtcdCluster, mut pods: PodSpec, lasting: &BTreeMap<String, String>) -> PodSpec {
    for container in pods.init_containers.iter_mut().flatten().chain(&mut pods.containers) {
        let settings = container.env.iter_mut().flatten().filter(|it| lasting.contains_key(&it.name));
        settings.for_each(|it| *it = setting(object, std::mem::take(&mut it.name)));
    }
    pods
}

/// The transport of a member, and which authorities it trusts. etcd reads its certificate again for each connection, but
/// authorities only when it starts: if they change, pods must be replaced.
fn transport_labels(transport: &Transport) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for side in Side::ALL {
        let channel = transport.side(side);
        if channel.mode.has_files() {
            labels.insert(side.mode_label().to_owned(), channel.mode.name().to_owned());
            labels.extend(channel.trust.clone().map(|trust| (side.trust_label().to_owned(), trust)));
        }
    }
    labels
}

fn pod_spec(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> PodSpec {
    let pod = builders::pod_spec::<EtcdDatabase>(
        object,
        USER,
        vec![container(object, begin, transport)],
        certificates(object, transport),
    );
    match begin {
        Begin::ForceNewCluster { own_image: Some(own_image) } => {
            force_new_cluster::above(object, pod, own_image, variables(object, Begin::Usual, transport))
        }
        _ => pod,
    }
}

fn container(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> Container {
    let mut mounts = vec![mount(VOLUME, VOLUME_PATH, false)];
    mounts.extend(sides(transport).map(|side| mount(volume_of(side), side.files(), true)));
    let mut ports = vec![
        container_port("client", CLIENT_PORT),
        container_port("peer", PEER_PORT),
        container_port("metrics", METRICS_PORT),
    ];
    if transport.peer.mode.has_files() {
        ports.push(container_port("peer-tls", PEER_TLS_PORT));
    }
    Container {
        name: EtcdDatabase::APP.into(),
        image: Some(object.spec.member_image()),
        command: Some(vec!["/usr/local/bin/etcd".into()]),
        env: Some(variables(object, begin, transport)),
        ports: Some(ports),
        // Loading a large database takes minutes; afterwards, a member that does not answer a local read is restarted.
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
        // A member without space still answers reads. The first probe often comes before a member knows its leader; the
        // next one, 2 s later, adds it to the Service. Ten seconds without an answer take it out.
        readiness_probe: Some(Probe {
            period_seconds: Some(2),
            timeout_seconds: Some(2),
            failure_threshold: Some(5),
            ..probe("/health?exclude=NOSPACE")
        }),
        volume_mounts: Some(mounts),
        resources: Some(requirements_of(object)),
        // etcd's last output says why it gave up.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    }
}

/// The sides that use TLS.
fn sides(transport: &Transport) -> impl Iterator<Item = Side> {
    Side::ALL.into_iter().filter(|side| transport.side(*side).mode.has_files())
}

fn volume_of(side: Side) -> String {
    format!("{}-tls", side.name())
}

/// Volumes with the Secrets that members read. Other keys that users add to them are not mounted.
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

/// The settings. Values that members need for as long as they live are in the pod: a container that starts again reads no
/// value that its etcd has not accepted yet. Those of the first start are in the `ConfigMap`, each by its name: nothing that
/// others add to that reaches a member. Values that differ among members refer to other variables, which the kubelet expands.
fn variables(object: &EtcdCluster, begin: Begin<'_>, transport: &Transport) -> Vec<EnvVar> {
    // The kubelet makes one dollar sign of two, and takes one for a reference.
    let literal = |(name, value): (&String, &String)| variable(name, &value.replace('$', "$$"));
    let mut variables: Vec<EnvVar> = lasting(object).iter().map(literal).collect();
    variables.extend(AT_FIRST_START.map(|name| setting(object, name.to_owned())));
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
    if begin.forces_new_cluster() {
        variables.push(variable("ETCD_FORCE_NEW_CLUSTER", "true"));
    }
    variables
}

/// The client URLs that a member advertises.
fn advertised(object: &EtcdCluster, transport: &Transport) -> String {
    let schemes = ["http", "https"].into_iter().filter(|scheme| transport.client.mode.serves(scheme));
    let host = names::host(object, "$(ETCD_NAME)");
    schemes.map(|scheme| format!("{scheme}://{host}:{CLIENT_PORT}")).collect::<Vec<_>>().join(",")
}

fn setting(object: &EtcdCluster, name: String) -> EnvVar {
    let key = ConfigMapKeySelector { name: object.name_any(), key: name.clone(), optional: None };
    let value_from = EnvVarSource { config_map_key_ref: Some(key), ..EnvVarSource::default() };
    EnvVar { name, value_from: Some(value_from), value: None }
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
