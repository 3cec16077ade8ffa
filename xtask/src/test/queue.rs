//! Runs the integration tests, each in a process of its own. Decides which tests run side by side, and measures how
//! long each takes.
//!
//! libtest runs tests in the order of their names, a fixed number at a time. Then tests of one kind, which need the
//! same resources, would run side by side and wait for each other. (cargo-nextest has groups too, but building it takes
//! longer than it saves.)

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::processors::machine_now;
use crate::progress::Step;

/// Sum of the needs of all running tests while processors are busy.
const ROOM: u32 = 11;
/// The same while processors have spare time.
const LARGE_ROOM: u32 = 26;
/// Processors have spare time if this share of it is idle.
const SPARE: f64 = 0.1;
/// The period over which the share is measured.
const WINDOW: Duration = Duration::from_secs(3);
/// The interval of checks for tests that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Without a terminal, one line in this interval is enough to show that the run goes on.
const NOTE: Duration = Duration::from_secs(30);
/// Ticks per second in /proc, on all architectures that Kubernetes supports:
/// <https://man7.org/linux/man-pages/man7/time.7.html>.
const USER_HZ: u64 = 100;

/// Tests that need the same resources.
struct Group {
    /// The prefix of their names.
    prefix: &'static str,
    /// The need of each of them, as a part of [`ROOM`].
    needs: u32,
    /// How many of them may run at a time.
    most: usize,
}

/// Tests of no group have the lowest needs.
const OTHERS: Group = Group { prefix: "", needs: 2, most: 10 };

/// The prefix of tests that take nodes away.
pub const LOST_NODES: &str = "lost_nodes::";

const GROUPS: &[Group] = &[
    // Each takes a node away, and mostly waits until Kubernetes considers it lost.
    Group { prefix: LOST_NODES, needs: 3, most: 1 },
    // Each runs several scenes at a time, with operators that are killed.
    Group { prefix: "crash::", needs: 4, most: 3 },
    // They have up to five members, which time out if they get no processor time for a second.
    Group { prefix: "etcd::", needs: 4, most: 3 },
    // They have up to six nodes, and measure how long writes are impossible.
    Group { prefix: "redis::", needs: 3, most: 4 },
];

/// The result of a test.
#[derive(Clone, Debug)]
pub struct Done {
    pub name: String,
    pub passed: bool,
    /// The time from its start to its end.
    pub took: Duration,
    /// The processor time of its process, which includes the operator, and of programs that it started.
    pub processor: Duration,
    /// The file with its output.
    pub output: PathBuf,
    /// True if it was killed because it ran for too long.
    pub timed_out: bool,
}
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

/// The tests that take longest, in that order. They begin first if there are no measured times, as on a fresh clone.
const LONGEST: &str = include_str!("longest.txt");

/// The order in which tests begin. The slowest tests of the last run begin first, so that none of them is left at the
/// end. Tests without a measured time come before them, alternating between groups. Without any measured times,
/// [`LONGEST`] comes first. Tests that lose nodes come before all others and run one after the other, sorted by name;
/// the one that takes a node away for good has the last name.
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

/// The position of the next test to begin, given the groups of the running tests and the available room.
fn next(waiting: &[String], running: &[&'static Group], room: u32) -> Option<usize> {
    let used: u32 = running.iter().map(|group| group.needs).sum();
    waiting.iter().position(|name| {
        let group = group(name);
        let same = running.iter().filter(|other| other.prefix == group.prefix).count();
        // A test that runs alone may use everything.
        running.is_empty() || same < group.most && used + group.needs <= room
    })
}

/// Runs the tests in that order. `start` makes the command for a test. A test that runs for longer than `most` is
/// killed. `no_more_nodes` is called when the last test that loses nodes has ended.
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

/// Measures whether the processors have spare time.
struct Spare {
    since: Instant,
    /// The busy and idle times at `since`.
    times: (Duration, Duration),
}

impl Spare {
    fn new() -> Self {
        Self { since: Instant::now(), times: machine_now() }
    }

    /// The present room. A larger room is granted for one test only, to see first how that affects the processors.
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

/// The result of a test if it has ended or ran for too long.
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
    // Its times can be read only until its exit status is collected.
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

/// The processor time of a process, `/proc/PID`.
pub fn time_in(process: &Path) -> Duration {
    ticks(process, 2)
}

/// The same, including its children that have ended.
fn time_with_children(process: &Path) -> Duration {
    ticks(process, 4)
}

/// The sum of the first `times` of these times of a process: user, system, and both for its children that have ended.
/// See <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>.
fn ticks(process: &Path, times: usize) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name of the program, in parentheses, may contain any character.
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
    fn unknown_tests_begin_first_then_the_longest() {
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
    fn groups_take_turns_while_no_times_are_known() {
        let order = order(names(&["crash::a", "crash::b", "redis::a", "redis::b"]), &BTreeMap::new());
        assert_eq!(order, ["crash::a", "redis::a", "crash::b", "redis::b"]);
    }

    #[test]
    fn tests_that_lose_nodes_begin_first_in_a_safe_order() {
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
