//! Scenarios of the full `MyIngress`: two listeners, six rules with each kind of action, three backends.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::harness::{Scenario, die_everywhere};
use crate::support::{Scene, full};

/// Calls of each scenario: there are hundreds, and each takes seconds.
const MOST: usize = 4;

async fn complete(scene: &Scene) -> bool {
    let object = scene.api::<MyIngress>().get_opt(full::NAME).await.expect("an answer");
    object.is_some_and(|object| full::is_complete(&object))
}

async fn stage(scene: &Scene) {
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    full::stage(scene).await;
}

async fn created(scene: &Scene) {
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    full::created(scene).await;
}

async fn edited(scene: &Scene, edit: impl FnOnce(&mut Value)) {
    let mut spec = full::spec(scene);
    edit(&mut spec);
    full::replace(scene, full::NAME, &spec).await;
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create a full MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        stage(scene).await;
    }

    async fn act(scene: &Scene) {
        scene.create::<MyIngress>(full::NAME, full::spec(scene)).await;
    }

    async fn settled(scene: &Scene) -> bool {
        complete(scene).await
    }
}

struct EditRules;

impl Scenario for EditRules {
    const NAME: &'static str = "edit each kind of action, conditions, weights and the order of rules";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        edited(scene, |spec| {
            let rules = full::rules(spec);
            rules[0]["action"]["forward"] = json!({
                "backends": [{ "name": "cart", "weight": 1 }, { "name": "api" }],
                "stickinessDuration": "3600s",
            });
            rules[1]["action"]["redirect"] = json!({ "host": "www.example.com", "statusCode": 302 });
            rules[2]["action"]["fixedResponse"]["statusCode"] = json!(404);
            rules[3]["action"]["authenticateOidc"]["clientId"] = json!("members");
            rules[4]["action"]["authenticateCognito"]["domain"] = json!("staff");
            rules[5]["action"]["validateJwt"]["claims"][0]["values"] = json!(["orders", "refunds"]);
            rules[5]["rewrite"]["url"]["replace"] = json!("/v/$1");
            rules[4]["sourceCidrs"] = json!(["198.51.100.0/24"]);
            rules.reverse();
            let more =
                json!({ "hosts": ["new.example.com"], "action": { "forward": { "backends": [{ "name": "api" }] } } });
            rules.insert(1, more);
            rules.remove(4);
        })
        .await;
    }

    async fn settled(scene: &Scene) -> bool {
        complete(scene).await
    }
}

struct EditParts;

impl Scenario for EditParts {
    const NAME: &'static str = "replace backends, move a listener, change attributes and the security group";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        edited(scene, |spec| {
            spec["backends"][0]["protocol"] = json!("HTTPS");
            spec["backends"][1]["protocolVersion"] = json!("HTTP2");
            spec["backends"][1]["algorithm"] = json!("weighted_random");
            spec["backends"][2]["healthCheck"]["path"] = json!("/other");
            spec["listeners"][0]["port"] = json!(8080);
            spec["listeners"][1]["sslPolicy"] = json!("ELBSecurityPolicy-TLS13-1-3-2021-06");
            spec["listeners"][1]["defaultAction"] = json!({ "fixedResponse": { "statusCode": 503 } });
            spec["inboundCidrs"] = json!(["192.0.2.0/24"]);
            spec["idleTimeout"] = json!("30s");
            spec["minimumCapacityUnits"] = json!(500);
        })
        .await;
    }

    async fn settled(scene: &Scene) -> bool {
        complete(scene).await
    }
}

struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete a full MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyIngress>(full::NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        scene.api::<MyIngress>().get_opt(full::NAME).await.expect("an answer").is_none()
    }
}

/// Another member of the full example's group.
const MEMBER: &str = "blog";

fn member() -> Value {
    json!({
        "group": { "name": "site" },
        "listeners": [
            { "port": 443, "rules": [{ "hosts": ["blog.example.com"],
                "action": { "forward": { "backends": [{ "name": "blog" }] } } }] },
            { "port": 8443, "protocol": "HTTPS", "rules": [{ "hosts": ["blog.example.com"],
                "action": { "fixedResponse": { "statusCode": 200 } } }] },
        ],
        "backends": [{ "name": "blog", "service": "shop", "port": 80 }],
    })
}

async fn leader_created(scene: &Scene) {
    stage(scene).await;
    let mut spec = full::spec(scene);
    spec["group"] = json!({ "name": "site" });
    scene.create::<MyIngress>(full::NAME, spec).await;
    full::complete(scene).await;
}

async fn all_complete(scene: &Scene) -> bool {
    let objects = scene.api::<MyIngress>().list(&kube::api::ListParams::default()).await.expect("a list").items;
    !objects.is_empty() && objects.iter().all(full::is_complete)
}

struct Join;

impl Scenario for Join {
    const NAME: &'static str = "join the group of a full MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        leader_created(scene).await;
    }

    async fn act(scene: &Scene) {
        scene.create::<MyIngress>(MEMBER, member()).await;
    }

    async fn settled(scene: &Scene) -> bool {
        all_complete(scene).await
    }
}

struct Leave;

impl Scenario for Leave {
    const NAME: &'static str = "leave the group of a full MyIngress";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        leader_created(scene).await;
        scene.create::<MyIngress>(MEMBER, member()).await;
        scene.ingress(MEMBER, "the member to be ready", full::is_complete).await;
        full::complete(scene).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyIngress>(MEMBER).await;
    }

    async fn settled(scene: &Scene) -> bool {
        scene.api::<MyIngress>().get_opt(MEMBER).await.expect("an answer").is_none() && all_complete(scene).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_my_ingress_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_edited_despite_any_crash() {
    die_everywhere::<EditRules>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_replaced_despite_any_crash() {
    die_everywhere::<EditParts>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_my_ingress_is_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_joins_despite_any_crash() {
    die_everywhere::<Join>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_leaves_despite_any_crash() {
    die_everywhere::<Leave>().await;
}
