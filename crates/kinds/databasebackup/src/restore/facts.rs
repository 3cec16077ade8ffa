//! The known facts about a restore: its Job, or, before there is one, the backup and the target.

use jiff::Timestamp;
use serde_json::Value;

use causeway_backup::Outlook;
use causeway_backup::jobs::{Access, End, Served, Settings};
use causeway_backup::manifest::{Document, Manifest};
use causeway_backup::plan::{self, Destination};

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub settings: Settings,
    /// The Job; none before it is made.
    pub job: Option<Job>,
    /// The service account of the namespace's Jobs.
    pub account: Option<Value>,
    /// The facts needed to make the Job; not looked at once there is one.
    pub choice: Choice,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about a Job")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// This object made it, and controls it.
    pub ours: bool,
    /// It has the object's label, and no controller: `kubectl delete --cascade=orphan`, a restore of the objects, or an edit took
    /// that away.
    pub lost: bool,
    /// An earlier object of this name controls it, and Kubernetes is about to delete it.
    pub left_over: bool,
    /// The ID of the backup, and the database that was backed up, as they were chosen.
    pub chosen: Option<(String, String)>,
    /// The better candidates that were passed over, for people.
    pub passed_over: Option<String>,
    /// When it was made.
    pub made: Timestamp,
    /// A pod of it has begun to write into the target.
    pub writing: bool,
    /// A pod of it recovers a server.
    pub recovering: bool,
    /// Keys that it reported.
    pub keys: Option<u64>,
    /// The parts that it left out, by its report.
    pub note: Option<String>,
    /// How many backups of the log a server is recovered with, and to which instant, if one was given. None where no
    /// server is recovered.
    pub recovery: Option<(i32, Option<Timestamp>)>,
    /// How far it reported that the server was recovered.
    pub reached: Option<Timestamp>,
    /// The changes that the Job of a dry run reported.
    pub outlook: Option<Outlook>,
    /// The report of the last try that failed, while the Job runs.
    pub failed_try: Option<String>,
    /// The reason why none of its pods runs, and a sentence about it.
    pub stuck: Option<(&'static str, String)>,
    /// How it ended; none while it runs.
    pub end: Option<End>,
}

/// Tells whether the Job can be made.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Choice {
    /// It was not looked at.
    #[default]
    Unknown,
    /// Something does not exist, and may still come.
    Waiting(&'static str, String),
    /// A user or an administrator has to allow something first: a Secret may not be used, or the operator lacks an option.
    Held(&'static str, String),
    /// It can never be made: a reason, and a message with the fix.
    Refused(&'static str, String),
    /// This backup into that database.
    Made(Box<Chosen>),
}

/// The choice for the Job.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The known facts about the backup.
    pub manifest: Manifest,
    /// SHA-256 of its manifest, hexadecimal: the Job accepts no other.
    pub sha256: String,
    pub folder: String,
    pub origin: Destination,
    pub target: Target,
    /// Name of the Secret with the key that opens it, where it is encrypted.
    pub identity: Option<String>,
    /// A note on the choice, for people.
    pub note: Note,
    /// The log that the server replays after it, where it is a base backup.
    pub recovery: Option<Recovery>,
}

/// The log that a server replays after a base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The part of the Job's plan about it.
    pub plan: plan::Recovery,
    /// Bytes of the log as the server gave them.
    pub size: u64,
    /// The image that runs the server for the recovery.
    pub image: String,
}

/// A backup that was found, before it is known whether it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub document: Document,
    pub folder: String,
    pub origin: Destination,
    /// True if the DatabaseBackup that took it asks for encryption.
    pub encrypts: bool,
    /// The Secret with the key that opens it, as that DatabaseBackup names it.
    pub identity: Option<String>,
    /// A note on the choice, for people.
    pub note: Note,
    /// The log after it, where it is a base backup.
    pub log: Option<OfferedLog>,
}

/// The log after a base backup.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedLog {
    /// Manifests of its backups, in their order.
    pub documents: Vec<Document>,
    /// Where they are.
    pub origin: Destination,
    /// True if the DatabaseBackup that took them asks for encryption.
    pub encrypts: bool,
    /// The Secret with the key that opens them, as that DatabaseBackup names it.
    pub identity: Option<String>,
    /// The instant that is wanted; none for all that there is.
    pub until: Option<Timestamp>,
    /// The image that runs the server for the recovery.
    pub image: String,
}

impl OfferedLog {
    /// Returns what the Job needs to know of it.
    pub fn recovery(self) -> Recovery {
        let size = self.documents.iter().fold(0_u64, |size, it| size.saturating_add(it.manifest.size));
        let log = self.documents.into_iter().map(|it| (it.manifest.id, it.sha256)).collect();
        let plan = plan::Recovery { origin: self.origin, log, until: self.until };
        Recovery { plan, size, image: self.image }
    }
}

/// A note on a choice, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Note {
    #[default]
    None,
    /// Better candidates were passed over because they are not trusted: an example, and how many there are.
    Passed(String),
    /// Newer backups are recorded that are not whole in S3 any more: the newest, and how many there are.
    Lost(String),
    /// It was not checked who wrote it.
    Unverified,
}

impl Note {
    /// The candidates that were passed over, for people.
    pub fn passed_over(&self) -> Option<String> {
        match self {
            Self::Passed(later) => Some(format!("passed over what is not signed by a trusted key: {later}")),
            Self::Lost(newer) => Some(format!(
                "passed over newer ones that are not whole in S3 any more: {newer}; look who may delete there"
            )),
            Self::None | Self::Unverified => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How it is reached.
    pub access: Access,
    /// `etcd`, `redis`, `postgresql` or `mysql`, as manifests say.
    pub kind: &'static str,
    /// Facts about its server.
    pub served: Served,
    /// When the database was made, where it asks for the restore itself. Backups that were taken of it since then do
    /// not hold the data that it is to get back.
    pub born: Option<Timestamp>,
}
