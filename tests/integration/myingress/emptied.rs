//! Edits after which nothing is forwarded to any more.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{created, ready, spec};
use crate::support::account::target_groups;
use crate::support::backends::{endpoints, service};
use crate::support::{Operator, Scene, wait_for};

const PORTS: &[(&str, u16)] = &[("http", 80)];

fn serving(more: &Value) -> Value {
    let mut fields = json!({
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "shop" }] } } }],
        "backends": [{ "name": "shop", "port": 80 }],
    });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec(fields)
}

fn page() -> Value {
    json!([{ "port": 80, "defaultAction": { "fixedResponse": { "statusCode": 503 } } }])
}

#[tokio::test]
async fn an_edit_that_removes_the_last_backend_in_use_settles() {
    for listeners in [page(), json!([])] {
        let scene = Scene::new("emptied").await;
        let operator = Operator::start(&scene).await;
        service(&scene, "shop", PORTS).await;
        endpoints(&scene, "shop", PORTS, &["10.0.0.1"]).await;
        created(&scene, "web", serving(&json!({}))).await;
        assert_eq!(target_groups(&scene).await.len(), 1);
        scene.edit::<MyIngress>("web", json!({ "listeners": listeners })).await;
        ready(&scene, "web").await;
        wait_for("no target group", || target_groups(&scene), Vec::is_empty).await;
        operator.stop().await;
        scene.emulator.clear_journal().await;
        let _operator = Operator::start(&scene).await;
        super::two_sweeps(&scene).await;
        assert_eq!(super::changes(&scene).await, [""; 0], "nothing is left to do after a restart");
        ready(&scene, "web").await;
    }
}

#[tokio::test]
async fn a_group_of_objects_settles_without_any_backend() {
    let scene = Scene::new("emptied").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "shop", PORTS).await;
    endpoints(&scene, "shop", PORTS, &["10.0.0.1"]).await;
    let group = json!({ "group": { "name": "all" } });
    created(&scene, "web", serving(&group)).await;
    let rules = json!([{ "hosts": ["b.example.com"], "action": { "fixedResponse": { "statusCode": 200 } } }]);
    created(&scene, "other", json!({ "group": { "name": "all" }, "listeners": [{ "port": 80, "rules": rules }] }))
        .await;
    scene.edit::<MyIngress>("web", json!({ "listeners": page() })).await;
    ready(&scene, "web").await;
    ready(&scene, "other").await;
    wait_for("no target group", || target_groups(&scene), Vec::is_empty).await;
}
