//! The report of `causeway plan`, as data. docs/plan.md documents its JSON.

use serde::Serialize;

use causeway_runtime::terminal::make_plain;

/// Everything that would happen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The objects, in the order in which they were planned.
    pub objects: Vec<ObjectReport>,
    /// Documents of other kinds.
    pub skipped: Vec<Skipped>,
}

/// The changes that one object would cause.
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
    /// The answers of AWS about the spec, and what was not checked.
    pub checks: Vec<Check>,
    /// How the object would be in the end.
    pub result: Outcome,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// From a file, and not in the cluster.
    New,
    /// From a file, in place of the one in the cluster.
    File,
    /// Only from the cluster.
    Cluster,
}

/// The state that an object would have in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// True if a user must act before it can be ready.
    pub stalled: bool,
    /// The reason of its condition.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// The answer of AWS about a field, or why it was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The field.
    pub field: String,
    /// The outcome.
    pub state: CheckState,
    /// A sentence.
    pub message: String,
}

/// The outcome of a check. Checks that pass are not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// AWS would refuse it.
    Wrong,
    /// AWS was not asked, or did not answer.
    Unchecked,
    /// AWS has another value than a new object would get, and the spec leaves it.
    Kept,
}

/// A call or a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The API that is called.
    pub system: System,
    /// The API's name for the call.
    pub call: &'static str,
    /// The resource that it changes.
    pub subject: String,
    /// The fields that it changes.
    pub fields: Vec<Field>,
}

/// The API that is called.
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

/// A document of another kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The meaning of the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing would change.
    Nothing,
    /// Something would change.
    Changes,
    /// An object is invalid, or cannot be provided.
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
    /// The meaning of the exit code.
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

    /// The same, to be shown on a terminal.
    #[must_use]
    pub fn printable(&self) -> Self {
        let mut shown = self.clone();
        for object in &mut shown.objects {
            let result = &mut object.result;
            [&mut object.namespace, &mut object.name, &mut result.reason, &mut result.message]
                .into_iter()
                .for_each(make_plain);
            for change in &mut object.changes {
                make_plain(&mut change.subject);
                for Field { path, old, new } in &mut change.fields {
                    std::iter::once(path).chain(old).chain(new).for_each(make_plain);
                }
            }
            for check in &mut object.checks {
                [&mut check.field, &mut check.message].into_iter().for_each(make_plain);
            }
        }
        for it in &mut shown.skipped {
            [&mut it.kind, &mut it.name].into_iter().for_each(make_plain);
        }
        shown
    }

    /// The number of calls to that system.
    #[must_use]
    pub fn count(&self, system: System) -> usize {
        self.objects.iter().flat_map(|object| &object.changes).filter(|change| change.system == system).count()
    }
}
