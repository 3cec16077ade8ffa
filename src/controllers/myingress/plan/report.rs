//! What `causeway plan` tells, as data. docs/plan.md documents its JSON.

use serde::Serialize;

/// Everything that would happen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The objects, in the order in which they were planned.
    pub objects: Vec<ObjectReport>,
    /// Documents that are none of ours.
    pub skipped: Vec<Skipped>,
}

/// What would happen because of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Where the object comes from.
    pub origin: Origin,
    /// The calls and writes, in order.
    pub changes: Vec<Change>,
    /// What AWS says against the spec, and what it was not asked.
    pub checks: Vec<Check>,
    /// How the object would be in the end.
    pub result: Outcome,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Of a file, and not in the cluster.
    New,
    /// Of a file, over the one in the cluster.
    File,
    /// As the cluster has it.
    Cluster,
}

/// How an object would be in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Whether somebody must act before it can be ready.
    pub stalled: bool,
    /// The reason of its condition.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What AWS says of a field, or why it was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The field.
    pub field: String,
    /// What came of it.
    pub state: CheckState,
    /// A sentence.
    pub message: String,
}

/// What came of a check; what is right is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// AWS would refuse it.
    Wrong,
    /// AWS was not asked, or did not answer.
    Unchecked,
}

/// A call or a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Who is called.
    pub system: System,
    /// The API's name for the call.
    pub call: &'static str,
    /// What it is about.
    pub subject: String,
    /// What it changes.
    pub fields: Vec<Field>,
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// An AWS API.
    Aws,
    /// The Kubernetes API.
    Kubernetes,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Its path.
    #[serde(rename = "field")]
    pub path: String,
    /// Its value before; none where there was none.
    pub old: Option<String>,
    /// Its value after; none where there is none.
    pub new: Option<String>,
}

/// A document that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing would change.
    Nothing,
    /// Something would change.
    Changes,
    /// An object is not valid, or cannot be had.
    Stalled,
}

impl Verdict {
    /// The exit code of the process.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Stalled => 1,
            Self::Changes => 2,
        }
    }
}

impl Report {
    /// What the exit code says.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let wrong = |object: &ObjectReport| object.checks.iter().any(|check| check.state == CheckState::Wrong);
        if self.objects.iter().any(|object| object.result.stalled || wrong(object)) {
            Verdict::Stalled
        } else if self.objects.iter().any(|object| !object.changes.is_empty()) {
            Verdict::Changes
        } else {
            Verdict::Nothing
        }
    }

    /// How many calls of that system there would be.
    #[must_use]
    pub fn count(&self, system: System) -> usize {
        self.objects.iter().flat_map(|object| &object.changes).filter(|change| change.system == system).count()
    }
}
