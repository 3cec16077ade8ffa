//! A listener in memory that is as strict as AWS, and requests that are sent to it after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use causeway_aws::elbv2::{Condition, FixedResponse, Match, Rule, RuleAction, RuleSettings};

use super::{Clash, Present, Step, Wanted, plan};

/// The values that a rule requires of host, path, a header and method. There are two values of each.
type Pattern = [Option<bool>; 4];

fn one(text: &str) -> BTreeSet<String> {
    BTreeSet::from([text.to_owned()])
}

fn conditions(pattern: Pattern) -> BTreeSet<Condition> {
    let condition = |(part, value): (usize, Option<bool>)| {
        let text = if value? { "this" } else { "that" };
        let wildcards = Match::Wildcards(one(text));
        Some(match part {
            0 => Condition::Host(wildcards),
            1 => Condition::Path(wildcards),
            2 => Condition::Header { name: "kind".into(), values: wildcards },
            _ => Condition::Method(one(text)),
        })
    };
    pattern.into_iter().enumerate().filter_map(condition).collect()
}

/// All possible requests, each as the conditions that hold for it.
static REQUESTS: LazyLock<Vec<BTreeSet<Condition>>> =
    LazyLock::new(|| (0..16).map(|bits| conditions([0, 1, 2, 3].map(|part| Some(bits >> part & 1 == 1)))).collect());

pub fn settings(pattern: Pattern, status: u16) -> RuleSettings {
    let body = Some(format!("{pattern:?}"));
    let answer = FixedResponse { status, content_type: None, body };
    RuleSettings {
        conditions: conditions(pattern),
        transforms: Vec::new(),
        actions: vec![RuleAction::FixedResponse(answer)],
    }
}

#[derive(Debug, PartialEq)]
enum Answer<'a> {
    Rule(&'a [RuleAction]),
    Default { changed: bool },
}

/// A rule, and the tags that it was created with.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub arn: String,
    pub settings: RuleSettings,
    pub ours: bool,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Listener {
    pub rules: BTreeMap<u16, Standing>,
    pub default_changed: bool,
    /// AWS's quota of rules, if it matters.
    pub most: Option<usize>,
    /// How many rules were made.
    pub born: usize,
}

impl Listener {
    pub fn add(&mut self, priority: u16, settings: RuleSettings, ours: bool, tags: BTreeMap<String, String>) {
        assert!((1..=50_000).contains(&priority), "ValidationError: {priority}");
        assert!(self.room() > 0, "TooManyRules");
        self.born += 1;
        let standing = Standing { arn: format!("rule-{}", self.born), settings, ours, tags };
        assert_eq!(self.rules.insert(priority, standing), None, "PriorityInUse: {priority}");
    }

    /// The priority of a rule of ours.
    fn find(&self, arn: &str) -> u16 {
        let found = self.rules.iter().find(|(_, standing)| standing.arn == arn);
        let (priority, standing) = found.expect("RuleNotFound");
        assert!(standing.ours, "{arn} belongs to others");
        *priority
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { priority, settings, tags } => self.add(*priority, settings.clone(), true, tags.clone()),
            Step::Modify { arn, settings } => {
                let (priority, room) = (self.find(arn), self.room());
                let standing = self.rules.get_mut(&priority).unwrap();
                assert!(standing.settings.conditions == settings.conditions || room == 0, "there is room to create it");
                assert_ne!(standing.settings, *settings, "nothing is modified");
                standing.settings = settings.clone();
            }
            Step::SetPriorities(moves) => {
                assert_ne!(moves.len(), 0);
                let lifted: Vec<_> = moves
                    .iter()
                    .map(|(arn, target)| (self.find(arn), *target))
                    .inspect(|(from, to)| assert_ne!(from, to, "nothing is moved"))
                    .collect();
                let lifted: Vec<_> =
                    lifted.into_iter().map(|(from, to)| (to, self.rules.remove(&from).unwrap())).collect();
                for (priority, standing) in lifted {
                    assert!((1..=50_000).contains(&priority), "ValidationError: {priority}");
                    assert_eq!(self.rules.insert(priority, standing), None, "PriorityInUse: {priority}");
                }
            }
            Step::SetDefault => {
                assert!(!self.default_changed, "nothing is changed");
                self.default_changed = true;
            }
            Step::Delete { arn } => {
                let priority = self.find(arn);
                self.rules.remove(&priority);
            }
        }
    }

    pub fn plan(&self, wanted: &[Wanted], new_default: bool) -> Result<Vec<Step>, Clash> {
        let present = |(priority, standing): (&u16, &Standing)| Present {
            rule: Rule { arn: standing.arn.clone(), priority: *priority, settings: standing.settings.clone() },
            member: None,
            ours: standing.ours,
            held: Self::is_held(*priority, standing),
        };
        // The order of this list must not matter.
        let present: Vec<Present> = self.rules.iter().map(present).rev().collect();
        plan(wanted, &present, new_default && !self.default_changed, self.room())
    }

    fn room(&self) -> usize {
        self.most.map_or(usize::MAX, |most| most.saturating_sub(self.rules.len()))
    }

    /// Plans and applies until there is nothing to do. Returns how many plans had steps.
    pub fn settle(&mut self, wanted: &[Wanted], new_default: bool) -> usize {
        for round in 0..5 {
            let steps = self.plan(wanted, new_default).unwrap();
            if steps.is_empty() {
                return round;
            }
            for step in &steps {
                self.apply(step);
            }
        }
        panic!("never settles: {self:#?}");
    }

    /// The answer to each request; `None` if a rule of others matches it.
    fn answers(&self) -> Vec<Option<Answer<'_>>> {
        let answer = |request: &BTreeSet<Condition>| {
            let matching = || self.rules.values().filter(|it| request.is_superset(&it.settings.conditions));
            let first = matching().next().map(|it| Answer::Rule(&it.settings.actions));
            let answer = first.unwrap_or(Answer::Default { changed: self.default_changed });
            matching().all(|it| it.ours).then_some(answer)
        };
        REQUESTS.iter().map(answer).collect()
    }

    /// Rules that come last follow those rules of others that have even numbers.
    fn is_held(priority: u16, standing: &Standing) -> bool {
        !standing.ours && priority.is_multiple_of(2)
    }

    pub fn select(&self, ours: bool) -> Vec<(u16, &Standing)> {
        self.rules.iter().filter(|(_, it)| it.ours == ours).map(|(priority, it)| (*priority, it)).collect()
    }

    pub fn order(&self) -> Vec<&RuleSettings> {
        self.select(true).into_iter().map(|(_, standing)| &standing.settings).collect()
    }

    /// Reports for each request whether it is answered by a rule of ours that is none of the wanted ones.
    fn answered_in_vain(&self, wanted: &[Wanted]) -> Vec<bool> {
        let vain = |actions: &[RuleAction]| {
            let unwanted =
                |it: &&Standing| wanted.iter().all(|rule| rule.settings.conditions != it.settings.conditions);
            let mut ours = self.rules.values().filter(|it| it.ours && it.settings.actions == actions);
            ours.any(|it| unwanted(&it))
        };
        let answers = self.answers().into_iter();
        answers.map(|answer| matches!(answer, Some(Answer::Rule(actions)) if vain(actions))).collect()
    }

    /// Every request gets the answer of one of these two listeners.
    fn answers_like(&self, old: &Self, new: &Self) -> TestCaseResult {
        for ((answer, old), new) in self.answers().iter().zip(old.answers()).zip(new.answers()) {
            prop_assert!(*answer == old || *answer == new, "{:?} is neither {:?} nor {:?}", answer, old, new);
        }
        Ok(())
    }
}

/// A listener, the wanted rules, and whether the default actions are to change.
type Scene = (Listener, Vec<Wanted>, bool);

/// Numbers that often collide, also at both ends.
fn number() -> impl Strategy<Value = u16> {
    prop_oneof![
        3 => 1..=9_u16,
        1 => (1..=9_u16).prop_map(|hundreds| hundreds * 100),
        1 => 49_994..=50_000_u16,
        1 => 1..=50_000_u16,
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop::array::uniform4(prop::option::weighted(0.35, any::<bool>()))
}

/// Rules with few different conditions, so most wanted rules exist in some form.
fn scene() -> impl Strategy<Value = Scene> {
    let rule = (0..6_usize, 200..203_u16);
    let present = prop::collection::btree_map(number(), (rule.clone(), prop::bool::weighted(0.85)), 0..9);
    let wanted = prop::collection::vec((rule, prop::option::weighted(0.35, number())), 0..9);
    let last = prop_oneof![1 => Just(0), 1 => 0..9_usize];
    (prop::collection::vec(pattern(), 6), present, wanted, last, any::<bool>()).prop_map(
        |(patterns, present, wanted, last, new_default)| {
            let first = wanted.len().saturating_sub(last);
            let mut listener = Listener::default();
            for (priority, ((which, status), ours)) in present {
                listener.add(priority, settings(patterns[which], status), ours, BTreeMap::new());
            }
            let wanted = wanted.into_iter().enumerate().map(|(index, ((which, status), priority))| Wanted {
                key: format!("rules[{index}]"),
                priority: priority.filter(|_| index < first),
                last: index >= first,
                member: None,
                settings: settings(patterns[which], status),
                tags: BTreeMap::from([("key".to_owned(), format!("rules[{index}]"))]),
            });
            let wanted = without_clashes(&listener, wanted.collect());
            (listener, wanted, new_default)
        },
    )
}

/// Removes one after the other those rules that make a plan impossible.
fn without_clashes(listener: &Listener, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    while let Err(clash) = listener.plan(&wanted, false) {
        assert_eq!(wanted.remove(clash.index).key, clash.key);
    }
    wanted
}

/// The rules as they would be if they were created from nothing.
fn fresh((listener, wanted, new_default): &Scene) -> Listener {
    let mut fresh = listener.clone();
    fresh.rules.retain(|_, standing| !standing.ours);
    fresh.settle(wanted, *new_default);
    fresh
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Holds wherever the work is interrupted, and without an interruption.
    #[test]
    fn no_request_meets_a_third_answer(scene in scene()) {
        let goal = fresh(&scene);
        let (before, wanted, new_default) = scene;
        let steps = before.plan(&wanted, new_default).unwrap();
        for crash in 0..=steps.len() {
            let mut now = before.clone();
            for step in &steps[..crash] {
                now.apply(step);
                now.answers_like(&before, &goal)?;
            }
            let mut rounds = 0;
            loop {
                let steps = now.plan(&wanted, new_default).unwrap();
                if steps.is_empty() {
                    break;
                }
                rounds += 1;
                prop_assert!(rounds < 4, "never settles: {now:#?}");
                for step in &steps {
                    now.apply(step);
                    now.answers_like(&before, &goal)?;
                }
            }
            prop_assert_eq!(now.order(), goal.order());
            prop_assert_eq!(now.default_changed, new_default);
            prop_assert_eq!(now.select(false), before.select(false), "rules of others");
            for rule in &wanted {
                if let Some(priority) = rule.priority {
                    prop_assert_eq!(&now.rules[&priority].settings, &rule.settings);
                }
            }
        }
    }

    /// Rules do not move on and on while AWS refuses a step again and again.
    #[test]
    fn a_crash_after_every_single_step_ends_as_well(scene in scene()) {
        let goal = fresh(&scene);
        let (before, wanted, new_default) = scene;
        let mut now = before.clone();
        let (mut count, mut moves) = (0, 0);
        while let Some(step) = now.plan(&wanted, new_default).unwrap().first() {
            now.apply(step);
            now.answers_like(&before, &goal)?;
            count += 1;
            prop_assert!(count < 50, "never ends: {now:#?}");
            moves = if matches!(step, Step::SetPriorities(_)) { moves + 1 } else { 0 };
            prop_assert!(moves < 3, "moved again and again: {now:#?}");
        }
        prop_assert_eq!(now.order(), goal.order());
    }

    #[test]
    fn one_plan_is_enough_where_numbers_are_not_short(scene in scene()) {
        let (mut listener, wanted, new_default) = scene;
        let numbers = listener.rules.keys().copied().chain(wanted.iter().filter_map(|rule| rule.priority));
        let rounds = if numbers.max().unwrap_or(0) < 49_900 { 1 } else { 2 };
        prop_assert!(listener.settle(&wanted, new_default) <= rounds);
    }

    /// Requests that a rule answered which gave way may meet a third answer, and no others.
    #[test]
    fn without_room_only_unwanted_rules_give_way(
        scene in scene(), more in 0..3_usize, crash in 0..20_usize,
    ) {
        let goal = fresh(&scene);
        let (before, wanted, new_default) = scene;
        let mut now = Listener { most: Some(before.rules.len().max(goal.rules.len()) + more), ..before.clone() };
        let given_up = before.answered_in_vain(&wanted);
        for round in 0.. {
            prop_assert!(round < 5, "never settles: {:#?}", now);
            let steps = now.plan(&wanted, new_default).unwrap();
            if steps.is_empty() {
                break;
            }
            let lives = if round == 0 { crash } else { usize::MAX };
            for step in steps.iter().take(lives) {
                now.apply(step);
                let answers = now.answers().into_iter().zip(before.answers()).zip(goal.answers()).zip(&given_up);
                for (((answer, old), new), given_up) in answers {
                    let fits = *given_up || answer == old || answer == new;
                    prop_assert!(fits, "{:?} is neither {:?} nor {:?}", answer, old, new);
                }
            }
        }
        prop_assert_eq!(now.order(), goal.order());
        prop_assert_eq!(now.select(false), before.select(false), "rules of others");
    }

    /// Checks the documentation of [`plan`].
    #[test]
    fn rules_are_evaluated_in_the_documented_order(scene in scene()) {
        let listener = fresh(&scene);
        let (_, wanted, _) = scene;
        let number = |rule: &Wanted| *listener.rules.iter().find(|(_, it)| it.tags == rule.tags).unwrap().0;
        let mut before = 0;
        let mut behind = 0;
        let held = listener.rules.iter().filter(|(priority, it)| Listener::is_held(**priority, it)).map(|(it, _)| *it);
        let first = wanted.iter().filter(|rule| !rule.last).map(number).chain(held).max().unwrap_or(0);
        for rule in &wanted {
            if rule.last {
                prop_assert!(number(rule) > before.max(first));
            } else if let Some(priority) = rule.priority {
                prop_assert_eq!(number(rule), priority);
                behind = priority;
            } else {
                prop_assert!(number(rule) > before);
                let next = wanted.iter().filter_map(|it| it.priority).filter(|it| *it > behind).min();
                let displaced = next.filter(|next| number(rule) > *next);
                if let Some(next) = displaced {
                    prop_assert!((behind + 1..next).all(|it| listener.rules.contains_key(&it)), "there was room");
                }
            }
            before = number(rule);
        }
    }
}
