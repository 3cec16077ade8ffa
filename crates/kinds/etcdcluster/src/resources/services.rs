//! The Services by which members are reached, and the disruption budget.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::builders::{self, service, service_port};
use causeway_databases::names::selector;

use super::super::database::EtcdDatabase;
use super::super::names::{CLIENT_PORT, METRICS_PORT, PEER_PORT, PEER_TLS_PORT};

/// Gives every pod a DNS name of its own.
pub fn peers(object: &EtcdCluster) -> Service {
    let ports = [("client", CLIENT_PORT), ("peer", PEER_PORT), ("metrics", METRICS_PORT)];
    let mut ports: Vec<_> = ports.into_iter().map(|(name, number)| service_port(name, number)).collect();
    if object.spec.tls.is_some() {
        ports.push(service_port("peer-tls", PEER_TLS_PORT));
    }
    builders::headless::<EtcdDatabase>(object, ports)
}

/// Leads clients to members that are ready.
pub fn clients(object: &EtcdCluster) -> Service {
    let ports = vec![service_port("client", CLIENT_PORT)];
    service::<EtcdDatabase>(
        object,
        object.name_any(),
        object.spec.service.as_ref(),
        Some(selector::<EtcdDatabase>(object)),
        ports,
    )
}

/// One at a time: a majority remains whatever the size. If only one pod is not ready, a drain may evict that one, too.
pub fn disruption_budget(object: &EtcdCluster) -> PodDisruptionBudget {
    builders::disruption_budget::<EtcdDatabase>(object, Some("IfHealthyBudget"))
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::cluster;
    use super::*;
    use causeway_api::pods::{ServiceTemplate, TrafficDistribution};

    #[test]
    fn clients_prefer_their_zone_where_the_spec_asks() {
        let mut object = cluster(3);
        let distribution = |object: &EtcdCluster| clients(object).spec.and_then(|spec| spec.traffic_distribution);
        assert_eq!(distribution(&object), None);
        object.spec.service = Some(ServiceTemplate {
            traffic_distribution: Some(TrafficDistribution::PreferSameZone),
            ..ServiceTemplate::default()
        });
        assert_eq!(distribution(&object).as_deref(), Some("PreferSameZone"));
    }
}
