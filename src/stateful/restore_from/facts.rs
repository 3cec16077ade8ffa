//! What is known of the `DatabaseRestore` that a database owns.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};

use crate::api::DatabaseRestore;
use crate::api::databaserestore::RestorePhase;
use crate::runtime::manifest::is_controlled_by;

/// What is known of it. It is always read from the apiserver: no decision may depend on what a watch saw last.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen {
    /// Nobody looked, or got no answer.
    #[default]
    Unknown,
    /// Its kind is not installed.
    KindMissing,
    /// We must not read it.
    Denied,
    /// There is none, and the apiserver refused to make it a moment ago, with these words.
    Refused(String),
    /// There is none.
    Absent,
    /// It is there.
    Present(Live),
}

/// A `DatabaseRestore` as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Its uid.
    pub uid: String,
    /// The database controls it.
    pub ours: bool,
    /// It is being deleted.
    pub going: bool,
    /// Its phase.
    pub phase: RestorePhase,
    /// It waits until somebody does something.
    pub stalled: bool,
    /// ID of the backup that it has chosen.
    pub id: Option<String>,
    /// Why it failed, in a word.
    pub reason: Option<String>,
    /// When it ended.
    pub finished: Option<Time>,
    /// Its message.
    pub message: String,
}

impl Live {
    /// What matters of it to `owner`.
    pub fn of(restore: &DatabaseRestore, owner: &impl Resource) -> Self {
        let status = restore.status.clone().unwrap_or_default();
        let stalls = |type_: &str, status: &str| type_ == "Stalled" && status == "True";
        Self {
            uid: restore.uid().unwrap_or_default(),
            ours: is_controlled_by(restore, owner),
            going: restore.metadata.deletion_timestamp.is_some(),
            phase: status.phase,
            stalled: status.conditions.iter().any(|condition| stalls(&condition.type_, &condition.status)),
            id: status.backup_id,
            reason: status.reason,
            finished: status.finished,
            message: status.message.unwrap_or_default(),
        }
    }
}
