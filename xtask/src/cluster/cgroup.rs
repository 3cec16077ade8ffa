//! A cluster's control groups: the only part of a room that remains after its processes have ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// Removes the groups of this name in every hierarchy, version 1 or 2; returns those that are still in use.
pub fn remove(name: &str) -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the list of mounts")?;
    let mut busy = Vec::new();
    for hierarchy in hierarchies(&mounts) {
        let group = Path::new(hierarchy).join(name);
        if group.is_dir() && !remove_tree(&group) {
            busy.push(group);
        }
    }
    Ok(busy)
}

/// The processor time of the groups of this name and those below them, including that of processes that have ended.
pub fn processors(name: &str) -> Duration {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut groups = hierarchies(&mounts).map(|hierarchy| Path::new(hierarchy).join(name));
    groups.find_map(|group| used(&group)).unwrap_or_default()
}

/// The kernel's counter of a group: version 1 has it in nanoseconds, version 2 in microseconds, among other values.
/// <https://docs.kernel.org/admin-guide/cgroup-v1/cpuacct.html>,
/// <https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files>
fn used(group: &Path) -> Option<Duration> {
    if let Ok(usage) = fs::read_to_string(group.join("cpuacct.usage")) {
        return usage.trim().parse().ok().map(Duration::from_nanos);
    }
    let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    usage.parse().ok().map(Duration::from_micros)
}

fn hierarchies(mounts: &str) -> impl Iterator<Item = &str> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then_some(path)
    })
}

/// Removes a group after the groups in it. Its files disappear with it.
fn remove_tree(group: &Path) -> bool {
    let Ok(entries) = fs::read_dir(group) else {
        return !group.exists();
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hierarchies_of_both_versions() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n";
        let found: Vec<_> = hierarchies(mounts).collect();
        assert_eq!(found, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"]);
    }
}
