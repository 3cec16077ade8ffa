//! The service account that all Jobs of a namespace share: the role trusts it by its name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Resource;
use kube::api::ObjectMeta;

use causeway_runtime::manifest::Manifest;

/// The service account of Jobs, in each namespace.
pub const SERVICE_ACCOUNT: &str = "causeway-backup";
/// Label by which it is watched.
pub const ACCOUNT_LABEL: &str = "causeway.example.com/backups";

/// The service account as `object` needs it. It has no controller, but `object` is one of its owners: it is deleted with the
/// last of them.
pub fn service_account(object: &impl Resource<DynamicType = ()>) -> Manifest {
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(SERVICE_ACCOUNT.into()),
            namespace: object.meta().namespace.clone(),
            labels: Some(BTreeMap::from([
                (ACCOUNT_LABEL.into(), "true".into()),
                ("app.kubernetes.io/managed-by".into(), "causeway".into()),
            ])),
            owner_references: object.owner_ref(&()).map(|own| vec![own]),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    Manifest::of_shared::<ServiceAccount>(serde_json::to_value(account).unwrap_or_default())
}
