//! The order in which rules are to be evaluated, and what makes an order impossible.

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

use causeway_aws::elbv2::Rule;

use super::Wanted;
use super::numbers::{HIGHEST, Taken};

/// The reason why there is no plan, and the wanted rule whose removal may help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {reason}")]
pub struct Clash {
    /// Which of the wanted rules it is.
    pub index: usize,
    pub key: String,
    /// The defect of its priority.
    pub reason: Reason,
}

/// A defect of the priority of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// AWS does not allow this priority.
    #[error("priority {0} is not one of 1 to {HIGHEST}")]
    OutOfRange(u16),
    /// Two wanted rules have the same priority. The one that is listed first keeps it.
    #[error("priority {priority} belongs to {first} already: choose another one")]
    Twice {
        priority: u16,
        /// Key of the rule that keeps it.
        first: String,
    },
    /// A rule that is not ours has it.
    #[error("priority {priority} is taken by {arn}, which Causeway does not own: choose another one")]
    Foreign {
        priority: u16,
        /// ARN of the rule that has it.
        arn: String,
    },
    /// There is no room after the rule that it has to follow.
    #[error("no priority above {behind} is free: give the rules listed before it lower ones")]
    Full {
        /// The last priority that is listed before it; 0 if there is none.
        behind: u16,
    },
}

/// The wanted rules in the order of their evaluation. The order depends only on the wanted rules and on the numbers of
/// others. See [`super::plan`].
pub fn evaluated<'a>(wanted: &'a [Wanted], others: &[&Rule]) -> Result<Vec<&'a Wanted>, Clash> {
    let clash = |index: usize, reason| Clash { index, key: wanted[index].key.clone(), reason };
    // For each priority, its rule and the rules that follow it. The entry for 0 has the rules that follow none.
    let mut runs: BTreeMap<u16, Run> = BTreeMap::from([(0, Run::default())]);
    let mut behind = 0;
    for (index, rule) in wanted.iter().enumerate().filter(|(_, rule)| !rule.last) {
        if let Some(priority) = rule.priority {
            if !(1..=HIGHEST).contains(&priority) {
                return Err(clash(index, Reason::OutOfRange(priority)));
            }
            if let Some(other) = others.iter().find(|other| other.priority == priority) {
                return Err(clash(index, Reason::Foreign { priority, arn: other.arn.clone() }));
            }
            let run = Run { first: Some(index), rest: VecDeque::new() };
            if let Some(Run { first: Some(first), .. }) = runs.insert(priority, run) {
                return Err(clash(index, Reason::Twice { priority, first: wanted[first].key.clone() }));
            }
            behind = priority;
        } else {
            runs.entry(behind).or_default().rest.push_back(index);
        }
    }
    let others: Vec<u16> = others.iter().map(|rule| rule.priority).collect();
    let taken = Taken::new(&others);
    let ends: Vec<u16> = runs.keys().copied().skip(1).chain([HIGHEST + 1]).collect();
    let mut ordered = Vec::with_capacity(wanted.len());
    let mut displaced = VecDeque::new();
    for ((start, Run { first, mut rest }), end) in runs.into_iter().zip(ends) {
        ordered.extend(first);
        rest.append(&mut displaced);
        let room = taken.count_free(start, end).min(rest.len());
        displaced = rest.split_off(room);
        ordered.extend(rest);
    }
    if let Some(index) = displaced.front() {
        return Err(full(wanted, *index));
    }
    ordered.extend((0..wanted.len()).filter(|index| wanted[*index].last));
    Ok(ordered.into_iter().map(|index| &wanted[index]).collect())
}

/// The clash of a rule for which no number is left.
pub fn full(wanted: &[Wanted], index: usize) -> Clash {
    let behind = wanted[..index].iter().rev().find_map(|rule| rule.priority).unwrap_or(0);
    Clash { index, key: wanted[index].key.clone(), reason: Reason::Full { behind } }
}

/// Rules that stand together.
#[derive(Default)]
struct Run {
    /// The rule that has a priority.
    first: Option<usize>,
    /// The rules that follow it.
    rest: VecDeque<usize>,
}
