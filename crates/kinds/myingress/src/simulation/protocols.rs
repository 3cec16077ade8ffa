//! Listeners change their protocol together with rules that need HTTPS. The simulated AWS refuses these on an HTTP
//! listener, and turns no listener to HTTP that has one.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use causeway_aws::elbv2::{ListenerSettings, Protocol, RuleAction};
use causeway_runtime::Health;

use super::Simulation;
use super::refused::{listener, plan, settled};
use crate::action::{Action, ListenerAction};
use crate::model::fixtures::{guest, joining, oidc, standing};
use crate::model::nothing_here;
use crate::ownership::member_of;
use crate::refusals::Refusal;

fn says(status: u16) -> Value {
    json!({ "fixedResponse": { "statusCode": status } })
}

fn forward(backend: &str) -> Value {
    json!({ "forward": { "backends": [{ "name": backend }] } })
}

fn log_in() -> Value {
    json!({ "redirect": { "host": "example.org" }, "authenticateOidc": oidc() })
}

fn rule(host: &str, action: &Value) -> Value {
    json!({ "hosts": [host], "action": action })
}

/// A listener with two certificates, a log-in and a rule for gRPC.
fn https(default: &Value) -> Value {
    let rules = [
        rule("private.example.com", &log_in()),
        rule("rpc.example.com", &forward("rpc")),
        rule("www.example.com", &says(200)),
    ];
    let certificates = ["a", "b"].map(|name| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}"));
    json!({
        "listeners": [{
            "port": 8443,
            "protocol": "HTTPS",
            "certificateArns": certificates,
            "rules": rules,
            "defaultAction": default,
        }],
        "backends": [{ "name": "app", "port": 80 }, { "name": "rpc", "port": 80, "protocolVersion": "GRPC" }],
    })
}

fn http(default: &Value) -> Value {
    json!({
        "listeners": [{
            "port": 8443,
            "protocol": "HTTP",
            "rules": [rule("www.example.com", &says(200))],
            "defaultAction": default,
        }],
        "backends": [{ "name": "app", "port": 80 }],
    })
}

/// The spec of a member of the group `all`, which allows guests.
fn grouped(mut spec: Value) -> Value {
    spec["group"] = json!({ "name": "all", "allowedNamespaces": ["guests"] });
    spec
}

/// The actions of each rule of that object, in the order of their evaluation.
fn rules_of(simulation: &Simulation, name: &str) -> Vec<Vec<RuleAction>> {
    let listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
    let rules = listeners.flat_map(|(_, listener)| listener.rules.values());
    let own = rules.filter(|rule| member_of(&rule.tags).is_some_and(|(_, member)| member == name));
    let mut own: Vec<_> = own.map(|rule| &rule.rule).collect();
    own.sort_by_key(|rule| rule.priority);
    own.into_iter().map(|rule| rule.settings.actions.clone()).collect()
}

fn edit(simulation: &mut Simulation, more: Value) {
    simulation.objects[0].spec = standing("web", more).spec;
    simulation.settle(None);
}

/// The place of the first change of the listener itself, and what the listener becomes.
fn modified(simulation: &Simulation) -> (usize, ListenerSettings) {
    let modified = |(place, action): (usize, &Action)| match action {
        Action::Listener(ListenerAction::Modify { settings, .. }) => Some((place, settings.clone())),
        _ => None,
    };
    simulation.journal.iter().enumerate().find_map(modified).unwrap()
}

fn is_first(simulation: &Simulation, place: usize) -> bool {
    !simulation.journal[..place].iter().any(|action| matches!(action, Action::Listener(_)))
}

#[test]
fn a_listener_turns_to_https_before_it_needs_that() {
    let mut simulation = settled(http(&forward("app")));
    let before = listener(&simulation).listener.settings.default_actions;
    edit(&mut simulation, https(&says(404)));
    let after = listener(&simulation);
    let protocol = after.listener.settings.protocol;
    assert_eq!((protocol, after.rules.len(), after.certificates.len()), (Protocol::Https, 3, 1), "{after:#?}");
    let (place, first) = modified(&simulation);
    assert_eq!(
        (first.protocol, first.default_actions),
        (Protocol::Https, before),
        "the default action waits for rules"
    );
    assert!(is_first(&simulation, place), "{:#?}", simulation.journal);
}

#[test]
fn an_impossible_redirect_does_not_block_https() {
    for redirect in [
        json!({ "protocol": "HTTPS", "port": "8443" }),
        json!({ "protocol": "HTTPS", "port": "#{port}" }),
        json!({ "protocol": "HTTP", "host": "example.org" }),
    ] {
        let mut simulation = settled(http(&json!({ "redirect": redirect })));
        edit(&mut simulation, https(&forward("app")));
        assert_eq!(modified(&simulation).1.default_actions, nothing_here(), "{redirect}");
        let after = listener(&simulation);
        assert!(after.rules.len() == 3 && after.listener.settings.default_actions != nothing_here(), "{after:#?}");
    }
}

#[test]
fn a_possible_redirect_answers_until_the_new_rules_exist() {
    for redirect in [
        json!({ "protocol": "HTTPS", "host": "example.org", "port": "8443" }),
        json!({ "protocol": "HTTPS" }),
        json!({ "protocol": "HTTPS", "port": "8443", "path": "/new" }),
        json!({ "host": "example.org" }),
    ] {
        let mut simulation = settled(http(&json!({ "redirect": redirect })));
        let before = listener(&simulation).listener.settings.default_actions;
        edit(&mut simulation, https(&forward("app")));
        assert_eq!(modified(&simulation).1.default_actions, before, "{redirect}");
    }
}

#[test]
fn rules_for_https_close_before_a_listener_turns_to_http() {
    let mut simulation = settled(https(&forward("app")));
    edit(&mut simulation, http(&says(404)));
    let after = listener(&simulation);
    assert_eq!((after.listener.settings.protocol, after.rules.len()), (Protocol::Http, 1), "{after:#?}");
    let (place, _) = modified(&simulation);
    let (before, later) = simulation.journal.split_at(place);
    let closes = |action: &&Action| match action {
        Action::Listener(ListenerAction::ModifyRule { settings, .. }) => settings.actions == nothing_here(),
        _ => false,
    };
    let deletes = |action: &&Action| matches!(action, Action::Listener(ListenerAction::DeleteRule { .. }));
    let counts = (before.iter().filter(closes).count(), before.iter().filter(deletes).count());
    assert_eq!((counts, later.iter().filter(deletes).count()), ((2, 0), 2), "{:#?}", simulation.journal);
}

#[test]
fn a_guests_rule_for_https_does_not_block_http() {
    let mut token = says(200);
    token["validateJwt"] = json!({ "issuer": "i", "jwksEndpoint": "https://i.example.com/k" });
    // Without the narrower rule, the broader one would answer its requests, and ask for no token.
    let mut narrow = rule("app.example.com", &token);
    narrow["paths"] = json!([{ "value": "/admin" }]);
    let rules = [narrow, rule("app.example.com", &says(201))];
    let guest = guest("guest", 0, json!({ "listeners": [{ "port": 8443, "rules": rules }] }));
    let home = standing("web", grouped(https(&forward("app"))));
    let mut simulation = Simulation::with(vec![home, guest]);
    simulation.settle(None);
    let before = rules_of(&simulation, "guest");
    assert_eq!((listener(&simulation).rules.len(), before.len()), (5, 2));
    assert!(format!("{:?}", before[0]).contains("Jwt"), "{before:?}");
    simulation.journal.clear();
    edit(&mut simulation, grouped(http(&says(404))));
    let after = listener(&simulation);
    assert_eq!((after.listener.settings.protocol, after.rules.len()), (Protocol::Http, 3), "{after:#?}");
    let closed = [nothing_here(), before[1].clone()];
    assert_eq!(rules_of(&simulation, "guest"), closed, "what needs a token is closed, and what HTTP can have stays");
    let (place, _) = modified(&simulation);
    let deletes = |action: &&Action| matches!(action, Action::Listener(ListenerAction::DeleteRule { .. }));
    let (earlier, later) = simulation.journal.split_at(place);
    assert_eq!((earlier.iter().filter(deletes).count(), later.iter().filter(deletes).count()), (0, 2));
    edit(&mut simulation, grouped(https(&forward("app"))));
    let after = listener(&simulation);
    assert_eq!((after.listener.settings.protocol, after.rules.len()), (Protocol::Https, 5), "{after:#?}");
    assert_eq!(rules_of(&simulation, "guest"), before, "the guest is able again");
}

#[test]
fn a_former_http2_group_does_not_block_http() {
    let backed = |version: &str| {
        let listeners = json!([{ "port": 8443, "rules": [rule("g.example.com", &forward("web"))] }]);
        let backends = json!([{ "name": "web", "port": 80, "protocolVersion": version }]);
        guest("guest", 0, json!({ "listeners": listeners, "backends": backends }))
    };
    let forwards = |simulation: &Simulation| -> BTreeSet<String> {
        let actions = rules_of(simulation, "guest").concat();
        actions.iter().flat_map(RuleAction::forwarded_to).cloned().collect()
    };
    let home = standing("web", grouped(https(&says(404))));
    let mut simulation = Simulation::with(vec![home, backed("HTTP2")]);
    simulation.settle(None);
    let before: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    simulation.object("guest").spec = backed("HTTP1").spec;
    let (owner, created) = (Simulation::owner(&simulation.objects[0]), plan(&mut simulation).actions);
    assert!(simulation.carry_out(&owner, &created));
    simulation.aws.sick = simulation.aws.assets.groups.keys().filter(|arn| !before.contains(*arn)).cloned().collect();
    assert_eq!(simulation.aws.sick.len(), 1);
    simulation.settle(None);
    assert_eq!(forwards(&simulation).len(), 2, "the former group serves");
    edit(&mut simulation, grouped(http(&says(404))));
    assert_eq!(listener(&simulation).listener.settings.protocol, Protocol::Http);
    assert_eq!(forwards(&simulation), simulation.aws.sick);
}

#[test]
fn a_later_guest_takes_no_log_in_from_another() {
    let mut token = says(200);
    token["validateJwt"] = json!({ "issuer": "i", "jwksEndpoint": "https://i.example.com/k" });
    let narrow = |actions: &Value| {
        let mut narrow = rule("app.example.com", actions);
        narrow["paths"] = json!([{ "value": "/admin" }]);
        narrow
    };
    let on = |rules: &[Value]| json!({ "listeners": [{ "port": 8443, "rules": rules }] });
    let first = guest("guest", 0, on(&[narrow(&token), rule("app.example.com", &says(201))]));
    let later = guest("later", 1, on(&[narrow(&says(202))]));
    let home = standing("web", grouped(https(&forward("app"))));
    let mut simulation = Simulation::with(vec![home, first, later]);
    simulation.settle(None);
    let before = rules_of(&simulation, "guest");
    assert!(before.len() == 2 && format!("{:?}", before[0]).contains("Jwt"), "{before:?}");
    simulation.object("guest").spec.suspend = true;
    simulation.settle(None);
    assert_eq!(rules_of(&simulation, "guest"), before, "the broader rule would answer without a token");
}

#[test]
fn a_suspended_members_log_in_closes_with_http() {
    let certificates = https(&says(404))["listeners"][0]["certificateArns"].clone();
    let rules = [rule("zoo.example.com", &log_in())];
    let listeners = json!([{ "port": 8443, "protocol": "HTTPS", "certificateArns": certificates, "rules": rules }]);
    let home = standing("web", grouped(https(&forward("app"))));
    let mut simulation = Simulation::with(vec![home, joining("zoo", json!({ "listeners": listeners }))]);
    simulation.settle(None);
    assert_eq!(rules_of(&simulation, "zoo").len(), 1);
    simulation.object("zoo").spec.suspend = true;
    edit(&mut simulation, grouped(http(&says(410))));
    assert_eq!(listener(&simulation).listener.settings.protocol, Protocol::Http);
    assert_eq!(rules_of(&simulation, "zoo"), [nothing_here()], "a rule of another one might answer its requests");
}

#[test]
fn a_suspended_members_default_log_in_does_not_block_http() {
    let home = grouped(https(&Value::Null));
    let mut zoo = grouped(https(&log_in()));
    zoo["listeners"][0]["rules"] = json!([rule("zoo.example.com", &log_in())]);
    zoo["backends"] = json!([]);
    let mut simulation = Simulation::with(vec![standing("web", home.clone()), joining("zoo", zoo)]);
    simulation.settle(None);
    let before = listener(&simulation).listener.settings.default_actions;
    assert!(format!("{before:?}").contains("Oidc"), "{before:?}");
    simulation.object("zoo").spec.suspend = true;
    edit(&mut simulation, grouped(http(&Value::Null)));
    let after = listener(&simulation).listener.settings;
    assert_eq!((after.protocol, after.default_actions), (Protocol::Http, nothing_here()));
    assert_eq!(rules_of(&simulation, "zoo"), [nothing_here()]);
    simulation.object("zoo").spec.suspend = false;
    edit(&mut simulation, home);
    assert_eq!(listener(&simulation).listener.settings.default_actions, before);
}

#[test]
fn a_member_is_held_up_by_a_refused_protocol() {
    let on = |protocol: &str, rules: &[Value]| {
        let certificate = "arn:aws:acm:eu-west-1:000000000000:certificate/a";
        let certificates = if protocol == "HTTPS" { json!([certificate]) } else { json!([]) };
        let listener = json!({ "port": 8443, "protocol": protocol, "certificateArns": certificates, "rules": rules });
        grouped(json!({ "listeners": [listener] }))
    };
    let elsewhere = json!({ "listeners": [{ "port": 8080 }] });
    let members = [standing("web", on("HTTP", &[])), joining("zoo", on("HTTP", &[])), joining("zulu", elsewhere)];
    let keys = members.each_ref().map(super::key);
    let mut simulation = Simulation::with(members.into());
    simulation.settle(None);
    simulation.object("web").spec = standing("web", on("HTTPS", &[])).spec;
    let rules = [rule("zoo.example.com", &says(200))];
    simulation.object("zoo").spec = joining("zoo", on("HTTPS", &rules)).spec;
    let turns = |action: &Action| matches!(action, Action::Listener(ListenerAction::Modify { .. }));
    let action = plan(&mut simulation).actions.into_iter().find(turns).unwrap();
    simulation.refusals = vec![Refusal {
        action,
        reason: "CertificateInvalid",
        message: "AWS refuses the certificate".into(),
        blamed: Some(keys[0].clone()),
        retry_in: Duration::from_secs(30),
    }];
    for key in &keys {
        simulation.reconcile(key);
    }
    let reasons = keys.each_ref().map(|key| match &simulation.health[key] {
        Health::Stalled(cause) | Health::Ready(cause) => cause.reason,
        other => panic!("{other:?}"),
    });
    assert_eq!(reasons, ["CertificateInvalid", "GroupHeldUp", "Active"]);
    simulation.refusals.clear();
    simulation.settle(None);
    assert_eq!(rules_of(&simulation, "zoo").len(), 1);
    assert!(simulation.health.values().all(|it| matches!(it, Health::Ready(_))), "{:?}", simulation.health);
}

#[test]
fn a_refused_turn_to_http_holds_up_no_guest() {
    let saying = |status: u16| {
        let rules = [rule("g.example.com", &says(status))];
        guest("guest", 0, json!({ "listeners": [{ "port": 8443, "rules": rules }] }))
    };
    let members = [standing("web", grouped(https(&says(404)))), saying(200)];
    let keys = members.each_ref().map(super::key);
    let mut simulation = Simulation::with(members.into());
    simulation.settle(None);
    simulation.object("web").spec = standing("web", grouped(http(&says(404)))).spec;
    simulation.object("guest").spec = saying(201).spec;
    let turns = |action: &Action| matches!(action, Action::Listener(ListenerAction::Modify { .. }));
    simulation.refuses = Some((turns, "ListenerInvalid"));
    for key in keys.iter().cycle().take(6) {
        simulation.reconcile(key);
    }
    let reasons = keys.each_ref().map(|key| match &simulation.health[key] {
        Health::Stalled(cause) | Health::Ready(cause) => cause.reason,
        other => panic!("{other:?}"),
    });
    assert_eq!(reasons, ["ListenerInvalid", "Active"]);
    assert!(format!("{:?}", rules_of(&simulation, "guest")).contains("status: 201"), "its rules change before it");
}
