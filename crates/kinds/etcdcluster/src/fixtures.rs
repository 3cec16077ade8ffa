//! Objects for tests.

use std::collections::BTreeMap;

use causeway_api::etcdcluster::Auth;
use causeway_api::{DeletionPolicy, EtcdCluster, EtcdClusterSpec};

/// The sample, with that many members.
pub fn cluster(replicas: i32) -> EtcdCluster {
    let spec = EtcdClusterSpec {
        version: "3.5.9".into(),
        replicas,
        storage: None,
        storage_size: Some("10Gi".into()),
        image: None,
        resources: None,
        config: BTreeMap::new(),
        tls: None,
        auth: Auth::default(),
        allowed_clients: None,
        network_policy: None,
        backup_schedule: None,
        restore_from: None,
        defrag: None,
        node_selector: BTreeMap::new(),
        tolerations: Vec::new(),
        affinity: None,
        topology_spread_constraints: None,
        priority_class_name: None,
        pod_metadata: None,
        image_pull_secrets: Vec::new(),
        service_account_name: None,
        service: None,
        recovery: None,
        remove_unknown_members: false,
        deletion_policy: DeletionPolicy::Retain,
        suspend: false,
    };
    let mut cluster = EtcdCluster::new("prod-etcd", spec);
    cluster.metadata.namespace = Some("shop".into());
    cluster.metadata.uid = Some("uid".into());
    cluster
}
