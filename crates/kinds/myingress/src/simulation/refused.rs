//! A part that AWS refuses to change stays as it is, and everything else goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use causeway_runtime::{Health, Plan};

use super::{Refused, Simulation};
use crate::action::{Action, BalancerAction, ListenerAction, SecurityAction};
use crate::decide::decide;
use crate::error::{QUOTA_REACHED, WEB_ACL_PENDING};
use crate::model::fixtures::{joining, standing};
use crate::refusals::{Refusal, SEVERAL, pause};
use crate::region::assets::ListenerMember;

pub(super) fn plan(simulation: &mut Simulation) -> Plan<Action, causeway_api::MyIngressStatus> {
    let object = simulation.objects[0].clone();
    decide(&object, &simulation.observe(&object), simulation.now)
}

pub(super) fn settled(more: Value) -> Simulation {
    let mut simulation = Simulation::with(vec![standing("web", more)]);
    simulation.settle(None);
    simulation.journal.clear();
    simulation
}

/// Gives the object another spec while AWS refuses some changes, and lets the operator work for a while.
pub(super) fn edit_refused(
    simulation: &mut Simulation,
    more: Value,
    refuses: fn(&Action) -> bool,
    reason: &'static str,
) {
    simulation.objects[0].spec = standing("web", more).spec;
    simulation.refuses = Some((refuses, reason));
    let which = super::key(&simulation.objects[0]);
    for _ in 0..4 {
        simulation.reconcile(&which);
        simulation.aws.time_passes();
        simulation.sweep();
    }
    assert!(!simulation.refusals.is_empty(), "nothing was refused: {:#?}", simulation.journal);
}

/// AWS refuses nothing any more.
pub(super) fn allow(simulation: &mut Simulation) {
    simulation.refuses = None;
    simulation.refusals.clear();
    simulation.settle(None);
    assert!(matches!(simulation.health.values().next(), Some(Health::Ready(_))), "{:?}", simulation.health);
}

pub(super) fn reason(simulation: &Simulation) -> &'static str {
    match simulation.health.values().next() {
        Some(Health::Stalled(cause) | Health::Ready(cause)) => cause.reason,
        other => panic!("{other:?}"),
    }
}

/// Splits an action into what AWS carries out, and what it refuses and why. AWS takes certificates one by one.
pub(super) fn split(
    action: &Action,
    refusing: Option<(Refused, &'static str)>,
) -> (Vec<Action>, Option<(Action, &'static str)>) {
    let Some((is_refused, reason)) = refusing else { return (vec![action.clone()], None) };
    let mut parts: Vec<Action> = match action {
        Action::Listener(adds @ ListenerAction::AddCertificates { certificates, .. }) => {
            let of_one = certificates.iter().filter_map(|it| adds.of_certificates([it.clone()].into()));
            of_one.map(Action::Listener).collect()
        }
        other => vec![other.clone()],
    };
    match parts.iter().position(is_refused).or(is_refused(action).then_some(0)) {
        None => (vec![action.clone()], None),
        Some(place) => {
            let part = parts.swap_remove(place);
            parts.truncate(place);
            (parts, Some((part, reason)))
        }
    }
}

/// Notes a refusal as the operator does.
pub(super) fn note(refusals: &mut Vec<Refusal>, action: Action, reason: &'static str) {
    let refusal = |action| {
        let (message, retry_in) = ("AWS refuses it".into(), Duration::from_secs(30));
        Refusal { action, reason, message, blamed: None, retry_in }
    };
    let all = pause(&action).filter(|_| reason != QUOTA_REACHED);
    refusals.retain(|it| it.action != action && Some(&it.action) != all.as_ref());
    refusals.push(refusal(action));
    let Some(all) = all else { return };
    let same = refusals.iter().filter(|it| pause(&it.action).as_ref() == Some(&all));
    if same.count() >= SEVERAL {
        refusals.push(refusal(all));
    }
}

fn authorizes(action: &Action) -> bool {
    matches!(action, Action::Security(SecurityAction::Authorize { .. }))
}

fn creates_a_rule(action: &Action) -> bool {
    matches!(action, Action::Listener(ListenerAction::CreateRule { .. }))
}

pub(super) fn listener(simulation: &Simulation) -> ListenerMember {
    let balancer = simulation.aws.assets.balancers.values().next().unwrap();
    balancer.listeners.as_ref().unwrap().values().next().unwrap().clone()
}

/// The conditions of the rules, in text.
fn conditions(simulation: &Simulation) -> Vec<String> {
    let rules = listener(simulation).rules;
    rules.values().map(|rule| format!("{:?}", rule.rule.settings.conditions)).collect()
}

/// A listener with a rule for each of these hosts.
fn for_hosts(hosts: impl Iterator<Item = String>) -> Value {
    let rules = hosts.map(|host| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } }));
    json!({ "listeners": [{ "port": 80, "rules": rules.collect::<Vec<_>>() }] })
}

#[test]
fn clients_stay_let_in_while_new_inbound_rules_are_refused() {
    let listeners = json!([{ "port": 80 }]);
    let mut simulation = settled(json!({ "listeners": listeners, "inboundCidrs": ["0.0.0.0/0"] }));
    let before = simulation.aws.assets.security_groups.clone();
    let lists = json!({ "listeners": listeners, "inboundPrefixLists": ["pl-1", "pl-2"] });
    edit_refused(&mut simulation, lists, authorizes, QUOTA_REACHED);
    assert_eq!(simulation.aws.assets.security_groups, before, "{:#?}", simulation.journal);
    assert_eq!(reason(&simulation), QUOTA_REACHED);
    allow(&mut simulation);
    let groups = simulation.aws.assets.security_groups.values();
    let text = format!("{:?}", groups.map(|group| &group.ingress).collect::<Vec<_>>());
    assert!(text.contains("pl-1") && text.contains("pl-2") && !text.contains("0.0.0.0/0"), "{text}");
}

#[test]
fn a_balancer_keeps_security_groups_while_its_own_is_refused() {
    let listeners = json!([{ "port": 80 }]);
    let mut simulation = settled(json!({ "listeners": listeners, "securityGroups": ["sg-1"] }));
    let own = json!({ "listeners": listeners, "inboundCidrs": ["10.0.0.0/8"] });
    edit_refused(&mut simulation, own, authorizes, QUOTA_REACHED);
    let set = |action: &&Action| matches!(action, Action::Balancer(BalancerAction::SetSecurityGroups { .. }));
    assert_eq!(simulation.journal.iter().find(set), None);
    assert_eq!(simulation.aws.assets.security_groups.len(), 1, "its own is made");
    allow(&mut simulation);
    assert!(simulation.journal.iter().any(|action| set(&action)));
}

fn protects(action: &Action) -> bool {
    matches!(action, Action::Balancer(BalancerAction::SetWebAcl { acl: Some(_), .. }))
}

fn behind(acl: &str, status: u16) -> Value {
    let default = json!({ "fixedResponse": { "statusCode": status } });
    let arn = format!("arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/{acl}/1");
    json!({ "wafAclArn": arn, "listeners": [{ "port": 80, "defaultAction": default }], "group": { "name": "all" } })
}

#[test]
fn a_new_balancer_has_no_listener_before_its_web_acl() {
    let (web, zoo) = (standing("web", behind("guard", 200)), joining("zoo", json!({ "listeners": [{ "port": 81 }] })));
    let keys = [&web, &zoo].map(super::key);
    let mut simulation = Simulation::with(vec![web, zoo]);
    edit_refused(&mut simulation, behind("guard", 200), protects, WEB_ACL_PENDING);
    simulation.reconcile(&keys[1]);
    let balancer = simulation.aws.assets.balancers.values().next().unwrap();
    assert!(balancer.web_acl == Some(None) && balancer.listeners == Some(BTreeMap::new()), "{balancer:#?}");
    for (key, reason) in keys.iter().zip([WEB_ACL_PENDING, "GroupHeldUp"]) {
        let health = &simulation.health[key];
        assert!(matches!(health, Health::Retrying(cause) if cause.reason == reason), "{key:?}: {health:?}");
    }
    allow(&mut simulation);
    let place = |is_it: &dyn Fn(&Action) -> bool| simulation.journal.iter().position(is_it).unwrap();
    let listens = |action: &Action| matches!(action, Action::Listener(ListenerAction::Create { .. }));
    assert!(place(&protects) < place(&listens), "{:#?}", simulation.journal);
    // Another web ACL, which AWS refuses, keeps nothing else from a balancer that serves.
    edit_refused(&mut simulation, behind("nobodys", 410), protects, "WebAclInvalid");
    let listeners = format!("{:?}", simulation.aws.assets.balancers.values().next().unwrap().listeners);
    assert!(listeners.contains("410"), "{listeners}");
    let web = &simulation.health[&keys[0]];
    assert!(matches!(web, Health::Stalled(cause) if cause.reason == "WebAclInvalid"), "{web:?}");
}

#[test]
fn targets_let_the_old_group_in_until_its_successor() {
    let listeners = json!([{ "port": 80 }]);
    let spec = |targets: &[&str]| json!({ "listeners": listeners, "inboundCidrs": ["10.0.0.0/8"], "targetSecurityGroups": targets });
    let mut simulation = settled(spec(&["sg-nodes"]));
    let before = simulation.aws.assets.entries.clone();
    let lets_in = |action: &Action| matches!(action, Action::Security(SecurityAction::LetIn(_)));
    edit_refused(&mut simulation, spec(&["sg-pods"]), lets_in, "TargetSecurityGroupInvalid");
    assert_eq!(simulation.aws.assets.entries, before);
    allow(&mut simulation);
    assert_eq!(simulation.aws.assets.entries.iter().map(|it| it.group.as_str()).collect::<Vec<_>>(), ["sg-pods"]);
    let before = simulation.aws.assets.entries.clone();
    let given = json!({ "listeners": listeners, "securityGroups": ["sg-1"] });
    let sets = |action: &Action| matches!(action, Action::Balancer(BalancerAction::SetSecurityGroups { .. }));
    edit_refused(&mut simulation, given, sets, "SecurityGroupsInvalid");
    assert_eq!(simulation.aws.assets.entries, before);
    allow(&mut simulation);
    assert!(simulation.aws.assets.entries.is_empty() && simulation.aws.assets.security_groups.is_empty());
}

#[test]
fn old_rules_answer_while_aws_refuses_their_successor() {
    let says = |status: u16| json!({ "fixedResponse": { "statusCode": status } });
    let spec = |host: &str, status: u16, default: u16| {
        let rules = json!([{ "hosts": [host], "action": says(status) }]);
        json!({ "listeners": [{ "port": 80, "rules": rules, "defaultAction": says(default) }] })
    };
    let mut simulation = settled(spec("old.example.com", 200, 200));
    let before = listener(&simulation);
    edit_refused(&mut simulation, spec("new.example.com", 201, 410), creates_a_rule, "RuleInvalid");
    assert_eq!(listener(&simulation), before, "{:#?}", simulation.journal);
    assert_eq!(reason(&simulation), "RuleInvalid");
    allow(&mut simulation);
    let after = listener(&simulation);
    assert!(conditions(&simulation)[0].contains("new.example.com") && after.rules.len() == 1, "{after:?}");
    assert_ne!(after.listener.settings.default_actions, before.listener.settings.default_actions);
}

#[test]
fn new_hosts_for_sixty_rules_never_exceed_the_quota() {
    let mut simulation = settled(for_hosts((0..60).map(|it| format!("old{it}.example.com"))));
    simulation.objects[0].spec = standing("web", for_hosts((0..60).map(|it| format!("new{it}.example.com")))).spec;
    simulation.settle(None);
    let conditions = conditions(&simulation);
    assert!(conditions.len() == 60 && conditions.iter().all(|it| it.contains("new")), "{conditions:?}");
}

#[test]
fn old_rules_become_the_new_ones_at_a_lower_quota() {
    let mut simulation = settled(for_hosts((0..3).map(|it| format!("old{it}.example.com"))));
    let other = for_hosts((0..3).map(|it| format!("new{it}.example.com")));
    edit_refused(&mut simulation, other, creates_a_rule, QUOTA_REACHED);
    let conditions = conditions(&simulation);
    assert!(conditions.len() == 3 && conditions.iter().all(|it| it.contains("new")), "{conditions:?}");
    assert_eq!(reason(&simulation), "Active");
}

#[test]
fn a_rule_over_the_quota_is_reported_and_others_stay() {
    let mut simulation = settled(for_hosts((0..3).map(|it| format!("old{it}.example.com"))));
    let before = listener(&simulation);
    let more = for_hosts((0..4).map(|it| format!("old{it}.example.com")));
    edit_refused(&mut simulation, more, creates_a_rule, QUOTA_REACHED);
    assert_eq!((listener(&simulation), reason(&simulation)), (before, QUOTA_REACHED));
}

#[test]
fn a_refused_rule_stays_and_the_others_change() {
    let rule =
        |host: &str, status: u16| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": status } } });
    let listeners = |a: u16, b: u16| json!([{ "port": 80, "rules": [rule("a.example", a), rule("b.example", b)] }]);
    let mut simulation = Simulation::with(vec![standing("web", json!({ "listeners": listeners(200, 200) }))]);
    simulation.settle(None);
    simulation.objects[0].spec.listeners = serde_json::from_value(listeners(201, 202)).unwrap();
    let wanted = plan(&mut simulation).actions;
    let of = |code: &str| {
        let found = wanted.iter().find(|action| format!("{action:?}").contains(&format!("status: {code}")));
        found.unwrap_or_else(|| panic!("nothing sets {code}: {wanted:#?}")).clone()
    };
    let (refused, fine) = (of("201"), of("202"));
    simulation.refusals = vec![Refusal {
        action: refused.clone(),
        reason: "RuleInvalid",
        message: "AWS refuses the rule".into(),
        blamed: Some(super::key(&simulation.objects[0])),
        retry_in: Duration::from_secs(30),
    }];
    let before = plan(&mut simulation);
    assert_eq!(before.actions, [fine], "the refused rule is neither changed nor deleted");
    simulation.carry_out(&Simulation::owner(&simulation.objects[0].clone()), &before.actions);
    let after = plan(&mut simulation);
    assert_eq!(after.actions, []);
    assert!(matches!(&after.health, Health::Stalled(cause) if cause.reason == "RuleInvalid"), "{:?}", after.health);
    assert_eq!(after.requeue, Some(Duration::from_secs(30)));
    // Without the refusal the action is tried again by itself.
    simulation.refusals.clear();
    assert_eq!(plan(&mut simulation).actions, [refused]);
}
