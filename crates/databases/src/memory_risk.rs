//! The condition `MemoryRisk`: a process may hold more data than the memory of its container has room for. The kernel kills it
//! then, and it is started again with the same data. Pure.

use k8s_openapi::api::core::v1::Pod;

use causeway_runtime::quantity::amount;
use causeway_runtime::{ConditionStatus, ExtraCondition};

/// The memory limit in bytes that the container of that name really has, be it from a `LimitRange`.
pub fn limit_of(pod: &Pod, container: &str) -> Option<u64> {
    let container = pod.spec.as_ref()?.containers.iter().find(|it| it.name == container)?;
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    u64::try_from(amount(&limits.get("memory")?.0)? / 1000).ok()
}

/// Where a limit comes from, in words: whether the spec has one decides.
pub fn origin(is_from_spec: bool) -> &'static str {
    if is_from_spec { "spec.resources" } else { "a LimitRange or a webhook, not from spec.resources" }
}

/// The condition; present only while there is a risk.
pub fn part(risk: Option<String>) -> ExtraCondition {
    ExtraCondition {
        type_: "MemoryRisk",
        status: ConditionStatus::only_if(risk.is_some()),
        reason: "LimitTooLow",
        message: risk.unwrap_or_default(),
    }
}
