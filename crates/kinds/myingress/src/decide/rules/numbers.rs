//! Chooses the priority of each rule, and the numbers of rules that are moved aside meanwhile.

/// The highest priority. The lowest is 1.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateRule.html>
pub const HIGHEST: u16 = 50_000;

/// The distance between rules where there is room, so others fit in between.
const SPACING: usize = 100;

/// Numbers that must not be used.
pub struct Taken(Vec<u16>);

impl Taken {
    /// Marks these numbers as taken.
    pub fn new<'a>(numbers: impl IntoIterator<Item = &'a u16>) -> Self {
        let mut numbers: Vec<u16> = numbers.into_iter().copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }

    /// Reports whether this one is taken.
    pub fn has(&self, number: u16) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// The free numbers between these two.
    fn free(&self, above: u16, below: u16) -> impl Iterator<Item = u16> {
        (above + 1..below).filter(|number| !self.has(*number))
    }

    /// How many free numbers there are between these two. The first must be the lower one.
    pub fn count_free(&self, above: u16, below: u16) -> usize {
        let taken = self.0.partition_point(|it| *it < below) - self.0.partition_point(|it| *it <= above);
        usize::from(below - above - 1) - taken
    }
}

/// The number that a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This one.
    Fixed(u16),
    /// This number, if keeping it moves fewer rules than another choice would.
    Preferred(u16),
    /// This number likewise, but never a higher one.
    AtMost(u16),
    Any,
}

/// A rule that keeps the number it asks for, in the search of [`assigned`].
struct Stop {
    /// Counted from 1; 0 is the start of the list.
    position: usize,
    number: u16,
    /// The most preferred numbers that can be kept up to here.
    kept: usize,
    /// The stop before this one for that result.
    before: usize,
}

/// An ascending number for each place, with as many preferred numbers kept as possible; `None` if there are too few.
/// This is a longest increasing subsequence that must contain the fixed numbers, and must leave room in between.
pub fn assigned(places: &[Place], taken: &Taken) -> Option<Vec<u16>> {
    let mut stops = vec![Stop { position: 0, number: 0, kept: 0, before: 0 }];
    // Stops after which all places up to the present one can do without the number they ask for.
    let mut open = vec![0];
    for (position, place) in (1..).zip(places.iter().chain([&Place::Fixed(HIGHEST + 1)])) {
        let (Place::Fixed(number) | Place::Preferred(number) | Place::AtMost(number)) = *place else { continue };
        let room = |stop: &Stop| if stop.number < number { taken.count_free(stop.number, number) } else { 0 };
        let fits = |stop: &Stop| stop.number < number && room(stop) >= position - stop.position - 1;
        let reachable = open.iter().map(|index| (*index, &stops[*index])).filter(|(_, stop)| fits(stop));
        let best = reachable.max_by_key(|(_, stop)| stop.kept).map(|(before, stop)| (before, stop.kept));
        match place {
            Place::Fixed(_) if best.is_none() => return None,
            Place::Fixed(_) => open.clear(),
            Place::AtMost(_) => open.retain(|index| room(&stops[*index]) >= position - stops[*index].position),
            Place::Preferred(_) | Place::Any => {}
        }
        if let Some((before, kept)) = best {
            open.push(stops.len());
            stops.push(Stop { position, number, kept: kept + 1, before });
        }
    }
    let mut numbers = vec![0; places.len() + 1];
    let mut until = stops.last()?;
    while until.position > 0 {
        let from = &stops[until.before];
        numbers[until.position - 1] = until.number;
        // Spread the numbers evenly. No place exceeds its limit by that: a place with this much room below its limit
        // would have kept its number.
        let gap = &mut numbers[from.position..until.position - 1];
        let even = (taken.count_free(from.number, until.number) + 1) / (gap.len() + 1);
        let spacing = even.min(SPACING);
        let free = taken.free(from.number, until.number).skip(spacing - 1).step_by(spacing);
        gap.iter_mut().zip(free).for_each(|(number, free)| *number = free);
        until = from;
    }
    numbers.truncate(places.len());
    Some(numbers)
}

/// The numbers at which rules wait, in their present order. Each rule has its present number and, if it is reused, its
/// final number. It waits at neither a lower number than these two nor the final number of another rule. As few rules
/// as possible are moved. `None` if the last rule would get a number above [`HIGHEST`].
pub fn waiting(now_and_final: &[(u16, Option<u16>)], finals: &[u16], taken: &Taken) -> Option<Vec<u16>> {
    let mut lowest = 1;
    let places = now_and_final.iter().map(|(now, own)| {
        let allowed =
            |number: &u16| !taken.has(*number) && (Some(*number) == *own || finals.binary_search(number).is_err());
        let number = (lowest.max(*now).max(own.unwrap_or(0))..=HIGHEST).find(allowed)?;
        lowest = number + 1;
        Some(number)
    });
    places.collect()
}

/// Provisional final numbers for this many wanted rules, and higher numbers at which this many present rules wait.
pub fn packed(wanted: usize, present: usize, taken: &Taken) -> Option<(Vec<u16>, Vec<u16>)> {
    let mut numbers: Vec<u16> = taken.free(0, HIGHEST + 1).take(wanted + present).collect();
    let enough = numbers.len() == wanted + present;
    let waiting = enough.then(|| numbers.split_off(wanted))?;
    Some((numbers, waiting))
}
