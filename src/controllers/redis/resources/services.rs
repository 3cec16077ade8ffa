//! How nodes are reached, and how many of them others may stop.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::super::names::{self, PORT};
use super::metadata;
use crate::api::Redis;

/// Gives every pod a name of its own, whatever its role.
pub fn peers(object: &Redis) -> Service {
    Service {
        metadata: metadata(object, names::peers(object)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names::selector(object)),
            ports: Some(vec![port()]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Leads to the master alone.
pub fn master(object: &Redis) -> Service {
    unselecting(object, object.name_any())
}

/// Leads to the replicas that have all data.
pub fn replicas(object: &Redis) -> Service {
    unselecting(object, names::replicas(object))
}

/// Without a selector nobody but us says whom it leads to: neither the readiness of a pod nor the pace of a controller.
/// <https://kubernetes.io/docs/concepts/services-networking/service/#services-without-selectors>
fn unselecting(object: &Redis, name: String) -> Service {
    Service {
        metadata: metadata(object, name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            ports: Some(vec![port()]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port() -> ServicePort {
    ServicePort {
        name: Some("redis".into()),
        port: PORT.into(),
        target_port: Some(IntOrString::Int(PORT.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

/// One node at a time.
pub fn disruption_budget(object: &Redis) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata(object, object.name_any()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector { match_labels: Some(names::selector(object)), match_expressions: None }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
