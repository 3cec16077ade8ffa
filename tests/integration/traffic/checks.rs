//! An edited health check is judged by AWS only after some time, and the status follows that without a sweep.

use std::time::Duration;

use causeway_api::MyIngress;
use serde_json::json;

use super::balanced;
use super::entrance::{self, Stage, backend};
use super::servers::Servers;
use crate::support::Operator;
use crate::support::scene::condition;

#[tokio::test]
async fn a_failing_check_is_reported_before_the_next_sweep() {
    let scene = Stage::new("checks").await;
    let _operator = Operator::start_with(&scene, Operator::client().await, scene.aws.clone(), Duration::from_hours(1));
    let servers = Servers::plain("web", 2);
    balanced(&scene, &servers).await;
    let healthy = |status: &'static str| {
        move |object: &MyIngress| {
            let conditions = object.status.clone().unwrap_or_default().conditions;
            condition(&conditions, "TargetsHealthy").is_some_and(|(it, ..)| it == status)
        }
    };
    // The servers' answers are no success any more; then they are again.
    let check = json!({ "interval": "5s", "timeout": "2s", "successCodes": "299" });
    let edited = json!({ "backends": [backend("web", json!({ "healthCheck": check }))] });
    scene.edit::<MyIngress>("web", edited).await;
    scene.ingress("web", "TargetsHealthy to be False", healthy("False")).await;
    scene.edit::<MyIngress>("web", json!({ "backends": [backend("web", json!({}))] })).await;
    scene.ingress("web", "TargetsHealthy to be True again", healthy("True")).await;
    entrance::serving(&scene, "web", 2).await;
}
