//! A tenant without rights to a DatabaseBackup asks for a backup.

use causeway_api::DatabaseBackup;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::tenant;
use crate::backup::stage::{NAME, NEVER, Stage};
use crate::support::Operator;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_may_change_a_backup_asks_for_one() {
    let stage = Stage::new("security-asked").await;
    let _operator = Operator::start(&stage).await;
    stage
        .create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "source": { "redis": { "name": "cache" } } }))
        .await;
    stage.becomes("the operator to look at it", |status| !status.conditions.is_empty()).await;
    let rules = json!([
        { "apiGroups": ["example.com"], "resources": ["databasebackups"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"] },
    ]);
    tenant::may(&stage, "all-but-ours", rules).await;
    let theirs: Api<DatabaseBackup> = Api::namespaced(tenant::client(&stage).await, &stage.namespace);
    theirs.get(NAME).await.expect("they may read it");
    let metadata = json!({ "annotations": { "causeway.example.com/backup-now": "theirs" } });
    let merged = Patch::Merge(json!({ "metadata": metadata }));
    let applied = json!({ "apiVersion": "example.com/v1", "kind": "DatabaseBackup", "metadata": metadata });
    let (usual, apply) = (PatchParams::default(), PatchParams::apply("tenant").force());
    for refused in [
        theirs.patch(NAME, &usual, &merged).await,
        theirs.patch(NAME, &apply, &Patch::Apply(&applied)).await,
        theirs.patch_status(NAME, &usual, &merged).await,
    ] {
        let error = refused.expect_err("the annotation is refused");
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
    }
    let there = stage.api::<DatabaseBackup>().get(NAME).await.expect("the object");
    assert_eq!(there.metadata.annotations, None);
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items;
    assert!(jobs.is_empty(), "{jobs:?}");
}
