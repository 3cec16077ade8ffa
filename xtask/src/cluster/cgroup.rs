//! A cluster's control groups: the only thing of a room that stays when its processes have ended.

use std::fs;
use std::path::{Path, PathBuf};

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

fn hierarchies(mounts: &str) -> impl Iterator<Item = &str> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then_some(path)
    })
}

/// Removes a group after the groups in it; its files go by themselves.
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
