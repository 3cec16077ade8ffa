//! The service account that all Jobs of a namespace share: the role trusts it by its name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::Value;

use crate::api::{DatabaseBackup, DatabaseRestore};
use crate::runtime::manifest::Manifest;

/// The service account of Jobs, in each namespace.
pub const SERVICE_ACCOUNT: &str = "causeway-backup";
/// Label by which it is watched.
pub const ACCOUNT_LABEL: &str = "causeway.example.com/backups";

/// The service account as it should be: nobody controls it, it has `object` among its owners, and goes with the last of
/// them.
pub fn service_account(object: &impl Resource<DynamicType = ()>, live: Option<&Value>) -> Manifest {
    let own = object.owner_ref(&());
    let uid = own.as_ref().map(|owner| owner.uid.clone());
    let live = live.and_then(|live| live["metadata"]["ownerReferences"].as_array()).into_iter().flatten();
    let live = live.filter_map(|owner| serde_json::from_value::<OwnerReference>(owner.clone()).ok());
    let others = live.filter(|owner| is_ours(owner) && Some(&owner.uid) != uid.as_ref());
    let mut owners: Vec<OwnerReference> = others.chain(own).collect();
    owners.sort_by(|one, other| one.uid.cmp(&other.uid));
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(SERVICE_ACCOUNT.into()),
            namespace: object.meta().namespace.clone(),
            labels: Some(BTreeMap::from([
                (ACCOUNT_LABEL.into(), "true".into()),
                ("app.kubernetes.io/managed-by".into(), "causeway".into()),
            ])),
            owner_references: Some(owners),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    Manifest::new::<ServiceAccount>(serde_json::to_value(account).unwrap_or_default())
}

/// Whether we made that owner one.
fn is_ours(owner: &OwnerReference) -> bool {
    owner.api_version == DatabaseBackup::api_version(&())
        && (owner.kind == DatabaseBackup::kind(&()) || owner.kind == DatabaseRestore::kind(&()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_service_account_has_an_owner_more_and_loses_none() {
        let live = json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "example.com/v1", "kind": "DatabaseBackup", "name": "other", "uid": "uid-2" },
            { "apiVersion": "example.com/v1", "kind": "DatabaseRestore", "name": "back", "uid": "uid-0" },
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "uid-9" },
        ] } });
        let object: DatabaseBackup = serde_json::from_value(json!({
            "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
            "metadata": { "name": "nightly", "namespace": "shop", "uid": "uid-1" }, "spec": { "schedule": "@daily" },
        }))
        .expect("an object");
        let owners = service_account(&object, Some(&live)).value["metadata"]["ownerReferences"].clone();
        let uids: Vec<&str> = owners.as_array().into_iter().flatten().filter_map(|it| it["uid"].as_str()).collect();
        assert_eq!(uids, ["uid-0", "uid-1", "uid-2"]);
    }
}
