//! Finds a cluster's processes by their command lines and environments, which name its state directory. Files with
//! process ids could be missing, or could name a different process by now.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::MARK;

/// The first process of a cluster's namespaces.
pub struct Room {
    /// Its id on the host.
    pub pid: u32,
    /// The executable it runs.
    pub program: PathBuf,
}

/// The room of this state directory, if it runs.
pub fn find(state: &Path) -> Result<Option<Room>> {
    for pid in all()? {
        let arguments = words(pid, "cmdline");
        // The arguments of its parent, `unshare … PROGRAM room --state …`, have these words at a later position.
        if is_room(arguments.get(1..).unwrap_or_default(), state) {
            let program = PathBuf::from(String::from_utf8_lossy(&arguments[0]).into_owned());
            return Ok(Some(Room { pid, program }));
        }
    }
    Ok(None)
}

/// Kills every process of this cluster; returns how many there were.
pub fn kill_all(state: &Path) -> Result<usize> {
    // When the room's first process ends, the kernel ends all others of the room, and removes its namespaces.
    if let Some(room) = find(state)? {
        kill(room.pid);
        return Ok(1);
    }
    let mark = [MARK.as_bytes(), b"=", state.as_os_str().as_bytes()].concat();
    let callers = callers();
    let mut count = 0;
    for pid in all()? {
        let arguments = words(pid, "cmdline");
        let starts_it = (0..arguments.len()).any(|first| is_room(&arguments[first..], state));
        let belongs = || !callers.contains(&pid) && words(pid, "environ").contains(&mark);
        if starts_it || belongs() {
            kill(pid);
            count += 1;
        }
    }
    Ok(count)
}

/// Kills the first process of a node, and with it all others of the node.
pub fn kill_node(state: &Path, number: u8) -> Result<()> {
    let number = number.to_string();
    let words_of_it: [&[u8]; 4] = [b"node", b"--inside", state.as_os_str().as_bytes(), number.as_bytes()];
    for pid in all()? {
        let arguments = words(pid, "cmdline");
        if words_of_it.iter().all(|word| arguments.iter().any(|it| it == word)) {
            kill(pid);
        }
    }
    Ok(())
}

fn is_room(arguments: &[Vec<u8>], state: &Path) -> bool {
    matches!(arguments, [room, option, path, ..]
        if room == b"room" && option == b"--state" && path == state.as_os_str().as_bytes())
}

/// This process and its ancestors.
fn callers() -> Vec<u32> {
    let mut found = Vec::new();
    let mut pid = process::id();
    while pid > 0 && !found.contains(&pid) {
        found.push(pid);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name, in parentheses, may contain any character. The state and the parent follow it.
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    found
}

fn all() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("cannot read /proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The words in a file of `/proc/PID`; empty for a process that has ended.
fn words(pid: u32, file: &str) -> Vec<Vec<u8>> {
    let content = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    content.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Kills a process. It is no error if that has ended meanwhile.
fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::KILL).ok();
    }
}
