//! Where rules stand in the end, and where until then.

use std::collections::BTreeSet;

use super::Goal;
use super::numbers::{self, Place, Taken};
use crate::external::elbv2::Rule;

/// Where rules stand.
pub struct Layout {
    /// The wanted rules, in the end.
    pub finals: Vec<u16>,
    /// Our present rules until they move up to their final number or go.
    pub waiting: Vec<u16>,
}

/// Where the wanted rules, in their order, and our present ones, in theirs, stand; `None` if there are not enough
/// numbers.
pub fn layout(goals: &[Goal], ours: &[&Rule], others: &[&Rule]) -> Option<Layout> {
    let now: Vec<u16> = ours.iter().map(|rule| rule.priority).collect();
    let others: Vec<u16> = others.iter().map(|rule| rule.priority).collect();
    let unchanged = |goal: &Goal| goal.reused.is_some_and(|index| ours[index].settings == goal.wanted.settings);
    let only_moves = goals.iter().all(unchanged);
    if !only_moves && let Some(finals) = upwards(goals, &now, &others) {
        return Some(Layout { finals, waiting: now });
    }
    let others = Taken::by(&others);
    let finals = anywhere(goals, &now, &others)?;
    if only_moves && goals.len() == ours.len() {
        // One call moves all.
        return Some(Layout { finals, waiting: now });
    }
    let own = |index| goals.iter().zip(&finals).find(|(goal, _)| goal.reused == Some(index)).map(|(_, own)| *own);
    let places: Vec<_> = now.iter().enumerate().map(|(index, now)| (*now, own(index))).collect();
    if let Some(waiting) = numbers::waiting(&places, &finals, &others) {
        return Some(Layout { finals, waiting });
    }
    let (finals, waiting) = numbers::packed(goals.len(), ours.len(), &others)?;
    Some(Layout { finals, waiting })
}

/// Final numbers to which no rule has to move down, and at which none stands that would have to make room.
/// Once rules were made to wait there are such numbers: a plan that takes over from another makes none wait again.
fn upwards(goals: &[Goal], now: &[u16], others: &[u16]) -> Option<Vec<u16>> {
    let taken = Taken::by(now.iter().chain(others));
    let place = |goal: &Goal| {
        let now = goal.reused.map(|index| now[index]);
        match (goal.wanted.priority, now) {
            (None, None) => Some(Place::Any),
            (None, Some(now)) => Some(Place::AtMost(now)),
            (Some(fixed), now) => {
                let free = now == Some(fixed) || !taken.has(fixed);
                (free && now.is_none_or(|now| fixed <= now)).then_some(Place::Fixed(fixed))
            }
        }
    };
    let places: Option<Vec<Place>> = goals.iter().map(place).collect();
    numbers::assigned(&places?, &taken)
}

/// Final numbers that move as few rules as possible. Rules that will go may have to make room.
fn anywhere(goals: &[Goal], now: &[u16], others: &Taken) -> Option<Vec<u16>> {
    let place = |goal: &Goal| match (goal.wanted.priority, goal.reused) {
        (Some(priority), _) => Place::Fixed(priority),
        (None, Some(index)) => Place::Preferred(now[index]),
        (None, None) => Place::Any,
    };
    let places: Vec<Place> = goals.iter().map(place).collect();
    numbers::assigned(&places, others)
}

/// Those of our present rules that nobody wants, in their order.
pub fn leftovers(goals: &[Goal], present: usize) -> impl DoubleEndedIterator<Item = usize> {
    let reused: BTreeSet<usize> = goals.iter().filter_map(|goal| goal.reused).collect();
    (0..present).filter(move |index| !reused.contains(index))
}
