//! A member of another namespace tries to take a group's balancer over, and to stop the group.

use std::time::Duration;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use crate::myingress::{answers, ready, refused_during_sweeps, spec, stalled_by};
use crate::support::backends::service;
use crate::support::scene::is_ready;
use crate::support::{Account, Operator, Scene, wait_for};

/// A word in values that only AWS refuses: the emulator is set to refuse it.
const REFUSED: &str = "evil";
/// The same for values that cannot have a word in them.
const REFUSED_NETWORK: &str = "198.51.100.";
const SWEEP: Duration = Duration::from_secs(2);

/// The namespace of a group, one that it invites, and an operator that serves both.
async fn invited() -> (Scene, Scene, Operator) {
    let (home, guests) = tokio::join!(Scene::new("security-home"), Scene::new("security-guests"));
    let mut context = Operator::context(&home, Operator::client().await, home.aws.clone(), SWEEP);
    context.environment.namespaces.push(guests.namespace.clone());
    (home, guests, Operator::start_in(context))
}

fn rule(host: &str, status: u16, priority: Option<u16>) -> Value {
    let action = json!({ "fixedResponse": { "statusCode": status } });
    let mut rule = json!({ "hosts": [host], "action": action });
    if let Some(priority) = priority {
        rule["priority"] = json!(priority);
    }
    rule
}

fn on_80(rules: &[Value]) -> Value {
    json!([{ "port": 80, "rules": rules }])
}

async fn create_home(home: &Scene, guests: &Scene, rules: &[Value]) {
    let group = json!({ "name": "site", "allowedNamespaces": [guests.namespace] });
    home.create::<MyIngress>("home", spec(json!({ "group": group, "listeners": on_80(rules) }))).await;
}

async fn create_guest(home: &Scene, guests: &Scene, listeners: &Value) {
    let group = json!({ "name": "site", "namespace": home.namespace, "order": 0 });
    guests.create::<MyIngress>("guest", json!({ "group": group, "listeners": listeners })).await;
}

async fn answers_become(home: &Scene, what: &str, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> =
        wanted.iter().map(|(host, status)| ((*host).to_owned(), (*status).to_owned())).collect();
    wait_for(what, || answers(home), |seen| *seen == wanted).await;
}

/// Everything of the balancer but its rules.
async fn common(home: &Scene) -> Value {
    let mut account = Account::of(home).await.0;
    account["targetGroups"] = Value::Null;
    for balancer in account["balancers"].as_object_mut().into_iter().flatten().map(|(_, balancer)| balancer) {
        for listener in balancer["listeners"].as_object_mut().into_iter().flatten().map(|(_, listener)| listener) {
            listener["rules"] = Value::Null;
        }
    }
    account
}

#[tokio::test]
async fn a_guest_cannot_take_the_balancer_over() {
    let (home, guests, _operator) = Box::pin(invited()).await;
    create_guest(&home, &guests, &on_80(&[rule("*.example.com", 201, Some(1))])).await;
    stalled_by(&guests, "guest", "GroupNotAllowed").await;
    assert!(home.balancers().await.is_empty(), "an older guest makes nothing");
    create_home(&home, &guests, &[rule("a.example.com", 200, None)]).await;
    ready(&home, "home").await;
    ready(&guests, "guest").await;
    let first = [("a.example.com", "200"), ("*.example.com", "201")];
    answers_become(&home, "the guest behind the others", &first).await;

    let before = common(&home).await;
    let arn = "arn:aws:acm:us-east-1:000000000000:certificate/00000000-0000-0000-0000-000000000000";
    let response = json!({ "fixedResponse": { "statusCode": 202 } });
    let store = "arn:aws:elasticloadbalancing:us-east-1:000000000000:targetgroup/theirs/0123456789abcdef";
    let others =
        json!([{ "hosts": ["g.example.com"], "action": { "forward": { "targetGroups": [{ "arn": store }] } } }]);
    for (attack, field) in [
        (json!({ "scheme": "internal" }), "spec.scheme"),
        (json!({ "subnets": ["subnet-abc", "subnet-def"] }), "spec.subnets"),
        (json!({ "inboundCidrs": ["0.0.0.0/0"] }), "spec.inboundCidrs"),
        (json!({ "securityGroups": ["sg-web"] }), "spec.securityGroups"),
        (json!({ "attributes": { "idle_timeout.timeout_seconds": "1" } }), "spec.attributes"),
        (json!({ "deletionProtection": true }), "spec.deletionProtection"),
        (json!({ "tags": { "owner": "guests" } }), "spec.tags"),
        (json!({ "listeners": [{ "port": 8080 }] }), "spec.listeners[0].port"),
        (json!({ "listeners": [{ "port": 443, "certificateArns": [arn] }] }), "spec.listeners[0].certificateArns"),
        (json!({ "listeners": [{ "port": 80, "defaultAction": response }] }), "spec.listeners[0].defaultAction"),
        (json!({ "listeners": on_80(&[rule("a.example.com", 202, Some(1))]) }), "spec.listeners[0].rules[0]"),
        (json!({ "listeners": [{ "port": 80, "rules": others }] }), "spec.listeners[0].rules[0].action.forward"),
    ] {
        let fields = attack.as_object().expect("fields").keys();
        let undone: Value = fields.map(|field| (field.clone(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
        guests.edit::<MyIngress>("guest", attack).await;
        let refused = |object: &MyIngress| {
            let conditions = object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
            conditions.iter().any(|it| it.reason == "GuestRefused" && it.message.starts_with(field))
        };
        guests.ingress("guest", &format!("the guest to be refused its {field}"), refused).await;
        home.ingress("home", "the others to be ready", is_ready).await;
        let mut undone = undone;
        undone["listeners"] = on_80(&[rule("*.example.com", 201, Some(1))]);
        guests.edit::<MyIngress>("guest", undone).await;
        ready(&guests, "guest").await;
    }
    assert_eq!(common(&home).await, before, "what all members share is as it was");
    answers_become(&home, "the rules as they were", &first).await;

    // A suspended guest keeps no place in front of rules that are added later.
    guests.edit::<MyIngress>("guest", json!({ "suspend": true })).await;
    let rules = [rule("a.example.com", 200, None), rule("new.example.com", 200, Some(40_000))];
    home.edit::<MyIngress>("home", json!({ "listeners": on_80(&rules) })).await;
    let both = [("a.example.com", "200"), ("new.example.com", "200"), ("*.example.com", "201")];
    answers_become(&home, "the suspended guest behind the new rule", &both).await;
    ready(&home, "home").await;

    // A guest that is not allowed any more has no rules there, suspended or not.
    home.edit::<MyIngress>("home", json!({ "group": { "allowedNamespaces": null } })).await;
    answers_become(&home, "nothing of the guest", &both[..2]).await;
    // Nor does the guest keep the balancer from being deleted.
    home.delete::<MyIngress>("home").await;
    home.gone::<MyIngress>("home").await;
    assert!(Account::of(&home).await.is_empty(), "{}", Account::of(&home).await.text());
    guests.delete::<MyIngress>("guest").await;
    guests.gone::<MyIngress>("guest").await;
}

/// Rules and backends of a guest with a value in each field that only AWS refuses.
fn hostile() -> (Value, Value) {
    let evil = |more: &str| format!("{more}{REFUSED}");
    let response = json!({ "fixedResponse": { "statusCode": 200 } });
    let at = |number: usize| format!("g{number}.example.com");
    let conditions = [
        json!({ "hosts": [format!("{REFUSED}.example.com")] }),
        json!({ "hostRegexes": [evil("^")] }),
        json!({ "hosts": [at(2)], "paths": [{ "value": evil("/") }] }),
        json!({ "hosts": [at(3)], "paths": [{ "type": "Regex", "value": evil("^/") }] }),
        json!({ "hosts": [at(4)], "headers": [{ "name": "x-a", "values": [evil("")] }] }),
        json!({ "hosts": [at(5)], "headers": [{ "name": evil("x-"), "regexes": ["a"] }] }),
        json!({ "hosts": [at(6)], "query": [{ "key": evil(""), "value": "1" }] }),
        json!({ "hosts": [at(7)], "queryAll": [{ "value": evil("") }] }),
        json!({ "hosts": [at(8)], "methods": [evil("X-").to_uppercase()] }),
        json!({ "hosts": [at(9)], "sourceCidrs": [format!("{REFUSED_NETWORK}0/24")] }),
    ];
    let url = json!({ "regex": evil("^/"), "replace": "/" });
    let forward = |name: &str| json!({ "forward": { "backends": [{ "name": name }] } });
    let actions = [
        json!({ "action": { "fixedResponse": { "statusCode": 200, "body": REFUSED } } }),
        json!({ "action": { "redirect": { "host": format!("{REFUSED}.example.com") } } }),
        json!({ "action": { "redirect": { "path": evil("/"), "host": "b.example.com" } } }),
        json!({ "action": { "redirect": { "query": evil("a="), "host": "b.example.com" } } }),
        json!({ "action": forward("plain"), "rewrite": { "url": url } }),
        json!({ "action": forward("checked") }),
        json!({ "action": forward("set") }),
    ];
    let mut rules: Vec<Value> = conditions.into_iter().collect();
    for rule in &mut rules {
        rule["action"] = response.clone();
    }
    rules.extend(actions.into_iter().enumerate().map(|(number, mut rule)| {
        rule["hosts"] = json!([format!("h{number}.example.com")]);
        rule
    }));
    let backend = |name: &str, more: (&str, Value)| {
        let mut backend = json!({ "name": name, "service": "web", "port": 80 });
        backend[more.0] = more.1;
        backend
    };
    let backends = json!([
        backend("plain", ("deregistrationDelay", json!("1s"))),
        backend("checked", ("healthCheck", json!({ "path": evil("/") }))),
        backend("set", ("attributes", json!({ evil("some."): "1" }))),
    ]);
    (Value::Array(rules), backends)
}

#[tokio::test]
async fn values_that_only_aws_refuses_stop_only_the_guest() {
    let (home, guests, _operator) = Box::pin(invited()).await;
    service(&guests, "web", &[("", 80)]).await;
    for naming in [REFUSED.to_owned(), REFUSED.to_uppercase(), REFUSED_NETWORK.to_owned()] {
        let fault = json!({
            "kind": "error", "service": "elbv2", "code": "ValidationError", "message": format!("{naming} is not valid"),
            "naming": naming,
        });
        home.emulator.fault(fault).await;
    }
    create_home(&home, &guests, &[rule("a.example.com", 200, None)]).await;
    ready(&home, "home").await;
    let (rules, backends) = hostile();
    let bad = rules.as_array().map_or(0, Vec::len);
    let group = json!({ "name": "site", "namespace": home.namespace });
    let listeners = json!([{ "port": 80, "rules": rules }]);
    let spec = json!({ "group": group, "listeners": listeners, "backends": backends });
    guests.create::<MyIngress>("guest", spec).await;
    let stalled = |object: &MyIngress| crate::support::scene::stalled(object).is_some();
    guests.ingress("guest", "the guest to be stalled", stalled).await;

    // Edits of the other member reach AWS in the same reconcile, and it is ready although the guest is not.
    for status in [201, 202, 203] {
        home.edit::<MyIngress>("home", json!({ "listeners": on_80(&[rule("a.example.com", status, None)]) })).await;
        let wanted = ("a.example.com".to_owned(), status.to_string());
        let what = format!("the other member to answer with {status}");
        wait_for(&what, || answers(&home), |seen| seen.first() == Some(&wanted)).await;
        home.ingress("home", "the other member to be ready", is_ready).await;
    }

    // Each bad value is tried at most twice a minute.
    let (failed, tries) = refused_during_sweeps(&home, 5).await;
    println!("» {failed} refused calls in five sweeps for {bad} bad values");
    assert!(failed <= bad * tries, "{failed} refused calls for {bad} bad values, at most {tries} for each are right");
}

#[tokio::test]
async fn groups_of_another_objects_balancer_cannot_be_named() {
    let (victims, thieves, _operator) = Box::pin(invited()).await;
    service(&victims, "app", &[("http", 80)]).await;
    let forward = json!({ "forward": { "backends": [{ "name": "app" }] } });
    let victim = json!({
        "inboundCidrs": ["10.0.0.0/8"],
        "listeners": [{ "port": 80, "defaultAction": forward }],
        "backends": [{ "name": "app", "port": 80 }],
    });
    victims.create::<MyIngress>("victim", spec(victim)).await;
    let has_groups = |object: &MyIngress| {
        object.status.as_ref().is_some_and(|it| it.security_group.is_some() && !it.target_groups.is_empty())
    };
    let status = victims.ingress("victim", "victim to have its groups", has_groups).await.status.unwrap();
    let (security_group, target_group) = (status.security_group.unwrap(), status.target_groups[0].arn.clone());

    let page = json!({ "fixedResponse": { "statusCode": 200 } });
    let thief = json!({ "securityGroups": [security_group], "listeners": [{ "port": 80, "defaultAction": page }] });
    thieves.create::<MyIngress>("security", spec(thief)).await;
    let message = stalled_by(&thieves, "security", "OwnedByOthers").await;
    assert!(message.starts_with("spec.securityGroups[0]: security group sg-"), "{message}");
    let action = json!({ "forward": { "targetGroups": [{ "arn": target_group }] } });
    let thief = json!({ "listeners": [{ "port": 80, "defaultAction": action }] });
    thieves.create::<MyIngress>("targets", spec(thief)).await;
    let message = stalled_by(&thieves, "targets", "OwnedByOthers").await;
    assert!(message.starts_with("spec.listeners[0].defaultAction.forward.targetGroups[0].arn"), "{message}");
    assert!(thieves.balancers().await.is_empty(), "nothing is made for them");
    victims.delete::<MyIngress>("victim").await;
    victims.gone::<MyIngress>("victim").await;
}
