//! Trouble that only a person can fix is reported with the field and the fix. The object goes on as soon as it is
//! fixed.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{alb, created, ready, spec, stalled_by};
use crate::support::certificates::{EXAMPLE_COM, import};
use crate::support::{Operator, Scene};

/// Creates an object that AWS refuses; returns the message of its condition.
async fn refused(scene: &Scene, more: Value, reason: &str) -> String {
    scene.create::<MyIngress>("app", spec(more)).await;
    let message = stalled_by(scene, "app", reason).await;
    assert!(!message.to_lowercase().contains("request id"), "a request id changes at every try: {message}");
    message
}

/// Mends the object and waits until it is ready.
async fn mended(scene: &Scene, fix: Value) {
    scene.edit::<MyIngress>("app", fix).await;
    ready(scene, "app").await;
    let object = scene.api::<MyIngress>().get("app").await.unwrap();
    let conditions = object.status.unwrap().conditions;
    assert_eq!(conditions.iter().map(|it| it.type_.as_str()).collect::<Vec<_>>(), ["Ready"]);
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn an_unknown_subnet() {
    let scene = Scene::new("trouble").await;
    // Without sweeps, only the edit can make the object go on.
    let _operator = super::operator_without_sweeps(&scene).await;
    let message = refused(&scene, json!({ "subnets": ["subnet-abc", "subnet-unknown"] }), "SubnetNotFound").await;
    assert!(message.contains("spec.subnets") && message.contains("subnet-unknown"), "{message}");
    mended(&scene, json!({ "subnets": ["subnet-abc", "subnet-def"] })).await;
}

#[tokio::test]
async fn subnets_of_one_zone() {
    let scene = Scene::new("trouble").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let message = refused(&scene, json!({ "subnets": ["subnet-abc", "subnet-abc2"] }), "SubnetsInvalid").await;
    assert!(message.contains("spec.subnets") && message.contains("two availability zones"), "{message}");
    mended(&scene, json!({ "subnets": ["subnet-abc", "subnet-def"] })).await;
}

#[tokio::test]
async fn an_unknown_security_group() {
    let scene = Scene::new("trouble").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let message = refused(&scene, json!({ "securityGroups": ["sg-unknown"] }), "SecurityGroupsInvalid").await;
    assert!(message.contains("spec.securityGroups") && message.contains("sg-unknown"), "{message}");
    mended(&scene, json!({ "securityGroups": ["sg-web"] })).await;
}

#[tokio::test]
async fn unknown_attributes_and_refused_values_are_reported() {
    let scene = Scene::new("trouble").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let message = refused(&scene, json!({ "attributes": { "no.such.key": "1" } }), "AttributesInvalid").await;
    assert!(message.contains("spec.attributes") && message.contains("no.such.key"), "{message}");
    let object = scene.api::<MyIngress>().get("app").await.unwrap();
    assert!(!alb(&object).dns.is_empty(), "the balancer is there all the same");
    mended(&scene, json!({ "attributes": { "no.such.key": null, "idle_timeout.timeout_seconds": "120" } })).await;
    scene.edit::<MyIngress>("app", json!({ "attributes": { "idle_timeout.timeout_seconds": "never" } })).await;
    let message = stalled_by(&scene, "app", "AttributesInvalid").await;
    assert!(message.contains("idle_timeout.timeout_seconds"), "{message}");
    mended(&scene, json!({ "attributes": { "idle_timeout.timeout_seconds": "60" } })).await;
}

#[tokio::test]
async fn a_change_to_an_unknown_subnet_leaves_the_balancer_serving() {
    let scene = Scene::new("trouble").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let before = created(&scene, "app", spec(json!({}))).await;
    scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-abc", "subnet-unknown"] })).await;
    let message = stalled_by(&scene, "app", "SubnetNotFound").await;
    assert!(message.contains("spec.subnets"), "{message}");
    assert_eq!(alb(&scene.api::<MyIngress>().get("app").await.unwrap()), before);
    mended(&scene, json!({ "subnets": ["subnet-abc", "subnet-def"] })).await;
}

#[tokio::test]
async fn a_quota_that_is_used_up() {
    let scene = Scene::new("trouble").await;
    scene.emulator.settings(json!({ "load_balancers": 0 })).await;
    let _operator = Operator::start(&scene).await;
    let message = refused(&scene, json!({}), "QuotaReached").await;
    assert!(message.contains("Service Quotas"), "{message}");
    scene.emulator.settings(json!({ "load_balancers": 50 })).await;
    ready(&scene, "app").await;
}

#[tokio::test]
async fn a_missing_permission_to_create() {
    let scene = Scene::new("trouble").await;
    scene.emulator.fault(json!({ "kind": "access_denied", "operation": "CreateLoadBalancer" })).await;
    let _operator = Operator::start(&scene).await;
    let message = refused(&scene, json!({}), "PermissionMissing").await;
    assert!(message.contains("elasticloadbalancing:CreateLoadBalancer"), "{message}");
    scene.emulator.no_faults().await;
    ready(&scene, "app").await;
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn a_missing_permission_to_read() {
    for operation in ["DescribeLoadBalancers", "DescribeTags"] {
        let scene = Scene::new("trouble").await;
        super::bystander::create(&scene, "foreign", &["subnet-abc", "subnet-def"], &[]).await;
        scene.emulator.fault(json!({ "kind": "access_denied", "operation": operation })).await;
        let _operator = Operator::start(&scene).await;
        let message = refused(&scene, json!({}), "PermissionMissing").await;
        assert!(message.contains(&format!("elasticloadbalancing:{operation}")), "{message}");
        scene.emulator.no_faults().await;
        ready(&scene, "app").await;
        assert_eq!(scene.balancers().await.len(), 2);
    }
}

#[tokio::test]
async fn too_many_tags_with_those_that_others_added() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    let tags = |count: usize| {
        (0..count).map(|number| (format!("tag-{number}"), json!("x"))).collect::<serde_json::Map<_, _>>()
    };
    let arn = created(&scene, "app", spec(json!({ "tags": tags(42) }))).await.arn;
    super::bystander::add_tag(&scene, &arn, "theirs", "1").await;
    super::bystander::add_tag(&scene, &arn, "others", "1").await;
    scene.edit::<MyIngress>("app", json!({ "tags": tags(43) })).await;
    let ended = |object: &MyIngress| {
        crate::support::scene::stalled(object).is_some() || crate::support::scene::is_ready(object)
    };
    let object = scene.ingress("app", "the object to be stalled", ended).await;
    assert_eq!(crate::support::scene::stalled(&object).as_deref(), Some("QuotaReached"));
    super::bystander::remove_tag(&scene, &arn, "theirs").await;
    ready(&scene, "app").await;
}

#[tokio::test]
async fn an_outage_of_aws_is_reported_and_retried() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "first", spec(json!({}))).await;
    scene.emulator.fault(json!({ "kind": "503", "operation": "CreateLoadBalancer" })).await;
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    let text = |object: &MyIngress| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        crate::support::scene::condition(&conditions, "Reconciling")
            .is_some_and(|(_, reason, _)| reason == "AwsUnavailable")
    };
    let object = scene.ingress("app", "AwsUnavailable to be reported", text).await;
    assert_eq!(crate::support::scene::stalled(&object), None, "no person has to do anything");
    scene.emulator.no_faults().await;
    ready(&scene, "app").await;
    assert_eq!(scene.balancers().await.len(), 2);
}

#[tokio::test]
async fn one_bad_object_hurts_no_other() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    for number in 0..5 {
        let bad = json!({ "subnets": ["subnet-abc", "subnet-unknown"] });
        scene.create::<MyIngress>(&format!("bad-{number}"), spec(bad)).await;
    }
    created(&scene, "good", spec(json!({}))).await;
    for number in 0..5 {
        stalled_by(&scene, &format!("bad-{number}"), "SubnetNotFound").await;
    }
}

#[tokio::test]
async fn a_refused_value_is_named_by_its_field() {
    let scene = Scene::new("trouble").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let logs = json!({ "accessLogs": { "bucket": "no-such-bucket-of-causeway" } });
    let message = refused(&scene, logs, "AttributesInvalid").await;
    assert!(message.starts_with("spec.accessLogs"), "{message}");
    mended(&scene, json!({ "accessLogs": null })).await;
    let good = import(&scene, EXAMPLE_COM).await;
    let unknown = format!("{}/no-such", good.rsplit_once('/').expect("an ARN").0);
    let store = good.rsplit_once(":certificate").expect("an ARN").0.replace(":acm:", ":elasticloadbalancing:");
    let verify = json!({ "mode": "verify", "trustStoreArn": format!("{store}:truststore/no/such") });
    let https = |more: Value| {
        let mut listener = json!({ "port": 443, "certificateArns": [good] });
        listener.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({ "listeners": [{ "port": 80 }, listener] })
    };
    for (bad, reason, field) in [
        (json!({ "certificateArns": [unknown] }), "CertificateInvalid", "spec.listeners[1].certificateArns[0]"),
        (json!({ "certificateArns": [good, unknown] }), "CertificateInvalid", "spec.listeners[1].certificateArns[1]"),
        (json!({ "sslPolicy": "ELBSecurityPolicy-no-such" }), "ListenerInvalid", "spec.listeners[1].sslPolicy"),
        (
            json!({ "mutualAuthentication": verify }),
            "ListenerInvalid",
            "spec.listeners[1].mutualAuthentication.trustStoreArn",
        ),
    ] {
        scene.edit::<MyIngress>("app", https(bad)).await;
        let message = stalled_by(&scene, "app", reason).await;
        assert!(message.starts_with(&format!("{field}: ")), "{message}\nshould name {field}");
        scene.edit::<MyIngress>("app", https(json!({}))).await;
        ready(&scene, "app").await;
    }
}

#[tokio::test]
async fn the_advice_against_deletion_protection_is_taken_and_helps() {
    for protection in
        [json!({ "deletionProtection": true }), json!({ "attributes": { "deletion_protection.enabled": "true" } })]
    {
        let scene = Scene::new("trouble").await;
        let _operator = super::operator_without_sweeps(&scene).await;
        created(&scene, "app", spec(protection)).await;
        scene.delete::<MyIngress>("app").await;
        let message = stalled_by(&scene, "app", "DeletionProtected").await;
        let patch = message.split("-p '").nth(1).and_then(|rest| rest.split('\'').next()).expect("a patch");
        let patch: Value = serde_json::from_str(patch).expect("JSON");
        scene.edit::<MyIngress>("app", patch["spec"].clone()).await;
        scene.gone::<MyIngress>("app").await;
        assert!(scene.balancers().await.is_empty());
    }
}

#[tokio::test]
async fn an_invalid_allowed_namespace_is_refused_at_once() {
    let scene = Scene::new("trouble").await;
    let group = json!({ "group": { "name": "all", "allowedNamespaces": [" a "] } });
    let refusal = scene.try_create::<MyIngress>("app", spec(group)).await.expect_err("it is refused").to_string();
    assert!(refusal.contains("spec.group.allowedNamespaces must be names of namespaces"), "{refusal}");
}
