//! The network policy of a database: who may connect to its pods. Pure.
//!
//! Where the cluster's network plugin enforces such policies, all others are shut out; where it does not, they do nothing.
//! <https://kubernetes.io/docs/concepts/services-networking/network-policies/#prerequisites>

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use causeway_api::access::NetworkPolicyMode;
use causeway_api::network::canonical;
use causeway_runtime::manifest::Manifest;

use super::rules::Rules;
use super::{ChildAction, Database, Set, builders, names};

/// Label of a namespace with its name, which no client can change.
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name>
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Label of the operator's own pods.
const OPERATOR: (&str, &str) = ("causeway.example.com/component", "operator");
/// Labels of pods that back up databases and bring backups back.
const JOBS: [&str; 2] = ["causeway.example.com/backup", "causeway.example.com/restore"];

/// Ports of the pods of a database.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Where clients, the operator and Jobs connect.
    pub client: u16,
    /// Where pods of the database connect to each other.
    pub among: &'static [u16],
    /// Where metrics are read.
    pub metrics: u16,
}

/// The policy's name: one that a user would hardly give to another.
pub fn name(object: &impl ResourceExt) -> String {
    format!("{}-access", object.name_any())
}

/// Reports whether the database is to have a policy.
pub fn is_wanted<D: Database>(object: &D::Object, rules: &Rules) -> bool {
    D::set_spec(object).network_policy.unwrap_or(rules.network_policy) == NetworkPolicyMode::Enabled
}

/// The policy, where there is to be one.
pub fn policy<D: Database>(object: &D::Object, rules: &Rules) -> Option<Manifest> {
    is_wanted::<D>(object, rules).then(|| Manifest::with_hash(&built::<D>(object, rules)))
}

/// Deletes the policy of a database that is to have none any more.
pub fn surplus<D: Database>(object: &D::Object, set: &Set<D::Node>) -> Option<ChildAction> {
    let name = name(object);
    let live = set.child("NetworkPolicy", &name).filter(|live| live.ours && !is_wanted::<D>(object, &set.rules))?;
    Some(ChildAction::DeletePolicy { name, uid: live.uid.clone() })
}

fn built<D: Database>(object: &D::Object, rules: &Rules) -> NetworkPolicy {
    let (ports, selector) = (D::PORTS, names::selector::<D>(object));
    let own = NetworkPolicyPeer { pod_selector: Some(select_labels(selector.clone())), ..NetworkPolicyPeer::default() };
    let for_clients: Vec<u16> = [ports.client].into_iter().chain(D::set_spec(object).second_port).collect();
    let ingress = vec![
        rule(&for_clients, clients::<D>(object, rules)),
        rule(ports.among, Some(vec![own])),
        rule(&[ports.metrics], scrapers(rules)),
    ];
    NetworkPolicy {
        metadata: builders::metadata::<D>(object, name(object)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(select_labels(selector)),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(ingress),
            egress: None,
        }),
    }
}

/// Lists the peers that may connect as clients; `None`, for all, where a Service is published and the spec names none.
fn clients<D: Database>(object: &D::Object, rules: &Rules) -> Option<Vec<NetworkPolicyPeer>> {
    let spec = D::set_spec(object);
    let all_here =
        || NetworkPolicyPeer { pod_selector: Some(LabelSelector::default()), ..NetworkPolicyPeer::default() };
    let mut peers = match spec.allowed_clients {
        None if spec.published => return None,
        None => vec![all_here()],
        Some(named) => named.iter().cloned().map(in_one_form).collect(),
    };
    peers.push(NetworkPolicyPeer {
        namespace_selector: Some(namespaces(std::slice::from_ref(&rules.namespace))),
        pod_selector: Some(select_labels(BTreeMap::from([(OPERATOR.0.into(), OPERATOR.1.into())]))),
        ip_block: None,
    });
    peers.extend(
        JOBS.map(|label| NetworkPolicyPeer { pod_selector: Some(with(label)), ..NetworkPolicyPeer::default() }),
    );
    Some(peers)
}

/// The peer with its networks in the one form that every version of Kubernetes takes.
fn in_one_form(mut peer: NetworkPolicyPeer) -> NetworkPolicyPeer {
    if let Some(block) = &mut peer.ip_block {
        for cidr in std::iter::once(&mut block.cidr).chain(block.except.iter_mut().flatten()) {
            if let Some(form) = canonical(cidr) {
                *cidr = form;
            }
        }
    }
    peer
}

/// Lists the peers that may read metrics: `None`, for all, unless the operator's options name namespaces.
fn scrapers(rules: &Rules) -> Option<Vec<NetworkPolicyPeer>> {
    let peer = || NetworkPolicyPeer {
        namespace_selector: Some(namespaces(&rules.scrape_namespaces)),
        ..NetworkPolicyPeer::default()
    };
    (!rules.scrape_namespaces.is_empty()).then(|| vec![peer()])
}

/// Lets these in; `None` stands for all peers. An empty list must not be given: Kubernetes takes it for all, too.
fn rule(ports: &[u16], from: Option<Vec<NetworkPolicyPeer>>) -> NetworkPolicyIngressRule {
    let port = |number: &u16| NetworkPolicyPort {
        port: Some(IntOrString::Int((*number).into())),
        protocol: Some("TCP".into()),
        end_port: None,
    };
    NetworkPolicyIngressRule { from, ports: Some(ports.iter().map(port).collect()) }
}

fn select_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), match_expressions: None }
}

fn with(label: &str) -> LabelSelector {
    let exists = LabelSelectorRequirement { key: label.into(), operator: "Exists".into(), values: None };
    LabelSelector { match_expressions: Some(vec![exists]), match_labels: None }
}

fn namespaces(names: &[String]) -> LabelSelector {
    let values = Some(names.to_vec());
    let in_list = LabelSelectorRequirement { key: NAMESPACE_NAME.into(), operator: "In".into(), values };
    LabelSelector { match_expressions: Some(vec![in_list]), match_labels: None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::Redis;

    fn rules() -> Rules {
        Rules { namespace: "causeway-system".into(), ..Rules::default() }
    }

    fn redis(spec: Value) -> Redis {
        let mut object = Redis::new("cache", serde_json::from_value(spec).unwrap());
        object.metadata.namespace = Some("shop".into());
        object.metadata.uid = Some("uid".into());
        object
    }

    fn client_rule(spec: Value) -> Value {
        policy::<Cache>(&redis(spec), &rules()).unwrap().value["spec"]["ingress"][0].take()
    }

    #[test]
    fn the_policies_stay_as_they_were_reviewed() {
        let named = json!([{ "namespaceSelector": { "matchLabels": { "team": "web" } } }, { "ipBlock": { "cidr": "10.0.0.0/8" } }]);
        let options = Rules { scrape_namespaces: vec!["monitoring".into()], ..rules() };
        let usual = policy::<Cache>(&redis(json!({})), &rules()).unwrap();
        let narrow = policy::<Cache>(&redis(json!({ "allowedClients": named })), &options).unwrap();
        insta::assert_yaml_snapshot!([usual.value, narrow.value]);
    }

    #[test]
    fn a_policy_opened_by_hand_is_noticed() {
        let policy = policy::<Cache>(&redis(json!({})), &rules()).unwrap();
        assert!(policy.is_met_by(&policy.value));
        for (path, value) in [
            ("/spec/ingress/0/from/0/namespaceSelector", json!({})),
            ("/spec/ingress/2/ports/0/endPort", json!(65535)),
            ("/spec/ingress/3", json!({})),
        ] {
            let mut opened = policy.value.clone();
            let (parent, last) = path.rsplit_once('/').unwrap();
            match opened.pointer_mut(parent).unwrap() {
                Value::Array(rules) => rules.push(value),
                parent => parent[last] = value,
            }
            assert!(!policy.is_met_by(&opened), "{path}");
        }
    }

    #[test]
    fn what_the_apiserver_leaves_out_is_no_difference() {
        let peer = json!({ "namespaceSelector": { "matchLabels": {} }, "podSelector": { "matchExpressions": [] } });
        let policy = policy::<Cache>(&redis(json!({ "allowedClients": [peer] })), &rules()).unwrap();
        let mut live = policy.value.clone();
        live["spec"]["ingress"][0]["from"][0] = json!({ "namespaceSelector": {}, "podSelector": {} });
        assert!(policy.is_met_by(&live));
    }

    #[test]
    fn networks_of_clients_are_written_in_one_form() {
        let peers = json!([
            { "ipBlock": { "cidr": "10.1.2.3/8", "except": ["10.9.9.9/16"] } },
            { "ipBlock": { "cidr": "2001:DB8:0:0::7/32" } },
        ]);
        let rule = client_rule(json!({ "allowedClients": peers }));
        assert_eq!(rule["from"][0]["ipBlock"], json!({ "cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"] }));
        assert_eq!(rule["from"][1]["ipBlock"], json!({ "cidr": "2001:db8::/32" }));
    }

    #[test]
    fn without_clients_only_operator_and_jobs_may_connect() {
        let rule = client_rule(json!({ "allowedClients": [] }));
        let peers = rule["from"].as_array().unwrap();
        assert_eq!(peers.len(), 3, "the operator, and Jobs of both kinds: {rule}");
        assert!(!peers.iter().any(|peer| *peer == json!({ "podSelector": {} })), "{rule}");
    }

    #[test]
    fn a_published_database_admits_all_until_clients_are_named() {
        let published = json!({ "service": { "type": "NodePort" } });
        assert!(client_rule(published.clone())["from"].is_null());
        let mut narrow = published;
        narrow["allowedClients"] = json!([{ "podSelector": {} }]);
        assert!(client_rule(narrow)["from"].is_array());
    }

    #[test]
    fn the_object_decides_and_else_the_operator() {
        use NetworkPolicyMode::{Disabled, Enabled};
        for (of_object, of_operator, there) in [
            (None, Enabled, true),
            (None, Disabled, false),
            (Some("Enabled"), Disabled, true),
            (Some("Disabled"), Enabled, false),
        ] {
            let object = redis(json!({ "networkPolicy": of_object }));
            let options = Rules { network_policy: of_operator, ..rules() };
            assert_eq!(policy::<Cache>(&object, &options).is_some(), there, "{of_object:?} {of_operator:?}");
        }
    }

    #[test]
    fn only_our_own_policy_is_deleted() {
        let object = redis(json!({ "networkPolicy": "Disabled" }));
        let set = |ours: bool| {
            let child = crate::Child { value: json!({}), uid: "1".into(), ours };
            let key = ("NetworkPolicy".to_owned(), "cache-access".to_owned());
            Set { children: BTreeMap::from([(key, child)]), ..Set::default() }
        };
        assert!(matches!(surplus::<Cache>(&object, &set(true)), Some(ChildAction::DeletePolicy { .. })));
        assert_eq!(surplus::<Cache>(&object, &set(false)), None);
        assert_eq!(surplus::<Cache>(&redis(json!({})), &set(true)), None);
    }
}
