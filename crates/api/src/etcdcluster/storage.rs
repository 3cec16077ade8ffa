//! Where the members of an etcd cluster keep their data.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::EtcdClusterSpec;
use crate::quantities;

/// How large volumes are whose size is not given.
const USUAL_SIZE: &str = "8Gi";

/// The volume of each member.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size of each member's volume, such as `10Gi`; `8Gi` unless given. It can grow if the storage class allows it.
    /// It cannot shrink below what the volumes have: `status.volumeSize`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-validations" = quantities::size("spec.storage.size", false)))]
    pub size: Option<String>,

    /// Storage class of the members' volumes, such as `gp3`. Left out, the Kubernetes cluster's default. It cannot
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub class_name: Option<String>,
}

impl EtcdClusterSpec {
    /// Size of each member's volume, as a quantity.
    #[must_use]
    pub fn volume_size(&self) -> &str {
        let size = self.storage.as_ref().and_then(|storage| storage.size.as_deref());
        self.storage_size.as_deref().or(size).unwrap_or(USUAL_SIZE)
    }

    /// Storage class of the members' volumes; the cluster's default where there is none.
    #[must_use]
    pub fn storage_class(&self) -> Option<&String> {
        self.storage.as_ref()?.class_name.as_ref()
    }
}
