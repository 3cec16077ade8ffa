//! How nodes are reached, and how many of them may be disrupted.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use causeway_api::Redis;
use causeway_databases::builders::{self, service, service_port};
use causeway_databases::names::selector;

use super::super::database::RedisDatabase;
use super::super::names::{self, PORT};
use super::sentinel::NAME as SENTINEL;
use crate::sentinel;

/// Gives every pod a name of its own, whatever its role.
pub fn peers(object: &Redis) -> Service {
    builders::headless::<RedisDatabase>(object, ports())
}

/// Leads to the master alone.
///
/// Without a selector, the operator alone decides where a Service leads: it depends neither on the readiness of a pod
/// nor on the pace of a Kubernetes controller.
/// <https://kubernetes.io/docs/concepts/services-networking/service/#services-without-selectors>
pub fn master(object: &Redis) -> Service {
    service::<RedisDatabase>(object, object.name_any(), object.spec.service.as_ref(), None, ports())
}

/// Leads to the replicas that have all data; it has no selector either.
pub fn replicas(object: &Redis) -> Service {
    service::<RedisDatabase>(object, names::replicas(object), object.spec.replica_service.as_ref(), None, ports())
}

/// Leads to the sentinel containers of all pods: all give the same answers. A pod without such a container has no port
/// of that name, so it is left out.
pub fn sentinel(object: &Redis) -> Service {
    let port = ServicePort {
        target_port: Some(IntOrString::String(SENTINEL.into())),
        ..service_port(SENTINEL, sentinel::PORT)
    };
    service::<RedisDatabase>(object, names::sentinel(object), None, Some(selector::<RedisDatabase>(object)), vec![port])
}

fn ports() -> Vec<ServicePort> {
    vec![service_port("redis", PORT)]
}

/// Allows so many pods to be unavailable at the same time.
///
/// Pods that are not ready count as unavailable, but may be evicted only within the budget (no `AlwaysAllow`): one of
/// them may be a master that serves beside a failing exporter.
/// <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy>
pub fn disruption_budget(object: &Redis, allowed: i32) -> PodDisruptionBudget {
    let mut budget = builders::disruption_budget::<RedisDatabase>(object, None);
    if let Some(spec) = &mut budget.spec {
        spec.max_unavailable = Some(IntOrString::Int(allowed));
    }
    budget
}
