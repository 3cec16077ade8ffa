//! The stages of a run in order. The list is the same for every place.

mod balancer;
mod databases;
mod preflight;
mod removal;

use std::time::{Duration, Instant};

use anyhow::Result;

use super::consent;
use super::operator;
use super::report::{Outcome, Report, Row};
use super::scene::{Scene, Watch, require};
use crate::demo::install;
use crate::progress::Progress;

/// Does something, waits for the result, and returns what was seen.
type Work = fn(&Scene<'_>, &Watch<'_>) -> Result<Vec<String>>;
pub struct Stage {
    /// Its name for the report.
    pub name: &'static str,
    /// How long it may take locally, and on a real account, where a balancer becomes active only after minutes.
    limit: (Duration, Duration),
    work: Work,
    order: Order,
}

/// When a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Before the user is asked; it changes nothing.
    Looks,
    /// If all earlier stages passed.
    Makes,
    /// Always, if an earlier stage may have created something.
    Removes,
}

const fn minutes(local: u64, real: u64) -> (Duration, Duration) {
    (Duration::from_mins(local), Duration::from_mins(real))
}
pub const STAGES: [Stage; 8] = [
    Stage {
        name: "Look at the account, the cluster and the cost",
        limit: minutes(1, 2),
        work: preflight::look,
        order: Order::Looks,
    },
    Stage { name: "See the operator ready", limit: minutes(3, 15), work: preflight::operator, order: Order::Makes },
    Stage {
        name: "Create a balancer, and have it answer",
        limit: minutes(3, 15),
        work: balancer::answers,
        order: Order::Makes,
    },
    Stage {
        name: "Change it behind the operator's back, and see it repaired",
        limit: minutes(2, 20),
        work: balancer::drifts,
        order: Order::Makes,
    },
    Stage {
        name: "Create databases, write, and read",
        limit: minutes(4, 15),
        work: databases::come_up,
        order: Order::Makes,
    },
    Stage { name: "Back them up to S3", limit: minutes(3, 15), work: databases::back_up, order: Order::Makes },
    Stage {
        name: "Lose what was written, and restore it",
        limit: minutes(4, 20),
        work: databases::restore,
        order: Order::Makes,
    },
    Stage {
        name: "Delete everything, and see nothing left in AWS",
        limit: minutes(4, 20),
        work: removal::remove,
        order: Order::Removes,
    },
];

/// The user's decisions.
pub struct Choice {
    /// Keep everything that was created.
    pub keep: bool,
    /// The account's id, instead of a question.
    pub yes: Option<String>,
    /// The command that removes what a run left.
    pub sweep: String,
}

/// Runs all stages. The first failure ends the run, but what was created is deleted anyway.
pub fn run(scene: &Scene<'_>, choice: &Choice, steps: &mut Progress) -> Result<Report> {
    let mut report = Report::new(scene, choice.sweep.clone());
    let mut failed = false;
    for stage in &STAGES {
        let skip = match stage.order {
            Order::Looks => None,
            Order::Makes => failed.then_some("an earlier step failed"),
            Order::Removes if choice.keep => Some("--keep"),
            Order::Removes => report.changed_nothing().then_some("nothing was made"),
        };
        if let Some(why) = skip {
            report.rows.push(Row::skipped(stage.name, why));
            continue;
        }
        let begun = Instant::now();
        let result =
            steps.step(stage.name, |step| (stage.work)(scene, &Watch::new(step, scene.place.either(stage.limit))));
        let took = begun.elapsed();
        match result {
            Ok(evidence) => {
                for line in &evidence {
                    println!("      {line}");
                }
                report.rows.push(Row { name: stage.name, took, outcome: Outcome::Passed(evidence) });
            }
            Err(error) => {
                failed = true;
                let kubectl = scene.kubectl();
                let looks = stage.order == Order::Looks;
                let hint = if looks { None } else { operator::must_be_ready(&kubectl).err() };
                let why = hint.map_or_else(|| format!("{error:#}"), |hint| format!("{hint:#}\n{error:#}"));
                println!("      {}", why.replace('\n', "\n      "));
                // Without logs this takes a while.
                let seen = if looks { String::new() } else { install::what_happened(&kubectl, &scene.run.namespace()) };
                let why = format!("{why}\n{seen}");
                report.rows.push(Row { name: stage.name, took, outcome: Outcome::Failed(why) });
            }
        }
        if stage.order == Order::Looks && !failed && scene.place.asks() {
            consent::ask(require(&scene.account, "the account")?, choice.yes.as_deref())?;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_asks_the_user_first_and_deletes_everything() {
        let orders: Vec<_> = STAGES.iter().map(|stage| stage.order).collect();
        assert_eq!(orders.first(), Some(&Order::Looks));
        assert_eq!(orders.last(), Some(&Order::Removes));
        assert!(orders[1..orders.len() - 1].iter().all(|order| *order == Order::Makes), "{orders:?}");
    }

    #[test]
    fn a_real_account_gets_more_time() {
        for stage in &STAGES {
            assert!(stage.limit.0 < stage.limit.1, "{}", stage.name);
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STAGES.len());
    }
}
