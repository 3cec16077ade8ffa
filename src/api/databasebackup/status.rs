//! What is known of backups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::common::conditioned;

/// What is known of backups.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseBackupStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The bucket. It is told, and nothing follows from what is written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,

    /// What all keys of this object begin with. It is told, and nothing follows from what is written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,

    /// What is backed up, such as `EtcdCluster prod-etcd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,

    /// How the backups of each database stand, of a hundred at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabaseState>,

    /// Backups that retention no longer keeps, and that S3 locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<LockedBackups>,

    /// How many of the databases have every backup that is due, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date: Option<String>,

    /// When the newest backup was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,

    /// The last failure. A later success takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<BackupFailure>,

    /// When the next backup is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Time>,

    /// The newest backups, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<BackupRun>,

    /// Backups that there are in S3.
    #[serde(default)]
    pub backups: i64,

    /// Bytes that they take in S3.
    #[serde(default)]
    pub stored_bytes: i64,

    /// The same for people, such as `1.5 GiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,

    /// What can be restored; none before the first backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<Recoverable>,

    /// The public key of this cluster's operator, by which others know its backups, such as `ssh-ed25519 AAAA…`. Keep it
    /// outside of the cluster: `spec.from.s3.trustedKeys` of a DatabaseRestore takes it where this cluster is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,

    /// What came of the last verification of each database, as long as it has backups; of a hundred at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<BackupVerification>,

    /// When verifications are due next, where `spec.verify.schedule` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_verification: Option<Time>,

    /// When they were due last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_due: Option<Time>,

    /// Jobs that ended and were reported, as long as they exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,

    /// The last value of the annotation `causeway.example.com/backup-now` for which a backup was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_now: Option<String>,

    /// `Ready`, `BucketReady`, `BackupOverdue` and `Verified`; `BackupFailed`, `LogBeginsTooLate`, `LogNotDeleted`,
    /// `UnrecordedBackups`, `UnsignedBackups`, `Reconciling` and `Stalled` only while abnormal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Backups that can be restored: those that count, of all databases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recoverable {
    /// When the oldest was due, such as `2026-11-22T00:05:00Z`.
    pub oldest: Time,
    /// When the newest was due.
    pub newest: Time,
    /// How many they are.
    pub count: i64,
}

/// Backups that cannot be deleted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockedBackups {
    /// How many.
    pub backups: i64,
    /// When the lock of the last of them ends.
    pub until: Time,
}

/// How the backups of a database stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseState {
    /// The database, such as `Redis cache`.
    pub source: String,
    /// Its folder under the object's prefix.
    pub folder: String,
    /// In a word.
    pub state: BackupState,
    /// When the newest backup that there is was due, such as `2026-11-22T00:05:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Time>,
    /// With `spec.method: Wal`, what the server keeps of its log for the next backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_log: Option<KeptLogState>,
}

/// What a server keeps of its log, as that is in no backup yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptLogState {
    /// When a Job saw that, such as `2026-11-22T00:05:09Z`.
    pub seen: Time,
    /// Bytes that its disk has for that.
    pub bytes: i64,
    /// Bytes that may be written until it gives the log up, and nothing after that can be recovered.
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

/// A backup that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupFailure {
    /// When.
    pub time: Time,
    /// A word, such as `SourceUnreachable`.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The Job.
    pub job: String,
}

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRun {
    /// The instant it was due, such as `20261122T000500Z`.
    pub id: String,
    /// Of which database, such as `EtcdCluster prod-etcd`.
    pub source: String,
    /// Its folder under the object's prefix.
    pub folder: String,
    /// When it was complete.
    pub finished: Time,
    /// Seconds it took.
    pub seconds: i64,
    /// Bytes as the database gave them.
    pub bytes: i64,
    /// Bytes that it takes in S3.
    pub stored_bytes: i64,
    /// Keys in it; rows of PostgreSQL, MySQL and MariaDB.
    pub keys: i64,
    /// Databases of a PostgreSQL that are not in it, such as `vault, audit`: its user may not connect to them, or nobody may. Left
    /// out where there are none. `GRANT CONNECT ON DATABASE vault TO` the user, or `ALTER DATABASE vault ALLOW_CONNECTIONS true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Whether it was proven by a restore; left out where that was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Why `spec.retention` keeps it: `Last`, `Hourly`, `Daily`, `Weekly`, `Monthly`, `Yearly` (the rule of that name), `MaxAge`
    /// (no other rule is given), `Newest` (it always stays), `Proven` (the newest that was proven always stays) or `BaseBackup`
    /// (a base backup needs this log, or it is not certain that none does; the last that none needs stays, too). Left out where
    /// nothing keeps it: it is deleted as soon as no Job runs and S3 does not lock it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_by: Vec<KeptBy>,
}

/// Why a backup is kept.
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

/// What came of the last verification of a database's backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupVerification {
    /// The database's folder under the object's prefix.
    pub folder: String,
    /// The database, such as `EtcdCluster prod-etcd`.
    pub source: String,
    /// The backup, such as `20261122T000500Z`.
    pub id: String,
    /// When the last verification ended.
    pub time: Time,
    /// Whether the backup was proven.
    pub ok: bool,
    /// What was found.
    pub message: String,
    /// Backups that were proven and are still there, the newest twenty. The newest of them is kept whatever
    /// `spec.retention` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proven: Vec<String>,
    /// When the last of them was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<Time>,
    /// Backups that were not proven and are still there, the newest twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

conditioned!(
    DatabaseBackupStatus,
    [
        "BackupFailed",
        "BackupOverdue",
        "BucketReady",
        "LogBeginsTooLate",
        "LogNotDeleted",
        "UnrecordedBackups",
        "UnsignedBackups",
        "Verified"
    ]
);
