//! Makes room for new rules where AWS's quota has none beside the old ones.

use std::collections::BTreeSet;

use causeway_aws::elbv2::{Condition, Match, Rule};

use super::Goal;
use super::layout::leftovers;

/// The wildcards of hosts and paths.
const WILDCARDS: [char; 2] = ['*', '?'];

/// Lets the last new rules take the places of unwanted rules, as many as exceed `room`. Of these old rules, that one is
/// given up first whose requests the fewest other rules are for that are still to be made.
pub fn make(goals: &mut [Goal], ours: &[&Rule], room: usize) {
    let new: Vec<usize> = (0..goals.len()).filter(|index| goals[*index].reused.is_none()).collect();
    let mut old: Vec<usize> = leftovers(goals, ours.len()).collect();
    let short = new.len().saturating_sub(room).min(old.len());
    for (left, index) in (1..=short).rev().zip(&new[new.len() - short..]) {
        // Where all are alike, the last old rules are taken, in their order. So the fewest rules move.
        let usual = old.len() - left;
        let harm = |place: &usize| (harm(goals, *index, ours, &old[*place..]), place.abs_diff(usual));
        if let Some(place) = (0..old.len()).min_by_key(harm) {
            goals[*index].reused = Some(old.remove(place));
        }
    }
}

/// How many rules may wrongly answer requests that the first of these old rules answered, or miss, if the goal with that
/// index takes its place.
fn harm(goals: &[Goal], index: usize, ours: &[&Rule], old: &[usize]) -> usize {
    let Some((given_up, behind)) = old.split_first() else { return 0 };
    let given_up = &ours[*given_up].settings.conditions;
    // The rules that are done stand before it. If one of them takes all its requests, it answers none.
    if goals[..=index].iter().any(|goal| goal.wanted.settings.conditions.is_subset(given_up)) {
        return 0;
    }
    let unchanged = |goal: &Goal| goal.reused.is_some_and(|own| ours[own].settings == goal.wanted.settings);
    let to_come =
        goals[index + 1..].iter().filter(|goal| !unchanged(goal)).map(|goal| &goal.wanted.settings.conditions);
    let behind = behind.iter().map(|other| &ours[*other].settings.conditions);
    to_come.chain(behind).filter(|conditions| may_share(given_up, conditions)).count()
}

/// Reports whether one request may fulfil both. Only hosts, paths and methods are compared.
pub fn may_share(one: &BTreeSet<Condition>, other: &BTreeSet<Condition>) -> bool {
    let exclude = |(one, other): (&Condition, &Condition)| match (one, other) {
        (Condition::Host(Match::Wildcards(one)), Condition::Host(Match::Wildcards(other)))
        | (Condition::Path(Match::Wildcards(one)), Condition::Path(Match::Wildcards(other))) => {
            one.iter().all(|one| other.iter().all(|other| are_apart(one, other)))
        }
        (Condition::Method(one), Condition::Method(other)) => one.is_disjoint(other),
        _ => false,
    };
    !one.iter().any(|one| other.iter().any(|other| exclude((one, other))))
}

/// Reports whether no text matches both patterns, as far as their beginnings and ends show that.
fn are_apart(one: &str, other: &str) -> bool {
    // Hosts are compared without regard to case. For paths that only finds fewer differences.
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    if ![&one, &other].iter().any(|it| it.contains(WILDCARDS)) {
        return one != other;
    }
    let (begins, other_begins) = (beginning(&one), beginning(&other));
    let (ends, other_ends) = (end(&one), end(&other));
    !(begins.starts_with(other_begins) || other_begins.starts_with(begins))
        || !(ends.ends_with(other_ends) || other_ends.ends_with(ends))
}

/// The text before the first wildcard.
fn beginning(pattern: &str) -> &str {
    pattern.split(WILDCARDS).next().unwrap_or_default()
}

/// The text after the last wildcard.
fn end(pattern: &str) -> &str {
    pattern.rsplit(WILDCARDS).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::simulation::{Listener, settings};
    use super::super::{Step, Wanted};
    use super::*;
    use causeway_aws::elbv2::RuleSettings;

    fn hosts(hosts: &[String]) -> BTreeSet<Condition> {
        [Condition::Host(Match::Wildcards(hosts.iter().cloned().collect()))].into()
    }

    /// A rule for these hosts, with the status that it answers.
    fn rule(of: &[String], status: u16) -> Wanted {
        let settings = RuleSettings { conditions: hosts(of), ..settings([None; 4], status) };
        Wanted { key: of.join(" "), priority: None, last: false, member: None, settings, tags: BTreeMap::new() }
    }

    fn host(number: usize) -> String {
        format!("h{number}.example.com")
    }

    /// Returns the settings of the rule that answers requests for a host; `None` stands for the default action.
    fn answer(listener: &Listener, host: &str) -> Option<RuleSettings> {
        let is_for = |condition: &Condition| matches!(condition, Condition::Host(Match::Wildcards(hosts)) if hosts.contains(host));
        let mut rules = listener.rules.values().map(|standing| &standing.settings);
        rules.find(|settings| settings.conditions.iter().any(is_for)).map(|settings| {
            let conditions = BTreeSet::new();
            RuleSettings { conditions, ..settings.clone() }
        })
    }

    #[test]
    fn replacing_sixty_rules_stays_within_a_hundred() {
        let rules = |from: usize| (from..from + 60).map(|it| rule(&[host(it)], 200)).collect::<Vec<_>>();
        let mut listener = Listener { most: Some(100), ..Listener::default() };
        listener.settle(&rules(0), false);
        let steps = listener.plan(&rules(60), false).unwrap();
        let created = steps.iter().filter(|it| matches!(it, Step::Create { .. })).count();
        let deleted = steps.iter().filter(|it| matches!(it, Step::Delete { .. })).count();
        assert_eq!((created, deleted), (40, 40));
        assert_eq!(listener.settle(&rules(60), false), 1);
        assert_eq!(listener.rules.len(), 60);
    }

    #[test]
    fn patterns_are_apart_where_their_beginnings_or_ends_differ() {
        for (one, other, apart) in [
            ("a.example.com", "b.example.com", true),
            ("a.example.com", "A.example.com", false),
            ("ab", "a", true),
            ("*.a.com", "*.b.com", true),
            ("*.com", "*.a.com", false),
            ("/a/*", "/b", true),
            ("/a*", "/ab/*", false),
            ("*", "/b", false),
            ("/?", "/b", false),
        ] {
            assert_eq!((are_apart(one, other), are_apart(other, one)), (apart, apart), "{one} {other}");
        }
    }

    proptest! {
        /// Each host has one old rule and one new one with other conditions, or one of them.
        #[test]
        fn without_room_every_host_has_its_old_or_new_rule(
            order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
            olds in prop::collection::vec(any::<bool>(), 12),
            news in prop::collection::vec(any::<bool>(), 12),
            more in 0..4_usize,
            crash in 0..30_usize,
        ) {
            let old: Vec<Wanted> = (0..12).filter(|it| olds[*it]).map(|it| rule(&[host(it)], 200)).collect();
            let wanted = order.iter().filter(|it| news[**it]);
            let wanted: Vec<Wanted> = wanted.map(|it| rule(&[host(*it), format!("www.{}", host(*it))], 201)).collect();
            let mut before = Listener::default();
            before.settle(&old, false);
            let mut goal = Listener::default();
            goal.settle(&wanted, false);
            let most = Some(old.len().max(wanted.len()) + more);
            let mut now = Listener { most, ..before.clone() };
            let all: Vec<String> = (0..12).flat_map(|it| [host(it), format!("www.{}", host(it))]).collect();
            let mut left = crash;
            for round in 0.. {
                prop_assert!(round < 4, "never settles: {:#?}", now);
                let steps = now.plan(&wanted, false).unwrap();
                if steps.is_empty() {
                    break;
                }
                for step in steps {
                    if round == 0 && left == 0 {
                        break;
                    }
                    left = left.saturating_sub(1);
                    now.apply(&step);
                    for host in &all {
                        let (is, was, will) = (answer(&now, host), answer(&before, host), answer(&goal, host));
                        prop_assert!(is == was || is == will, "{}: {:?}", host, is);
                    }
                }
            }
            prop_assert_eq!(now.order(), goal.order());
        }
    }
}
