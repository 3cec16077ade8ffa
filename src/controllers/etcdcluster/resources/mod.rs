//! Builds the children. Pure.

mod backup;
mod services;
mod statefulset;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::names;
use super::settings::{Start, settings};
use super::tls::Transport;
use crate::api::EtcdCluster;
use crate::runtime::manifest::{Manifest, controlled};

pub use backup::{backup, backup_kind};
pub use statefulset::{revision, statefulset};

/// Services and disruption budget: they do not change with the members.
pub fn around(object: &EtcdCluster) -> Vec<Manifest> {
    vec![
        Manifest::hashed(&services::peers(object)),
        Manifest::hashed(&services::clients(object)),
        Manifest::hashed(&services::disruption_budget(object)),
    ]
}

/// The settings of the members.
pub fn config_map(object: &EtcdCluster, start: &Start, transport: &Transport) -> Manifest {
    Manifest::hashed(&ConfigMap {
        metadata: metadata(object, object.name_any()),
        data: Some(settings(object, start, transport)),
        ..ConfigMap::default()
    })
}

/// Which pods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The first ordinal.
    pub first: i32,
    /// How many follow each other.
    pub replicas: i32,
    /// They begin the cluster anew from their data.
    pub forced: bool,
}

/// The pods, and the claims of their volumes.
pub fn pods(object: &EtcdCluster, shape: Shape, transport: &Transport) -> Manifest {
    Manifest::hashed(&statefulset(object, shape, transport))
}

fn metadata(object: &EtcdCluster, name: String) -> ObjectMeta {
    controlled(object, name, names::labels(object))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixtures::cluster;
    use super::super::tls::{Channel, Mode};
    use super::*;

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let object = cluster(3);
        let start = Start { begins: true, members: vec![("prod-etcd-0".into(), names::peer_url(&object, 0, false))] };
        let (mut all, plain) = (around(&object), Transport::default());
        all.extend([
            config_map(&object, &start, &plain),
            pods(&object, Shape { first: 0, replicas: 3, forced: false }, &plain),
        ]);
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn the_revision_follows_what_members_are_made_from_but_not_how_many_there_are() {
        let (base, plain) = (cluster(3), Transport::default());
        let revision = |object: &EtcdCluster, forced| revision(object, forced, &plain);
        assert_eq!(revision(&base, false), revision(&cluster(5), false));
        assert_ne!(revision(&base, false), revision(&base, true));
        let mut upgraded = base.clone();
        upgraded.spec.version = "3.5.35".into();
        let mut configured = base.clone();
        configured.spec.config.insert("snapshot-count".into(), "5000".into());
        let mut placed = base.clone();
        placed.spec.priority_class_name = Some("high".into());
        let mut spread = base.clone();
        spread.spec.topology_spread_constraints = Some(Vec::new());
        for changed in [upgraded, configured, placed, spread] {
            assert_ne!(revision(&base, false), revision(&changed, false));
        }
        let trusting = |trust: &str| {
            let peer = Channel { mode: Mode::Secure, trust: Some(trust.into()) };
            super::revision(&base, false, &Transport { peer, ..Transport::default() })
        };
        assert_ne!(revision(&base, false), trusting("one"));
        assert_ne!(trusting("one"), trusting("another"));
    }
}
