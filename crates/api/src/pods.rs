//! Parts of a spec about pods and Services, with the fields and values that Kubernetes has for them; with bounds, so that an
//! object stays small and a wrong value is refused early.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::quantities;

/// The pattern of a quantity, without a sign: amounts of resources are not negative.
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>
const QUANTITY: &str = "^([0-9]{1,16}([.][0-9]{0,9})?|[.][0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$";

/// Any larger integer has no exact neighbours where JSON is read as floating point numbers.
const LARGEST: u64 = 9_007_199_254_740_991;

/// The schema of a container's `ResourceRequirements`, but for claims of devices.
/// <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/>
pub fn resources(_: &mut SchemaGenerator) -> Schema {
    let amounts = |description: &str| {
        json_schema!({
            "description": description,
            "type": "object",
            "maxProperties": 8,
            "additionalProperties": {
                "x-kubernetes-int-or-string": true, "pattern": QUANTITY, "maxLength": 32, "minimum": 0, "maximum": LARGEST,
            },
            "x-kubernetes-validations": quantities::resources(),
        })
    };
    json_schema!({
        "type": "object",
        "properties": {
            "requests": amounts("What is reserved for each container, such as `{ cpu: 500m, memory: 512Mi }`."),
            "limits": amounts("What each container may use at most, such as `{ memory: 1Gi }`: one that takes more memory is killed."),
        },
    })
}

/// The schema of a pod's tolerations.
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
pub fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 20,
        "items": {
            "type": "object",
            "properties": {
                "key": {
                    "description": "Key of the taint, such as `dedicated`; left out (with `operator: Exists`), every taint.",
                    "type": "string", "maxLength": 317,
                },
                "operator": {
                    "description": "`Equal` (the default): the taint has this `value`; `Exists`: whatever its value.",
                    "type": "string", "enum": ["Exists", "Equal"],
                },
                "value": {
                    "description": "Value of the taint, with `operator: Equal`.",
                    "type": "string", "maxLength": 63,
                },
                "effect": {
                    "description": "`NoSchedule`, `PreferNoSchedule` or `NoExecute`; left out, all of them.",
                    "type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                },
                "tolerationSeconds": {
                    "description": "With `effect: NoExecute`: seconds that a running pod may stay after the taint was added, such as 300; left out, for ever.",
                    "type": "integer", "format": "int64", "minimum": 0, "maximum": LARGEST,
                },
            },
        },
    })
}

/// Labels and annotations of pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    /// Labels of the pods, such as `team: shop`. You cannot set the labels by which Causeway finds its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$" }))]
    #[x_kube(
        validation = ("self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$') && k.size() <= 317)", "spec.podMetadata.labels keys must be keys of labels, such as team or example.com/team"),
        validation = ("self.all(k, !k.startsWith('causeway.example.com/') && k != 'controller-revision-hash')", "spec.podMetadata.labels must not have keys of causeway.example.com, nor controller-revision-hash: pods are found by them"),
        validation = ("self.all(k, !k.matches('(^|[.])(kubernetes[.]io|k8s[.]io|k8s[.]aws|amazonaws[.]com|azure[.]com|azure[.]workload[.]identity|gke[.]io|google[.]com|openshift[.]io|cncf[.]io|projectcalico[.]org|tigera[.]io|cilium[.]io|ovn[.]org|antrea[.]io|istio[.]io|linkerd[.]io|kuma[.]io|konghq[.]com|openservicemesh[.]io|traefik[.]io|networkservicemesh[.]io|dapr[.]io|hashicorp[.]com|banzaicloud[.]io|bank-vaults[.]io|1password[.]io|cyberark[.]com|conjur[.]org|akeyless[.]io|opentelemetry[.]io|jaegertracing[.]io|admission[.]datadoghq[.]com|dynatrace[.]com|newrelic[.]com|appdynamics[.]com|instana[.]io|elastic[.]co|karpenter[.]sh|kyverno[.]io|gatekeeper[.]sh|kubewarden[.]io|cri-o[.]io|crio[.]io|containerd[.]io|katacontainers[.]io|nri[.]io|noderesource[.]dev|nvidia[.]com|intel[.]com)/') && !k.matches('^(io[.]kubernetes|io[.]containers?[.]|io[.]containerd|io[.]katacontainers|io[.]crun|run[.]oci|dev[.]gvisor|org[.]criu|aadpodidbinding$)'))", "spec.podMetadata.labels must not have keys of Kubernetes, clouds, networks, service meshes, injectors or container runtimes: they decide what pods may do")
    )]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the pods, such as `example.com/team: shop`. You cannot set annotations of Kubernetes, clouds,
    /// networks, service meshes, injectors and container runtimes that Causeway knows, such as `kubernetes.io`,
    /// `cni.cncf.io`, `istio.io` and `vault.hashicorp.com`, because these can mount Secrets into pods or change what
    /// pods may do. The exception is `sidecar.istio.io/inject: "false"`. A `CausewayPolicy` can restrict keys further.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 4096 }))]
    #[x_kube(
        validation = ("self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$') && k.size() <= 317)", "spec.podMetadata.annotations keys must be keys of annotations, such as example.com/team"),
        validation = ("self.all(k, !k.startsWith('causeway.example.com/'))", "spec.podMetadata.annotations must not have keys of causeway.example.com: they are Causeway's own"),
        validation = ("self.all(k, (!k.matches('(^|[.])(kubernetes[.]io|k8s[.]io|k8s[.]aws|amazonaws[.]com|azure[.]com|azure[.]workload[.]identity|gke[.]io|google[.]com|openshift[.]io|cncf[.]io|projectcalico[.]org|tigera[.]io|cilium[.]io|ovn[.]org|antrea[.]io|istio[.]io|linkerd[.]io|kuma[.]io|konghq[.]com|openservicemesh[.]io|traefik[.]io|networkservicemesh[.]io|dapr[.]io|hashicorp[.]com|banzaicloud[.]io|bank-vaults[.]io|1password[.]io|cyberark[.]com|conjur[.]org|akeyless[.]io|opentelemetry[.]io|jaegertracing[.]io|admission[.]datadoghq[.]com|dynatrace[.]com|newrelic[.]com|appdynamics[.]com|instana[.]io|elastic[.]co|karpenter[.]sh|kyverno[.]io|gatekeeper[.]sh|kubewarden[.]io|cri-o[.]io|crio[.]io|containerd[.]io|katacontainers[.]io|nri[.]io|noderesource[.]dev|nvidia[.]com|intel[.]com)/') && !k.matches('^(io[.]kubernetes|io[.]containers?[.]|io[.]containerd|io[.]katacontainers|io[.]crun|run[.]oci|dev[.]gvisor|org[.]criu|aadpodidbinding$)')) || (k == 'sidecar.istio.io/inject' && self[k] == 'false'))", "spec.podMetadata.annotations must not have keys of Kubernetes, clouds, networks, service meshes, injectors or container runtimes: they decide what pods may do")
    )]
    pub annotations: BTreeMap<String, String>,
}

/// A Secret that is used to pull images.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePullSecret {
    /// Name of a Secret of the namespace, of type `kubernetes.io/dockerconfigjson`, such as `registry`.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: String,
}

/// A Service for clients.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    /// Who can reach the Service: with `ClusterIP` (the default) pods of the cluster; with `NodePort` also clients of
    /// its port on every node; with `LoadBalancer` also clients of a load balancer that the cluster's cloud provider
    /// creates.
    #[serde(rename = "type", default)]
    pub kind: ServiceType,

    /// Annotations of the Service, such as `service.beta.kubernetes.io/aws-load-balancer-scheme: internal`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 30, "additionalProperties" = { "type": "string", "maxLength": 4096 }))]
    #[x_kube(
        validation = ("self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$') && k.size() <= 317)", "annotations of a Service must have keys such as example.com/team"),
        validation = ("self.all(k, !k.startsWith('causeway.example.com/'))", "annotations of a Service must not have keys of causeway.example.com: they are Causeway's own")
    )]
    pub annotations: BTreeMap<String, String>,

    /// To which endpoints clients are routed, as in a Service: `PreferSameZone`, or `PreferClose` in Kubernetes before
    /// 1.34, to endpoints in the client's zone; `PreferSameNode` to those on the client's node, or else in its zone. If
    /// there are none that near, to all. `PreferSameZone` and `PreferSameNode` need Kubernetes 1.34. Left out, to all
    /// endpoints alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<TrafficDistribution>,
}

/// To which endpoints clients are routed, as in a Service.
/// <https://kubernetes.io/docs/concepts/services-networking/service/#traffic-distribution>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficDistribution {
    /// In their zone.
    PreferSameZone,
    /// On their node, and else in their zone.
    PreferSameNode,
    /// In their zone: the earlier name.
    PreferClose,
}

impl TrafficDistribution {
    /// As Kubernetes calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferSameZone => "PreferSameZone",
            Self::PreferSameNode => "PreferSameNode",
            Self::PreferClose => "PreferClose",
        }
    }
}

/// Who can reach a Service.
/// <https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Pods of the cluster.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// Also clients of a port of every node.
    NodePort,
    /// Also clients of a load balancer.
    LoadBalancer,
}

impl ServiceType {
    /// As Kubernetes calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}
