//! The `DatabaseBackup` of a cluster. Its kind belongs to another part of Causeway that may not be installed, so it is
//! known here by its name alone.

use kube::Resource;
use kube::ResourceExt;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use causeway_api::EtcdCluster;
use causeway_runtime::fingerprint;
use causeway_runtime::manifest::{Manifest, hash_annotation};

use super::super::names;

/// The kind `DatabaseBackup` of this operator's API.
pub fn backup_kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("example.com", "v1", "DatabaseBackup");
    ApiResource::from_gvk_with_plural(&kind, "databasebackups")
}

/// Snapshots of the cluster by that schedule.
pub fn backup(object: &EtcdCluster, schedule: &str) -> Manifest {
    let resource = backup_kind();
    let mut value = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": names::backup(object),
            "namespace": object.namespace(),
            "labels": names::labels(object),
            "ownerReferences": object.controller_owner_ref(&()).into_iter().collect::<Vec<_>>(),
        },
        "spec": { "schedule": schedule, "source": { "etcdCluster": { "name": object.name_any() } } },
    });
    let hash = fingerprint(&[value.to_string().as_bytes()], 16);
    value["metadata"]["annotations"] = json!({ hash_annotation(): hash });
    Manifest::of_resource(resource, value)
}
