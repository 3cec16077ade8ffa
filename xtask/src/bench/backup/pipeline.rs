//! Runs programs whose output is the next one's input, like a shell, and measures what they use.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::WAIT_TIMEOUT;
use crate::bench::operator_process::{cpu_seconds, memory_kib};

/// The interval of measurements. The kernel records a process's own peak. Only growth of its children in their last
/// moment is missed.
const PAUSE: Duration = Duration::from_millis(5);

/// What a pipeline used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub took: Duration,
    /// The sum of the peaks of its processes.
    pub peak_kib: f64,
    pub cpu_seconds: f64,
}

impl Ran {
    /// This run followed by another one. The memory is the larger of the two.
    pub fn then(self, next: Self) -> Self {
        Self {
            took: self.took + next.took,
            peak_kib: self.peak_kib.max(next.peak_kib),
            cpu_seconds: self.cpu_seconds + next.cpu_seconds,
        }
    }
}

struct Stage {
    name: String,
    child: Child,
    /// Includes its children, which are measured while they run.
    peak_kib: f64,
    cpu_seconds: f64,
    ended: bool,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs the programs until they end. The last one writes to `into`, if given.
pub fn run(commands: Vec<Command>, into: Option<fs::File>) -> Result<Ran> {
    let begun = Instant::now();
    let mut stages = start(commands, into)?;
    finish(&mut stages, begun)?;
    Ok(sum(&stages, begun))
}

/// Runs a program until it ends, together with another one that it needs and that ends on SIGTERM.
pub fn run_beside(command: Command, other: Command) -> Result<Ran> {
    let begun = Instant::now();
    let mut stages = start(vec![other], None)?;
    stages.extend(start(vec![command], None)?);
    while !stages[1].ended {
        look(&mut stages, begun)?;
    }
    let pid = i32::try_from(stages[0].child.id()).ok().and_then(Pid::from_raw).context("a process without an id")?;
    kill_process(pid, Signal::TERM)?;
    finish(&mut stages, begun)?;
    Ok(sum(&stages, begun))
}

fn finish(stages: &mut [Stage], begun: Instant) -> Result<()> {
    while stages.iter().any(|stage| !stage.ended) {
        look(stages, begun)?;
    }
    Ok(())
}

/// Measures the running programs.
fn look(stages: &mut [Stage], begun: Instant) -> Result<()> {
    if begun.elapsed() > WAIT_TIMEOUT {
        bail!("waited {} s for {}", WAIT_TIMEOUT.as_secs(), stages[0].name);
    }
    for stage in stages.iter_mut().filter(|stage| !stage.ended) {
        stage.look()?;
    }
    thread::sleep(PAUSE);
    Ok(())
}

fn sum(stages: &[Stage], begun: Instant) -> Ran {
    Ran {
        took: begun.elapsed(),
        peak_kib: stages.iter().map(|stage| stage.peak_kib).sum(),
        cpu_seconds: stages.iter().map(|stage| stage.cpu_seconds).sum(),
    }
}

fn start(commands: Vec<Command>, mut into: Option<fs::File>) -> Result<Vec<Stage>> {
    let (mut stages, last) = (Vec::<Stage>::new(), commands.len().saturating_sub(1));
    for (index, mut command) in commands.into_iter().enumerate() {
        let before = stages.last_mut().and_then(|stage| stage.child.stdout.take());
        command.stdin(before.map_or_else(Stdio::null, Stdio::from));
        command.stdout(match (index == last, into.take()) {
            (true, Some(file)) => file.into(),
            (true, None) => Stdio::null(),
            (false, file) => {
                into = file;
                Stdio::piped()
            }
        });
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        stages.push(Stage { name, child, peak_kib: 0.0, cpu_seconds: 0.0, ended: false });
    }
    Ok(stages)
}

impl Stage {
    fn look(&mut self) -> Result<()> {
        // A program that has ended uses no memory any more, but its CPU time can be read until its exit status is
        // collected.
        let children: f64 = descendants(self.child.id()).iter().filter_map(|pid| memory_kib(*pid, "VmRSS").ok()).sum();
        let own = memory_kib(self.child.id(), "VmHWM").unwrap_or(0.0);
        self.peak_kib = self.peak_kib.max(own + children);
        self.cpu_seconds = cpu_seconds(self.child.id()).unwrap_or(0.0).max(self.cpu_seconds);
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        self.ended = true;
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }
}

/// All descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    // Each thread has children of its own. A thread that has just ended has none.
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn children_count_as_well() -> Result<()> {
        let alone = run(vec![shell("exec sleep 0.2")], None)?;
        let with_children = run(vec![shell("sleep 0.2 & sleep 0.2 & wait")], None)?;
        assert!(with_children.peak_kib > 1.5 * alone.peak_kib, "{with_children:?} beside {alone:?}");
        Ok(())
    }

    #[test]
    fn a_program_beside_another_is_stopped() -> Result<()> {
        let server = shell("trap 'exit 0' TERM; while :; do sleep 0.01; done");
        let ran = run_beside(shell("exec sleep 0.1"), server)?;
        assert!(ran.took >= Duration::from_millis(100), "{ran:?}");
        Ok(())
    }
}
