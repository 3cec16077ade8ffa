//! One run: its place, what was found out on the way, and how stages wait.

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

/// What an object says of itself, a line for each condition.
const CONDITIONS: &str = "{range .status.conditions[*]}{.type} is {.status} ({.reason}): {.message}{\"\\n\"}{end}";

/// A run.
pub struct Scene<'a> {
    /// Where it takes place.
    pub place: &'a Place<'a>,
    /// Its name.
    pub run: RunId,
    /// What is to be made.
    pub wishes: Wishes,
    /// Values for the chart, where the run is to install the operator.
    pub values: Option<PathBuf>,
    /// The account, as AWS says.
    pub account: OnceCell<String>,
    /// The bucket of backups.
    pub bucket: OnceCell<String>,
    /// The balancer's DNS name.
    pub dns: OnceCell<String>,
    /// What was written into the databases.
    pub word: OnceCell<String>,
    /// The backup of it.
    pub kept: OnceCell<Kept>,
}

impl<'a> Scene<'a> {
    /// A run of which nothing is known yet.
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

    /// kubectl.
    pub fn kubectl(&self) -> Kubectl<'_> {
        self.place.kubectl()
    }

    /// Applies an object.
    pub fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl().feed(&["apply", "--server-side", "-f", "-"], &object.to_string()).map(drop)
    }

    /// A field of an object in the run's namespace, by a JSON path.
    pub fn field(&self, object: &str, path: &str) -> Result<String> {
        self.kubectl().run(&["-n", &self.run.namespace(), "get", object, "-o", &format!("jsonpath={path}")])
    }
}

/// What an earlier stage found.
pub fn found<'a, T>(cell: &'a OnceCell<T>, what: &str) -> Result<&'a T> {
    cell.get().with_context(|| format!("no stage before this one found {what}"))
}

/// The deadline of a stage, and what it says while it waits.
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

    /// The step that is shown.
    pub fn step(&self) -> &Step {
        self.step
    }

    /// What is left of the stage's time.
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }

    /// Waits for `ready` until the deadline.
    pub fn until<T>(&self, what: &str, ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.step.wait_for(what, self.left(), ready)
    }

    /// `kubectl wait` for what is in the run's namespace, until the deadline.
    pub fn wait(&self, scene: &Scene<'_>, object: &str, condition: &str) -> Result<()> {
        self.step.note(format!("waiting for {object}: {condition}"));
        let (namespace, wanted) = (scene.run.namespace(), format!("--for={condition}"));
        let limit = format!("--timeout={}s", self.left().as_secs().max(1));
        scene.kubectl().run(&["-n", &namespace, "wait", object, &wanted, &limit]).map(drop).with_context(|| {
            let conditions = scene.field(object, CONDITIONS).unwrap_or_else(|error| format!("{error:#}"));
            format!("{object} says:\n{}\nand did not come to {condition}", conditions.trim_end())
        })
    }
}
