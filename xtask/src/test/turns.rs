//! Which tests a run of everything leaves to other commits.
//!
//! Tests of one kind that try the same decisions in another order, and that simulations beside the code try in full, take turns:
//! one of four runs, and the commit decides which. A filter or `--thorough` runs them all.

/// What the names of tests that take turns begin with.
const IN_TURNS: &[&str] = &["crash::", "etcd::restarts::", "redis::compared::", "redis::restarts::"];
/// One of so many runs.
const OF: usize = 4;

/// The tests that run, and how many are left to other commits. `seed` says whose turn it is.
pub fn of_this_run(mut names: Vec<String>, seed: usize) -> (Vec<String>, usize) {
    names.sort();
    let all = names.len();
    let mut place = 0;
    names.retain(|name| {
        if !IN_TURNS.iter().any(|prefix| name.starts_with(prefix)) {
            return true;
        }
        place += 1;
        place % OF == seed % OF
    });
    let left = all - names.len();
    (names, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_commits_run_every_test_once_and_all_others_always() {
        let all = ["redis::a", "crash::b", "crash::a", "etcd::restarts::c", "etcd::d", "redis::compared::e"];
        let all = all.map(str::to_owned).to_vec();
        let mut turns = Vec::new();
        for seed in 0x10..0x14 {
            let (mut names, left) = of_this_run(all.clone(), seed);
            assert_eq!(names.len() + left, all.len());
            names.retain(|name| !["etcd::d", "redis::a"].contains(&name.as_str()));
            turns.extend(names);
        }
        assert_eq!(turns, ["redis::compared::e", "crash::a", "crash::b", "etcd::restarts::c"]);
    }
}
