//! The facts about the `DatabaseRestore` that a database owns.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource, ResourceExt};

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseRestore, DatabaseRestoreSpec};
use causeway_runtime::manifest::{is_controlled_by, is_left_over};

/// The `DatabaseRestore` as the last look found it. It is always read from the apiserver: no decision may depend on what a
/// watch saw last.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen {
    /// The operator has not looked, or got no answer.
    #[default]
    Unknown,
    /// Its kind is not installed.
    KindMissing,
    /// We must not read it.
    Denied,
    /// There is none, and the apiserver refused to make it a moment ago, with these words.
    Refused(String),
    /// It does not exist, although its kind does.
    Absent,
    /// It exists, with these facts.
    Present(Live),
}

/// A `DatabaseRestore` as it is.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about an object")]
pub struct Live {
    /// The uid of the `DatabaseRestore`.
    pub uid: String,
    /// The database controls it.
    pub ours: bool,
    /// It has the label of the database, and no controller: `kubectl delete --cascade=orphan`, a restore of the objects or an
    /// edit took that.
    pub lost: bool,
    /// It belongs to an earlier object of the database's name: Kubernetes is about to delete it.
    pub left_over: bool,
    /// Its owner references.
    pub owners: Vec<OwnerReference>,
    /// Its `resourceVersion`.
    pub version: String,
    /// Its spec.
    pub spec: Option<Box<DatabaseRestoreSpec>>,
    /// It is being deleted.
    pub going: bool,
    /// The phase in its status.
    pub phase: RestorePhase,
    /// It waits until a user does something.
    pub stalled: bool,
    /// ID of the backup that it has chosen.
    pub id: Option<String>,
    /// The reason why it failed, in a word.
    pub reason: Option<String>,
    /// The time at which it ended.
    pub finished: Option<Time>,
    /// The message in its status.
    pub message: String,
}

impl Live {
    /// Reads the facts that matter to `owner`, whose children have its name in that label.
    pub fn read(restore: &DatabaseRestore, owner: &impl Resource<DynamicType = ()>, label: &str) -> Self {
        let status = restore.status.clone().unwrap_or_default();
        let stalls = |type_: &str, status: &str| type_ == "Stalled" && status == "True";
        Self {
            uid: restore.uid().unwrap_or_default(),
            ours: is_controlled_by(restore, owner),
            lost: restore.labels().get(label) == Some(&owner.name_any())
                && restore.owner_references().iter().all(|owner| owner.controller != Some(true)),
            left_over: is_left_over(restore.owner_references(), owner),
            owners: restore.owner_references().to_vec(),
            version: restore.resource_version().unwrap_or_default(),
            spec: Some(Box::new(restore.spec.clone())),
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
