//! Errors of a backup, a restore or a verification: in words for people, and as a stable word for programs.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::task::JoinError;

use super::age::KeyError;
use super::store::{ManifestError, StoreError, UploadError};

/// Characters of an error in the status; the log has all of them.
const LONGEST: usize = 300;
/// The directory of a pod in which Secrets are mounted, each in a directory with its name.
pub const MOUNTED: &str = "/var/run/secrets/causeway.example.com";

/// The reasons why a backup, a restore or a verification failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be read.
    #[error("plan {path}: {message}")]
    Plan {
        /// Path of the plan in the pod.
        path: PathBuf,
        /// The error in words.
        message: String,
    },
    /// The plan is not the one that the pod's template names.
    #[error(
        "plan {path} is not what Causeway wrote, whose SHA-256 is {expected}: another client changed it, and nothing was done; look who \
         may write ConfigMaps and pods of the namespace, then make another backup or DatabaseRestore"
    )]
    PlanChanged {
        /// Path of the plan in the pod.
        path: PathBuf,
        /// The hash that the template names, hexadecimal.
        expected: String,
    },
    /// The plan asks for something that this version does not do.
    #[error("{0}")]
    Unsupported(String),
    /// `--due` is no instant.
    #[error("--due {0:?}: give an instant such as 2026-11-22T00:05:00Z, or an ID such as 20261122T000500Z")]
    Due(String),
    /// A mounted Secret does not have what is needed.
    #[error("{}: {message}", secret(path.parent()))]
    Secret {
        /// Path of the mounted file.
        path: PathBuf,
        /// The error in words, never the content of the file.
        message: String,
    },
    /// A public key to encrypt for is not valid.
    #[error("spec.encryption.recipients[{index}]: {mistake}")]
    Recipient {
        /// Which one, from 0.
        index: usize,
        /// The mistake in the key.
        mistake: KeyError,
    },
    /// The backup is encrypted, and no Secret with a secret key is named.
    #[error(
        "the backup is encrypted with age: name the Secret with the secret key in identitySecretName, of spec.encryption of \
         the DatabaseBackup or of the restore's spec.from"
    )]
    IdentityMissing,
    /// None of the secret keys opens the backup.
    #[error(
        "{}: no secret key in its key identity opens the backup, which was encrypted for others: add the key for which it was \
         encrypted", secret(Some(.0))
    )]
    IdentityWrong(PathBuf),
    /// No server answers that could be backed up.
    #[error("no server can be backed up: {0}")]
    SourceUnreachable(String),
    /// The user may not read all that is to be backed up.
    #[error("{0}")]
    RightsMissing(String),
    /// A statement that the spec wants to run around the dump failed.
    #[error("{0}")]
    HookFailed(String),
    /// The server does not limit the log that a replication slot holds: it may fill the disk.
    #[error(
        "the server does not bound what a replication slot holds: without backups its disk would fill up (ALTER SYSTEM SET \
         max_slot_wal_keep_size = '10GB', then SELECT pg_reload_conf())"
    )]
    SlotUnbounded,
    /// The server no longer has write-ahead log that no backup has either.
    #[error("{0}")]
    WalMissing(String),
    /// The database stopped sending, or refused to.
    #[error("the stream of data broke: {0}")]
    SourceFailed(String),
    /// The container that talks to the database failed.
    #[error("{message}")]
    Dump {
        /// Stable word for it.
        reason: String,
        /// The error in words.
        message: String,
        /// True if another try would fail in the same way.
        is_final: bool,
    },
    /// The data do not match the database's own checksum.
    #[error("the data are damaged on their way or in the database: {0}")]
    SourceDamaged(String),
    /// A call of S3 failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Data could not be written to S3.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// A manifest could not be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The backup is not there, or not complete.
    #[error("there is no complete backup {id} of {folder}")]
    BackupMissing {
        /// ID of the backup.
        id: String,
        /// The folder of its database.
        folder: String,
    },
    /// The manifest is not the one that the operator checked.
    #[error(
        "the manifest is not the one that the operator checked: another client wrote it again; look who may write there"
    )]
    ManifestChanged,
    /// The backup is not what was written.
    #[error("the backup is damaged: {0}")]
    ChecksumMismatch(String),
    /// The archive of a base backup or of log has what no program of ours writes.
    #[error(
        "{archive} is refused, and nothing of it was unpacked: its entry {entry:?} {why}; look who may write to the bucket, and \
         take another backup"
    )]
    ArchiveRefused {
        /// Name of the archive's file.
        archive: String,
        /// The beginning of the entry's name; empty if it is about the archive.
        entry: String,
        /// The reason, as the rest of a sentence.
        why: &'static str,
    },
    /// A signal asked the process to end.
    #[error("stopped before it was done")]
    Interrupted,
    /// A task that worked on the data ended before its time.
    #[error("a task of this process ended: {0}")]
    Task(#[from] JoinError),
    /// The pod's volume is too small.
    #[error("no space is left in {path}: the backup needs {needed} bytes there")]
    NoSpace {
        /// Directory on the volume.
        path: PathBuf,
        /// Size of the backup in bytes.
        needed: u64,
    },
    /// A file in the work directory could not be read or written.
    #[error("{path}: {source}")]
    Work {
        /// Path of the file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The throw-away server does not serve the backup.
    #[error("the server at {address} that holds the backup is not ready after {seconds} s: {message}")]
    ScratchNotReady {
        /// Where it should answer.
        address: String,
        /// Seconds that it was waited for.
        seconds: u64,
        /// The last error of a connection to it.
        message: String,
    },
    /// The image is not of the version that a base backup is of.
    #[error(
        "the image {image} has PostgreSQL {its}, and the base backup is of {needed}: name an image of that major version in \
         spec.pointInTime.image of a restore, or in image of the DatabaseBackup"
    )]
    VersionMismatch {
        /// Name of the image.
        image: String,
        /// The version of its server.
        its: String,
        /// The version of the backup.
        needed: String,
    },
    /// The log ends before the instant.
    #[error("the log ends before {0}, which the server looked for in vain: name an earlier instant")]
    InstantNotReached(Timestamp),
    /// The throw-away server stopped answering.
    #[error("the server that holds the backup failed: {0}")]
    ScratchFailed(String),
    /// No server answers that the backup could be restored to.
    #[error("the target cannot be written to: {0}")]
    TargetUnreachable(String),
    /// The target is not empty.
    #[error(
        "the target holds {keys} keys: empty it, or set force to have them overwritten and what the backup lacks deleted"
    )]
    TargetNotEmpty {
        /// Number of keys in the target.
        keys: u64,
    },
    /// The target holds what another restore wrote, which still runs or did not come to its end.
    #[error(
        "the target, which holds {keys} keys, belongs to another restore: if that one still runs, wait for its end; if not, set spec.force \
         to go on over them, or restore into an empty one"
    )]
    TargetHalfRestored {
        /// Number of keys in the target.
        keys: u64,
    },
    /// A database of the target is not empty.
    #[error(
        "the database {database} of the target holds {tables} tables, views and sequences: empty it, or set force to have \
         those replaced that the backup has, too"
    )]
    TargetHoldsTables {
        /// Name of the database.
        database: String,
        /// Number of tables, views and sequences.
        tables: u64,
    },
    /// A database of the target has the mark of another restore, which still runs or did not come to its end.
    #[error(
        "the database {database} of the target belongs to another restore: if that one still runs, wait for its end; if not, set \
         spec.force to go on over it, or restore into an empty one"
    )]
    TargetHoldsHalf {
        /// Name of the database.
        database: String,
    },
    /// The image lacks a program of the database.
    #[error("there is no program {0} in the image: let image be the database's own, of the server's version")]
    ToolMissing(&'static str),
    /// A program of the image has a defect by which a crafted backup can run code, and it was not verified who wrote this
    /// backup.
    #[error("{0}")]
    ToolOutdated(String),
    /// Objects that are not in the backup depend on those that would be replaced.
    #[error("{0}")]
    DependentsRemain(String),
    /// A server has too little room for the locks of one transaction.
    #[error("{0}")]
    LocksTooFew(String),
    /// A server takes no statement that is as long as one of the backup.
    #[error("{0}")]
    PacketTooSmall(String),
    /// The target has too little memory for the backup.
    #[error("{0}")]
    MemoryTooSmall(String),
    /// The target evicted keys of the backup while it was restored.
    #[error("{0}")]
    KeysEvicted(String),
    /// A setting of a server, or a right that the login lacks, would stop the work or change what is written.
    #[error("{0}")]
    ServerUnfit(String),
    /// The target refused something.
    #[error("the target failed: {0}")]
    TargetFailed(String),
    /// The restored data differ from the backup.
    #[error("what was restored differs from the backup: {0}")]
    Differs(String),
}

impl Error {
    /// Stable word for reports.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Dump { reason, .. } => reason,
            Self::Plan { .. } => "PlanInvalid",
            Self::PlanChanged { .. } => "PlanChanged",
            Self::Unsupported(_) => "Unsupported",
            Self::Manifest(ManifestError::Invalid { mistake, .. }) if mistake.is_newer() => "Unsupported",
            Self::Due(_) => "DueInvalid",
            Self::Secret { .. } => "SecretMissing",
            Self::Recipient { .. } => "RecipientInvalid",
            Self::IdentityMissing => "IdentityMissing",
            Self::IdentityWrong(_) => "IdentityWrong",
            Self::SourceUnreachable(_) => "SourceUnreachable",
            Self::RightsMissing(_) => "RightsMissing",
            Self::HookFailed(_) => "HookFailed",
            Self::SlotUnbounded => "SlotUnbounded",
            Self::WalMissing(_) => "WalMissing",
            Self::SourceFailed(_) => "SourceFailed",
            Self::SourceDamaged(_) => "SourceDamaged",
            Self::Store(error)
            | Self::Upload(UploadError::Store(error))
            | Self::Manifest(ManifestError::Store(error)) => error.reason(),
            Self::Upload(UploadError::TooLarge) => "TooLarge",
            Self::Manifest(ManifestError::Invalid { .. }) => "ManifestInvalid",
            Self::ManifestChanged => "ManifestChanged",
            Self::ChecksumMismatch(_) => "ChecksumMismatch",
            Self::ArchiveRefused { .. } => "ArchiveRefused",
            Self::BackupMissing { .. } => "BackupMissing",
            Self::Interrupted | Self::Task(_) | Self::Upload(UploadError::Task(_)) => "Interrupted",
            Self::NoSpace { .. } => "NoSpace",
            Self::Work { .. } => "WorkDirectory",
            Self::ScratchNotReady { .. } => "ScratchNotReady",
            Self::VersionMismatch { .. } => "VersionMismatch",
            Self::InstantNotReached(_) => "InstantNotReached",
            Self::ScratchFailed(_) => "ScratchFailed",
            Self::TargetUnreachable(_) => "TargetUnreachable",
            Self::TargetNotEmpty { .. } | Self::TargetHoldsTables { .. } => "TargetNotEmpty",
            Self::TargetHalfRestored { .. } | Self::TargetHoldsHalf { .. } => "TargetHalfRestored",
            Self::ToolMissing(_) => "ToolMissing",
            Self::ToolOutdated(_) => "ToolOutdated",
            Self::DependentsRemain(_) => "DependentsRemain",
            Self::LocksTooFew(_) => "LocksTooFew",
            Self::PacketTooSmall(_) => "PacketTooSmall",
            Self::MemoryTooSmall(_) => "MemoryTooSmall",
            Self::KeysEvicted(_) => "KeysEvicted",
            Self::ServerUnfit(_) => "ServerUnfit",
            Self::TargetFailed(_) => "TargetFailed",
            Self::Differs(_) => "Differs",
        }
    }

    /// Exit code of a Job that would fail again: the pod failure policy stops Kubernetes from trying again.
    pub const FINAL: u8 = 3;

    /// Exit code of a Job that may succeed with another try.
    const PASSING: u8 = 1;

    /// The exit code that tells Kubernetes whether another try can help.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.is_final() { Self::FINAL } else { Self::PASSING }
    }

    /// Reports whether another try would fail in the same way. Missing Secrets, buckets and permissions are not final: an
    /// administrator may add them at any time.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Plan { .. }
                | Self::PlanChanged { .. }
                | Self::Unsupported(_)
                | Self::Due(_)
                | Self::Recipient { .. }
                | Self::IdentityMissing
                | Self::IdentityWrong(_)
                | Self::Upload(UploadError::TooLarge)
                | Self::Dump { is_final: true, .. }
                | Self::Manifest(ManifestError::Invalid { .. })
                | Self::ManifestChanged
                | Self::BackupMissing { .. }
                | Self::WalMissing(_)
                | Self::VersionMismatch { .. }
                | Self::InstantNotReached(_)
                | Self::SlotUnbounded
                | Self::ChecksumMismatch(_)
                | Self::ArchiveRefused { .. }
                | Self::TargetNotEmpty { .. }
                | Self::TargetHalfRestored { .. }
                | Self::TargetHoldsTables { .. }
                | Self::TargetHoldsHalf { .. }
                | Self::ToolMissing(_)
                | Self::ToolOutdated(_)
                | Self::DependentsRemain(_)
                | Self::LocksTooFew(_)
                | Self::PacketTooSmall(_)
                | Self::MemoryTooSmall(_)
                | Self::KeysEvicted(_)
                | Self::ServerUnfit(_)
                | Self::Differs(_)
        )
    }

    /// Reports whether the restore refused to write to the target as it is.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::TargetNotEmpty { .. }
                | Self::TargetHalfRestored { .. }
                | Self::TargetHoldsTables { .. }
                | Self::TargetHoldsHalf { .. }
                | Self::DependentsRemain(_)
                | Self::LocksTooFew(_)
                | Self::PacketTooSmall(_)
                | Self::MemoryTooSmall(_)
                | Self::ServerUnfit(_)
        )
    }

    /// Describes it for the status: one line that is short enough for a report.
    #[must_use]
    pub fn describe(&self) -> String {
        let line: String = self.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        shortened(&line, LONGEST)
    }

    /// The error of a file in the work directory, where `needed` bytes have to fit.
    #[must_use]
    pub fn of_file(path: PathBuf, source: io::Error, needed: u64) -> Self {
        if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
            return Self::NoSpace { path, needed };
        }
        Self::Work { path, source }
    }
}

/// The text with at most `most` characters. The middle is left out: the cause is at the beginning, and the remedy often at the end.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end = most * 2 / 5;
    let begin = most - 1 - end;
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(count - end)).collect()
}

/// Names the Secret whose keys are files in a directory.
fn secret(directory: Option<&Path>) -> String {
    let directory = directory.unwrap_or(Path::new(""));
    let name = directory.file_name().filter(|_| directory.starts_with(MOUNTED)).and_then(|name| name.to_str());
    name.map_or_else(|| format!("the Secret at {}", directory.display()), |name| format!("Secret {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_one_short_line() {
        let long = Error::SourceFailed(format!("first\nsecond {}", "é".repeat(1000)));
        let text = long.describe();
        assert_eq!(text.chars().count(), LONGEST);
        assert!(!text.contains('\n') && text.starts_with("the stream of data broke: first second é"), "{text}");
        let long = Error::ServerUnfit(format!("it lacks {}: then set force", "x".repeat(1000)));
        let text = long.describe();
        assert_eq!(text.chars().count(), LONGEST);
        assert!(
            text.starts_with("it lacks x") && text.ends_with("x: then set force"),
            "the remedy is not cut off: {text}"
        );
        assert_eq!(Error::Interrupted.describe(), "stopped before it was done");
    }

    #[test]
    fn a_secret_is_named_and_not_its_place_in_the_pod() {
        let mounted = |name: &str| Path::new(MOUNTED).join("mysql/login").join(name);
        let (path, message) = (mounted("shop-db-backup").join("password"), "key password is missing".to_owned());
        assert_eq!(Error::Secret { path, message }.to_string(), "Secret shop-db-backup: key password is missing");
        let wrong = Error::IdentityWrong(mounted("age-key")).to_string();
        assert!(wrong.starts_with("Secret age-key: no secret key in its key identity"), "{wrong}");
        let given = Error::Secret { path: "/tmp/login/password".into(), message: "no".into() };
        assert_eq!(given.to_string(), "the Secret at /tmp/login: no");
    }

    #[test]
    fn a_full_disk_is_told_in_words() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::of_file("/work".into(), full, 42);
        assert_eq!(error.reason(), "NoSpace");
        assert!(error.to_string().contains("42 bytes"), "{error}");
    }
}
