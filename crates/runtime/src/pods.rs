//! Settings and checks that pods of all kinds share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Pod, PodSecurityContext, ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::canonical;

/// The file with the last words of a container: Kubernetes keeps them with the pod.
/// <https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/>
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// The security context of our containers: no privileges, no capabilities and a read-only root file system.
/// <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
pub fn unprivileged_context() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".into()]) }),
        ..SecurityContext::default()
    }
}

/// The security context of our pods: nothing runs as root, and all processes run as that user and group.
/// <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
pub fn restricted_context(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// The same quantities, each in the form that all of its amount have: other words for the same replace no pod.
fn by_amount(given: Option<&BTreeMap<String, Quantity>>) -> Option<BTreeMap<String, Quantity>> {
    let given = given.filter(|all| !all.is_empty())?;
    Some(given.iter().map(|(name, quantity)| (name.clone(), Quantity(canonical(&quantity.0)))).collect())
}

/// The resources of a container: those that the user gave, or these requests with `most` as the memory limit.
pub fn requirements(
    user_provided: Option<&ResourceRequirements>,
    (cpu, memory): (&str, &str),
    most: &str,
) -> ResourceRequirements {
    match user_provided {
        Some(user_provided) => ResourceRequirements {
            requests: by_amount(user_provided.requests.as_ref()),
            limits: by_amount(user_provided.limits.as_ref()),
            claims: None,
        },
        None => ResourceRequirements {
            requests: Some(BTreeMap::from([
                ("cpu".into(), Quantity(cpu.into())),
                ("memory".into(), Quantity(memory.into())),
            ])),
            limits: Some(BTreeMap::from([("memory".into(), Quantity(most.into()))])),
            claims: None,
        },
    }
}

/// The node of a pod, if that node has not reported to Kubernetes for a while. Everything on that node is lost with it.
///
/// The pod's conditions do not say so directly. The node controller sets `Ready` to false and changes nothing else. A
/// kubelet that does that gives a reason, and sets `ContainersReady` to false first.
/// <https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller>
pub fn lost_node(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let condition = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let ready = condition("Ready")?;
    let silent = ready.status == "False" && ready.reason.as_ref().is_none_or(String::is_empty);
    let was_well = condition("ContainersReady").is_some_and(|containers| containers.status == "True");
    // After a while the taint manager deletes the pods of a lost node.
    let evicted = conditions.iter().any(|it| it.reason.as_deref() == Some("DeletionByTaintManager"));
    if (silent && was_well) || ready.status == "Unknown" || evicted {
        pod.spec.as_ref()?.node_name.clone()
    } else {
        None
    }
}

/// Names of the containers without a memory request or a memory limit.
#[cfg(any(test, feature = "testing"))]
pub fn without_memory(pod: &k8s_openapi::api::core::v1::PodSpec) -> Vec<&str> {
    let has = |amounts: Option<&BTreeMap<String, Quantity>>| amounts.is_some_and(|it| it.contains_key("memory"));
    let is_bounded = |it: &ResourceRequirements| has(it.requests.as_ref()) && has(it.limits.as_ref());
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    all.filter(|it| !it.resources.as_ref().is_some_and(is_bounded)).map(|it| it.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn is_lost(conditions: &Value) -> bool {
        let pod = json!({ "metadata": {}, "spec": { "containers": [], "nodeName": "a" }, "status": { "conditions": conditions } });
        lost_node(&serde_json::from_value(pod).unwrap()).is_some()
    }

    #[test]
    fn a_node_is_lost_when_no_kubelet_explains_unready_pods() {
        let containers = |status: &str| json!({ "type": "ContainersReady", "status": status });
        let ready = |status: &str, reason: Option<&str>| json!({ "type": "Ready", "status": status, "reason": reason });
        assert!(is_lost(&json!([ready("False", None), containers("True")])));
        assert!(is_lost(&json!([ready("Unknown", None), containers("True")])));
        assert!(!is_lost(&json!([ready("True", None), containers("True")])));
        assert!(!is_lost(&json!([ready("False", Some("ContainersNotReady")), containers("False")])));
        assert!(!is_lost(&json!([ready("False", Some("ReadinessGatesNotReady")), containers("True")])));
        assert!(!is_lost(&json!([ready("False", None), containers("False")])));
        assert!(!is_lost(&json!([])));
    }
}
