//! Shows the progress of a task: numbered steps, the time of each, and what is being waited for.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// A numbered list of steps. On a terminal the current step spins with its age; elsewhere each step is a line.
pub struct Progress {
    total: usize,
    done: usize,
    started: Instant,
}

impl Progress {
    /// Progress of a run with `total` steps.
    pub fn new(total: usize) -> Self {
        Self { total, done: 0, started: Instant::now() }
    }

    /// Runs one step. Prints its name, what it is doing, and how long it took.
    pub fn step<T>(&mut self, name: impl Display, work: impl FnOnce(&Step) -> Result<T>) -> Result<T> {
        self.done += 1;
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{prefix} {spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        let prefix = format!("[{}/{}] {name}", self.done, self.total);
        bar.set_prefix(prefix.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        if bar.is_hidden() {
            println!("{prefix} …");
        }
        let step = Step { bar, begun: Instant::now(), part: None };
        let result = work(&step);
        step.bar.finish_and_clear();
        let took = step.begun.elapsed().as_secs_f32();
        match &result {
            Ok(_) => println!("{prefix} ✓ {took:.1} s"),
            Err(_) => println!("{prefix} ✗ {took:.1} s"),
        }
        result.with_context(|| name.to_string())
    }

    /// The time since the first step.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
pub struct Step {
    bar: ProgressBar,
    begun: Instant,
    /// The name of the part, if several parts of the step run side by side.
    part: Option<&'static str>,
}

impl Step {
    /// One of several parts of the step that run side by side. Its notes begin with its name.
    pub fn part(&self, name: &'static str) -> Self {
        Self { bar: self.bar.clone(), begun: self.begun, part: Some(name) }
    }

    /// Shows what the step is doing now: on a terminal instead of the last message, elsewhere as a line.
    pub fn note(&self, message: impl Display) {
        let message = self.part.map_or_else(|| message.to_string(), |part| format!("{part}: {message}"));
        if self.bar.is_hidden() {
            println!("      {message} ({:.0} s)", self.begun.elapsed().as_secs_f32());
        } else {
            self.bar.set_message(message);
        }
    }

    /// Runs `command` with its output in `log`, and shows the log's last line. On failure the error contains the end of
    /// the log.
    pub fn run(&self, command: &mut Command, log: &Path) -> Result<()> {
        self.run_telling(command, log, |log| last_lines(log, 1))
    }

    /// Like [`Self::run`], but `tell` describes the progress from the log.
    pub fn run_telling(&self, command: &mut Command, log: &Path, tell: impl Fn(&Path) -> String) -> Result<()> {
        let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut answer = String::new();
        let mut said_at = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(200));
            // Without a terminal, one line every ten seconds is enough to show that the command is running.
            if self.bar.is_hidden() && said_at.elapsed() < Duration::from_secs(10) {
                continue;
            }
            let last = tell(log);
            if !last.is_empty() && last != answer {
                self.note(last.chars().take(100).collect::<String>());
                answer = last;
                said_at = Instant::now();
            }
        };
        if !status.success() {
            bail!("{command:?} ended with {status}; the end of {}:\n{}", log.display(), last_lines(log, 30));
        }
        Ok(())
    }

    /// Polls `ready` until it yields a value. Fails after `limit`, with what was waited for and the last reason.
    pub fn wait_for<T>(
        &self,
        what: impl Display,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.note(format!("waiting for {what}"));
        let begun = Instant::now();
        let mut last = None;
        loop {
            match ready() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            if begun.elapsed() > limit {
                return match last {
                    Some(error) => Err(error.context(format!("{what}: not within {} s", limit.as_secs()))),
                    None => bail!("{what}: not within {} s", limit.as_secs()),
                };
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn last_lines(path: &Path, count: usize) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    // On a terminal, text before a carriage return is overwritten.
    let shown = text.lines().map(|line| line.rsplit('\r').next().unwrap_or_default());
    let lines: Vec<&str> = shown.filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
