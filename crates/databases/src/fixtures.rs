//! A kind of databases for tests.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod as CorePod;
use kube::ResourceExt;

use causeway_api::Redis;
use causeway_api::databaserestore::Restored;
use causeway_api::pods::ServiceType;
use causeway_runtime::guardrails::Ask;

use super::network::Ports;
use super::{Claim, Database, SetSpec, memory_risk};

/// Stands for `Redis` with the fields that every database has, and nothing of its own.
pub struct Cache;

impl Database for Cache {
    type Object = Redis;
    /// The memory limit of its container.
    type Node = Option<u64>;

    const LABEL: &'static str = "causeway.example.com/redis";
    const APP: &'static str = "redis";
    const SIZE: &'static str = "spec.storage.size";
    const SERVICES: &'static str = "spec.service and spec.replicaService";
    const PODS_REFUSED: &'static str = "SpecRefused";
    const SETTINGS_MAP: bool = false;
    const PORTS: Ports = Ports { client: 6379, among: &[6379], metrics: 9121 };

    fn node(pod: &CorePod) -> Option<u64> {
        memory_risk::limit_of(pod, Self::APP)
    }

    fn services(object: &Redis) -> Vec<(String, bool)> {
        vec![(object.name_any(), true)]
    }

    fn ordinals(object: &Redis, _: &BTreeMap<i32, Claim>) -> i32 {
        object.spec.replicas
    }

    fn has_begun(object: &Redis) -> bool {
        object.status.as_ref().is_some_and(|status| status.master.is_some())
    }

    fn restored(object: &Redis) -> Option<&Restored> {
        object.status.as_ref()?.restored.as_ref()
    }

    fn asks(_: &Redis) -> Vec<Ask> {
        Vec::new()
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
            alone: false,
            priority_class: spec.priority_class_name.as_ref(),
            pod_metadata: spec.pod_metadata.as_ref(),
            image_pull_secrets: &spec.image_pull_secrets,
            service_account: spec.service_account_name.as_ref(),
            auth: spec.auth.enabled,
            lacks_tls: spec.tls.is_none().then_some("spec.tls must be set"),
            second_port: None,
            allowed_clients: spec.allowed_clients.as_ref(),
            network_policy: spec.network_policy,
            published: spec.service.as_ref().is_some_and(|service| service.kind != ServiceType::ClusterIp),
        }
    }
}
