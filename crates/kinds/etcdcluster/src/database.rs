//! Implements [`Database`] for `EtcdCluster`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as CorePod;
use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_api::databaserestore::Restored;
use causeway_api::etcdcluster::ClientTlsMode;
use causeway_api::pods::ServiceType;
use causeway_databases::etcd::{Credentials, Endpoint};
use causeway_databases::network::Ports;
use causeway_databases::{Claim, Database, SetSpec, memory_risk};
use causeway_runtime::guardrails::Ask;

use super::facts::{Node, Pod, Skip};
use super::names::{self, FORCED};
use super::tls::{Channel, Mode, Side, Transport};
use crate::recovery::SKIPPED;

/// Stands for `EtcdCluster` as a kind of databases in `StatefulSet`s.
pub struct EtcdDatabase;

impl Database for EtcdDatabase {
    type Object = EtcdCluster;
    type Node = Node;

    const LABEL: &'static str = names::LABEL;
    const APP: &'static str = "etcd";
    const SIZE: &'static str = "spec.storage.size";
    const SERVICES: &'static str = "spec.service";
    const PODS_REFUSED: &'static str = "SpecRefused";
    const SETTINGS_MAP: bool = true;
    const PORTS: Ports = Ports {
        client: names::CLIENT_PORT,
        among: &[names::CLIENT_PORT, names::PEER_PORT, names::PEER_TLS_PORT],
        metrics: names::METRICS_PORT,
    };

    fn node(pod: &CorePod) -> Node {
        let channel = |side: Side| Channel {
            mode: Mode::from_label(pod.labels().get(side.mode_label()).map(String::as_str)),
            trust: pod.labels().get(side.trust_label()).cloned(),
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        Node {
            image: containers.filter(|it| it.name == Self::APP).find_map(|it| it.image.clone()),
            transport: Transport { peer: channel(Side::Peer), client: channel(Side::Client) },
            forced: pod.labels().contains_key(FORCED),
            skip: skip_of(pod),
            memory_limit: memory_risk::limit_of(pod, Self::APP),
        }
    }

    fn services(object: &EtcdCluster) -> Vec<(String, bool)> {
        vec![(object.name_any(), true), (names::peers(object), true)]
    }

    fn ordinals(object: &EtcdCluster, claims: &BTreeMap<i32, Claim>) -> i32 {
        let recorded = object.status.iter().flat_map(|status| &status.members);
        let recorded = recorded.filter_map(|member| Some(names::ordinal_of(object, &member.name)? + 1)).max();
        let volumes = claims.keys().last().map(|last| last + 1);
        [Some(object.spec.replicas), recorded, volumes].into_iter().flatten().max().unwrap_or(0)
    }

    fn has_begun(object: &EtcdCluster) -> bool {
        object.status.as_ref().is_some_and(|status| status.cluster_id.is_some())
    }

    fn restored(object: &EtcdCluster) -> Option<&Restored> {
        object.status.as_ref()?.restored.as_ref()
    }

    fn asks(object: &EtcdCluster) -> Vec<Ask> {
        crate::asks::list(&object.spec)
    }

    fn set_spec(object: &EtcdCluster) -> SetSpec<'_> {
        let spec = &object.spec;
        SetSpec {
            restore_from: spec.restore_from.as_ref(),
            storage_class: spec.storage_class(),
            storage_size: spec.volume_size(),
            ephemeral: false,
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
            lacks_tls: lacks_tls(object),
            second_port: None,
            allowed_clients: spec.allowed_clients.as_ref(),
            network_policy: spec.network_policy,
            published: spec.service.as_ref().is_some_and(|service| service.kind != ServiceType::ClusterIp),
        }
    }
}

fn lacks_tls(object: &EtcdCluster) -> Option<&'static str> {
    let tls = object.spec.tls.as_ref();
    match tls.and_then(|tls| tls.client.as_ref()) {
        None => Some("spec.tls.client must be set"),
        Some(client) if client.mode != ClientTlsMode::Require => Some("spec.tls.client.mode must be Require"),
        Some(_) if tls.is_some_and(|tls| tls.peer.is_none()) => Some("spec.tls.peer must be set"),
        Some(_) => None,
    }
}

fn skip_of(pod: &CorePod) -> Skip {
    let mut asked = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    if asked.all(|container| container.name != names::SKIP) {
        return Skip::NotAsked;
    }
    let mut seen = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let ended = seen.find(|container| container.name == names::SKIP);
    match ended.and_then(|container| container.state.as_ref()?.terminated.as_ref()) {
        Some(ended) if ended.exit_code == 0 => match ended.message.as_deref().unwrap_or_default() {
            SKIPPED => Skip::Done,
            reason => Skip::Refused(reason.to_owned()),
        },
        _ => Skip::Pending,
    }
}

/// Conclusions about the member in a pod, in a trait because the type of pods belongs to another crate.
pub trait MemberPod {
    /// Reports whether its member has certificates.
    fn speaks_tls(&self) -> bool;

    /// Where its member answers clients; `None` if it requires TLS and there are no credentials for that.
    fn endpoint(&self, credentials: Option<&Arc<Credentials>>) -> Option<Endpoint>;
}

impl MemberPod for Pod {
    fn speaks_tls(&self) -> bool {
        self.own.transport.peer.mode.has_files() || self.own.transport.client.mode.has_files()
    }

    fn endpoint(&self, credentials: Option<&Arc<Credentials>>) -> Option<Endpoint> {
        let host = self.host()?;
        let (scheme, tls) = match (self.own.transport.client.mode, credentials) {
            (Mode::Plain, _) | (Mode::Both, None) => ("http", None),
            (Mode::Both | Mode::Secure, Some(credentials)) => ("https", Some(credentials.clone())),
            (Mode::Secure, None) => return None,
        };
        Some(Endpoint { url: format!("{scheme}://{host}:{}", names::CLIENT_PORT), tls, login: None })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use causeway_databases::Rules;
    use causeway_runtime::guardrails::Required;

    #[test]
    fn missing_tls_is_named_by_field() {
        let rules = Rules { require_auth: true, require_tls: true, ..Rules::default() };
        let complaint = |tls: &Value| {
            let spec = json!({ "version": "3.5.9", "auth": { "enabled": true }, "tls": tls });
            let object = EtcdCluster::new("db", serde_json::from_value(spec).unwrap());
            rules.complaint::<EtcdDatabase>(&object, &Required::default()).map(|(_, message)| message)
        };
        for (tls, words) in [
            (json!(null), "spec.tls.client must be set"),
            (json!({ "client": { "mode": "Allow" }, "peer": {} }), "spec.tls.client.mode must be Require"),
            (json!({ "client": {} }), "spec.tls.peer must be set"),
        ] {
            assert!(complaint(&tls).is_some_and(|message| message.contains(words)), "{tls}");
        }
        assert_eq!(complaint(&json!({ "client": {}, "peer": {} })), None);
    }
}
