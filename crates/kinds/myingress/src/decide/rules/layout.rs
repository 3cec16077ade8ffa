//! The numbers of rules in the end, and until then.

use std::collections::BTreeSet;

use causeway_aws::elbv2::Rule;

use super::Goal;
use super::numbers::{self, Place, Taken};

/// Numbers of rules.
pub struct Layout {
    /// The final numbers of the wanted rules.
    pub finals: Vec<u16>,
    /// The numbers of our present rules until they move up to their final number or are deleted.
    pub waiting: Vec<u16>,
}

/// Numbers for the wanted rules and for our present ones, each in their order; `None` if there are not enough numbers.
/// The wanted rules from `count` on get numbers above `floor`.
pub fn layout(goals: &[Goal], count: usize, floor: u16, ours: &[&Rule], others: &[&Rule]) -> Option<Layout> {
    let now: Vec<u16> = ours.iter().map(|rule| rule.priority).collect();
    let others: Vec<u16> = others.iter().map(|rule| rule.priority).collect();
    let unchanged = |goal: &Goal| goal.reused.is_some_and(|index| ours[index].settings == goal.wanted.settings);
    let only_moves = goals.iter().all(unchanged);
    if !only_moves && let Some(finals) = upwards(goals, count, floor, &now, &others) {
        return Some(Layout { finals, waiting: now });
    }
    let others = Taken::new(&others);
    let finals = anywhere(goals, count, floor, &now, &others)?;
    if only_moves && goals.len() == ours.len() {
        // One call moves all rules.
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

/// Final numbers to which no rule has to move down, and which no rule has to leave first. Once rules were moved aside
/// there are such numbers, so a plan that continues another one does not move them again.
fn upwards(goals: &[Goal], count: usize, floor: u16, now: &[u16], others: &[u16]) -> Option<Vec<u16>> {
    let taken = Taken::new(now.iter().chain(others));
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
    let places = places?;
    in_two(&places, count, floor, &taken)
}

/// Final numbers that move as few rules as possible. Rules that will be deleted may have to make room.
fn anywhere(goals: &[Goal], count: usize, floor: u16, now: &[u16], others: &Taken) -> Option<Vec<u16>> {
    let place = |goal: &Goal| match (goal.wanted.priority, goal.reused) {
        (Some(priority), _) => Place::Fixed(priority),
        (None, Some(index)) => Place::Preferred(now[index]),
        (None, None) => Place::Any,
    };
    let places: Vec<Place> = goals.iter().map(place).collect();
    in_two(&places, count, floor, others)
}

/// A number for each place. Those from `count` on are above `floor` and above all before them.
fn in_two(places: &[Place], count: usize, floor: u16, taken: &Taken) -> Option<Vec<u16>> {
    let (first, last) = places.split_at(count);
    if last.is_empty() || floor == 0 {
        return numbers::assigned(places, taken);
    }
    let numbers = numbers::assigned(first, taken)?;
    // If the first places keep or spread their numbers, there may be no room for the last ones.
    behind(numbers, last, floor, taken).or_else(|| behind(lowest(first, taken)?, last, floor, taken))
}

/// These numbers, and one for each of the last places, above `floor` and above all of these numbers.
fn behind(mut all: Vec<u16>, last: &[Place], floor: u16, taken: &Taken) -> Option<Vec<u16>> {
    let start = all.last().copied().unwrap_or(0).max(floor);
    // This first place stands for everything that comes before.
    let behind: Vec<Place> = std::iter::once(Place::Fixed(start)).chain(last.iter().copied()).collect();
    all.extend(numbers::assigned(&behind, taken)?.into_iter().skip(1));
    Some(all)
}

/// The lowest number for each place.
fn lowest(places: &[Place], taken: &Taken) -> Option<Vec<u16>> {
    let mut before = 0;
    let mut number = |place: &Place| {
        before = match *place {
            Place::Fixed(fixed) => (fixed > before).then_some(fixed),
            Place::AtMost(now) => (before + 1..=now).find(|it| *it == now || !taken.has(*it)),
            Place::Preferred(_) | Place::Any => (before + 1..=numbers::HIGHEST).find(|it| !taken.has(*it)),
        }?;
        Some(before)
    };
    places.iter().map(&mut number).collect()
}

/// Our present unwanted rules, in their order.
pub fn leftovers(goals: &[Goal], present: usize) -> impl DoubleEndedIterator<Item = usize> {
    let reused: BTreeSet<usize> = goals.iter().filter_map(|goal| goal.reused).collect();
    (0..present).filter(move |index| !reused.contains(index))
}
