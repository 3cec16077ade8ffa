//! Programs whose output is the next one's input, as a shell would start them, and what they took.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::WAIT_TIMEOUT;
use crate::bench::operator_process::{cpu_seconds, memory_kib};

/// Between two looks. The peak is kept by the kernel; only what a process adds in its last moment is missed.
const PAUSE: Duration = Duration::from_millis(5);

/// What a pipeline took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub took: Duration,
    /// The sum of what each of its processes had at most.
    pub peak_kib: f64,
    pub cpu_seconds: f64,
}

impl Ran {
    /// One after the other: the memory is that of the greater one.
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

/// Runs them to their end. The last one writes to the file, where one is given.
pub fn run(commands: Vec<Command>, into: Option<fs::File>) -> Result<Ran> {
    let begun = Instant::now();
    let mut stages = start(commands, into)?;
    while stages.iter().any(|stage| !stage.ended) {
        if begun.elapsed() > WAIT_TIMEOUT {
            bail!("waited {} s for {}", WAIT_TIMEOUT.as_secs(), stages[0].name);
        }
        for stage in stages.iter_mut().filter(|stage| !stage.ended) {
            stage.look()?;
        }
        thread::sleep(PAUSE);
    }
    Ok(Ran {
        took: begun.elapsed(),
        peak_kib: stages.iter().map(|stage| stage.peak_kib).sum(),
        cpu_seconds: stages.iter().map(|stage| stage.cpu_seconds).sum(),
    })
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
        // One that has ended has no memory any more, and its time as long as nobody has waited for it.
        self.peak_kib = memory_kib(self.child.id(), "VmHWM").unwrap_or(0.0).max(self.peak_kib);
        self.cpu_seconds = cpu_seconds(self.child.id()).unwrap_or(0.0).max(self.cpu_seconds);
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        self.ended = true;
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }
}
