//! Implements [`Database`] for `Redis`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod as CorePod};
use kube::ResourceExt;

use causeway_api::Redis;
use causeway_api::databaserestore::Restored;
use causeway_api::pods::ServiceType;
use causeway_api::redis::Spread;
use causeway_databases::network::Ports;
use causeway_databases::{Claim, Database, SetSpec, memory_risk};
use causeway_runtime::guardrails::Ask;

use super::facts::Node;
use super::names::{self, CERTIFICATES, CONF, LOG, ROLE, SETTINGS, ZONE};
use crate::sentinel;

/// The container of the process. Others may have added theirs, before or behind it.
fn container(pod: &CorePod) -> Option<&Container> {
    pod.spec.as_ref()?.containers.iter().find(|container| container.name == RedisDatabase::APP)
}

/// Stands for `Redis` as a kind of databases in `StatefulSet`s.
pub struct RedisDatabase;

impl Database for RedisDatabase {
    type Object = Redis;
    type Node = Node;

    const LABEL: &'static str = names::LABEL;
    const APP: &'static str = "redis";
    const SIZE: &'static str = "spec.storage.size";
    const SERVICES: &'static str = "spec.service and spec.replicaService";
    const PODS_REFUSED: &'static str = "ApplyFailed";
    const SETTINGS_MAP: bool = false;
    const PORTS: Ports = Ports { client: names::PORT, among: &[names::PORT], metrics: names::EXPORTER_PORT };

    fn node(pod: &CorePod) -> Node {
        Node {
            role: pod.labels().get(ROLE).cloned(),
            settings: pod.annotations().get(SETTINGS).cloned(),
            conf: pod.annotations().get(CONF).cloned(),
            certificates: pod.annotations().get(CERTIFICATES).cloned(),
            log_note: pod.annotations().get(LOG).cloned(),
            host: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            // From Kubernetes 1.35 on, pods have this label:
            // https://kubernetes.io/docs/reference/labels-annotations-taints/
            zone: pod.labels().get(ZONE).cloned(),
            probed: container(pod).is_some_and(|container| container.liveness_probe.is_some()),
            memory_limit: memory_risk::limit_of(pod, Self::APP),
            ..Node::default()
        }
    }

    fn services(object: &Redis) -> Vec<(String, bool)> {
        let always = [object.name_any(), names::replicas(object), names::peers(object)].map(|name| (name, true));
        let sentinel = (names::sentinel(object), object.spec.sentinel.is_some());
        always.into_iter().chain([sentinel]).collect()
    }

    fn ordinals(object: &Redis, _: &BTreeMap<i32, Claim>) -> i32 {
        object.spec.replicas + 1
    }

    fn has_begun(object: &Redis) -> bool {
        object.status.as_ref().is_some_and(|status| status.master.is_some())
    }

    fn restored(object: &Redis) -> Option<&Restored> {
        object.status.as_ref()?.restored.as_ref()
    }

    fn asks(object: &Redis) -> Vec<Ask> {
        crate::asks::list(&object.spec)
    }

    fn set_spec(object: &Redis) -> SetSpec<'_> {
        let spec = &object.spec;
        SetSpec {
            restore_from: spec.restore_from.as_ref(),
            storage_class: spec.storage.class_name.as_ref(),
            storage_size: &spec.storage.size,
            ephemeral: spec.storage.ephemeral,
            deletion_policy: spec.deletion_policy,
            node_selector: &spec.node_selector,
            tolerations: &spec.tolerations,
            affinity: spec.affinity.as_ref(),
            constraints: spec.topology_spread_constraints.as_ref(),
            alone: spec.spread == Spread::Required,
            priority_class: spec.priority_class_name.as_ref(),
            pod_metadata: spec.pod_metadata.as_ref(),
            image_pull_secrets: &spec.image_pull_secrets,
            service_account: spec.service_account_name.as_ref(),
            auth: spec.auth.enabled,
            lacks_tls: spec.tls.is_none().then_some("spec.tls must be set"),
            second_port: spec.sentinel.as_ref().map(|_| sentinel::PORT),
            allowed_clients: spec.allowed_clients.as_ref(),
            network_policy: spec.network_policy,
            published: [&spec.service, &spec.replica_service]
                .into_iter()
                .flatten()
                .any(|service| service.kind != ServiceType::ClusterIp),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: serde_json::Value) -> Redis {
        Redis::new("cache", serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn missing_tls_is_named_by_field() {
        assert_eq!(RedisDatabase::set_spec(&object(json!({}))).lacks_tls, Some("spec.tls must be set"));
        assert_eq!(RedisDatabase::set_spec(&object(json!({ "tls": {} }))).lacks_tls, None);
    }

    #[test]
    fn either_of_its_services_publishes_it() {
        for (kind, published) in [("NodePort", true), ("LoadBalancer", true), ("ClusterIP", false)] {
            for field in ["service", "replicaService"] {
                let object = object(json!({ (field): { "type": kind } }));
                assert_eq!(RedisDatabase::set_spec(&object).published, published, "{field} {kind}");
            }
        }
        assert!(!RedisDatabase::set_spec(&object(json!({}))).published);
    }

    #[test]
    fn the_memory_limit_is_what_the_pod_has() {
        let limit = |containers: serde_json::Value| {
            let pod = json!({ "metadata": { "name": "cache-0" }, "spec": { "containers": containers } });
            RedisDatabase::node(&serde_json::from_value(pod).unwrap()).memory_limit
        };
        let with = |name: &str, limit: &str| json!({ "name": name, "resources": { "limits": { "memory": limit } } });
        assert_eq!(limit(json!([with("injected", "64Mi"), with("redis", "256Mi")])), Some(256 << 20));
        assert_eq!(limit(json!([{ "name": "redis" }, with("injected", "64Mi")])), None);
    }

    #[test]
    fn a_pod_with_a_liveness_probe_is_probed() {
        let probed = |containers: serde_json::Value| {
            let pod = json!({ "metadata": { "name": "cache-0" }, "spec": { "containers": containers } });
            RedisDatabase::node(&serde_json::from_value(pod).unwrap()).probed
        };
        let with = |name: &str| json!({ "name": name, "livenessProbe": { "periodSeconds": 15 } });
        assert!(probed(json!([with("redis")])));
        assert!(!probed(json!([{ "name": "redis" }])));
        assert!(!probed(json!([{ "name": "redis" }, with("exporter")])));
    }
}
