//! Reports how the integration tests used the processors: the tests by group, each part of the cluster, and the rest.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::queue::{Done, time_in};
use crate::cluster::Cluster;

/// Processes that belong to the cluster, but are not in its control groups.
const OUTSIDE: [&str; 2] = ["LocalStack", "haproxy"];

/// The processors' times at a moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The time of each long-lived process of the cluster, by its name.
    parts: BTreeMap<String, Duration>,
    /// The time of all containers, including those that have ended.
    containers: Duration,
    /// The time to start and end containers: their runtime, networks and mounts.
    runtime: Duration,
    /// The time of all processes of the machine.
    busy: Duration,
    idle: Duration,
}

impl Moment {
    /// The times so far.
    pub fn now(cluster: &Cluster) -> Self {
        let (busy, idle) = machine_now();
        let network = |process: &Path| fs::read_link(process.join("ns/net")).ok();
        let ours = network(&cluster.process());
        let mut parts = BTreeMap::new();
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        for process in processes.filter(|process| network(process).is_some_and(|it| Some(it) == ours)) {
            if let Some(name) = name_of(&process) {
                *parts.entry(name).or_default() += time_in(&process);
            }
        }
        let (all, containers) = cluster.processors();
        let daemons: Duration =
            parts.iter().filter(|(name, _)| !OUTSIDE.contains(&name.as_str())).map(|(_, time)| *time).sum();
        Self { parts, containers, runtime: all.saturating_sub(containers).saturating_sub(daemons), busy, idle }
    }

    /// The times since `begin`, in lines for the report.
    pub fn times_since(&self, begin: &Self, tests: &[Done]) -> Vec<String> {
        let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
        let busy = self.busy.saturating_sub(begin.busy);
        let idle = self.idle.saturating_sub(begin.idle);
        let mut groups: BTreeMap<&str, Duration> = BTreeMap::new();
        for test in tests {
            *groups.entry(test.name.split("::").next().unwrap_or_default()).or_default() += test.processor;
        }
        let of_tests: Duration = groups.values().sum();
        let mut parts: BTreeMap<&str, Duration> = BTreeMap::new();
        for (name, time) in &self.parts {
            parts.insert(name, time.saturating_sub(begin.parts.get(name).copied().unwrap_or_default()));
        }
        let of_parts: Duration = parts.values().sum();
        let containers = self.containers.saturating_sub(begin.containers);
        let runtime = self.runtime.saturating_sub(begin.runtime);
        let listed = |times: BTreeMap<&str, Duration>| {
            let mut times: Vec<_> = times.into_iter().filter(|(_, time)| time.as_secs() > 0).collect();
            times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
            times.into_iter().map(|(name, time)| format!("{name} {}", seconds(time))).collect::<Vec<_>>().join(", ")
        };
        let share = 100.0 * idle.as_secs_f64() / (busy + idle).as_secs_f64().max(1.0);
        vec![
            format!("processors: {} busy, {} idle ({share:.0} %)", seconds(busy), seconds(idle)),
            format!("processors, tests with their operators: {}: {}", seconds(of_tests), listed(groups)),
            format!("processors, the cluster and AWS: {}: {}", seconds(of_parts), listed(parts)),
            format!(
                "processors, containers: {} in them, {} to start and end them",
                seconds(containers),
                seconds(runtime)
            ),
            format!(
                "processors, all else: {}",
                seconds([of_tests, of_parts, containers, runtime].into_iter().fold(busy, Duration::saturating_sub))
            ),
        ]
    }
}

/// The processor time that a cluster has used so far, including its AWS and its containers.
pub fn of_cluster(cluster: &Cluster) -> Duration {
    let parts = Moment::now(cluster).parts;
    cluster.processors().0 + OUTSIDE.iter().filter_map(|name| parts.get(*name)).sum::<Duration>()
}

/// The busy and idle times of all processors together.
pub fn machine_now() -> (Duration, Duration) {
    machine(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Busy and idle times, from the first line of /proc/stat: <https://man7.org/linux/man-pages/man5/proc_stat.5.html>.
fn machine(stat: &str) -> (Duration, Duration) {
    let line = stat.lines().next().unwrap_or_default();
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal. The time of guests is already part of
    // user.
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|it| it.parse().ok()).collect();
    let idle = ticks.get(3..5).map_or(0, |idle| idle.iter().sum());
    let time = |ticks: u64| Duration::from_millis(10 * ticks);
    (time(ticks.iter().sum::<u64>() - idle), time(idle))
}

/// The name of a long-lived process of the cluster. The tests' own processes are counted separately.
fn name_of(process: &Path) -> Option<String> {
    let words = fs::read(process.join("cmdline")).ok()?;
    let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let program = Path::new(words.first()?.as_ref()).file_name()?.to_string_lossy().into_owned();
    match program.as_str() {
        "causeway-cluster" => words.get(1).map(ToString::to_string),
        "containerd" | "haproxy" => Some(program),
        _ if words.iter().any(|word| word == "localstack.runtime.main") => Some("LocalStack".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_machine_did() {
        let stat = "cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4\n";
        assert_eq!(machine(stat), (Duration::from_millis(1710), Duration::from_millis(4500)));
    }

    #[test]
    fn tells_what_was_done_between_two_moments() {
        let of = |seconds| Duration::from_secs(seconds);
        let begin = Moment {
            parts: BTreeMap::from([("etcd".into(), of(5))]),
            containers: of(3),
            runtime: of(1),
            busy: of(100),
            idle: of(10),
        };
        let parts = BTreeMap::from([("etcd".into(), of(15)), ("LocalStack".into(), of(40))]);
        let test = |name: &str, seconds| Done {
            name: name.into(),
            passed: true,
            took: of(1),
            processor: of(seconds),
            output: std::path::PathBuf::new(),
            timed_out: false,
        };
        let end = Moment { parts, containers: of(23), runtime: of(11), busy: of(300), idle: of(110) };
        let lines = end.times_since(&begin, &[test("crash::a", 60), test("crash::b", 10), test("etcd::c", 30)]);
        assert_eq!(
            lines,
            [
                "processors: 200 s busy, 100 s idle (33 %)",
                "processors, tests with their operators: 100 s: crash 70 s, etcd 30 s",
                "processors, the cluster and AWS: 50 s: LocalStack 40 s, etcd 10 s",
                "processors, containers: 20 s in them, 10 s to start and end them",
                "processors, all else: 20 s",
            ]
        );
    }
}
