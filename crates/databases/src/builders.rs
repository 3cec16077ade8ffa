//! Builds the children that every database has. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
    StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerPort, LocalObjectReference, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PodSecurityContext, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use causeway_api::DeletionPolicy;
use causeway_api::pods::{PodMetadata, ServiceTemplate, ServiceType};
use causeway_runtime::manifest::controlled_metadata;
use causeway_runtime::restricted_context;

use super::names::{INCARNATION, VOLUME};
use super::placement::Placement;
use super::{Database, names};

/// The service account of pods whose spec names none.
const DEFAULT_ACCOUNT: &str = "default";

/// How long a process may take to stop: to hand over what others need of it, and to write what is left.
const STOP_SECONDS: i64 = 30;

/// Metadata of a child of that name.
pub fn metadata<D: Database>(object: &D::Object, name: String) -> ObjectMeta {
    controlled_metadata(object, name, names::labels::<D>(object))
}

/// The settings that processes start with.
pub fn config_map<D: Database>(object: &D::Object, data: BTreeMap<String, String>) -> ConfigMap {
    ConfigMap { metadata: metadata::<D>(object, object.name_any()), data: Some(data), ..ConfigMap::default() }
}

/// Gives every pod a DNS name of its own, even before it is ready: nodes need each other to get ready.
pub fn headless<D: Database>(object: &D::Object, ports: Vec<ServicePort>) -> Service {
    Service {
        metadata: metadata::<D>(object, names::peers(object)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names::selector::<D>(object)),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Leads clients to the pods that `selector` finds; without one, to the pods in our own `EndpointSlice`s.
pub fn service<D: Database>(
    object: &D::Object,
    name: String,
    template: Option<&ServiceTemplate>,
    selector: Option<BTreeMap<String, String>>,
    ports: Vec<ServicePort>,
) -> Service {
    let annotations = template.map(|it| it.annotations.clone()).filter(|all| !all.is_empty());
    Service {
        metadata: ObjectMeta { annotations, ..metadata::<D>(object, name) },
        spec: Some(ServiceSpec {
            type_: Some(template.map_or(ServiceType::ClusterIp, |it| it.kind).as_str().into()),
            selector,
            ports: Some(ports),
            traffic_distribution: template.and_then(|it| it.traffic_distribution).map(|it| it.as_str().into()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// A port of a Service, which has the same number in the pods.
pub fn service_port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: number.into(),
        target_port: Some(IntOrString::Int(number.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

/// Others may evict one pod at a time.
pub fn disruption_budget<D: Database>(object: &D::Object, unhealthy: Option<&str>) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata::<D>(object, object.name_any()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector { match_labels: Some(names::selector::<D>(object)), match_expressions: None }),
            unhealthy_pod_eviction_policy: unhealthy.map(str::to_owned),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// Which pods there are.
#[derive(Clone, Debug)]
pub struct Pods {
    /// The first ordinal, where it is not 0.
    pub first: Option<i32>,
    /// How many follow each other.
    pub replicas: i32,
    /// Their labels besides those of every child.
    pub labels: BTreeMap<String, String>,
    /// Their annotations besides the user's.
    pub annotations: BTreeMap<String, String>,
    /// The spec of each.
    pub spec: PodSpec,
}

/// All pods are made at once, and each is replaced only when the operator or a user deletes it: the kind chooses the
/// order.
pub fn statefulset<D: Database>(object: &D::Object, pods: Pods) -> StatefulSet {
    let spec = D::set_spec(object);
    let policy = match spec.deletion_policy {
        DeletionPolicy::Delete => "Delete",
        DeletionPolicy::Retain => "Retain",
    };
    let given = spec.pod_metadata.cloned().unwrap_or_default();
    // Our labels and annotations take precedence over the user's.
    let mut labels = given.labels;
    labels.extend(names::labels::<D>(object));
    labels.extend(pods.labels);
    let mut annotations = given.annotations;
    annotations.extend(pods.annotations);
    let annotations = Some(annotations).filter(|all| !all.is_empty());
    let mut template = pods.spec;
    // Left out, an earlier name would stay: the apiserver restores it from the deprecated `serviceAccount`, its mirror.
    // This is not in `pod_spec`, because revisions are hashes of that: all pods would be replaced.
    template.service_account_name.get_or_insert_with(|| DEFAULT_ACCOUNT.into());
    StatefulSet {
        metadata: metadata::<D>(object, object.name_any()),
        spec: Some(StatefulSetSpec {
            replicas: Some(pods.replicas),
            ordinals: pods.first.map(|first| StatefulSetOrdinals { start: Some(first) }),
            service_name: Some(names::peers(object)),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                ..StatefulSetUpdateStrategy::default()
            }),
            // We delete a volume when its node is not wanted any more. A smaller `replicas` alone deletes none.
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some(policy.into()),
                when_scaled: Some("Retain".into()),
            }),
            selector: LabelSelector { match_labels: Some(names::selector::<D>(object)), match_expressions: None },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), annotations, ..ObjectMeta::default() }),
                spec: Some(template),
            },
            volume_claim_templates: (!spec.ephemeral).then(|| vec![claim::<D>(object)]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

fn claim<D: Database>(object: &D::Object) -> PersistentVolumeClaim {
    let spec = D::set_spec(object);
    let mut labels = names::labels::<D>(object);
    labels.insert(INCARNATION.into(), object.uid().unwrap_or_default());
    PersistentVolumeClaim {
        metadata: ObjectMeta { name: Some(VOLUME.into()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            storage_class_name: spec.storage_class.cloned(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".into(), Quantity(spec.storage_size.to_owned()))])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// Pods of these containers at their place, restricted by Kubernetes' Pod Security Standards: they run as `user`.
/// <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
pub fn pod_spec<D: Database>(
    object: &D::Object,
    user: i64,
    containers: Vec<Container>,
    volumes: Vec<Volume>,
) -> PodSpec {
    let spec = D::set_spec(object);
    let placement = Placement {
        pods: names::selector::<D>(object),
        node_selector: spec.node_selector,
        tolerations: spec.tolerations,
        affinity: spec.affinity,
        constraints: spec.constraints,
        alone: spec.alone,
    };
    let pull_secrets: Vec<_> =
        spec.image_pull_secrets.iter().map(|secret| LocalObjectReference { name: secret.name.clone() }).collect();
    placement.put(PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(STOP_SECONDS),
        security_context: Some(PodSecurityContext {
            fs_group: Some(user),
            // Changing the owner of every file takes long on a large volume, and is needed only once.
            fs_group_change_policy: Some("OnRootMismatch".into()),
            ..restricted_context(user)
        }),
        priority_class_name: spec.priority_class.cloned(),
        service_account_name: spec.service_account.cloned(),
        image_pull_secrets: Some(pull_secrets).filter(|all| !all.is_empty()),
        containers,
        volumes: Some(volumes).filter(|all| !all.is_empty()),
        ..PodSpec::default()
    })
}

/// Returns the bytes that the revision of pods covers besides their spec: the user's labels and annotations, if there
/// are any.
pub fn user_metadata<D: Database>(object: &D::Object) -> Vec<u8> {
    let given = D::set_spec(object).pod_metadata.filter(|it| **it != PodMetadata::default());
    // Strings cannot fail to serialize.
    given.and_then(|it| serde_json::to_vec(it).ok()).unwrap_or_default()
}

/// A port of a container.
pub fn container_port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: number.into(),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

/// A volume at a path.
pub fn mount(name: impl Into<String>, path: impl Into<String>, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::Redis;

    fn set(spec: &serde_json::Value) -> (Redis, StatefulSet) {
        let mut object = Redis::new("cache", serde_json::from_value(spec.clone()).unwrap());
        object.metadata.uid = Some("uid".into());
        object.metadata.namespace = Some("shop".into());
        let spec = pod_spec::<Cache>(&object, 999, Vec::new(), Vec::new());
        let pods = Pods { first: None, replicas: 1, labels: BTreeMap::new(), annotations: BTreeMap::new(), spec };
        let set = statefulset::<Cache>(&object, pods);
        (object, set)
    }

    #[test]
    fn user_metadata_does_not_replace_our_labels() {
        let ours = "app.kubernetes.io/name";
        let given = serde_json::json!({ "podMetadata": {
            "labels": { "team": "shop", ours: "another" }, "annotations": { "example.com/note": "x" },
        } });
        let (_, set) = set(&given);
        let metadata = set.spec.unwrap().template.metadata.unwrap();
        let labels = metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels[ours].as_str()), ("shop", "redis"));
        assert_eq!(metadata.annotations.unwrap()["example.com/note"], "x");
    }

    #[test]
    fn a_removed_account_becomes_the_default_one() {
        let account = |spec: &serde_json::Value| {
            let (object, set) = set(spec);
            let hashed = pod_spec::<Cache>(&object, 999, Vec::new(), Vec::new()).service_account_name;
            (set.spec.unwrap().template.spec.unwrap().service_account_name, hashed)
        };
        let named = Some("cache".to_owned());
        assert_eq!(account(&serde_json::json!({ "serviceAccountName": "cache" })), (named.clone(), named));
        let unnamed = account(&serde_json::json!({}));
        assert_eq!(unnamed, (Some("default".to_owned()), None), "revisions are what they were");
    }

    #[test]
    fn pods_and_services_follow_the_spec() {
        let (object, set) = set(&serde_json::json!({
            "serviceAccountName": "cache", "imagePullSecrets": [{ "name": "registry" }],
            "service": { "type": "LoadBalancer", "annotations": { "example.com/scheme": "internal" } },
            "tolerations": [{ "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 60 }],
            "resources": { "limits": { "cpu": 1 } },
        }));
        let pod = set.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.service_account_name.as_deref(), Some("cache"));
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.image_pull_secrets.unwrap()[0].name, "registry");
        assert_eq!(pod.tolerations.unwrap()[0].toleration_seconds, Some(60));
        let service = service::<Cache>(&object, "cache".into(), object.spec.service.as_ref(), None, Vec::new());
        assert_eq!(service.spec.unwrap().type_.as_deref(), Some("LoadBalancer"));
        assert_eq!(service.metadata.annotations.unwrap()["example.com/scheme"], "internal");
        let cpu = object.spec.resources.unwrap().limits.unwrap()["cpu"].clone();
        assert_eq!(cpu, Quantity("1".into()));
    }
}
