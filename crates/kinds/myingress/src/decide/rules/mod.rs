//! Plans how the rules of a listener become the wanted ones, without a moment in which a request meets an answer that
//! neither the old rules nor the new ones give. Pure.
//!
//! A listener tries its rules from the lowest priority to the highest; the first whose conditions hold answers, else
//! the listener's default actions do.
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-rules.html>
//!
//! # The plan
//! A present rule is reused for a wanted one of the same conditions, and of the same member if there is one; where AWS
//! has room, for no other one. Then:
//! 1. One `SetRulePriorities`, only if needed, pushes rules down, their order kept, until each reused rule stands at
//!    its final number or below and nothing else stands at a final number.
//! 2. From the first wanted rule to the last: it is created at its number, or modified where it stands and then moved
//!    up to its number. Moves wait for each other and go in one call, at the latest before the next create or modify.
//! 3. The default actions change.
//! 4. Unwanted rules go, from the last to the first.
//!
//! # Why no request meets a third answer
//! Call wanted rules that step 2 has dealt with *done*, all others that are there *old*. Old rules keep their order
//! until step 4, and a done rule never stands below a place where it stood before step 2. Take the first rule that
//! matches a request:
//! - It is done: the wanted rules before it are done as well and stand above it, so it answers in the new list too.
//!   One that is modified and not yet moved has all done rules above it, so the same holds.
//! - It is old: the rule that answered in the old list would stand above it, done or not, so that is this very rule,
//!   and it does what it did. Step 4 takes away only what stands below every rule that is left.
//! - There is none: no old rule matches, and once the default actions change no wanted one does either.
//!
//! Each intermediate answer is thus one of the old list or of the new one. A plan made from an intermediate state, after
//! a crash, takes that state for the old list, and so gives an answer of the original list or of the new one as well.
//!
//! Rules of others keep their numbers. Which answer they give or hide is up to those who made them.
//!
//! Step 2 comes before step 4, so for a moment there are more rules than before and after.
//!
//! # Where AWS's quota of rules has no room for that
//! The last of the new rules are not created: each of them is put in the place of an old unwanted rule, by one call
//! that changes conditions and actions together. The old rule is gone before step 4 then, so a request that it answered
//! may meet a third answer. The module `room` chooses rules for which that does not happen, if there are such: those
//! whose requests no other old rule is for, and no rule that is still to be made. No other request meets one.

mod layout;
mod numbers;
mod order;
mod room;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::ownership::ObjectKey;
use causeway_aws::elbv2::{Condition, Rule, RuleSettings};
use layout::{Layout, layout, leftovers};
pub use order::Clash;
pub use room::may_share;

/// A rule as it should be. [`plan`] documents its place among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Names the rule in messages.
    pub key: String,
    /// The priority that the user asked for.
    pub priority: Option<u16>,
    /// True if it comes after all rules for which this is false, whatever their numbers. Such a rule has no priority,
    /// and is listed after the others.
    pub last: bool,
    /// The member that it belongs to.
    pub member: Option<ObjectKey>,
    /// Its conditions and actions. Target groups are given by ARN.
    pub settings: RuleSettings,
    /// Tags that it is created with.
    pub tags: BTreeMap<String, String>,
}

/// A rule that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The rule. Secrets that AWS does not return must be filled in where they are known to be set, because settings
    /// that do not compare equal are modified.
    pub rule: Rule,
    /// The member that it belongs to; `None` outside of a group.
    pub member: Option<ObjectKey>,
    /// True if it may be changed. A rule that may not be changed keeps its priority.
    pub ours: bool,
    /// True if rules that come last follow it, although it may not be changed.
    pub held: bool,
}

/// One or a few calls that change the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create a rule.
    Create {
        /// Its number.
        priority: u16,
        /// Its conditions and actions.
        settings: RuleSettings,
        tags: BTreeMap<String, String>,
    },
    /// Change what a rule does.
    Modify {
        /// ARN of the rule.
        arn: String,
        /// Its new conditions and actions. The conditions stay, unless it takes the place of an unwanted rule.
        settings: RuleSettings,
    },
    /// Give these rules, by ARN, these priorities in one call. AWS looks only at the outcome, so rules can change
    /// places.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetRulePriorities.html>
    SetPriorities(BTreeMap<String, u16>),
    /// The point at which the caller changes the default actions.
    SetDefault,
    /// Delete a rule.
    Delete {
        /// ARN of the rule.
        arn: String,
    },
}

/// The steps, in order, that turn `present` into the `wanted` rules; none if nothing differs. Make a new plan from the
/// rules that exist when a step fails, and after the last step. The second plan is empty, unless priorities close to
/// 50,000 left no room to move rules aside. Then it gives their final priorities to rules that are already in order.
///
/// Order of evaluation, as documented for users:
/// - A rule with a priority has exactly that one.
/// - A rule without one comes after the rule that is listed before it, and before the rules with higher priorities. If
///   there are no priorities at all, rules are evaluated as listed. Rules listed before the first priority come first.
/// - If there are not enough numbers up to the next priority, the last of the rules in between come after that priority
///   and after the rules that follow it, wherever there is room.
/// - Rules that come last follow all others, and those of ours that may not be changed.
///
/// Numbers of rules without a priority do not change as long as a number is free where a rule is inserted.
///
/// A caller who joins the lists of several owners puts the rules that each owner lists before its first priority in
/// front of all other rules. Otherwise they would follow the last priority of the previous owner.
///
/// `room` is how many rules AWS's quota allows beside the present ones.
pub fn plan(wanted: &[Wanted], present: &[Present], default_differs: bool, room: usize) -> Result<Vec<Step>, Clash> {
    let others: Vec<&Rule> = present.iter().filter(|it| !it.ours).map(|it| &it.rule).collect();
    let ordered = order::evaluated(wanted, &others)?;
    let count = wanted.len() - ordered.iter().filter(|it| it.last).count();
    let mut own: Vec<&Present> = present.iter().filter(|it| it.ours).collect();
    own.sort_unstable_by_key(|it| it.rule.priority);
    let mut goals = matched(&ordered, &own);
    let ours: Vec<&Rule> = own.into_iter().map(|it| &it.rule).collect();
    room::make(&mut goals, &ours, room);
    let floor = present.iter().filter(|it| !it.ours && it.held).map(|it| it.rule.priority).max().unwrap_or(0);
    let places = layout(&goals, count, floor, &ours, &others);
    let Layout { finals, waiting } = places.ok_or_else(|| order::full(wanted, wanted.len() - 1))?;

    let mut schedule = Schedule::new(&ours);
    for (rule, number) in ours.iter().zip(waiting) {
        schedule.move_to(&rule.arn, number);
    }
    for (goal, priority) in goals.iter().zip(finals) {
        let Wanted { settings, tags, .. } = goal.wanted;
        match goal.reused.map(|index| ours[index]) {
            None => schedule.step(Step::Create { priority, settings: settings.clone(), tags: tags.clone() }),
            Some(rule) => {
                if rule.settings != *settings {
                    schedule.step(Step::Modify { arn: rule.arn.clone(), settings: settings.clone() });
                }
                schedule.move_to(&rule.arn, priority);
            }
        }
    }
    schedule.flush();
    if default_differs {
        schedule.step(Step::SetDefault);
    }
    for index in leftovers(&goals, ours.len()).rev() {
        schedule.step(Step::Delete { arn: ours[index].arn.clone() });
    }
    Ok(schedule.steps)
}

/// A wanted rule, and which of our present rules becomes it.
struct Goal<'a> {
    wanted: &'a Wanted,
    reused: Option<usize>,
}

/// Gives each wanted rule the first of our rules that has its conditions and is not yet given away. Rules of the same
/// member come first: a rule that a member keeps may have a client secret that cannot be sent again.
fn matched<'a>(ordered: &[&'a Wanted], ours: &[&Present]) -> Vec<Goal<'a>> {
    let mut by_conditions: BTreeMap<&BTreeSet<Condition>, Vec<usize>> = BTreeMap::new();
    for (index, present) in ours.iter().enumerate() {
        by_conditions.entry(&present.rule.settings.conditions).or_default().push(index);
    }
    let mut goals: Vec<Goal> = ordered.iter().map(|wanted| Goal { wanted, reused: None }).collect();
    for of_any_member in [false, true] {
        for goal in goals.iter_mut().filter(|goal| goal.reused.is_none()) {
            let Some(left) = by_conditions.get_mut(&goal.wanted.settings.conditions) else { continue };
            let place = left.iter().position(|index| of_any_member || ours[*index].member == goal.wanted.member);
            goal.reused = place.map(|place| left.remove(place));
        }
    }
    goals
}

/// Steps, and moves that are not part of a step yet.
struct Schedule {
    steps: Vec<Step>,
    /// The numbers of rules after the steps, by ARN.
    now: BTreeMap<String, u16>,
    /// The numbers that they are to have next.
    next: BTreeMap<String, u16>,
}

impl Schedule {
    fn new(ours: &[&Rule]) -> Self {
        let now: BTreeMap<String, u16> = ours.iter().map(|rule| (rule.arn.clone(), rule.priority)).collect();
        Self { steps: Vec::new(), next: now.clone(), now }
    }

    fn move_to(&mut self, arn: &str, number: u16) {
        self.next.insert(arn.to_owned(), number);
    }

    /// Turns the moves into one step.
    fn flush(&mut self) {
        let mut moves = self.next.clone();
        moves.retain(|arn, number| self.now.get(arn) != Some(number));
        if !moves.is_empty() {
            self.steps.push(Step::SetPriorities(moves));
        }
        self.now.clone_from(&self.next);
    }

    fn step(&mut self, step: Step) {
        self.flush();
        self.steps.push(step);
    }
}
