//! Scenarios of `MyIngress`.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::harness::{Scenario, die_everywhere};
use crate::support::Scene;
use crate::support::scene::is_ready;

const NAME: &str = "shop";
/// Another object, which is deleted while the other one is created.
const OLD: &str = "old-shop";
/// Calls of each scenario.
const MOST: usize = 6;

fn spec() -> Value {
    json!({
        "subnets": ["subnet-abc", "subnet-def"],
        "securityGroups": ["sg-web"],
        "tags": { "team": "shop", "stage": "test" },
        "attributes": { "idle_timeout.timeout_seconds": "120", "routing.http2.enabled": "false" },
    })
}

async fn create(scene: &Scene) {
    scene.create::<MyIngress>(NAME, spec()).await;
}

async fn created(scene: &Scene) {
    create(scene).await;
    scene.ingress(NAME, "the balancer to be active", is_ready).await;
}

async fn there(scene: &Scene) -> Option<MyIngress> {
    scene.api::<MyIngress>().get_opt(NAME).await.expect("an answer")
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create a MyIngress";
    const MOST: usize = MOST;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        create(scene).await;
    }

    async fn settled(scene: &Scene) -> bool {
        there(scene).await.is_some_and(|object| is_ready(&object))
    }
}

struct Change;

impl Scenario for Change {
    const NAME: &'static str = "change subnets, groups, tags and attributes of a MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        let change = json!({
            "subnets": ["subnet-def", "subnet-ghi"],
            "securityGroups": ["sg-other"],
            "tags": { "team": "web", "stage": null, "cost": "1" },
            "attributes": { "idle_timeout.timeout_seconds": "30", "routing.http2.enabled": null },
        });
        scene.edit::<MyIngress>(NAME, change).await;
    }

    async fn settled(scene: &Scene) -> bool {
        Create::settled(scene).await
    }
}

struct Replace;

impl Scenario for Replace {
    const NAME: &'static str = "replace a MyIngress's balancer";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        // Long enough that both balancers are there for a while.
        scene.emulator.settings(json!({ "provisioning_seconds": 0.3 })).await;
        scene.edit::<MyIngress>(NAME, json!({ "scheme": "internal" })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        // It is ready before the old balancer goes.
        let object = there(scene).await.filter(is_ready);
        object.is_some_and(|object| object.status.is_some_and(|status| status.replaced.is_none()))
            && scene.balancers().await.len() == 1
    }
}

struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete a MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyIngress>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        there(scene).await.is_none()
    }
}

struct Retain;

impl Scenario for Retain {
    const NAME: &'static str = "delete a MyIngress and keep its balancer";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
        scene.edit::<MyIngress>(NAME, json!({ "deletionPolicy": "Retain" })).await;
        scene.ingress(NAME, "the policy to be seen", is_ready).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyIngress>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        there(scene).await.is_none()
    }
}

struct StartUp;

impl Scenario for StartUp {
    const NAME: &'static str = "start, and find a MyIngress to delete and one to create";
    const MOST: usize = MOST;
    const WHILE_AWAY: bool = true;

    async fn prepare(scene: &Scene) {
        scene.create::<MyIngress>(OLD, spec()).await;
        scene.ingress(OLD, "the balancer to be active", is_ready).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyIngress>(OLD).await;
        create(scene).await;
    }

    async fn settled(scene: &Scene) -> bool {
        let old = scene.api::<MyIngress>().get_opt(OLD).await.expect("an answer");
        old.is_none() && there(scene).await.is_some_and(|object| is_ready(&object))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_start_despite_any_crash() {
    die_everywhere::<StartUp>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_ingress_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_ingress_is_changed_despite_any_crash() {
    die_everywhere::<Change>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balancer_is_replaced_despite_any_crash() {
    die_everywhere::<Replace>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_ingress_is_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balancer_is_retained_despite_any_crash() {
    die_everywhere::<Retain>().await;
}
