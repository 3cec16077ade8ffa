//! The result of a run: on the terminal, and in files.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::scene::Scene;
use crate::images::operator;

/// The result of a stage.
pub enum Outcome {
    /// It passed. Contains what was seen.
    Passed(Vec<String>),
    /// It failed. Contains the reason and the state of the cluster.
    Failed(String),
    /// It did not run. Contains the reason.
    Skipped(&'static str),
}

/// A stage that has ended.
pub struct Row {
    pub name: &'static str,
    /// How long it took.
    pub took: Duration,
    pub outcome: Outcome,
}

impl Row {
    /// A stage that did not run.
    pub fn skipped(name: &'static str, why: &'static str) -> Self {
        Self { name, took: Duration::ZERO, outcome: Outcome::Skipped(why) }
    }

    fn outcome_word(&self) -> &'static str {
        match self.outcome {
            Outcome::Passed(_) => "passed",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        }
    }
}

/// The report of a run.
pub struct Report {
    run: String,
    /// The place of the run.
    place: String,
    /// The command that removes what it left.
    sweep: String,
    pub rows: Vec<Row>,
}

impl Report {
    /// The report of a new run.
    pub fn new(scene: &Scene<'_>, sweep: String) -> Self {
        let named = scene.place.names();
        let place = format!("{}, cluster {}, {}", scene.place.name(), named.cluster, named.region);
        Self { run: scene.run.to_string(), place, sweep, rows: Vec::new() }
    }

    /// Returns true if the run ended before it created anything: only its first two stages, which check, may have run.
    pub fn changed_nothing(&self) -> bool {
        let beyond = self.rows.iter().skip(2);
        beyond.filter(|row| !matches!(row.outcome, Outcome::Skipped(_))).count() == 0
    }

    /// Reports whether a stage failed.
    pub fn failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
    }

    /// Returns true if something may be left, because the deletion did not succeed.
    pub fn may_leave(&self) -> bool {
        !self.changed_nothing() && !self.rows.last().is_some_and(|row| matches!(row.outcome, Outcome::Passed(_)))
    }

    /// A table of the stages with their durations.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let mut text = String::new();
        for row in &self.rows {
            let took = match row.outcome {
                Outcome::Skipped(why) => why.to_owned(),
                _ => format!("{:.1} s", row.took.as_secs_f64()),
            };
            let _ = writeln!(text, "  {:<7}  {:<width$}  {took:>8}", row.outcome_word(), row.name);
        }
        text
    }

    /// Returns the command that removes what may be left.
    pub fn advice(&self) -> Option<String> {
        self.may_leave()
            .then(|| format!("Something may be left. This lists it, asks, and removes it:\n  {}", self.sweep))
    }

    /// Writes `report.md` and `report.json`; returns their folder.
    pub fn write(&self) -> Result<PathBuf> {
        let folder = operator::target_directory()?.join(format!("e2e-{}", self.run));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(folder.join("report.md"), self.markdown())?;
        fs::write(folder.join("report.json"), serde_json::to_string_pretty(&self.json())?)?;
        Ok(folder)
    }

    fn markdown(&self) -> String {
        let mut text = format!("# Run {}\n\n{}\n\n| step | | duration |\n|---|---|---:|\n", self.run, self.place);
        for row in &self.rows {
            let _ = writeln!(text, "| {} | {} | {:.1} s |", row.name, row.outcome_word(), row.took.as_secs_f64());
        }
        for row in &self.rows {
            let _ = write!(text, "\n## {}\n\n", row.name);
            match &row.outcome {
                Outcome::Passed(seen) => seen.iter().for_each(|line| {
                    let _ = writeln!(text, "- {line}");
                }),
                Outcome::Failed(why) => {
                    let _ = writeln!(text, "```\n{why}\n```");
                }
                Outcome::Skipped(why) => {
                    let _ = writeln!(text, "Skipped: {why}.");
                }
            }
        }
        if let Some(advice) = self.advice() {
            let _ = write!(text, "\n{advice}\n");
        }
        text
    }

    fn json(&self) -> Value {
        let steps: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let (seen, why) = match &row.outcome {
                    Outcome::Passed(seen) => (seen.clone(), None),
                    Outcome::Failed(why) => (Vec::new(), Some(why.as_str())),
                    Outcome::Skipped(why) => (Vec::new(), Some(*why)),
                };
                let outcome = row.outcome_word().to_lowercase();
                json!({ "name": row.name, "outcome": outcome, "seconds": row.took.as_secs_f64(), "seen": seen, "why": why })
            })
            .collect();
        json!({ "run": self.run, "place": self.place, "steps": steps, "mayBeLeft": self.may_leave(), "sweep": self.sweep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: Vec<Outcome>) -> Report {
        let rows = outcomes.into_iter().map(|outcome| Row { name: "a step", took: Duration::from_secs(2), outcome });
        Report { run: "1".to_owned(), place: "here".to_owned(), sweep: "sweep it".to_owned(), rows: rows.collect() }
    }

    fn passed() -> Outcome {
        Outcome::Passed(vec!["seen".to_owned()])
    }

    #[test]
    fn a_good_run_leaves_nothing() {
        let report = report(vec![passed(), passed(), passed(), passed()]);
        assert!(!report.failed() && !report.may_leave() && report.advice().is_none());
        assert!(report.table().contains("passed   a step     2.0 s"), "{}", report.table());
        assert!(report.markdown().contains("| a step | passed | 2.0 s |") && report.markdown().contains("- seen"));
        assert_eq!(report.json()["steps"][0]["outcome"], "passed");
    }

    #[test]
    fn possible_leftovers_are_reported_with_the_command_against_them() {
        let kept = report(vec![passed(), passed(), passed(), Outcome::Skipped("--keep")]);
        assert!(!kept.failed() && kept.advice().is_some_and(|it| it.contains("sweep it")));
        let stuck = report(vec![passed(), passed(), passed(), Outcome::Failed("it stays".to_owned())]);
        assert!(stuck.failed() && stuck.markdown().contains("sweep it") && stuck.markdown().contains("it stays"));
        assert_eq!(stuck.json()["mayBeLeft"], true);
    }

    #[test]
    fn a_run_that_only_looked_leaves_nothing() {
        let report =
            report(vec![passed(), Outcome::Failed("no".to_owned()), Outcome::Skipped("an earlier step failed")]);
        assert!(report.failed() && report.changed_nothing() && report.advice().is_none());
    }
}
