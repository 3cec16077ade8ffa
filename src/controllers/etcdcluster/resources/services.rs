//! How members are reached, and how many of them others may stop.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::super::names::{self, CLIENT_PORT, METRICS_PORT, PEER_PORT, PEER_TLS_PORT};
use super::metadata;
use crate::api::EtcdCluster;

/// Gives every pod a name of its own, before it is ready too: members need each other to get ready.
pub fn peers(object: &EtcdCluster) -> Service {
    let mut ports = vec![port("client", CLIENT_PORT), port("peer", PEER_PORT), port("metrics", METRICS_PORT)];
    if object.spec.tls.is_some() {
        ports.push(port("peer-tls", PEER_TLS_PORT));
    }
    Service {
        metadata: metadata(object, names::peers(object)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names::selector(object)),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Leads clients to members that are ready.
pub fn clients(object: &EtcdCluster) -> Service {
    Service {
        metadata: metadata(object, object.name_any()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(names::selector(object)),
            ports: Some(vec![port("client", CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: number.into(),
        target_port: Some(IntOrString::Int(number.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

/// One at a time: a majority remains whatever the size.
pub fn disruption_budget(object: &EtcdCluster) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata(object, object.name_any()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector { match_labels: Some(names::selector(object)), match_expressions: None }),
            // A pod that is not ready anyway may always be moved off a node that is drained.
            unhealthy_pod_eviction_policy: Some("IfHealthyBudget".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
