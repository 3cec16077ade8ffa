//! Which of many cases a run tries: a sample, which changes with each commit, or all cases in a thorough run.

use super::is_thorough;

/// The number that `cargo xtask test` derives from the commit: the same commit always tries the same cases.
const SEED: &str = "CAUSEWAY_SAMPLE";

/// The number by which this run chooses its cases.
pub fn seed() -> usize {
    let seed = std::env::var(SEED).ok().and_then(|text| u32::from_str_radix(&text, 16).ok());
    usize::try_from(seed.unwrap_or(0)).expect("a small number")
}

/// Reports whether this run tries the case with this number, where each run tries one of every `every` cases. Runs with
/// `every` consecutive seeds try all cases.
pub fn tries(number: usize, every: usize) -> bool {
    is_thorough() || is_chosen(number, every, seed())
}

fn is_chosen(number: usize, every: usize, seed: usize) -> bool {
    number % every == seed % every
}

/// At most `room` of the items, evenly spread. Each item is chosen with some seed.
pub fn spread<T: Copy>(items: &[T], room: usize, seed: usize) -> Vec<T> {
    if room == 0 {
        return Vec::new();
    }
    let step = items.len().div_ceil(room).max(1);
    items.iter().copied().skip(seed % step).step_by(step).collect()
}

#[test]
fn every_case_has_its_turn() {
    for (every, number) in [(1, 5), (4, 0), (4, 7)] {
        let times = (0..every).filter(|seed| is_chosen(number, every, *seed)).count();
        assert_eq!(times, 1, "case {number}, one of {every}");
    }
    let items: Vec<usize> = (0..10).collect();
    for room in 1..12 {
        let mut tried: Vec<usize> = (0..10).flat_map(|seed| spread(&items, room, seed)).collect();
        assert!((0..10).all(|seed| spread(&items, room, seed).len() <= room), "{room}");
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried, items, "{room}");
    }
    assert_eq!(spread(&items, 0, 7), [0_usize; 0]);
}
