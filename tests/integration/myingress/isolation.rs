//! A call that AWS refuses stops only the part that it would make, and is not repeated again and again.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{answers, ready, refused_during_sweeps, spec, stalled_by};
use crate::support::backends::service;
use crate::support::scene::is_ready;
use crate::support::{Account, Operator, Scene, wait_for};

const NOWHERE: &str = "arn:aws:acm:us-east-1:000000000000:certificate/00000000-0000-0000-0000-000000000000";

/// A member of the group with a rule of its own.
fn member(number: usize, status: u16) -> Value {
    json!({
        "group": { "name": "site" },
        "listeners": [{ "port": 80, "rules": [{ "hosts": [format!("m{number}.example.com")],
            "action": { "fixedResponse": { "statusCode": status } } }] }],
    })
}

/// The same; the first member also has the balancer's subnets and scheme.
fn member_spec(number: usize, status: u16) -> Value {
    if number == 0 { spec(member(number, status)) } else { member(number, status) }
}

async fn answers_with(scene: &Scene, number: usize, status: u16) {
    let wanted = (format!("m{number}.example.com"), status.to_string());
    let what = format!("member {number} to answer with {status}");
    wait_for(&what, || answers(scene), |seen| seen.contains(&wanted)).await;
}

#[tokio::test]
async fn a_bad_member_stops_none_of_the_other_nine() {
    let scene = Scene::new("isolation").await;
    let _operator = Operator::start(&scene).await;
    for number in 0..10 {
        scene.create::<MyIngress>(&format!("m{number}"), member_spec(number, 200)).await;
    }
    for number in 0..10 {
        ready(&scene, &format!("m{number}")).await;
    }
    let https = json!([{ "port": 80 }, { "port": 443, "certificateArns": [NOWHERE] }]);
    let unknown = json!({ "foo.bar": "1", "idle_timeout.timeout_seconds": "77" });
    let bad = [
        (0, json!({ "attributes": unknown }), "AttributesInvalid", "foo.bar"),
        (3, json!({ "listeners": https }), "CertificateInvalid", "certificate/00000000"),
        (9, json!({ "listeners": https }), "CertificateInvalid", "certificate/00000000"),
    ];
    for (round, (culprit, edit, reason, words)) in bad.into_iter().enumerate() {
        let name = format!("m{culprit}");
        scene.edit::<MyIngress>(&name, edit).await;
        let message = stalled_by(&scene, &name, reason).await;
        assert!(message.contains(words), "{message}");
        // All other members go on, and are ready: they do not report the mistake of this one.
        let status = 201 + u16::try_from(round).unwrap();
        for number in (0..10).filter(|number| *number != culprit) {
            scene.edit::<MyIngress>(&format!("m{number}"), member(number, status)).await;
        }
        for number in (0..10).filter(|number| *number != culprit) {
            answers_with(&scene, number, status).await;
            scene.ingress(&format!("m{number}"), &format!("m{number} to be ready"), is_ready).await;
        }
        let (failed, tries) = refused_during_sweeps(&scene, 5).await;
        assert!(failed <= tries, "{failed} refused calls because of {name}, at most {tries} are right");
        let mended = json!({ "attributes": null, "listeners": member_spec(culprit, status)["listeners"] });
        scene.edit::<MyIngress>(&name, mended).await;
        ready(&scene, &name).await;
        answers_with(&scene, culprit, status).await;
    }
}

#[tokio::test]
async fn a_refused_part_stops_none_of_the_others() {
    let scene = Scene::new("isolation").await;
    let _operator = Operator::start(&scene).await;
    let rules = json!([{ "hosts": ["m1.example.com"], "action": { "fixedResponse": { "statusCode": 200 } } }]);
    let object = spec(json!({
        "attributes": { "foo.bar": "1", "idle_timeout.timeout_seconds": "77", "routing.http2.enabled": "false" },
        "listeners": [{ "port": 443, "certificateArns": [NOWHERE] }, { "port": 80, "rules": rules }],
    }));
    scene.create::<MyIngress>("app", object).await;
    answers_with(&scene, 1, 200).await;
    // The good attributes are set although one of them is bad.
    let idle = || async {
        let account = Account::of(&scene).await.0;
        let balancers = account["balancers"].as_object().cloned().unwrap_or_default();
        balancers.values().next().map(|it| it["attributes"]["idle_timeout.timeout_seconds"].clone())
    };
    wait_for("the good attribute", idle, |seen| *seen == Some(json!("77"))).await;
    let stalled = |object: &MyIngress| crate::support::scene::stalled(object).is_some();
    scene.ingress("app", "the object to be stalled", stalled).await;
    let (failed, tries) = refused_during_sweeps(&scene, 5).await;
    assert!(failed <= 2 * tries, "{failed} refused calls for two refused parts, at most {tries} for each are right");
}

#[tokio::test]
async fn a_denied_call_does_not_stop_the_other_actions() {
    let scene = Scene::new("isolation").await;
    let _operator = Operator::start(&scene).await;
    let rule = |host: &str| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } });
    let listeners =
        |rules: Vec<Value>| json!([{ "port": 80, "rules": rules }, { "port": 81, "rules": [rule("m5.example.com")] }]);
    let first = listeners(vec![rule("m1.example.com"), rule("m2.example.com")]);
    scene.create::<MyIngress>("app", spec(json!({ "listeners": first }))).await;
    ready(&scene, "app").await;
    scene.emulator.fault(json!({ "kind": "access_denied", "operation": "SetRulePriorities" })).await;
    let swapped = json!([
        { "port": 80, "rules": [rule("m2.example.com"), rule("m1.example.com")] },
        { "port": 81, "rules": [rule("m6.example.com")] },
    ]);
    scene.edit::<MyIngress>("app", json!({ "listeners": swapped, "tags": { "team": "blue" } })).await;
    stalled_by(&scene, "app", "PermissionMissing").await;
    let tagged = || async {
        let account = Account::of(&scene).await.text();
        account.contains("m6.example.com") && account.contains("blue")
    };
    wait_for("the other listener's rule and the tag", tagged, |seen| *seen).await;
    scene.emulator.no_faults().await;
    ready(&scene, "app").await;
}

#[tokio::test]
async fn a_refused_member_keeps_no_deleted_group_alive() {
    let scene = Scene::new("isolation").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    scene.create::<MyIngress>("home", member_spec(0, 200)).await;
    ready(&scene, "home").await;
    // Its group is in another namespace, where no object exists that could admit it.
    let elsewhere = json!({ "group": { "name": "site", "namespace": "nowhere" }, "listeners": [{ "port": 80 }] });
    scene.create::<MyIngress>("guest", elsewhere).await;
    stalled_by(&scene, "guest", "GroupNotAllowed").await;
    scene.delete::<MyIngress>("home").await;
    scene.gone::<MyIngress>("home").await;
    assert!(scene.balancers().await.is_empty());
    scene.delete::<MyIngress>("guest").await;
    scene.gone::<MyIngress>("guest").await;
}
