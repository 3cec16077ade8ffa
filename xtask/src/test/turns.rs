//! Decides which tests a run of everything leaves to other commits.
//!
//! Some tests take turns: the commit decides which of them run. With a filter or `--thorough` all run. Tests of
//! databases wait for processes that start, fail over and hold their data, which takes most of the suite's time.
//! Simulations beside the code test the same decisions completely.

/// Prefixes of tests that take turns, and the number of runs in which each of them runs once. The first matching prefix
/// applies.
const IN_TURNS: &[(&str, usize)] = &[
    // These test the same decisions in other orders.
    ("crash::", 4),
    ("etcd::restarts::", 4),
    ("redis::compared::", 4),
    ("redis::restarts::", 4),
    // Basic function and the content of restored backups are tested with every commit.
    ("backup::fidelity::", 1),
    ("etcd::creation::", 1),
    ("redis::creation::", 1),
    ("backup::", 4),
    ("etcd::", 4),
    ("redis::", 4),
];

/// The tests that run, and how many are left to other commits. `seed` decides which tests have their turn.
pub fn of_this_run(mut names: Vec<String>, seed: usize) -> (Vec<String>, usize) {
    names.sort();
    let all = names.len();
    let mut places = [0; IN_TURNS.len()];
    names.retain(|name| {
        let Some(at) = IN_TURNS.iter().position(|(prefix, _)| name.starts_with(prefix)) else { return true };
        places[at] += 1;
        places[at] % IN_TURNS[at].1 == seed % IN_TURNS[at].1
    });
    let left = all - names.len();
    (names, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_of_commits_runs_every_test() {
        let all =
            ["myapp::a", "crash::d", "crash::c", "crash::b", "crash::a", "etcd::restarts::c", "etcd::creation::d"];
        let all = all.map(str::to_owned).to_vec();
        let mut turns = Vec::new();
        for seed in 0x10..0x14 {
            let (mut names, left) = of_this_run(all.clone(), seed);
            assert_eq!(names.len() + left, all.len());
            names.retain(|name| !["etcd::creation::d", "myapp::a"].contains(&name.as_str()));
            turns.extend(names);
        }
        turns.sort();
        assert_eq!(turns, ["crash::a", "crash::b", "crash::c", "crash::d", "etcd::restarts::c"]);
    }

    #[test]
    fn four_commits_run_all_of_a_database() {
        let all: Vec<String> =
            ["redis::a", "redis::b", "redis::c", "redis::d", "redis::e", "backup::a"].map(str::to_owned).to_vec();
        let runs = [8, 9, 10, 11].map(|seed| of_this_run(all.clone(), seed).0);
        assert!(runs.iter().all(|names| !names.is_empty()), "{runs:?}");
        let mut together = runs.concat();
        together.sort();
        assert_eq!(together, ["backup::a", "redis::a", "redis::b", "redis::c", "redis::d", "redis::e"]);
    }
}
