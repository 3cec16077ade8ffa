//! The result of each step, the summary at the end, and the exit code.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use crate::progress::{Progress, Step};

/// The outcome of a step that did not fail with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is in order.
    Passed,
    /// Everything that could be checked is in order. The rest could not be checked, for this reason.
    Partly(String),
    /// Results of tests.
    Tests(Tests),
    /// As many tests, or a check, passed before, and were not repeated because nothing that they read has changed.
    Unchanged(usize),
}

/// The counted tests of a suite, and its important output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    pub passed: usize,
    pub failed: usize,
    /// How many were not run.
    pub ignored: usize,
    /// The messages of failed tests, or the reason why the suite failed.
    pub failures: String,
    /// The names of the failed tests.
    pub failing: Vec<String>,
    /// Output lines that tests want to have shown.
    pub figures: Vec<String>,
}

/// The steps of a run.
pub struct Report {
    progress: Progress,
    rows: Vec<Row>,
}

/// A step that runs beside others.
pub struct Part<'a> {
    name: &'static str,
    work: Work<'a>,
}

/// The body of a step.
type Work<'a> = Box<dyn FnOnce(&Step) -> Result<Outcome> + Send + 'a>;

impl<'a> Part<'a> {
    /// A step of that name.
    pub fn new(name: &'static str, work: impl FnOnce(&Step) -> Result<Outcome> + Send + 'a) -> Self {
        Self { name, work: Box::new(work) }
    }

    /// The same step, which drops `turn` when it has ended.
    pub fn holding(self, turn: impl Send + 'a) -> Self {
        let Self { name, work } = self;
        Self::new(name, move |step| {
            let _turn = turn;
            work(step)
        })
    }

    fn run(self, step: &Step) -> (&'static str, Duration, Result<Outcome>) {
        let begun = Instant::now();
        let step = step.part(self.name);
        let outcome = (self.work)(&step).context(self.name);
        if let Err(error) = &outcome {
            // Report it now, because the others may take long.
            step.note(format!("FAILED: {error:#}"));
        }
        (self.name, begun.elapsed(), outcome)
    }
}

/// The tests of an outcome, and whether the step succeeded.
fn judged(outcome: Result<Outcome>) -> (Tests, Result<Outcome>) {
    match outcome {
        Ok(Outcome::Tests(ran)) if ran.failures.is_empty() => (ran, Ok(Outcome::Passed)),
        Ok(Outcome::Tests(ran)) => {
            let failures = anyhow!(ran.failures.clone());
            (ran, Err(failures))
        }
        Ok(Outcome::Unchanged(passed)) => (Tests { passed, ..Tests::default() }, Ok(Outcome::Unchanged(passed))),
        other => (Tests::default(), other),
    }
}

struct Row {
    name: String,
    verdict: Verdict,
    took: Duration,
    passed: usize,
    failed: usize,
    remark: String,
    failing: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Failed,
    Skipped,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

impl Report {
    /// A report of a run with this many steps.
    pub fn new(steps: usize) -> Self {
        Self { progress: Progress::new(steps), rows: Vec::new() }
    }

    /// Runs a step and records its result.
    pub fn step(&mut self, name: &str, work: impl FnOnce(&Step) -> Result<Outcome>) {
        let begun = Instant::now();
        let mut tests = Tests::default();
        let result = self.progress.step(name, |step| {
            let (ran, result) = judged(work(step));
            tests = ran;
            result
        });
        self.keep(name, begun.elapsed(), result, &tests);
    }

    /// Runs independent steps side by side, if there are any, and records the result of each.
    pub fn side_by_side(&mut self, parts: Vec<Part<'_>>) {
        if parts.is_empty() {
            return;
        }
        let names: Vec<_> = parts.iter().map(|part| part.name).collect();
        let names = names.join(", ");
        let ran = self.progress.step(&names, |step| {
            thread::scope(|scope| {
                let running: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| part.run(step))).collect();
                running.into_iter().map(|part| part.join().map_err(|_| anyhow!("a step panicked"))).collect()
            })
        });
        let ran: Vec<(&str, Duration, Result<Outcome>)> = match ran {
            Ok(ran) => ran,
            Err(error) => return self.keep(&names, Duration::ZERO, Err(error), &Tests::default()),
        };
        for (name, took, outcome) in ran {
            let (tests, result) = judged(outcome);
            self.keep(name, took, result, &tests);
        }
    }

    /// Runs several steps with one common result; `None` if one of them failed.
    pub fn steps<T>(&mut self, name: &str, work: impl FnOnce(&mut Progress) -> Result<T>) -> Option<T> {
        let begun = Instant::now();
        let (value, result) = match work(&mut self.progress) {
            Ok(value) => (Some(value), Ok(Outcome::Passed)),
            Err(error) => (None, Err(error)),
        };
        self.keep(name, begun.elapsed(), result, &Tests::default());
        value
    }

    /// Reports whether a step of that name has run and succeeded.
    pub fn is_well(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name == name && row.verdict == Verdict::Ok)
    }

    /// Records that a step could not be run.
    pub fn skip(&mut self, name: &str, reason: &str) {
        let row = Row {
            name: name.to_owned(),
            verdict: Verdict::Skipped,
            took: Duration::ZERO,
            passed: 0,
            failed: 0,
            remark: reason.to_owned(),
            failing: Vec::new(),
        };
        self.rows.push(row);
    }

    fn keep(&mut self, name: &str, took: Duration, result: Result<Outcome>, tests: &Tests) {
        for figure in &tests.figures {
            println!("      {figure}");
        }
        let mut row = Row {
            name: name.to_owned(),
            verdict: Verdict::Ok,
            took,
            passed: tests.passed,
            failed: tests.failed,
            remark: String::new(),
            failing: tests.failing.clone(),
        };
        match result {
            Ok(Outcome::Partly(reason)) => row.remark = reason,
            Ok(Outcome::Unchanged(_)) => "as before: nothing that they read has changed".clone_into(&mut row.remark),
            Ok(_) if tests.ignored > 0 => row.remark = format!("{} ignored", tests.ignored),
            Ok(_) => {}
            Err(error) => {
                // Print the error here; the summary only says that the step failed.
                eprintln!("{error:#}");
                row.verdict = Verdict::Failed;
                // A failed check counts as a failed test, because some users read only the last line.
                row.failed = row.failed.max(1);
            }
        }
        self.rows.push(row);
    }

    /// Prints the summary, with the counts in its last line.
    pub fn finish(self) -> ExitCode {
        println!("\n{}", self.summary());
        if self.rows.iter().all(|row| row.verdict == Verdict::Ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn summary(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let tests = match (row.passed, row.failed) {
                (0, _) => String::new(),
                (passed, 0) => format!("{passed} passed"),
                (passed, failed) => format!("{passed} passed, {failed} failed"),
            };
            let verdict = row.verdict.as_str();
            let took = row.took.as_secs_f32();
            let line = format!("{:width$}  {verdict:7}  {took:>7.1} s  {tests}  {}", row.name, row.remark);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
            // Name failed tests here too, for users who see only the end of a long output.
            for name in &row.failing {
                let _ = writeln!(text, "    {name}");
            }
        }
        let passed: usize = self.rows.iter().map(|row| row.passed).sum();
        let failed: usize = self.rows.iter().map(|row| row.failed).sum();
        let _ = writeln!(text, "in {:.0} s\n", self.progress.elapsed().as_secs_f32());
        let _ = write!(text, "{passed} passed, {failed} failed");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_hides_no_other_and_ends_the_report() {
        let mut report = Report::new(5);
        report.step("Formatting", |_| Ok(Outcome::Passed));
        report.side_by_side(vec![
            Part::new("Lints", |_| anyhow::bail!("a lint")),
            Part::new("Dependencies", |_| Ok(Outcome::Partly("advisories skipped".to_owned()))),
        ]);
        report.step("Unit tests", |_| Ok(Outcome::Tests(Tests { passed: 7, ignored: 1, ..Tests::default() })));
        let failing = Tests {
            passed: 3,
            failed: 2,
            failures: "it broke".to_owned(),
            failing: vec!["redis::a".to_owned(), "etcd::b".to_owned()],
            ..Tests::default()
        };
        report.step("Integration tests", |_| Ok(Outcome::Tests(failing)));
        report.step("Python", |_| Ok(Outcome::Unchanged(2)));
        report.skip("More tests", "there is no cluster");
        let summary = report.summary();
        let line = |name| summary.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("Formatting").contains("ok"));
        assert!(line("Lints").contains("FAILED"));
        assert!(line("Dependencies").ends_with("advisories skipped"));
        assert!(line("Unit tests").ends_with("7 passed  1 ignored"), "{summary}");
        assert!(line("Integration tests").ends_with("3 passed, 2 failed"), "{summary}");
        assert!(line("Python").ends_with("2 passed  as before: nothing that they read has changed"), "{summary}");
        let after = summary.lines().skip_while(|line| !line.starts_with("Integration tests")).skip(1);
        assert_eq!(after.take(2).collect::<Vec<_>>(), ["    redis::a", "    etcd::b"]);
        assert!(line("More tests").ends_with("there is no cluster"), "{summary}");
        assert_eq!(summary.lines().last(), Some("12 passed, 3 failed"));
        assert_eq!(report.finish(), ExitCode::FAILURE);
    }
}
