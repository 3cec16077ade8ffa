//! Objects that share a balancer.

use std::time::Instant;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::entrance::{self, Stage, backend, forward};
use super::load::Load;
use super::servers::Servers;
use super::timeline::{Right, Timeline};
use crate::support::Operator;
use crate::support::scene::{is_ready, stalled};

/// A member of the group that sends what is below its path to its servers.
fn member(servers: &Servers) -> Value {
    let path = format!("/{}", servers.name);
    json!({
        "group": { "name": "shared" },
        "listeners": [{ "port": 80, "rules": [{ "paths": [{ "value": path }], "action": forward(&[(servers.name, 1)]) }] }],
        "backends": [backend(servers.name, json!({}))],
    })
}

#[tokio::test]
async fn members_on_one_balancer_do_not_disturb_each_other() {
    let scene = Stage::new("shared").await;
    let _operator = Operator::start(&scene).await;
    let (cart, shop) = (Servers::plain("cart", 1), Servers::plain("shop", 1));
    tokio::join!(cart.settle(&scene), shop.settle(&scene));
    let mut first = member(&shop);
    first["subnets"] = json!(["subnet-abc", "subnet-def"]);
    scene.create::<MyIngress>("shop", first).await;
    scene.create::<MyIngress>("cart", member(&cart)).await;
    let entrance = entrance::serving(&scene, "shop", 1).await;
    assert_eq!(entrance::serving(&scene, "cart", 1).await, entrance, "they share one balancer");
    assert_eq!(scene.balancers().await.len(), 1);

    let both: Right = &[("/shop", &["shop"]), ("/cart", &["cart"])];
    let moved: Right = &[("/shop", &["shop"]), ("/cart", &["sold"])];
    let alone: Right = &[("/shop", &["shop"]), ("/cart", &[""])];
    let mut timeline = Timeline::new(both);
    let load = Load::start(&entrance, &["/shop", "/cart"]);
    let asked = || load.wait_until("both to be asked for", |exchanges| exchanges.len() > 40);

    let begun = Instant::now();
    let sold = json!([{ "port": 80, "rules": [{ "paths": [{ "value": "/cart" }], "action": { "fixedResponse": { "statusCode": 200, "body": "sold" } } }] }]);
    scene.edit::<MyIngress>("cart", json!({ "listeners": sold })).await;
    scene.ingress("cart", "cart to be ready", is_ready).await;
    entrance::in_force(&scene).await;
    timeline.settled("a member's action changes", begun, moved);
    asked().await;

    let begun = Instant::now();
    let unknown =
        json!([{ "port": 80, "rules": [{ "paths": [{ "value": "/cart" }], "action": forward(&[("missing", 1)]) }] }]);
    scene.edit::<MyIngress>("cart", json!({ "listeners": unknown })).await;
    scene.ingress("cart", "cart to be stalled", |object| stalled(object).is_some()).await;
    scene.ingress("shop", "shop to be ready", is_ready).await;
    entrance::in_force(&scene).await;
    timeline.settled("a member makes a mistake", begun, moved);
    asked().await;

    let begun = Instant::now();
    scene.delete::<MyIngress>("cart").await;
    scene.gone::<MyIngress>("cart").await;
    entrance::in_force(&scene).await;
    timeline.settled("a member leaves", begun, alone);
    asked().await;

    let record = load.stop();
    record.print("two members of a group");
    timeline.print(&record);
    let wrong = timeline.wrong(&record);
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), record.listed(&wrong));
    record.assert_no_failures();
}
