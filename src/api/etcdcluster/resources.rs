//! What a member asks of its node.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Amounts of resources by name.
pub type ResourceAmounts = BTreeMap<String, String>;

/// CPU and memory of a container.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// What is set aside for it, such as `cpu: 500m` and `memory: 512Mi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = { "type": "string", "maxLength": 32 }))]
    #[x_kube(validation = ("self.all(k, k.size() <= 63 && isQuantity(self[k]))", "spec.resources.requests must be quantities such as 500m or 1Gi"))]
    pub requests: ResourceAmounts,

    /// What it may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = { "type": "string", "maxLength": 32 }))]
    #[x_kube(validation = ("self.all(k, k.size() <= 63 && isQuantity(self[k]))", "spec.resources.limits must be quantities such as 500m or 1Gi"))]
    pub limits: ResourceAmounts,
}

/// A taint that pods tolerate.
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Toleration {
    /// Key of the taint; left out, every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// `Exists` or `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 6), regex(pattern = "^(Exists|Equal)$"))]
    pub operator: Option<String>,
    /// Value of the taint, with `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`; left out, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^(NoSchedule|PreferNoSchedule|NoExecute)$"))]
    pub effect: Option<String>,
}
