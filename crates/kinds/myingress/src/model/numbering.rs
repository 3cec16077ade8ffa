//! The order in which rules are evaluated.

use std::collections::{BTreeMap, BTreeSet};

use super::RuleModel;

const HIGHEST: u16 = 50_000;

/// The reason why rules cannot be put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced<'a> {
    /// The first rule has the priority of the second.
    Taken(&'a RuleModel, &'a RuleModel),
    /// No number is left after the rule that this one follows.
    NoRoom(&'a RuleModel),
}

/// Puts rules in the order of their evaluation. `lists` are those of each object. The rules in `last` follow all
/// others, whatever numbers these have.
///
/// A rule with a priority has that number. A rule without one has the next free number after the rule before it in its
/// own object's list, or the lowest free one if it is the first. So the result always fits ascending numbers in which
/// every given priority is kept.
pub fn in_order<'a>(lists: &[&'a [RuleModel]], last: &'a [RuleModel]) -> Result<Vec<&'a RuleModel>, Misplaced<'a>> {
    let mut user_provided: BTreeMap<u16, &RuleModel> = BTreeMap::new();
    for rule in lists.iter().copied().flatten() {
        if let Some(other) = rule.priority.and_then(|priority| user_provided.insert(priority, rule)) {
            return Err(Misplaced::Taken(rule, other));
        }
    }
    let mut taken: BTreeSet<u16> = user_provided.into_keys().collect();
    let mut numbered = Vec::new();
    for list in lists {
        let mut before = 0;
        for rule in *list {
            let number = rule.priority.or_else(|| {
                let free = (before + 1..=HIGHEST).find(|number| !taken.contains(number))?;
                taken.insert(free);
                Some(free)
            });
            before = number.ok_or(Misplaced::NoRoom(rule))?;
            numbered.push((before, rule));
        }
    }
    numbered.sort_by_key(|(number, _)| *number);
    let mut before = numbered.last().map_or(0, |(number, _)| *number);
    for rule in last {
        if before == HIGHEST {
            return Err(Misplaced::NoRoom(rule));
        }
        before += 1;
        numbered.push((before, rule));
    }
    Ok(numbered.into_iter().map(|(_, rule)| rule).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::elbv2::RuleSettings;
    use proptest::prelude::*;

    fn rules(member: &str, priorities: &[Option<u16>]) -> Vec<RuleModel> {
        let rule = |(index, priority): (usize, &Option<u16>)| RuleModel {
            member: ("shop".into(), member.into()),
            field: format!("{member}{index}"),
            priority: *priority,
            settings: RuleSettings { conditions: BTreeSet::new(), transforms: Vec::new(), actions: Vec::new() },
        };
        priorities.iter().enumerate().map(rule).collect()
    }

    fn order(lists: &[Vec<RuleModel>]) -> Vec<&str> {
        let lists: Vec<_> = lists.iter().map(Vec::as_slice).collect();
        in_order(&lists, &[]).unwrap().into_iter().map(|rule| rule.field.as_str()).collect()
    }

    #[test]
    fn rules_without_priority_keep_their_order() {
        assert_eq!(order(&[rules("a", &[None, None]), rules("b", &[None])]), ["a0", "a1", "b0"]);
    }

    #[test]
    fn a_priority_puts_a_rule_before_or_behind_the_others() {
        assert_eq!(order(&[rules("a", &[None, None, Some(1)])]), ["a2", "a0", "a1"]);
        assert_eq!(order(&[rules("a", &[None, None, Some(100)])]), ["a0", "a1", "a2"]);
        assert_eq!(order(&[rules("a", &[Some(100), None]), rules("b", &[None])]), ["b0", "a0", "a1"]);
    }

    #[test]
    fn a_rule_without_priority_goes_to_the_next_free_number() {
        assert_eq!(order(&[rules("a", &[Some(5), None, Some(6)])]), ["a0", "a2", "a1"]);
    }

    #[test]
    fn what_cannot_be_placed_is_named() {
        let (a, b) = (rules("a", &[Some(7)]), rules("b", &[None, Some(7)]));
        assert_eq!(in_order(&[&a, &b], &[]), Err(Misplaced::Taken(&b[1], &a[0])));
        let last = rules("a", &[Some(HIGHEST), None]);
        assert_eq!(in_order(&[&last], &[]), Err(Misplaced::NoRoom(&last[1])));
    }

    #[test]
    fn what_comes_last_follows_the_highest_number() {
        let (home, guests) = (rules("a", &[Some(HIGHEST - 1), None]), rules("b", &[None]));
        assert_eq!(in_order(&[&home], &guests), Err(Misplaced::NoRoom(&guests[0])));
        let ordered = in_order(&[&home[..1]], &guests).unwrap();
        assert_eq!(ordered, [&home[0], &guests[0]]);
    }

    proptest! {
        /// The property that the planner of rules relies on.
        #[test]
        fn there_is_room_for_every_rule_between_given_priorities(
            priorities in prop::collection::vec(prop::collection::vec(prop::option::of(1..12_u16), 0..6), 0..4)
        ) {
            let lists: Vec<_> = priorities.iter().enumerate().map(|(it, list)| rules(&it.to_string(), list)).collect();
            let slices: Vec<_> = lists.iter().map(Vec::as_slice).collect();
            if let Ok(ordered) = in_order(&slices, &[]) {
                let mut before = 0;
                for rule in &ordered {
                    let least = before + 1;
                    before = rule.priority.unwrap_or(least);
                    prop_assert!(before >= least);
                }
                let seen: BTreeSet<_> = ordered.iter().map(|rule| &rule.field).collect();
                prop_assert_eq!(seen.len(), lists.iter().flatten().count());
            }
        }
    }
}
