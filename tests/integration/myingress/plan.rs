//! `causeway plan` shows what the operator then does, and changes nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use causeway_api::MyIngress;
use causeway_api::causewaypolicy::CausewayPolicy;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{created, operator_without_sweeps, spec};
use crate::support::backends::{endpoints, secret, service};
use crate::support::certificates::{EXAMPLE_COM, import};
use crate::support::operator::{self, CLUSTER_UID};
use crate::support::{Scene, full, wait_for};

/// Exit code, standard output and standard error of a plan for what is written to its standard input.
async fn plan(scene: &Scene, arguments: &[&str], input: String) -> (i32, String, String) {
    let mut command = Command::new(operator::program());
    command
        .args(["plan", "--namespace", &scene.namespace])
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", std::env::var("KUBECONFIG").unwrap_or_default())
        .env("CLUSTER_NAME", &scene.namespace)
        .env("CLUSTER_UID", CLUSTER_UID)
        .env("AWS_RATE_SHARE", "0")
        // Off, as in the operators of these tests: endpoints are written by hand.
        .env("GUARDRAILS", "false")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", scene.emulator.endpoint())
        .env("AWS_ACCESS_KEY_ID", scene.emulator.account())
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("the plan starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("its input is taken");
        child.wait_with_output().expect("the plan ends")
    });
    let output = run.await.expect("the plan ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// A plan as JSON; its exit code must be this.
async fn planned(scene: &Scene, code: i32, arguments: &[&str], input: &Value) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
    let (ended, out, description) = plan(scene, &arguments, input.to_string()).await;
    assert_eq!(ended, code, "{description}{out}");
    serde_json::from_str(&out).expect("JSON")
}

fn manifest(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress", "metadata": { "name": name }, "spec": spec })
}

fn served(status: u16) -> Value {
    spec(json!({
        "inboundCidrs": ["10.0.0.0/8"],
        "listeners": [{
            "port": 80,
            "defaultAction": { "forward": { "backends": [{ "name": "app", "weight": 1 }] } },
            "rules": [{ "paths": [{ "value": "/gone" }], "action": { "fixedResponse": { "statusCode": status } } }],
        }],
        "backends": [{ "name": "app", "port": 80 }],
    }))
}

async fn backed(scene: &Scene) {
    service(scene, "app", &[("", 80)]).await;
    endpoints(scene, "app", &[("", 8080)], &["198.18.0.77", "198.18.0.78"]).await;
}

/// Waits until the targets of the object are healthy: they are registered outside of the reconcile, and a plan would
/// name what the operator had not come to.
async fn targeted(scene: &Scene) {
    scene.ingress("web", "web to have healthy targets", full::is_complete).await;
}

/// The AWS calls of a plan, in order.
fn calls(plan: &Value) -> Vec<String> {
    let objects = plan["objects"].as_array().expect("objects").iter();
    let changes = objects.flat_map(|object| object["changes"].as_array().expect("changes"));
    let aws = changes.filter(|change| change["system"] == "aws");
    aws.map(|change| change["call"].as_str().expect("a call").to_owned()).collect()
}

/// Calls to AWS that changed something, in order.
async fn mutating_calls(scene: &Scene) -> Vec<String> {
    let reads = ["Describe", "Get", "List"];
    let made = scene.emulator.journal().await.into_iter().map(|call| call.operation);
    made.filter(|operation| !reads.iter().any(|read| operation.starts_with(read))).collect()
}

#[tokio::test]
async fn a_plan_names_later_calls_and_makes_none() {
    let scene = Scene::new("plan").await;
    backed(&scene).await;
    let object = manifest("web", &served(410));

    let before = planned(&scene, 2, &["-f", "-"], &object).await;
    assert_eq!(mutating_calls(&scene).await, [""; 0], "a plan changes nothing in AWS");
    assert!(scene.api::<MyIngress>().get_opt("web").await.unwrap().is_none(), "nor in Kubernetes");
    assert_eq!(before["objects"][0]["origin"], "new");
    assert_eq!(before["objects"][0]["result"]["reason"], "Active");

    let operator = operator_without_sweeps(&scene).await;
    created(&scene, "web", served(410)).await;
    // Targets are registered outside of the reconcile.
    let registered = |made: &Vec<String>| made.iter().any(|call| call == "RegisterTargets");
    let calls_made = wait_for("targets to be registered", || mutating_calls(&scene), registered).await;
    let in_order = |calls: Vec<String>| calls.into_iter().filter(|call| !call.ends_with("Targets")).collect::<Vec<_>>();
    assert_eq!(in_order(calls(&before)), in_order(calls_made.clone()));
    let different = |calls: &[String]| calls.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(different(&calls(&before)), different(&calls_made));

    // For a while, statuses still change with the targets' health.
    let quiet = || async { plan(&scene, &["--all"], String::new()).await };
    let (_, out, _) = wait_for("nothing to be left to do", quiet, |(code, _, _)| *code == 0).await;
    assert!(out.contains("Nothing would change."), "{out}");
    operator.stop().await;
}

#[tokio::test]
async fn an_edit_and_drift_are_shown_field_by_field() {
    let scene = Scene::new("plan").await;
    backed(&scene).await;
    let operator = operator_without_sweeps(&scene).await;
    created(&scene, "web", served(410)).await;
    targeted(&scene).await;
    operator.stop().await;
    let version = scene.api::<MyIngress>().get("web").await.unwrap().resource_version();
    scene.emulator.clear_journal().await;

    let edited = planned(&scene, 2, &["-f", "-"], &manifest("web", &served(404))).await;
    assert_eq!(calls(&edited), ["ModifyRule"]);
    let changes = edited["objects"][0]["changes"].as_array().unwrap();
    let rule = changes.iter().find(|change| change["call"] == "ModifyRule").unwrap();
    assert_eq!(
        rule["fields"],
        json!([{ "field": "actions[0]", "old": "respond 410 text/plain", "new": "respond 404 text/plain" }])
    );
    let (code, table, _) = plan(&scene, &["-f", "-"], manifest("web", &served(404)).to_string()).await;
    assert_eq!(code, 2);
    assert!(table.contains("respond 410 text/plain -> respond 404 text/plain"), "{table}");

    let arn = super::alb(&scene.api::<MyIngress>().get("web").await.unwrap()).arn;
    let tag = aws_sdk_elasticloadbalancingv2::types::Tag::builder().key("ManagedBy").value("hand").build();
    scene.elb.add_tags().resource_arns(&arn).tags(tag).send().await.expect("the tag is set");
    scene.emulator.clear_journal().await;
    let drifted = planned(&scene, 2, &["--all"], &Value::Null).await;
    assert_eq!(calls(&drifted), ["AddTags"]);
    let text = drifted.to_string();
    assert!(text.contains(r#"{"field":"tags.ManagedBy","new":"causeway","old":"hand"}"#), "{text}");

    assert_eq!(mutating_calls(&scene).await, [""; 0]);
    let object = scene.api::<MyIngress>().get("web").await.unwrap();
    assert_eq!(object.resource_version(), version, "nothing is written to Kubernetes");
}

#[tokio::test]
async fn a_plan_names_mistakes_and_skips_other_kinds() {
    let scene = Scene::new("plan").await;
    let wrong = spec(json!({
        "listeners": [{ "port": 80, "rules": [
            { "paths": [{ "value": "/" }], "action": { "forward": { "backends": [{ "name": "nowhere" }] } } },
        ] }],
    }));
    let report = planned(&scene, 1, &["-f", "-"], &manifest("web", &wrong)).await;
    assert_eq!((calls(&report), &report["objects"][0]["result"]["stalled"]), (Vec::new(), &json!(true)));
    let message = report["objects"][0]["result"]["message"].as_str().unwrap();
    assert!(message.contains("spec.listeners[0].rules[0].action.forward"), "{message}");

    let unknown = manifest("web", &spec(json!({ "scheem": "internal" })));
    let (code, _, description) = plan(&scene, &["-f", "-"], unknown.to_string()).await;
    assert_eq!(code, 1);
    assert!(description.contains("spec.scheem"), "{description}");

    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "app" } });
    let (code, out, _) = plan(&scene, &["-f", "-"], service.to_string()).await;
    assert_eq!(code, 0);
    assert!(out.contains("skipped: Service app"), "{out}");
    let (code, _, description) = plan(&scene, &[], String::new()).await;
    assert_eq!(code, 1);
    assert!(description.contains("-f"), "{description}");
}

#[tokio::test]
async fn a_client_secret_is_never_shown() {
    let scene = Scene::new("plan").await;
    backed(&scene).await;
    secret(&scene, "login", "clientSecret", "hunter2-first").await;
    let mut object = served(410);
    object["listeners"][0] = json!({
        "port": 443,
        "certificateArns": [import(&scene, EXAMPLE_COM).await],
        "defaultAction": {
            "authenticateOidc": {
                "issuer": "https://login.example.com",
                "authorizationEndpoint": "https://login.example.com/authorize",
                "tokenEndpoint": "https://login.example.com/token",
                "userInfoEndpoint": "https://login.example.com/userinfo",
                "clientId": "shop",
                "clientSecretName": "login",
            },
            "forward": { "backends": [{ "name": "app" }] },
        },
    });
    let text = planned(&scene, 2, &["-f", "-"], &manifest("web", &object)).await.to_string();
    assert!(text.contains("secret hidden") && !text.contains("hunter2"), "{text}");

    let operator = operator_without_sweeps(&scene).await;
    created(&scene, "web", object.clone()).await;
    targeted(&scene).await;
    operator.stop().await;
    secret(&scene, "login", "clientSecret", "hunter2-second").await;
    let rotated = planned(&scene, 2, &["--all"], &Value::Null).await;
    assert_eq!(calls(&rotated), ["ModifyListener", "AddTags"]);
    assert!(!rotated.to_string().contains("hunter2"), "{rotated}");
}

#[tokio::test]
async fn a_plan_asks_aws_and_names_unchecked_fields() {
    let scene = Scene::new("plan").await;
    let good = import(&scene, EXAMPLE_COM).await;
    scene.emulator.clear_journal().await;
    let unknown = format!("{}/no-such", good.rsplit_once('/').expect("an ARN").0);
    let object = spec(json!({
        "subnets": ["subnet-abc", "subnet-abc2"],
        "securityGroups": ["sg-web"],
        "listeners": [{ "port": 443, "sslPolicy": "no-such", "certificateArns": [good, unknown] }],
    }));
    let report = planned(&scene, 1, &["-f", "-"], &manifest("web", &object)).await;
    let found = |state: &str| -> Vec<String> {
        let checks = report["objects"][0]["checks"].as_array().expect("checks").iter();
        let fields = checks.filter(|check| check["state"] == state).map(|check| &check["field"]);
        fields.map(|field| field.as_str().expect("a field").to_owned()).collect()
    };
    let wrong = ["spec.subnets[1]", "spec.listeners[0].sslPolicy", "spec.listeners[0].certificateArns[1]"];
    assert_eq!(found("wrong"), wrong);
    assert_eq!(found("unchecked"), ["spec.securityGroups"]);
    let (code, table, _) = plan(&scene, &["-f", "-"], manifest("web", &object).to_string()).await;
    assert_eq!(code, 1);
    assert!(table.contains("error spec.listeners[0].sslPolicy: AWS has no security policy no-such"), "{table}");
    assert_eq!(mutating_calls(&scene).await, [""; 0]);
}

#[tokio::test]
async fn a_plan_names_the_policy_that_refuses_an_object() {
    let scene = Scene::new("plan").await;
    let name = scene.namespace.as_str();
    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } }, "schemes": ["internal"],
        "maxObjects": { "MyIngress": 1 },
    } });
    let policy = serde_json::from_value(policy).expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    let both = json!({ "apiVersion": "v1", "kind": "List", "items": [
        manifest("a", &spec(json!({ "scheme": "internal" }))), manifest("b", &spec(json!({ "scheme": "internal" }))),
        manifest("c", &spec(json!({}))),
    ] });
    let report = planned(&scene, 1, &["--guardrails=true", "-f", "-"], &both).await;
    let result = |at: usize| {
        let result = &report["objects"][at]["result"];
        (result["reason"].as_str().unwrap_or_default(), result["message"].as_str().unwrap_or_default())
    };
    assert_eq!(result(0).0, "Active", "{report}");
    for (at, words) in [(1, "spec.maxObjects.MyIngress"), (2, "spec.schemes")] {
        assert_eq!(result(at).0, "PolicyDenied", "{report}");
        assert!(result(at).1.contains(words) && result(at).1.contains(name), "{report}");
    }
    let balancers = calls(&report).into_iter().filter(|call| call == "CreateLoadBalancer");
    assert_eq!(balancers.count(), 1, "{report}");
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
}
