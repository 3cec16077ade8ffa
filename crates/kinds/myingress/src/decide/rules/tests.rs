//! The steps of common edits, and edits that are special.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use causeway_aws::elbv2::{Condition, Match, Rule};

use super::order::Reason;
use super::simulation::{Listener, settings};
use super::{Present, Step, Wanted, plan};

/// A rule for a host of its own, with the status that it answers.
fn rule(host: usize, priority: Option<u16>, status: u16) -> Wanted {
    let mut settings = settings([None; 4], status);
    settings.conditions = [Condition::Host(Match::Wildcards([format!("{host}.example.com")].into()))].into();
    let key = format!("host {host}");
    Wanted { key, priority, last: false, member: None, settings, tags: BTreeMap::new() }
}

fn rules(count: usize) -> Vec<Wanted> {
    (0..count).map(|host| rule(host, None, 200)).collect()
}

fn listener(wanted: &[Wanted]) -> Listener {
    let mut listener = Listener::default();
    listener.settle(wanted, false);
    listener
}

fn numbers(listener: &Listener) -> Vec<u16> {
    listener.rules.keys().copied().collect()
}

/// Applies the steps and returns them.
fn edit(listener: &mut Listener, wanted: &[Wanted]) -> Vec<Step> {
    let steps = listener.plan(wanted, false).unwrap();
    for step in &steps {
        listener.apply(step);
    }
    assert_eq!(listener.plan(wanted, false), Ok(Vec::new()));
    steps
}

fn created(priority: u16, rule: Wanted) -> Step {
    Step::Create { priority, settings: rule.settings, tags: rule.tags }
}

proptest! {
    #[test]
    fn a_common_edit_is_one_call(count in 1..25_usize, at in any::<Index>(), to in any::<Index>()) {
        let before = rules(count);
        let listener = listener(&before);
        let (at, to) = (at.index(count), to.index(count));
        let steps_to = |wanted: &[Wanted]| edit(&mut listener.clone(), wanted);

        prop_assert_eq!(steps_to(&before), Vec::new());
        prop_assert_eq!(listener.plan(&before, true), Ok(vec![Step::SetDefault]));

        let mut modified = before.clone();
        modified[at] = rule(at, None, 404);
        let modify = steps_to(&modified);
        prop_assert!(matches!(modify.as_slice(), [Step::Modify { .. }]), "{modify:?}");

        for at in [at, count] {
            let mut inserted = before.clone();
            inserted.insert(at, rule(99, None, 200));
            let insert = steps_to(&inserted);
            prop_assert!(matches!(insert.as_slice(), [Step::Create { .. }]), "{insert:?}");
        }

        let mut removed = before.clone();
        removed.remove(at);
        let remove = steps_to(&removed);
        prop_assert!(matches!(remove.as_slice(), [Step::Delete { .. }]), "{remove:?}");

        let mut moved = before.clone();
        let taken = moved.remove(at);
        moved.insert(to, taken);
        let steps = steps_to(&moved);
        match steps.as_slice() {
            [] => prop_assert_eq!(at, to),
            [Step::SetPriorities(moves)] => prop_assert_eq!(moves.len(), 1),
            _ => prop_assert!(false, "{:?}", steps),
        }

        let mut numbered = before.clone();
        numbered[at].priority = Some(7);
        let steps = steps_to(&numbered);
        prop_assert!(matches!(steps.as_slice(), [Step::SetPriorities(_)]), "{steps:?}");
    }

    #[test]
    fn any_new_order_is_one_call(order in Just(rules(12)).prop_shuffle()) {
        let steps = edit(&mut listener(&rules(12)), &order);
        prop_assert!(matches!(steps.as_slice(), [] | [Step::SetPriorities(_)]), "{steps:?}");
    }
}

#[test]
fn rules_are_spaced_by_a_hundred_or_less() {
    assert_eq!(numbers(&listener(&rules(3))), [100, 200, 300]);
    let many = numbers(&listener(&rules(1_000)));
    assert!(many.windows(2).all(|pair| pair[1] - pair[0] == 49), "{many:?}");
    let mut short = vec![rule(0, Some(49_996), 200)];
    short.extend((1..5).map(|host| rule(host, None, 200)));
    assert_eq!(numbers(&listener(&short)), [49_996, 49_997, 49_998, 49_999, 50_000]);
}

#[test]
fn rules_can_be_inserted_at_one_place_for_ever() {
    let mut wanted = rules(2);
    let mut listener = listener(&wanted);
    let mut calls = 0;
    for host in 2..200 {
        wanted.insert(1, rule(host, None, 200));
        calls += edit(&mut listener, &wanted).len();
    }
    assert!(calls < 2 * 198, "{calls}");
}

#[test]
fn a_rule_with_a_needed_number_moves_past_no_other() {
    let mut listener = listener(&[rule(0, Some(10), 200), rule(1, Some(12), 200)]);
    let steps = edit(&mut listener, &[rule(2, Some(10), 200), rule(1, Some(12), 200)]);
    let arn = "rule-1".to_owned();
    let aside = Step::SetPriorities(BTreeMap::from([(arn.clone(), 11)]));
    assert_eq!(steps, [aside, created(10, rule(2, Some(10), 200)), Step::Delete { arn }]);
}

#[test]
fn a_rule_in_front_shifts_priorities_in_one_call() {
    let mut listener = listener(&[rule(0, Some(1), 200), rule(1, Some(2), 200)]);
    let wanted = [rule(2, Some(1), 200), rule(0, Some(2), 200), rule(1, Some(3), 200)];
    let shift = Step::SetPriorities(BTreeMap::from([("rule-1".into(), 2), ("rule-2".into(), 3)]));
    assert_eq!(edit(&mut listener, &wanted), [shift, created(1, rule(2, Some(1), 200))]);
}

#[test]
fn a_new_order_and_a_new_answer_come_together() {
    let mut listener = listener(&rules(2));
    let steps = edit(&mut listener, &[rule(1, None, 404), rule(0, None, 200)]);
    let up = Step::SetPriorities(BTreeMap::from([("rule-2".into(), 50)]));
    assert_eq!(steps, [Step::Modify { arn: "rule-2".into(), settings: rule(1, None, 404).settings }, up]);
}

#[test]
fn moved_rules_stay_while_aws_refuses_the_next_step() {
    let mut listener = Listener::default();
    for (priority, rule) in [(1, rule(0, None, 200)), (10, rule(1, None, 404)), (11, rule(1, None, 200))] {
        listener.add(priority, rule.settings, true, BTreeMap::new());
    }
    let last = rule(0, None, 200);
    let wanted = [rule(1, None, 200), rule(1, None, 200), rule(1, None, 200), last];
    let aside = listener.plan(&wanted, false).unwrap().swap_remove(0);
    assert!(matches!(aside, Step::SetPriorities(_)), "{aside:?}");
    listener.apply(&aside);
    let next = listener.plan(&wanted, false).unwrap();
    assert!(matches!(next[0], Step::Modify { .. }), "{next:?}");
}

#[test]
fn unwanted_rules_are_deleted() {
    let mut listener = listener(&rules(3));
    let deleted: Vec<Step> = ["rule-3", "rule-2", "rule-1"].map(|arn| Step::Delete { arn: arn.into() }).into();
    assert_eq!(listener.plan(&[], true).unwrap(), [vec![Step::SetDefault], deleted.clone()].concat());
    assert_eq!(edit(&mut listener, &[]), deleted);
}

#[test]
fn rules_at_the_last_number_swap_in_two_plans() {
    let mut listener = listener(&[rule(0, None, 200), rule(1, None, 200), rule(2, Some(50_000), 200)]);
    let wanted = [rule(3, None, 200), rule(1, Some(49_999), 404), rule(0, Some(50_000), 200)];
    assert!(listener.settle(&wanted, true) <= 2);
    assert_eq!(numbers(&listener)[1..], [49_999, 50_000]);
}

#[test]
fn earlier_rules_leave_room_for_the_last_ones() {
    let mut listener = Listener::default();
    listener.add(2, rule(9, None, 200).settings, false, BTreeMap::new());
    listener.add(10, rule(1, None, 200).settings, true, BTreeMap::new());
    let last = |host| Wanted { last: true, ..rule(host, None, 200) };
    let wanted = [rule(0, Some(49_995), 200), rule(1, None, 200), last(2), last(3), last(4)];
    assert!(listener.settle(&wanted, false) <= 2);
    assert_eq!(numbers(&listener)[1], 49_995);
    assert_eq!(listener.rules[&2].settings, rule(9, None, 200).settings);
}

#[test]
fn a_priority_overrides_the_listed_order() {
    let wanted = [rule(0, None, 200), rule(1, None, 200), rule(2, Some(1), 200), rule(3, Some(2), 200)];
    let listener = listener(&wanted);
    let order: Vec<_> = listener.rules.values().map(|it| it.settings.clone()).collect();
    assert_eq!(order, [2, 3, 0, 1].map(|host: usize| wanted[host].settings.clone()));
    assert_eq!(numbers(&listener)[..2], [1, 2]);
}

#[test]
fn what_cannot_be_had_is_named() {
    let mut listener = Listener::default();
    listener.add(10, rule(9, None, 200).settings, false, BTreeMap::new());
    let clash = |wanted: &[Wanted]| listener.plan(wanted, false).unwrap_err();

    let taken = clash(&[rule(0, None, 200), rule(1, Some(10), 200)]);
    assert_eq!((taken.index, taken.key.as_str()), (1, "host 1"));
    assert_eq!(taken.reason, Reason::Foreign { priority: 10, arn: "rule-1".into() });

    let twice = clash(&[rule(0, Some(5), 200), rule(1, Some(6), 200), rule(2, Some(5), 200)]);
    assert_eq!(twice.to_string(), "host 2: priority 5 belongs to host 0 already: choose another one");

    let full = clash(&[rule(0, Some(50_000), 200), rule(1, None, 200), rule(2, None, 200)]);
    assert_eq!((full.index, full.reason), (1, Reason::Full { behind: 50_000 }));

    for priority in [0, 50_001, u16::MAX] {
        assert_eq!(clash(&[rule(0, Some(priority), 200)]).reason, Reason::OutOfRange(priority));
    }
}

#[test]
fn each_member_keeps_its_own_of_equal_rules() {
    let member = |name: &str| Some(("shop".to_owned(), name.to_owned()));
    let present = |name: &str, priority: u16, status: u16| Present {
        rule: Rule { arn: name.into(), priority, settings: rule(0, None, status).settings },
        member: member(name),
        ours: true,
        held: true,
    };
    let wanted = |name: &str, status: u16| Wanted { member: member(name), ..rule(0, None, status) };
    let there = [present("a", 100, 401), present("b", 200, 202)];
    let steps = plan(&[wanted("b", 202), wanted("a", 401)], &there, false, usize::MAX).unwrap();
    assert!(matches!(&steps[..], [Step::SetPriorities(_)]), "they change places: {steps:?}");
    let steps = plan(&[wanted("b", 202)], &there[..1], false, usize::MAX).unwrap();
    let settings = rule(0, None, 202).settings;
    assert_eq!(steps, [Step::Modify { arn: "a".into(), settings }], "an unwanted rule becomes another member's");
}
