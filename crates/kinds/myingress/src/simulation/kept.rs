//! Rules that members of a group keep where AWS refuses what they should become, or where the member cannot take part.

use serde_json::{Value, json};

use causeway_aws::elbv2::RuleAction;

use super::Simulation;
use super::guests::{edit, home, listeners, reason, rule};
use crate::action::{Action, ListenerAction};
use crate::members::key;
use crate::model::fixtures::{born, guest};
use crate::ownership::member_of;

/// The status of rules that AWS refuses.
const REFUSED: u16 = 451;

fn all(status: u16) -> Value {
    json!({ "hosts": ["app.example.com"], "action": { "fixedResponse": { "statusCode": status } } })
}

/// A rule for some of the requests that [`all`] is for.
fn admin(status: u16) -> Value {
    let mut admin = all(status);
    admin["paths"] = json!([{ "value": "/admin" }]);
    admin
}

/// A rule for others of them.
fn public(status: u16) -> Value {
    let mut public = all(status);
    public["paths"] = json!([{ "value": "/public" }]);
    public
}

/// The same rule with that priority.
fn numbered(mut rule: Value, priority: u16) -> Value {
    rule["priority"] = json!(priority);
    rule
}

/// Another member of the group's own namespace with these rules.
fn join(simulation: &mut Simulation, name: &str, second: i64, rules: &[Value]) {
    let more = json!({ "group": { "name": "all" }, "listeners": listeners(rules) });
    simulation.objects.push(born(name, second, more));
    simulation.settle(None);
}

/// The answer of the listener where no rule matches.
fn default_answer(simulation: &Simulation) -> String {
    let mut listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
    let (_, listener) = listeners.next().unwrap();
    match &listener.listener.settings.default_actions[..] {
        [RuleAction::FixedResponse(answer)] => answer.status.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A group whose guests have these rules. The first guest is the oldest.
fn with_guests(rules: &[Value], guests: &[(&str, &[Value])]) -> Simulation {
    let mut objects = vec![home(rules)];
    for (second, (name, rules)) in (0..).zip(guests) {
        objects.push(guest(name, second, json!({ "listeners": listeners(rules) })));
    }
    let mut simulation = Simulation::with(objects);
    simulation.settle(None);
    simulation
}

/// Member and status of each rule, in the order of their evaluation.
fn answers(simulation: &Simulation) -> Vec<String> {
    let listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
    let mut rules: Vec<_> = listeners.flat_map(|(_, listener)| listener.rules.values()).collect();
    rules.sort_by_key(|rule| rule.rule.priority);
    let answer = |rule: &crate::region::assets::RuleMember| {
        let (_, member) = member_of(&rule.tags).unwrap_or_default();
        match &rule.rule.settings.actions[..] {
            [RuleAction::FixedResponse(answer)] => format!("{member} {}", answer.status),
            other => panic!("{other:?}"),
        }
    };
    rules.into_iter().map(answer).collect()
}

/// Gives that object these rules while AWS refuses some, and lets the operator work for a while.
fn edit_refused(simulation: &mut Simulation, name: &str, rules: &[Value]) {
    edit(simulation, name, rules);
    simulation.refuses = Some((|action: &Action| format!("{action:?}").contains(&format!("status: {REFUSED}")), "No"));
    for _ in 0..4 {
        for which in simulation.objects.iter().map(key).collect::<Vec<_>>() {
            simulation.reconcile(&which);
        }
        simulation.aws.time_passes();
        simulation.sweep();
    }
    assert!(!simulation.refusals.is_empty(), "nothing was refused: {:#?}", simulation.journal);
}

#[test]
fn a_guests_refused_edit_stays_before_its_broader_rule() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401), all(200)])]);
    edit_refused(&mut simulation, "a", &[admin(REFUSED), all(200)]);
    assert_eq!(answers(&simulation), ["a 401", "a 200"]);
    edit_refused(&mut simulation, "a", &[admin(REFUSED), all(201)]);
    assert_eq!(answers(&simulation), ["a 401", "a 201"], "the other one changes");
    edit_refused(&mut simulation, "a", &[admin(401), all(REFUSED)]);
    assert_eq!(answers(&simulation), ["a 401", "a 201"], "nor does the broader one come first");
}

#[test]
fn a_guests_refused_edit_comes_before_a_new_broader_rule() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401)])]);
    edit_refused(&mut simulation, "a", &[admin(REFUSED), all(200)]);
    assert_eq!(answers(&simulation), ["a 401", "a 200"]);
}

#[test]
fn a_refused_edit_gives_its_rule_to_no_other_member() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401), all(200)]), ("b", &[admin(202)])]);
    let as_before = ["a 401", "a 200", "b 202"];
    assert_eq!(answers(&simulation), as_before);
    simulation.journal.clear();
    edit_refused(&mut simulation, "a", &[admin(REFUSED), all(200)]);
    assert_eq!((answers(&simulation), &simulation.journal), (as_before.map(str::to_owned).into(), &Vec::new()));
    // Nor if the other member has no such rule yet.
    edit(&mut simulation, "b", &[]);
    edit_refused(&mut simulation, "a", &[admin(REFUSED), all(200)]);
    assert_eq!(answers(&simulation), ["a 401", "a 200"]);
    edit_refused(&mut simulation, "b", &[admin(202)]);
    assert_eq!(answers(&simulation), as_before);
}

#[test]
fn a_removed_rule_is_reused_despite_another_refusal() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401), all(200)]), ("b", &[])]);
    edit_refused(&mut simulation, "a", &[all(REFUSED)]);
    assert_eq!(answers(&simulation), ["a 401", "a 200"]);
    edit_refused(&mut simulation, "b", &[admin(202)]);
    assert_eq!(answers(&simulation), ["a 200", "b 202"]);
}

#[test]
fn a_guests_rules_keep_their_order_despite_a_refusal() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401), all(200), public(203)])]);
    edit_refused(&mut simulation, "a", &[all(REFUSED), public(203), admin(401)]);
    assert_eq!(answers(&simulation), ["a 401", "a 200", "a 203"]);
}

#[test]
fn a_rule_with_taken_number_holds_up_only_its_member() {
    let mut simulation = with_guests(&[numbered(admin(401), 10)], &[("a", &[all(200)])]);
    join(&mut simulation, "second", 10, &[]);
    edit_refused(&mut simulation, "home", &[numbered(public(REFUSED), 30)]);
    assert_eq!(answers(&simulation), ["home 401", "a 200"]);
    // A refused action is not tried again meanwhile.
    let mut other = all(203);
    other["paths"] = json!([{ "value": "/other" }]);
    edit(&mut simulation, "second", &[numbered(other, 10)]);
    for which in simulation.objects.iter().map(key).collect::<Vec<_>>() {
        simulation.reconcile(&which);
    }
    assert_eq!(answers(&simulation), ["home 401", "a 200"]);
    assert_eq!(["home", "second", "a"].map(|name| reason(&simulation, name)), ["No", "PriorityTaken", ""]);
}

#[test]
fn a_refused_edit_at_home_frees_no_rule() {
    let mut simulation = with_guests(&[admin(401), all(200)], &[]);
    join(&mut simulation, "second", 10, &[admin(202)]);
    let as_before = ["home 401", "home 200", "second 202"];
    assert_eq!(answers(&simulation), as_before);
    simulation.journal.clear();
    edit_refused(&mut simulation, "home", &[admin(REFUSED), all(200)]);
    assert_eq!((answers(&simulation), &simulation.journal), (as_before.map(str::to_owned).into(), &Vec::new()));
}

#[test]
fn a_refused_edit_gives_way_to_an_explicit_priority() {
    let mut simulation = with_guests(&[numbered(admin(401), 10), all(200)], &[]);
    join(&mut simulation, "second", 10, &[]);
    edit_refused(&mut simulation, "home", &[all(REFUSED)]);
    assert_eq!(answers(&simulation), ["home 401", "home 200"]);
    edit_refused(&mut simulation, "second", &[numbered(admin(202), 10)]);
    assert_eq!(answers(&simulation), ["second 202", "home 200"]);
    assert_eq!(["home", "second"].map(|name| reason(&simulation, name)), ["No", ""]);
}

#[test]
fn a_wanted_log_in_gives_way_to_no_number() {
    let mut simulation = with_guests(&[numbered(admin(401), 10), all(200)], &[]);
    join(&mut simulation, "second", 10, &[]);
    edit_refused(&mut simulation, "home", &[admin(REFUSED), all(200)]);
    edit_refused(&mut simulation, "second", &[numbered(admin(202), 10)]);
    assert_eq!(answers(&simulation), ["home 401", "home 200"]);
    assert_eq!(["home", "second"].map(|name| reason(&simulation, name)), ["No", "PriorityTaken"]);
}

#[test]
fn a_rule_without_its_number_becomes_no_other_members() {
    let mut simulation = with_guests(&[numbered(admin(401), 10)], &[]);
    join(&mut simulation, "second", 10, &[public(401)]);
    join(&mut simulation, "third", 20, &[]);
    edit_refused(&mut simulation, "home", &[all(REFUSED)]);
    edit_refused(&mut simulation, "second", &[numbered(public(401), 10)]);
    edit_refused(&mut simulation, "third", &[public(202)]);
    assert!(answers(&simulation).contains(&"second 401".into()), "{:?}", answers(&simulation));
    assert_eq!(["home", "second"].map(|name| reason(&simulation, name)), ["No", "PriorityTaken"]);
}

#[test]
fn the_default_action_waits_for_a_rule_without_its_number() {
    let mut simulation = with_guests(&[numbered(admin(401), 10)], &[]);
    join(&mut simulation, "second", 10, &[]);
    let default = |simulation: &mut Simulation, status: u16| {
        let action = json!({ "fixedResponse": { "statusCode": status } });
        simulation.object("second").spec.listeners[0].default_action = serde_json::from_value(action).unwrap();
    };
    default(&mut simulation, 200);
    simulation.settle(None);
    edit_refused(&mut simulation, "home", &[all(REFUSED)]);
    edit(&mut simulation, "second", &[numbered(public(203), 10)]);
    default(&mut simulation, 404);
    for which in simulation.objects.iter().map(key).collect::<Vec<_>>() {
        simulation.reconcile(&which);
    }
    assert_eq!((answers(&simulation), default_answer(&simulation)), (vec!["home 401".to_owned()], "200".to_owned()));
}

#[test]
fn a_suspended_guests_rule_stays_behind_an_earlier_equal_one() {
    let mut simulation = with_guests(&[], &[("earlier", &[]), ("a", &[admin(401), all(200)])]);
    simulation.object("a").spec.suspend = true;
    simulation.settle(None);
    simulation.journal.clear();
    edit(&mut simulation, "earlier", &[admin(202)]);
    simulation.settle(None);
    assert_eq!(answers(&simulation), ["earlier 202", "a 401", "a 200"]);
    let touched = |action: &&Action| match action {
        Action::Listener(ListenerAction::ModifyRule { .. } | ListenerAction::DeleteRule { .. }) => true,
        Action::Listener(ListenerAction::CreateRule { settings, .. }) => format!("{settings:?}").contains("401"),
        _ => false,
    };
    assert_eq!(simulation.journal.iter().find(touched), None, "its client secret could not be sent again");
    edit(&mut simulation, "earlier", &[]);
    simulation.settle(None);
    assert_eq!(answers(&simulation), ["a 401", "a 200"], "the broader rule does not answer all");
}

#[test]
fn a_guest_removes_rules_while_a_listener_edit_is_refused() {
    let mut simulation = with_guests(&[], &[("a", &[admin(401), all(200)])]);
    join(&mut simulation, "second", 10, &[rule("b.example.com", None)]);
    assert_eq!(answers(&simulation), ["second 200", "a 401", "a 200"]);
    let default = json!({ "fixedResponse": { "statusCode": REFUSED } });
    simulation.object("home").spec.listeners[0].default_action = serde_json::from_value(default).unwrap();
    edit(&mut simulation, "second", &[]);
    edit_refused(&mut simulation, "a", &[all(200)]);
    assert_eq!(answers(&simulation), ["second 200", "a 200"], "what is home's waits for the default action");
    assert_eq!(["home", "second", "a"].map(|name| reason(&simulation, name)), ["No", "GroupHeldUp", ""]);
    simulation.refuses = None;
    simulation.refusals.clear();
    simulation.settle(None);
    assert_eq!(answers(&simulation), ["a 200"]);
    assert_eq!(["home", "second", "a"].map(|name| reason(&simulation, name)), ["", "", ""]);
}
