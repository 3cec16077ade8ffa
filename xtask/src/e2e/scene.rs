//! The state of one run: its place, what stages found out, and how they wait.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::options::{RunId, Wishes};
use super::place::Place;
use crate::demo::backups::Kept;
use crate::demo::kubectl::Kubectl;
use crate::progress::Step;

/// The conditions of an object, one per line.
const CONDITIONS: &str = "{range .status.conditions[*]}{.type} is {.status} ({.reason}): {.message}{\"\\n\"}{end}";
pub struct Scene<'a> {
    /// The place of the run.
    pub place: &'a Place<'a>,
    pub run: RunId,
    /// Settings of the objects to create.
    pub wishes: Wishes,
    /// Values for the chart, if the run installs the operator.
    pub values: Option<PathBuf>,
    /// The account, as reported by AWS.
    pub account: OnceCell<String>,
    /// The bucket of backups.
    pub bucket: OnceCell<String>,
    /// The balancer's DNS name.
    pub dns: OnceCell<String>,
    /// The word that a stage wrote into the databases.
    pub word: OnceCell<String>,
    /// The backup of that word.
    pub kept: OnceCell<Kept>,
}

impl<'a> Scene<'a> {
    pub fn new(place: &'a Place<'a>, run: RunId, wishes: Wishes, values: Option<PathBuf>) -> Self {
        Self {
            place,
            run,
            wishes,
            values,
            account: OnceCell::new(),
            bucket: OnceCell::new(),
            dns: OnceCell::new(),
            word: OnceCell::new(),
            kept: OnceCell::new(),
        }
    }

    /// kubectl for the run's cluster.
    pub fn kubectl(&self) -> Kubectl<'_> {
        self.place.kubectl()
    }

    /// Applies an object.
    pub fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl().feed(&["apply", "--server-side", "-f", "-"], &object.to_string()).map(drop)
    }

    /// A field of an object in the run's namespace, by JSON path.
    pub fn field(&self, object: &str, path: &str) -> Result<String> {
        self.kubectl().run(&["-n", &self.run.namespace(), "get", object, "-o", &format!("jsonpath={path}")])
    }
}

/// Returns a value that an earlier stage found.
pub fn require<'a, T>(cell: &'a OnceCell<T>, what: &str) -> Result<&'a T> {
    cell.get().with_context(|| format!("no stage before this one found {what}"))
}

/// The deadline of a stage, and the step that shows what it waits for.
pub struct Watch<'a> {
    step: &'a Step,
    begun: Instant,
    limit: Duration,
}

impl<'a> Watch<'a> {
    /// A stage that begins now.
    pub fn new(step: &'a Step, limit: Duration) -> Self {
        Self { step, begun: Instant::now(), limit }
    }
    pub fn step(&self) -> &Step {
        self.step
    }

    /// The remaining time of the stage.
    pub fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }

    /// Waits for `ready` until the deadline.
    pub fn wait_until<T>(&self, what: &str, ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.step.wait_for(what, self.remaining(), ready)
    }

    /// Runs `kubectl wait` for an object in the run's namespace, until the deadline.
    pub fn wait(&self, scene: &Scene<'_>, object: &str, condition: &str) -> Result<()> {
        self.step.note(format!("waiting for {object}: {condition}"));
        let (namespace, wanted) = (scene.run.namespace(), format!("--for={condition}"));
        let limit = format!("--timeout={}s", self.remaining().as_secs().max(1));
        scene.kubectl().run(&["-n", &namespace, "wait", object, &wanted, &limit]).map(drop).with_context(|| {
            let conditions = scene.field(object, CONDITIONS).unwrap_or_else(|error| format!("{error:#}"));
            format!("{object} says:\n{}\nand did not come to {condition}", conditions.trim_end())
        })
    }
}
