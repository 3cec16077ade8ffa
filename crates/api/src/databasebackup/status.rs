//! The status of backups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::conditioned;

/// Observed state of the backups.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseBackupStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The bucket, for information only: Causeway never reads this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,

    /// Prefix of all keys of this object, for information only: Causeway never reads this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,

    /// Databases that are backed up, such as `EtcdCluster prod-etcd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,

    /// State of the backups of each database, for at most a hundred databases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabaseState>,

    /// Backups that retention would delete, but that S3 Object Lock still protects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<LockedBackups>,

    /// Number of databases that have every backup that is due, and number of all databases, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date: Option<String>,

    /// When the newest backup was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,

    /// The last failure. It is removed after a later success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<BackupFailure>,

    /// When the next backup is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Time>,

    /// The newest backups, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<BackupRun>,

    /// Number of backups in S3.
    #[serde(default)]
    pub backups: i64,

    /// Size of the backups in S3, in bytes.
    #[serde(default)]
    pub stored_bytes: i64,

    /// Size of the backups in S3 with a unit, such as `1.5 GiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,

    /// Summary of what can be restored; left out before the first backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<Recoverable>,

    /// The public key with which backups of this cluster's operator can be verified, such as `ssh-ed25519 AAAA…`. Keep
    /// it outside of the cluster: if this cluster is lost, `spec.from.s3.trustedKeys` of a DatabaseRestore needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,

    /// Result of the last verification of each database that has backups, for at most a hundred databases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<BackupVerification>,

    /// When the next verification is due, with `spec.verify.schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_verification: Option<Time>,

    /// When a verification was last due, with `spec.verify.schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_due: Option<Time>,

    /// Jobs that have ended and whose results were reported, as long as the Jobs exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,

    /// Jobs that take backups and that have not ended, at most the newest twenty. One that is gone before its end was seen is a
    /// failed backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningBackup>,

    /// The last value of the annotation `causeway.example.com/backup-now` for which a backup was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_now: Option<String>,

    /// `Ready`, `BucketReady`, `BackupOverdue`, `Restorable` and `Verified`; `BackupFailed`, `LogBeginsTooLate`, `LogNotDeleted`,
    /// `UnrecordedBackups`, `UnsignedBackups`, `Reconciling` and `Stalled` only while abnormal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Backups of all databases that can be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recoverable {
    /// When the oldest backup was due, such as `2026-11-22T00:05:00Z`.
    pub oldest: Time,
    /// When the newest backup was due.
    pub newest: Time,
    /// Number of backups.
    pub count: i64,
}

/// Backups that cannot be deleted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockedBackups {
    /// Number of backups.
    pub backups: i64,
    /// When the lock of the last of them ends, or, after S3 refused to delete one that a legal hold or a longer lock of
    /// its own holds, when Causeway tries again.
    pub until: Time,
}

/// State of the backups of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseState {
    /// The database, such as `Redis cache`.
    pub source: String,
    /// Folder of the database under the object's prefix.
    pub folder: String,
    /// State of its backups: `UpToDate`, `Waiting`, `Failed`, `NeverSucceeded`, `Overdue`, `NotStarted` or
    /// `SecretRefused`.
    pub state: BackupState,
    /// When the newest existing backup was due, such as `2026-11-22T00:05:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// With `spec.method: Wal`: the write-ahead log that the server keeps for the next backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_log: Option<KeptLogState>,
}

/// Write-ahead log that a server keeps because it is not in a backup yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptLogState {
    /// When a Job measured this, such as `2026-11-22T00:05:09Z`.
    pub seen: Time,
    /// Size of this log on the server's disk, in bytes.
    pub bytes: i64,
    /// Number of bytes that can still be written before the server discards this log, after which later changes cannot
    /// be recovered.
    pub bytes_until_lost: i64,
}

/// How the backups of a database stand, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackupState {
    /// Every backup is there that is due.
    UpToDate,
    /// There is no backup yet, and none was due.
    Waiting,
    /// The last try failed; there are earlier backups.
    Failed,
    /// There is no backup, although one was tried or due.
    NeverSucceeded,
    /// The newest backup is older than the one that was due.
    Overdue,
    /// It is left out, for it has not come up yet.
    NotStarted,
    /// It is left out, for a Secret may not be used.
    SecretRefused,
}

/// A Job that takes a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningBackup {
    /// Name of the Job.
    pub job: String,
    /// When the Job was made.
    pub started: Time,
}

/// A backup that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupFailure {
    /// When it failed.
    pub time: Time,
    /// Reason as a word, such as `SourceUnreachable`.
    pub reason: String,
    /// Reason as a sentence.
    pub message: String,
    /// Name of the Job.
    pub job: String,
}

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRun {
    /// ID of the backup: the instant when it was due, such as `20261122T000500Z`.
    pub id: String,
    /// The database, such as `EtcdCluster prod-etcd`.
    pub source: String,
    /// Folder of the database under the object's prefix.
    pub folder: String,
    /// When it was completed.
    pub finished: Time,
    /// How long it took, in seconds.
    pub seconds: i64,
    /// Size as the database sent it, in bytes.
    pub bytes: i64,
    /// Size in S3, in bytes.
    pub stored_bytes: i64,
    /// Number of keys in it; rows for PostgreSQL, MySQL and MariaDB.
    pub keys: i64,
    /// Databases of a PostgreSQL that are not in it, such as `vault, audit`, because its user, or every user, may not connect
    /// to them. To include them, run `GRANT CONNECT ON DATABASE vault TO` that user, or
    /// `ALTER DATABASE vault ALLOW_CONNECTIONS true`. Of a MySQL or MariaDB whose user lacks `SHOW DATABASES`: that there may
    /// be databases that it does not see. Left out if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// True if a verification restored it successfully, `false` if it failed; left out if it was not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Rules of `spec.retention` that keep it: `Last`, `Hourly`, `Daily`, `Weekly`, `Monthly`, `Yearly` (the rule of that
    /// name), `MaxAge` (it is young enough, and there is no other rule), `Newest` (the newest is always kept), `Proven` (the
    /// newest that passed verification is always kept) or `BaseBackup` (a base backup needs this log, or it is not certain that
    /// none does; the last log that none needs is kept, too). Left out if nothing keeps it: Causeway deletes it as soon as no
    /// Job runs and S3 does not lock it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_by: Vec<KeptBy>,
}

/// Reason why a backup is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum KeptBy {
    /// It is one of the last.
    Last,
    /// It is the newest of its hour.
    Hourly,
    /// It is the newest of its day.
    Daily,
    /// It is the newest of its week.
    Weekly,
    /// It is the newest of its month.
    Monthly,
    /// It is the newest of its year.
    Yearly,
    /// It is young enough, and no other rule is given.
    MaxAge,
    /// It is the newest of its database.
    Newest,
    /// It is the newest of its database that was proven.
    Proven,
    /// It is log that a base backup needs, as far as that is known.
    BaseBackup,
}

/// Result of the last verification of a database's backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupVerification {
    /// Folder of the database under the object's prefix.
    pub folder: String,
    /// The database, such as `EtcdCluster prod-etcd`.
    pub source: String,
    /// ID of the backup that was verified, such as `20261122T000500Z`.
    pub id: String,
    /// When the last verification ended.
    pub time: Time,
    /// True if the backup passed.
    pub ok: bool,
    /// Findings of the verification, as a sentence.
    pub message: String,
    /// IDs of existing backups that passed verification, at most the newest twenty. Retention always keeps the newest
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proven: Vec<String>,
    /// When the last of them passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<Time>,
    /// IDs of existing backups that failed verification, at most the newest twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

conditioned!(
    DatabaseBackupStatus,
    [
        ("BackupFailed", AbnormalTrue),
        ("BackupOverdue", AbnormalTrue),
        ("BucketReady", NormalTrue),
        ("LogBeginsTooLate", AbnormalTrue),
        ("LogBroken", AbnormalTrue),
        ("LogNotDeleted", AbnormalTrue),
        ("Restorable", NormalTrue),
        ("UnrecordedBackups", AbnormalTrue),
        ("UnsignedBackups", AbnormalTrue),
        ("Verified", NormalTrue)
    ]
);
