//! Requests stay where they are answered while a new backend cannot take them, whatever the reason.

use causeway_api::MyIngress;
use serde_json::json;

use super::balanced;
use super::entrance::{self, Stage, backend, forward};
use super::load::{Exchange, Load};
use super::servers::Servers;
use crate::support::account::target_groups;
use crate::support::backends;
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

/// Waits until the object is not ready for that reason, and its message has these words.
async fn waits(scene: &Scene, reason: &str, words: &[&str]) {
    let says = |object: &MyIngress| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.clone()).collect::<Vec<_>>();
        condition(&conditions, "Ready").is_some_and(|(status, found, message)| {
            status == "False" && found == reason && words.iter().all(|word| message.contains(word))
        })
    };
    scene.ingress("web", &format!("web to wait because of {reason} with: {}", words.join(", ")), says).await;
}

fn came_from(exchange: &Exchange, word: &str) -> bool {
    exchange.outcome.as_ref().is_ok_and(|answer| answer.word == word)
}

#[tokio::test]
async fn requests_go_to_a_late_backend_once_healthy() {
    let scene = Stage::new("waiting").await;
    let operator = Operator::start(&scene).await;
    let entrance = balanced(&scene, &Servers::gated("web", 2)).await;
    let load = Load::start(&entrance, &["/", "/shop"]);

    // By default, and in a rule that takes requests from the default action.
    let rules = json!([{ "paths": [{ "value": "/shop" }], "action": forward(&[("api", 1)]) }]);
    let listener = json!({ "port": 80, "defaultAction": forward(&[("api", 1)]), "rules": rules });
    let both = json!([backend("web", json!({})), backend("api", json!({}))]);
    scene.edit::<MyIngress>("web", json!({ "listeners": [listener], "backends": both })).await;
    waits(&scene, "ServiceNotFound", &["Service api", "nothing of this object is changed"]).await;
    backends::apply_service(&scene, "api", json!({ "ports": [{ "name": "other", "port": 80 }] })).await;
    waits(&scene, "PortNotFound", &["Service api", "nothing of this object is changed"]).await;
    backends::remove_service(&scene, "api").await;
    Servers::gated("api", 0).apply(&scene).await;
    waits(&scene, "WaitingForTargets", &["backend api", "Service api"]).await;
    operator.stop().await;
    let _operator = Operator::start(&scene).await;
    waits(&scene, "WaitingForTargets", &["backend api", "Service api"]).await;
    load.wait_until("answers of web after a restart", |all| all.iter().filter(|it| came_from(it, "web")).count() > 50)
        .await;

    Servers::gated("api", 2).settle(&scene).await;
    let moved = |all: &[Exchange]| {
        let last = || all.iter().rev().take(100);
        last().count() == 100 && last().all(|it| came_from(it, "api"))
    };
    load.wait_until("100 answers of api in a row", moved).await;
    entrance::serving(&scene, "web", 2).await;
    let record = load.stop();
    record.print("to a backend whose Service, port and pods come one after the other");
    record.assert_no_failures();
    assert!(record.exchanges.iter().all(|it| came_from(it, "web") || came_from(it, "api")));
    wait_for("one target group", || target_groups(&scene), |groups| groups.len() == 1).await;
}

#[tokio::test]
async fn a_page_stays_until_there_is_something_to_answer_instead() {
    let scene = Stage::new("page").await;
    let _operator = Operator::start(&scene).await;
    let entrance = balanced(&scene, &Servers::gated("web", 1)).await;
    let load = Load::start(&entrance, &["/"]);
    let page = json!({ "fixedResponse": { "statusCode": 200, "contentType": "text/plain", "body": "page" } });
    scene.edit::<MyIngress>("web", json!({ "listeners": [{ "port": 80, "defaultAction": page }] })).await;
    load.wait_until("the page", |all| all.iter().any(|it| came_from(it, "page"))).await;
    wait_for("no target group", || target_groups(&scene), Vec::is_empty).await;
    crate::myingress::ready(&scene, "web").await;

    let listener = json!({ "port": 80, "defaultAction": forward(&[("api", 1)]) });
    let spec = json!({ "listeners": [listener], "backends": [backend("api", json!({}))] });
    Servers::gated("api", 0).apply(&scene).await;
    scene.edit::<MyIngress>("web", spec).await;
    waits(&scene, "WaitingForTargets", &["backend api"]).await;
    load.wait_until("50 pages", |all| all.iter().filter(|it| came_from(it, "page")).count() > 50).await;
    Servers::gated("api", 1).settle(&scene).await;
    load.wait_until("answers of api", |all| all.iter().any(|it| came_from(it, "api"))).await;
    entrance::serving(&scene, "web", 1).await;
    let record = load.stop();
    record.print("from a page to a backend that comes late");
    record.assert_no_failures();
}

#[tokio::test]
async fn another_service_takes_over_once_a_pod_is_healthy() {
    let scene = Stage::new("service").await;
    let operator = Operator::start(&scene).await;
    let mut web = Servers::gated("web", 2);
    let entrance = balanced(&scene, &web).await;
    let load = Load::start(&entrance, &["/"]);
    Servers::gated("api", 0).apply(&scene).await;
    let moved = json!([backend("web", json!({ "service": "api" }))]);
    scene.edit::<MyIngress>("web", json!({ "backends": moved })).await;
    waits(&scene, "WaitingForTargets", &["backend web", "Service api"]).await;
    operator.stop().await;
    let _operator = Operator::start(&scene).await;
    waits(&scene, "WaitingForTargets", &["backend web", "Service api"]).await;
    // The former pods are still followed, and their successors wait at the readiness gate for the same balancer.
    web.version = 2;
    web.settle(&scene).await;

    Servers::gated("api", 2).settle(&scene).await;
    load.wait_until("answers of api", |all| all.iter().any(|it| came_from(it, "api"))).await;
    entrance::serving(&scene, "web", 2).await;
    let record = load.stop();
    record.print("to another Service of the same backend");
    record.assert_no_failures();
}
