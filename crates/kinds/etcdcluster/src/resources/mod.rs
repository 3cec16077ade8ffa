//! Builds the children. Pure.

mod backup;
mod force_new_cluster;
mod member;
mod services;
mod statefulset;

use causeway_api::EtcdCluster;
use causeway_databases::{Rules, builders, network};
use causeway_runtime::manifest::Manifest;

use super::database::EtcdDatabase;
use super::settings::{Start, settings};
use super::tls::Transport;

pub use backup::{backup, backup_kind};
pub use statefulset::{revision, statefulset};

/// Services, disruption budget and network policy: they do not change with the members.
pub fn around(object: &EtcdCluster, rules: &Rules) -> Vec<Manifest> {
    let mut all = vec![
        Manifest::with_hash(&services::peers(object)),
        Manifest::with_hash(&services::clients(object)),
        Manifest::with_hash(&services::disruption_budget(object)),
    ];
    all.extend(network::policy::<EtcdDatabase>(object, rules));
    all
}

/// The settings of the members.
pub fn config_map(object: &EtcdCluster, start: &Start, transport: &Transport) -> Manifest {
    Manifest::with_hash(&builders::config_map::<EtcdDatabase>(object, settings(object, start, transport)))
}

/// The way in which the pods' members start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin<'a> {
    /// From their data, or as members that have none yet.
    Usual,
    /// As a new cluster of one member, from its data.
    ForceNewCluster {
        /// Our own image, whose program skips revisions first.
        own_image: Option<&'a str>,
    },
}

impl Begin<'_> {
    /// Reports whether they rebuild the cluster from their data.
    pub fn forces_new_cluster(self) -> bool {
        self != Self::Usual
    }
}

/// Which pods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape<'a> {
    /// The ordinal of the first pod.
    pub first: i32,
    /// How many follow each other.
    pub replicas: i32,
    /// The way in which the pods' members start.
    pub begin: Begin<'a>,
}

/// The pods, and the claims of their volumes.
pub fn pods(object: &EtcdCluster, shape: Shape<'_>, transport: &Transport) -> Manifest {
    Manifest::with_hash(&statefulset(object, shape, transport))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixtures::cluster;
    use super::super::names;
    use super::super::tls::{Channel, Mode};
    use super::*;
    use causeway_api::etcdcluster::Recovery;

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let object = cluster(3);
        let start = Start { begins: true, members: vec![("prod-etcd-0".into(), names::peer_url(&object, 0, false))] };
        let (mut all, plain) = (around(&object, &Rules::default()), Transport::default());
        all.extend([
            config_map(&object, &start, &plain),
            pods(&object, Shape { first: 0, replicas: 3, begin: Begin::Usual }, &plain),
        ]);
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn a_recovery_skips_revisions_where_our_image_is_known() {
        let mut object = cluster(3);
        object.spec.recovery =
            Some(Recovery { from_member: "prod-etcd-2".into(), token: "2026-11-21".into(), image: None });
        let shape = |own_image| Shape { first: 2, replicas: 1, begin: Begin::ForceNewCluster { own_image } };
        let pod = |object: &EtcdCluster, own_image| {
            pods(object, shape(own_image), &Transport::default()).value["spec"]["template"]["spec"].take()
        };
        let above = pod(&object, Some("registry.example.com/causeway:1"));
        insta::assert_yaml_snapshot!([&above["initContainers"], &above["volumes"]]);
        assert!(pod(&object, None)["initContainers"].is_null());
        object.spec.recovery.as_mut().unwrap().image = Some("quay.io/coreos/etcd:v3.5.35".into());
        let other = pod(&object, Some("registry.example.com/causeway:1"));
        assert_eq!(other["initContainers"][1]["image"], "quay.io/coreos/etcd:v3.5.35");
        assert_eq!(other["containers"][0]["image"], "quay.io/coreos/etcd:v3.5.9");
    }

    #[test]
    fn a_member_has_its_settings_in_its_pod() {
        let mut object = cluster(3);
        object.spec.config.insert("cors".into(), "https://$(HOME)".into());
        let shape = Shape { first: 0, replicas: 3, begin: Begin::Usual };
        let template = pods(&object, shape, &Transport::default()).value["spec"]["template"].take();
        let variables = template["spec"]["containers"][0]["env"].as_array().unwrap();
        let of = |name: &str| variables.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(of("ETCD_CORS")["value"], "https://$$(HOME)", "the kubelet expands nothing in it");
        for name in crate::settings::AT_FIRST_START {
            assert_eq!(of(name)["valueFrom"]["configMapKeyRef"]["key"], name, "it follows the members");
        }
    }

    #[test]
    fn the_data_fit_below_the_memory_limit() {
        let mut object = cluster(3);
        let recovery = Recovery { from_member: "prod-etcd-2".into(), token: "2026-11-21".into(), image: None };
        object.spec.recovery = Some(recovery);
        object.spec.config.insert("quota-backend-bytes".into(), "8589934592".into());
        for begin in [Begin::Usual, Begin::ForceNewCluster { own_image: Some("registry.example.com/causeway:1") }] {
            let set = statefulset(&object, Shape { first: 2, replicas: 1, begin }, &Transport::default());
            let pod = set.spec.unwrap().template.spec.unwrap();
            assert_eq!(causeway_runtime::without_memory(&pod), [""; 0]);
            let member = pod.containers[0].resources.as_ref().unwrap();
            assert_eq!(member.limits.as_ref().unwrap()["memory"].0, "34816Mi");
        }
    }

    #[test]
    fn the_revision_ignores_the_number_of_members() {
        let (base, plain) = (cluster(3), Transport::default());
        let revision = |object: &EtcdCluster, force_new_cluster| {
            let begin = if force_new_cluster { Begin::ForceNewCluster { own_image: None } } else { Begin::Usual };
            revision(object, begin, &plain)
        };
        assert_eq!(revision(&base, false), revision(&cluster(5), false));
        let mut again = base.clone();
        again.metadata.uid = Some("another".into());
        assert_eq!(revision(&base, false), revision(&again, false), "an object that is created again keeps its pods");
        assert_ne!(revision(&base, false), revision(&base, true));
        let mut upgraded = base.clone();
        upgraded.spec.version = "3.5.35".into();
        let mut configured = base.clone();
        configured.spec.config.insert("snapshot-count".into(), "5000".into());
        let mut placed = base.clone();
        placed.spec.priority_class_name = Some("high".into());
        let mut spread = base.clone();
        spread.spec.topology_spread_constraints = Some(Vec::new());
        let mut named = base.clone();
        named.spec.service_account_name = Some("etcd".into());
        for changed in [upgraded, configured, placed, spread, named] {
            assert_ne!(revision(&base, false), revision(&changed, false));
        }
        let trusting = |trust: &str| {
            let peer = Channel { mode: Mode::Secure, trust: Some(trust.into()) };
            super::revision(&base, Begin::Usual, &Transport { peer, ..Transport::default() })
        };
        assert_ne!(revision(&base, false), trusting("one"));
        assert_ne!(trusting("one"), trusting("another"));
    }
}
