//! What every process that is a member needs: memory for its data, and variables.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};

use crate::api::EtcdCluster;
use crate::runtime::requirements;

/// CPU and memory that a container asks for.
pub(super) const USUAL: (&str, &str) = ("50m", "64Mi");
/// Bytes that the data of a member may take unless `quota-backend-bytes` says otherwise.
/// <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>
const USUAL_QUOTA: u64 = 2 << 30;
/// Bytes of memory beside the data: the index of keys, watchers, requests in hand.
const BESIDE_DATA: u64 = 1 << 30;

/// CPU and memory of a process that is a member. It maps its data into memory: as much as the quota allows must fit.
pub(super) fn requirements_of(object: &EtcdCluster) -> ResourceRequirements {
    let quota = object.spec.config.get("quota-backend-bytes").and_then(|quota| quota.parse().ok());
    let quota = quota.filter(|quota| *quota > 0).unwrap_or(USUAL_QUOTA);
    let most = quota.saturating_add(BESIDE_DATA) >> 20;
    requirements(object.spec.resources.as_ref(), USUAL, &format!("{most}Mi"))
}

/// A variable with that value.
pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}
