//! From the object to the DNS name in its status.

use causeway_api::MyIngress;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::{Value, json};

use super::bystander::{read_balancer, subnets};
use super::{alb, created, event, ready, spec};
use crate::support::operator::CLUSTER_UID;
use crate::support::scene::condition;
use crate::support::{Operator, Scene};

#[tokio::test]
async fn the_sample_gets_a_balancer_with_settings_and_tags() {
    let scene = Scene::new("create").await;
    let _operator = Operator::start(&scene).await;
    let object = scene.create::<MyIngress>("myapp", spec(json!({}))).await;
    let alb = ready(&scene, "myapp").await;
    assert_eq!(alb.name, "myapp-alb");
    let seen = read_balancer(&scene, &alb.arn).await;
    assert_eq!(subnets(&seen.balancer), ["subnet-abc", "subnet-def"]);
    assert_eq!(seen.balancer.scheme().map(ToString::to_string).as_deref(), Some("internet-facing"));
    assert_eq!(seen.balancer.dns_name(), Some(alb.dns.as_str()));
    assert_eq!(seen.balancer.canonical_hosted_zone_id(), alb.zone_id.as_deref());
    let tags: Vec<(&str, &str)> = seen.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let uid = object.uid().unwrap();
    assert_eq!(
        tags,
        [
            ("ManagedBy", "causeway"),
            ("causeway.example.com/cluster", scene.namespace.as_str()),
            ("causeway.example.com/cluster-uid", CLUSTER_UID),
            ("causeway.example.com/name", "myapp"),
            ("causeway.example.com/namespace", scene.namespace.as_str()),
            ("causeway.example.com/uid", uid.as_str()),
        ]
    );
    assert_eq!(event(&scene, "myapp", "Created").await, "Created load balancer myapp-alb");
}

/// The call reaches AWS, but its answer is lost. The operator finds what the call made, goes on, and reports it all the
/// same.
#[tokio::test]
async fn resources_of_a_lost_answer_are_reported() {
    let scene = Scene::new("create").await;
    let _operator = Operator::start(&scene).await;
    scene.emulator.fault(json!({ "kind": "reset_after", "operation": "CreateLoadBalancer", "times": 1 })).await;
    scene.create::<MyIngress>("myapp", spec(json!({}))).await;
    ready(&scene, "myapp").await;
    let note = event(&scene, "myapp", "Created").await;
    assert!(note.starts_with("Created load balancer myapp-alb"), "{note}");
    let creates = scene.emulator.elb_operations().await.into_iter().filter(|it| it == "CreateLoadBalancer").count();
    assert_eq!(creates, 1, "the balancer is found, not made again");
}

#[tokio::test]
async fn a_balancer_has_the_specs_name_unless_taken() {
    let scene = Scene::new("create").await;
    let _operator = Operator::start(&scene).await;
    let alb_of = |object: &MyIngress| object.status.clone().unwrap_or_default().alb;
    assert_eq!(created(&scene, "one", spec(json!({ "name": "shop-public" }))).await.name, "shop-public");
    let foreign = scene.elb.create_load_balancer().name("theirs").subnets("subnet-abc").subnets("subnet-def");
    foreign.send().await.expect("another client's balancer");
    scene.create::<MyIngress>("two", spec(json!({ "name": "theirs" }))).await;
    let is_taken = |object: &MyIngress| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        condition(&conditions, "Ready").is_some_and(|(_, reason, _)| reason == "NameTaken")
    };
    let object = scene.ingress("two", "the taken name to be reported", is_taken).await;
    assert_eq!(alb_of(&object), None);
    assert_eq!(scene.balancers().await.len(), 2);
    let patch = kube::api::Patch::Merge(json!({ "spec": { "name": "other" } }));
    let refused = scene.api::<MyIngress>().patch("one", &kube::api::PatchParams::default(), &patch).await;
    let words = refused.expect_err("a name stays").to_string();
    assert!(words.contains("spec.name cannot change"), "{words}");
}

#[tokio::test]
async fn every_setting_reaches_aws() {
    let scene = Scene::new("create").await;
    let _operator = Operator::start(&scene).await;
    let settings = json!({
        "subnets": ["subnet-abc", "subnet-def", "subnet-ghi"],
        "scheme": "internal",
        "securityGroups": ["sg-web", "sg-other"],
        "attributes": { "idle_timeout.timeout_seconds": "120", "routing.http2.enabled": "false" },
        "tags": { "team": "payments", "leer": "" },
    });
    let alb = created(&scene, "full", settings).await;
    let seen = read_balancer(&scene, &alb.arn).await;
    assert_eq!(subnets(&seen.balancer), ["subnet-abc", "subnet-def", "subnet-ghi"]);
    assert_eq!(seen.balancer.scheme().map(ToString::to_string).as_deref(), Some("internal"));
    let mut groups = seen.balancer.security_groups().to_vec();
    groups.sort();
    assert_eq!(groups, ["sg-other", "sg-web"]);
    assert_eq!((seen.tags["team"].as_str(), seen.tags["leer"].as_str()), ("payments", ""));
    assert_eq!(seen.attributes["idle_timeout.timeout_seconds"], "120");
    assert_eq!(seen.attributes["routing.http2.enabled"], "false");
    assert_eq!(seen.attributes["client_keep_alive.seconds"], "3600", "what the spec does not name stays");
}

#[tokio::test]
async fn the_dns_name_is_shown_during_provisioning() {
    let scene = Scene::new("create").await;
    scene.emulator.settings(json!({ "provisioning_seconds": 3600 })).await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("slow", spec(json!({}))).await;
    // The status has the DNS name at once, and then says what is waited for.
    let waits = |object: &MyIngress| {
        let status = object.status.clone().unwrap_or_default();
        status.alb.is_some() && condition(&status.conditions, "Ready").is_some_and(|it| it.1 == "Provisioning")
    };
    let object = scene.ingress("slow", "the DNS name while AWS sets the balancer up", waits).await;
    let early = alb(&object);
    assert_eq!(early.state, "provisioning");
    assert!(early.dns.ends_with(".us-east-1.elb.amazonaws.com"), "{}", early.dns);
    let conditions = object.status.unwrap().conditions;
    let (status, reason, _) = condition(&conditions, "Ready").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Provisioning"));
    assert_eq!(condition(&conditions, "Reconciling").unwrap().0, "True");

    scene.emulator.settings(json!({ "provisioning_seconds": 0 })).await;
    let late = ready(&scene, "slow").await;
    assert_eq!((late.state.as_str(), &late.dns, &late.arn), ("active", &early.dns, &early.arn));
    let conditions = scene.api::<MyIngress>().get("slow").await.unwrap().status.unwrap().conditions;
    assert_eq!(conditions.iter().map(|it| it.type_.as_str()).collect::<Vec<_>>(), ["Ready"], "only while abnormal");
}

#[tokio::test]
async fn one_slow_balancer_holds_no_other_up() {
    let scene = Scene::new("create").await;
    scene.emulator.settings(json!({ "provisioning_seconds": 3600 })).await;
    let _operator = Operator::start(&scene).await;
    let has_dns = |object: &MyIngress| object.status.as_ref().is_some_and(|status| status.alb.is_some());
    for number in 0..20 {
        scene.create::<MyIngress>(&format!("slow-{number}"), spec(json!({}))).await;
    }
    for number in 0..20 {
        scene.ingress(&format!("slow-{number}"), "the DNS name", has_dns).await;
    }
}

#[tokio::test]
async fn kubectl_shows_dns_state_ready_its_reason_and_age() {
    let scene = Scene::new("create").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "myapp", spec(json!({}))).await;
    let path = format!("/apis/demo.rtfm.co.ua/v1/namespaces/{}/myingresses", scene.namespace);
    let mut request = Request::new(path).list(&ListParams::default()).unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io".parse().unwrap();
    request.headers_mut().insert("accept", accept);
    let table: Value = scene.client.request(request).await.expect("a table");
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns: Vec<_> = columns.filter(|it| it["priority"] == 0).map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "DNS", "AWS", "Targets", "Ready", "Status", "Warning", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("myapp"), json!(alb.dns), json!("active")]);
    assert_eq!(cells[4..7], [json!("True"), json!("Active"), json!("NoListeners")]);
}
