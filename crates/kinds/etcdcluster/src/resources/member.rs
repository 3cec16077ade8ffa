//! Memory for the data, and variables, which every process that is a member needs.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};

use causeway_api::EtcdCluster;
use causeway_runtime::requirements;

/// CPU and memory that a container asks for.
pub(super) const USUAL: (&str, &str) = ("50m", "64Mi");
/// Bytes that the data of a member may take unless `quota-backend-bytes` says otherwise.
/// <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>
const USUAL_QUOTA: u64 = 2 << 30;
/// A member full of small keys takes several times the bytes of its data: it maps them, keeps an index of every key, and
/// while it starts keeps all that it reads from its log. With a quota of 192 MiB that was more than 1.2 GiB.
/// <https://etcd.io/docs/v3.5/op-guide/hardware/#memory>
const TIMES_DATA: u64 = 4;
/// Bytes of memory on top of that, for watchers and requests in flight.
const BESIDE_DATA: u64 = 2 << 30;

/// CPU and memory of a process that is a member. All data that the quota allows must fit below the memory limit: a process
/// that reaches it is killed.
pub(super) fn requirements_of(object: &EtcdCluster) -> ResourceRequirements {
    let quota = object.spec.config.get("quota-backend-bytes").and_then(|quota| quota.parse().ok());
    let quota = quota.filter(|quota| *quota > 0).unwrap_or(USUAL_QUOTA);
    let most = quota.saturating_mul(TIMES_DATA).saturating_add(BESIDE_DATA) >> 20;
    requirements(object.spec.resources.as_ref(), USUAL, &format!("{most}Mi"))
}

/// A variable with that value.
pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}
