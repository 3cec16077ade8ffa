//! The integration tests, each in a process of its own: which of them run side by side, and how long each took.
//!
//! libtest runs tests in the order of their names, so many at a time. Here tests of one kind, which need the same things,
//! would then run side by side and wait for each other. (cargo-nextest knows groups too; to build it takes longer than it
//! saves.)

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::processors::machine_now;
use crate::progress::Step;

/// What all tests that run at the same time may need together, where processors are busy.
const ROOM: u32 = 11;
/// The same where they have time to spare.
const LARGE_ROOM: u32 = 26;
/// Processors have time to spare that are idle for this share of it.
const SPARE: f64 = 0.1;
/// The time over which that is judged.
const WINDOW: Duration = Duration::from_secs(3);
/// How often it is looked which tests have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Off a terminal a line in so long is enough to see that it goes on.
const NOTE: Duration = Duration::from_secs(30);
/// Ticks a second in /proc, on all processors that Kubernetes runs on: <https://man7.org/linux/man-pages/man7/time.7.html>.
const USER_HZ: u64 = 100;

/// Tests that need the same things.
struct Group {
    /// What their names begin with.
    prefix: &'static str,
    /// What each needs, of [`ROOM`].
    needs: u32,
    /// So many of them run at a time.
    most: usize,
}

/// Tests of no group need as little as these.
const OTHERS: Group = Group { prefix: "", needs: 2, most: 10 };

/// What the names of tests begin with that take nodes away.
pub const LOST_NODES: &str = "lost_nodes::";

const GROUPS: &[Group] = &[
    // Each takes a node away, and waits for most of its time until Kubernetes believes that.
    Group { prefix: LOST_NODES, needs: 3, most: 1 },
    // Each runs several worlds at a time, with operators that die.
    Group { prefix: "crash::", needs: 4, most: 3 },
    // Up to five members, which time each other out where they get nothing of a processor for a second.
    Group { prefix: "etcd::", needs: 4, most: 3 },
    // Up to six nodes, and it is measured how long nobody could write.
    Group { prefix: "redis::", needs: 3, most: 4 },
];

/// What came of a test.
#[derive(Clone, Debug)]
pub struct Done {
    /// The test's name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// From its start to its end.
    pub took: Duration,
    /// Time of processors that its process used, with the operator in it, and programs that it started.
    pub processor: Duration,
    /// Everything that it printed.
    pub output: PathBuf,
    /// Set where it was ended because it ran for too long.
    pub timed_out: bool,
}

/// A test on its way.
struct Running {
    name: String,
    group: &'static Group,
    child: Child,
    begun: Instant,
    output: PathBuf,
}

/// The group of a test.
fn group(name: &str) -> &'static Group {
    GROUPS.iter().find(|group| name.starts_with(group.prefix)).unwrap_or(&OTHERS)
}

/// The tests that take longest, in that order: where nothing was timed yet, as on a fresh clone, they begin first.
const LONGEST: &str = include_str!("longest.txt");

/// The order in which tests begin: those that took longest in the last run first, so that none of them is left at the
/// end; those that nobody timed before them, taken from the groups in turn. Without a last run [`LONGEST`] come first.
/// Before all others those that lose nodes, which run one after the other: by name the one that takes a node for good is
/// the last of them.
pub fn order(mut names: Vec<String>, times: &BTreeMap<String, f64>) -> Vec<String> {
    let expected = |name: &str| -> f64 {
        let place = || LONGEST.lines().rev().position(|line| line == name).map_or(0, |place| place + 1);
        if times.is_empty() { f64::from(u32::try_from(place()).unwrap_or(0)) } else { f64::INFINITY }
    };
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    names.sort();
    let mut keyed: Vec<_> = names
        .into_iter()
        .map(|name| {
            let turn = turns.entry(group(&name).prefix).or_default();
            *turn += 1;
            let time = times.get(&name).copied().unwrap_or_else(|| expected(&name));
            (time, *turn, name)
        })
        .collect();
    keyed.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let (mut first, others): (Vec<_>, Vec<_>) =
        keyed.into_iter().map(|(_, _, name)| name).partition(|name| name.starts_with(LOST_NODES));
    first.sort();
    first.extend(others);
    first
}

/// The place of the next test to begin, beside those of the groups that run, in that room.
fn next(waiting: &[String], running: &[&'static Group], room: u32) -> Option<usize> {
    let used: u32 = running.iter().map(|group| group.needs).sum();
    waiting.iter().position(|name| {
        let group = group(name);
        let same = running.iter().filter(|other| other.prefix == group.prefix).count();
        // Alone, a test has all the room that there is.
        running.is_empty() || same < group.most && used + group.needs <= room
    })
}

/// Runs the tests of that order: `start` makes the command for one. None runs for longer than `most`. When the last of those
/// that lose nodes has ended, `no_more_nodes` is called.
pub fn run(
    names: Vec<String>,
    most: Duration,
    folder: &Path,
    step: &Step,
    start: impl Fn(&str) -> Result<Command>,
    no_more_nodes: impl FnOnce(),
) -> Result<Vec<Done>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let total = names.len();
    let (mut waiting, mut running, mut done): (_, Vec<Running>, _) = (names, Vec::new(), Vec::<Done>::new());
    let mut noted = Instant::now();
    let mut spare = Spare::new();
    let loses_nodes = |name: &str| name.starts_with(LOST_NODES);
    let mut no_more_nodes = waiting.iter().any(|name| loses_nodes(name)).then_some(no_more_nodes);
    loop {
        let groups: Vec<_> = running.iter().map(|test| test.group).collect();
        if let Some(place) = next(&waiting, &groups, spare.room()) {
            running.push(begin(waiting.remove(place), folder, &start)?);
            continue;
        }
        if running.is_empty() {
            return Ok(done);
        }
        std::thread::sleep(LOOK);
        let mut still = Vec::new();
        for test in running {
            match ended(test, most)? {
                Ok(ended) => {
                    if !ended.passed {
                        step.note(format!("{} FAILED after {:.0} s", ended.name, ended.took.as_secs_f32()));
                    }
                    done.push(ended);
                }
                Err(test) => still.push(test),
            }
        }
        running = still;
        if !waiting.iter().chain(running.iter().map(|test| &test.name)).any(|name| loses_nodes(name))
            && let Some(no_more_nodes) = no_more_nodes.take()
        {
            no_more_nodes();
        }
        if noted.elapsed() >= NOTE {
            noted = Instant::now();
            let names: Vec<_> = running.iter().map(|test| test.name.as_str()).collect();
            step.note(format!("{} of {total} tests ended; running {}", done.len(), names.join(", ")));
        }
    }
}

/// Whether the processors have time to spare.
struct Spare {
    since: Instant,
    /// Busy and idle then.
    times: (Duration, Duration),
}

impl Spare {
    fn new() -> Self {
        Self { since: Instant::now(), times: machine_now() }
    }

    /// The room that there is now. A larger one is for one test: what that does to the processors is seen first.
    fn room(&mut self) -> u32 {
        if self.since.elapsed() < WINDOW {
            return ROOM;
        }
        let (busy, idle) = machine_now();
        let (was_busy, was_idle) = std::mem::replace(&mut self.times, (busy, idle));
        let (busy, idle) = (busy.saturating_sub(was_busy).as_secs_f64(), idle.saturating_sub(was_idle).as_secs_f64());
        self.since = Instant::now();
        if idle >= SPARE * (busy + idle) { LARGE_ROOM } else { ROOM }
    }
}

fn begin(name: String, folder: &Path, start: &impl Fn(&str) -> Result<Command>) -> Result<Running> {
    let output = folder.join(format!("{}.log", name.replace("::", ".")));
    let file = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
    let mut command = start(&name)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    Ok(Running { group: group(&name), name, child, begun: Instant::now(), output })
}

/// What came of a test if it has ended, or ran for too long.
fn ended(mut test: Running, most: Duration) -> Result<Result<Done, Running>> {
    let pid = Pid::from_child(&test.child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let timed_out = test.begun.elapsed() > most;
    if waitid(WaitId::Pid(pid), options).context("cannot wait for a test")?.is_none() {
        if !timed_out {
            return Ok(Err(test));
        }
        test.child.kill().context("cannot end a test that runs for too long")?;
    }
    // Its times are there until somebody has asked for its status.
    let processor = time_with_children(&Path::new("/proc").join(pid.as_raw_nonzero().to_string()));
    let status: ExitStatus = test.child.wait().context("cannot wait for a test")?;
    Ok(Ok(Done {
        name: test.name,
        passed: status.success() && !timed_out,
        took: test.begun.elapsed(),
        processor,
        output: test.output,
        timed_out,
    }))
}

/// What a process, `/proc/PID`, has used of the processors.
pub fn time_in(process: &Path) -> Duration {
    ticks(process, 2)
}

/// The same, with its children that have ended.
fn time_with_children(process: &Path) -> Duration {
    ticks(process, 4)
}

/// The first so many times of a process: user, system, and both of its children that have ended, as
/// <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html> has them.
fn ticks(process: &Path, times: usize) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name of the program, in brackets, may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(times).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tests_that_took_long_begin_first_and_unknown_ones_before_them() {
        let times = BTreeMap::from([("etcd::a".to_owned(), 3.0), ("redis::b".to_owned(), 7.0)]);
        let order = order(names(&["etcd::a", "redis::b", "redis::c", "redis::d", "myapp::new"]), &times);
        assert_eq!(order, ["myapp::new", "redis::c", "redis::d", "redis::b", "etcd::a"]);
    }

    #[test]
    fn where_nothing_was_timed_the_longest_begin_first() {
        let longest: Vec<_> = LONGEST.lines().take(2).collect();
        let order = order(names(&["crash::a", longest[1], longest[0], "redis::a"]), &BTreeMap::new());
        assert_eq!(order, [longest[0], longest[1], "crash::a", "redis::a"]);
    }

    #[test]
    fn groups_take_turns_as_long_as_nobody_has_timed_them() {
        let order = order(names(&["crash::a", "crash::b", "redis::a", "redis::b"]), &BTreeMap::new());
        assert_eq!(order, ["crash::a", "redis::a", "crash::b", "redis::b"]);
    }

    #[test]
    fn tests_that_lose_nodes_begin_first_and_the_one_that_takes_a_node_for_good_last_of_them() {
        let [power, redis, leader, other] =
            ["lost_nodes::power::a", "lost_nodes::cut::redis::b", "lost_nodes::cut::leader::c", "redis::d"];
        let times =
            BTreeMap::from([(power, 59.0), (redis, 63.0), (other, 99.0)].map(|(name, time)| (name.to_owned(), time)));
        assert_eq!(order(names(&[power, redis, leader, other]), &times), [leader, redis, power, other]);
    }

    #[test]
    fn a_group_that_is_full_keeps_no_other_waiting() {
        let waiting = names(&["etcd::d", "myapp::a"]);
        let (etcd, redis, other) = (group("etcd::a"), group("redis::a"), group("myapp::b"));
        assert_eq!(next(&waiting, &[etcd, redis], ROOM), Some(0));
        assert_eq!(next(&waiting, &[etcd, etcd], ROOM), Some(1), "there is no room for one more");
        assert_eq!(next(&waiting, &[etcd, etcd], LARGE_ROOM), Some(0), "now there is");
        assert_eq!(next(&waiting, &[etcd, etcd, etcd], LARGE_ROOM), Some(1), "there are as many as may be");
        assert_eq!(next(&waiting, &[etcd, etcd, other], ROOM), None);
        assert_eq!(next(&names(&["etcd::d"]), &[], ROOM), Some(0));
    }

    #[test]
    fn all_groups_fit_in() {
        assert!(GROUPS.iter().chain([&OTHERS]).all(|group| group.needs <= ROOM && group.most > 0));
    }
}
