//! Every change there can be.

use causeway_aws::s3::{BucketFacts, Lock, Tags, Upload};
use causeway_runtime::ActionEvent;
use causeway_runtime::manifest::Manifest;

use super::facts::{Bucket, Recording, Unsigned};

/// One change in the cluster or in AWS.
#[derive(Clone, PartialEq)]
pub enum Action {
    /// Apply a child. Where `uid` is given, only to the object with that UID.
    Apply {
        child: Box<Manifest>,
        /// The UID of the existing object.
        uid: Option<String>,
    },
    /// Make a Job. An existing one of that name will do if it is ours.
    Start { job: Box<Manifest> },
    /// Make a Job that proves a backup. An existing one of that name will do if it is ours.
    Verify {
        job: Box<Manifest>,
        /// A description for people.
        message: String,
    },
    /// Record which backups count.
    Record(Box<Recording>),
    /// Delete the record, because none of its backups is left.
    ForgetRecord,
    /// Suspend the `CronJob`, whatever else is wrong.
    Hold { name: String, uid: String },
    /// Delete a Job or the `CronJob`, and what it has made.
    Stop {
        /// `Job` or `CronJob`.
        kind: &'static str,
        name: String,
        uid: String,
    },
    /// Delete a Job that ended and was reported.
    Forget { name: String, uid: String },
    /// Wait for Jobs that are ending.
    AwaitJobs,
    /// Make the Job that drops the replication slot of an object that is deleted.
    DropSlot { job: Box<Manifest> },
    /// Wait for that Job.
    AwaitSlot,
    /// Change the bucket.
    Bucket { bucket: Box<Bucket>, change: Change },
    /// Sign backups.
    Sign {
        /// Where they are.
        bucket: Box<Bucket>,
        /// The prefix of their keys, without a slash at the end.
        prefix: String,
        backups: Vec<Unsigned>,
    },
    /// Report something that happened, as an event and in the metrics.
    Tell {
        what: Ended,
        /// True if it was a success.
        success: bool,
        /// The event to report.
        event: ActionEvent,
    },
}

/// Runs that can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A Job that took backups.
    Backup,
    /// The verification of a backup.
    Verification,
}

/// A change of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make it, with these tags.
    Create(Tags),
    /// Give it these tags.
    Tag(Tags),
    /// Make it as safe as it should be.
    Harden(Vec<Hardening>),
    /// Delete these objects, in this order.
    DeleteObjects {
        keys: Vec<String>,
        /// How many backups that are.
        backups: usize,
    },
    /// Abort an upload.
    Abort(Upload),
    /// Delete it, if nothing is in it.
    Delete,
}

/// Settings that make a bucket safe.
#[derive(Clone, Debug, PartialEq)]
pub enum Hardening {
    /// Block public access.
    BlockPublicAccess,
    /// Disable access control lists (ACLs): the bucket's owner owns every object.
    EnforceOwner,
    /// Set the default encryption, for uploads that ask for none: by S3's own keys.
    Encrypt,
    /// Set the bucket policy that denies requests without TLS, and overwriting objects.
    Guard(Box<BucketFacts>),
    /// Abort multipart uploads that no client completes.
    AbortUploads(Box<BucketFacts>),
    /// Enable versioning: Object Lock requires it.
    KeepVersions,
    /// Set the default retention of Object Lock.
    Lock(Lock),
}

/// Names what the action is about, and not the keys of S3 objects: there may be many.
impl std::fmt::Debug for Action {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Apply { child, .. } => write!(formatter, "Apply({child:?})"),
            Self::Start { job } => write!(formatter, "Start({job:?})"),
            Self::Verify { job, .. } => write!(formatter, "Verify({job:?})"),
            Self::Record(recording) => write!(formatter, "Record({} accepted)", recording.accepted),
            Self::ForgetRecord => formatter.write_str("ForgetRecord"),
            Self::Hold { name, .. } => write!(formatter, "Hold({name})"),
            Self::Stop { kind, name, .. } => write!(formatter, "Stop({kind} {name})"),
            Self::Forget { name, .. } => write!(formatter, "Forget({name})"),
            Self::AwaitJobs => formatter.write_str("AwaitJobs"),
            Self::DropSlot { job } => write!(formatter, "DropSlot({})", job.name()),
            Self::AwaitSlot => formatter.write_str("AwaitSlot"),
            Self::Bucket { bucket, change } => write!(formatter, "{}({})", change.name(), bucket.place.bucket),
            Self::Sign { backups, .. } => write!(formatter, "Sign({} backups)", backups.len()),
            Self::Tell { event, .. } => write!(formatter, "Tell({})", event.reason),
        }
    }
}

impl Change {
    fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "CreateBucket",
            Self::Tag(_) => "TagBucket",
            Self::Harden(_) => "Harden",
            Self::DeleteObjects { .. } => "DeleteObjects",
            Self::Abort(_) => "AbortUpload",
            Self::Delete => "DeleteBucket",
        }
    }
}

impl Hardening {
    /// Returns its name in logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BlockPublicAccess => "BlockPublicAccess",
            Self::EnforceOwner => "EnforceOwner",
            Self::Encrypt => "Encrypt",
            Self::Guard(_) => "Guard",
            Self::AbortUploads(_) => "AbortUploads",
            Self::KeepVersions => "KeepVersions",
            Self::Lock(_) => "ObjectLock",
        }
    }
}

impl Action {
    /// The event that reports the action.
    pub fn event(&self) -> Option<ActionEvent> {
        let event = |reason, note| Some(ActionEvent::normal(reason, note));
        match self {
            Self::Apply { child, uid } => {
                event(if uid.is_some() { "Updated" } else { "Created" }, format!("{} {}", child.kind(), child.name()))
            }
            Self::Start { job } => event("BackupStarted", format!("Job {} was asked for", job.name())),
            Self::Verify { message, .. } => event("VerificationStarted", message.clone()),
            Self::Record(recording) if recording.accepted > 0 => {
                let number = recording.accepted;
                event("BackupsAccepted", format!("{number} backups in S3 that no Job reported count from now on"))
            }
            Self::Hold { name, .. } => event("Held", format!("CronJob {name} is suspended: see the condition Ready")),
            Self::Stop { kind, name, .. } => event("Stopped", format!("{kind} {name}")),
            Self::Bucket { bucket, change } => {
                let name = &bucket.place.bucket;
                match change {
                    Change::Create(_) => event("BucketCreated", format!("Made bucket {name}")),
                    Change::DeleteObjects { backups: 0, .. } | Change::Abort(_) => None,
                    Change::DeleteObjects { backups, .. } => {
                        event("BackupsDeleted", format!("Deleted {backups} backups that spec.retention does not keep"))
                    }
                    Change::Delete => event("BucketDeleted", format!("Deleted bucket {name}")),
                    Change::Tag(_) => event("BucketTagged", format!("Tagged bucket {name}, which Causeway created")),
                    Change::Harden(all) => {
                        let names: Vec<&str> = all.iter().map(Hardening::name).collect();
                        event("BucketHardened", format!("{} of bucket {name}", names.join(", ")))
                    }
                }
            }
            Self::Tell { event, .. } => Some(event.clone()),
            Self::DropSlot { job } => {
                event("SlotDropStarted", format!("Job {} drops the replication slot of the server", job.name()))
            }
            Self::Record(_)
            | Self::ForgetRecord
            | Self::Forget { .. }
            | Self::AwaitJobs
            | Self::AwaitSlot
            | Self::Sign { .. } => None,
        }
    }
}
