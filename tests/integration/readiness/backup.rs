//! `DatabaseBackup`.

use causeway_api::DatabaseBackup;
use serde_json::{Value, json};

use super::judge::{container, has, lies};
use super::{carried_out, fails, says};
use crate::support::chronicle::{Chronicle, Moment};
use crate::support::{Operator, Scene};

/// The `CronJob` has the schedule that is asked for.
fn scheduled(name: &str, spec: &Value, moment: &Moment) -> Result<(), String> {
    let schedule = moment.get(&("CronJob".to_owned(), name.to_owned())).ok_or("there is no CronJob")?;
    has("schedule", &schedule["spec"]["schedule"], &spec["schedule"])?;
    let pod = &schedule["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    has("resources", &container(pod, "causeway")["resources"], &spec["resources"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_never_ready_before_their_schedule_is_there() {
    let scene = Scene::new("ready-backup").await;
    let operator = Operator::start(&scene).await;
    let chronicle = Chronicle::start::<DatabaseBackup>(&scene).await;
    // The apiserver checks this only in pods: our own definition accepts it.
    let too_little = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } });
    for (name, resources) in [("good", json!({})), ("refused", too_little)] {
        scene.create::<DatabaseBackup>(name, json!({ "schedule": "0 0 29 2 *", "resources": resources })).await;
    }
    says::<DatabaseBackup>(&scene, "good", "the schedule", |status, _| status == "True").await;
    says::<DatabaseBackup>(&scene, "refused", "words", |status, reason| status == "False" && reason == "ApplyFailed")
        .await;
    carried_out::<DatabaseBackup>(&scene, "good", json!({ "schedule": "0 1 29 2 *" })).await;
    let resources = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } });
    fails::<DatabaseBackup>(&scene, "good", json!({ "resources": resources }), "ApplyFailed").await;
    carried_out::<DatabaseBackup>(&scene, "good", json!({ "resources": { "limits": null } })).await;
    operator.stop().await;
    let chronicle = chronicle.complete().await;
    assert_eq!(lies(&chronicle, "DatabaseBackup", scheduled), Vec::<String>::new());
}
