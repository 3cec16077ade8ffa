//! A tenant who writes objects of ours gets no hold of others' objects by giving an object the same name.

use causeway_api::DatabaseBackup;
use k8s_openapi::api::batch::v1::CronJob;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

use crate::backup::stage::{NAME, NEVER, Stage, describe};
use crate::support::Operator;

/// The `CronJob` lacks our label, so no watch of the operator shows it.
#[tokio::test]
async fn a_foreign_cron_job_outlives_the_backup_of_its_name() {
    let stage = Stage::new("children").await;
    let _operator = Operator::start(&stage).await;
    let theirs = json!({
        "metadata": { "name": NAME },
        "spec": { "schedule": "0 12 * * *", "jobTemplate": { "spec": { "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "report", "image": "nginx:latest", "command": ["true"] }],
        } } } } },
    });
    let api = stage.api::<CronJob>();
    let theirs = serde_json::from_value(theirs).expect("a CronJob");
    let before = api.create(&PostParams::default(), &theirs).await.expect("a CronJob of theirs");
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    stage.becomes("NameTaken to be reported", |status| describe(status, "Ready").1 == "NameTaken").await;
    let same = |when: &str, now: CronJob| {
        assert_eq!((now.uid(), &now.spec), (before.uid(), &before.spec), "{when}");
        assert!(now.owner_references().is_empty(), "{when}: {:?}", now.owner_references());
    };
    same("beside the object", api.get(NAME).await.expect("it is there"));
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    same("after it", api.get(NAME).await.expect("it is there"));
}
