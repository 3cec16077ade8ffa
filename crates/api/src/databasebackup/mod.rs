//! `DatabaseBackup`: backups of databases in S3, on a schedule.

mod destination;
mod encryption;
mod hooks;
mod method;
mod source;
mod status;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use destination::{Destination, LockMode, ObjectLock};
pub use encryption::Encryption;
pub use hooks::Hooks;
pub use method::Method;
pub use source::{EtcdEndpoints, Named, RedisServer, Source, SqlServer};
pub use status::{
    BackupFailure, BackupRun, BackupState, BackupVerification, DatabaseBackupStatus, DatabaseState, KeptBy,
    KeptLogState, LockedBackups, Recoverable, RunningBackup,
};

use super::common::DeletionPolicy;
use super::{Duration, pods};

/// Backups of databases.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "DatabaseBackup",
    plural = "databasebackups",
    shortname = "dbb",
    category = "causeway",
    namespaced,
    status = "DatabaseBackupStatus",
    doc = "Backups of databases to S3 on a schedule: of every EtcdCluster and Redis of the namespace, or of one database.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Up to date", type_ = "string", json_path = ".status.upToDate"),
    printcolumn(name = "Last success", type_ = "date", json_path = ".status.lastSuccess"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextRun"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "Verified", type_ = "string", json_path = r#".status.conditions[?(@.type=="Verified")].status"#),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Bucket", type_ = "string", json_path = ".status.bucket", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 38 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 38 lower case letters, digits and hyphens and begin with a letter: Jobs and pods are named after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.verify) || !has(self.encryption) || has(self.encryption.identitySecretName)", "spec.encryption.identitySecretName is needed for spec.verify: without a secret key no backup can be opened"),
    validation = ("self.method == 'Dump' || (has(self.source) && has(self.source.postgresql) && !has(self.source.postgresql.database))", "spec.method: BaseBackup and Wal are of a whole PostgreSQL: give spec.source.postgresql, without database"),
    validation = ("self.method == oldSelf.method", "spec.method cannot change: make another DatabaseBackup"),
    validation = ("!has(oldSelf.source) || !has(oldSelf.source.postgresql) || (has(self.source) && has(self.source.postgresql) && self.source.postgresql.host == oldSelf.source.postgresql.host && (has(self.source.postgresql.port) ? self.source.postgresql.port : 5432) == (has(oldSelf.source.postgresql.port) ? oldSelf.source.postgresql.port : 5432) && (has(self.source.postgresql.database) ? self.source.postgresql.database : '') == (has(oldSelf.source.postgresql.database) ? oldSelf.source.postgresql.database : ''))", "spec.source.postgresql: host, port and database cannot change, for the backups are those of one server: make another DatabaseBackup"),
    validation = ("!has(oldSelf.source) || !has(oldSelf.source.mysql) || (has(self.source) && has(self.source.mysql) && self.source.mysql.host == oldSelf.source.mysql.host && (has(self.source.mysql.port) ? self.source.mysql.port : 3306) == (has(oldSelf.source.mysql.port) ? oldSelf.source.mysql.port : 3306) && (has(self.source.mysql.database) ? self.source.mysql.database : '') == (has(oldSelf.source.mysql.database) ? oldSelf.source.mysql.database : ''))", "spec.source.mysql: host, port and database cannot change, for the backups are those of one server: make another DatabaseBackup"),
    validation = ("!has(oldSelf.source) || !has(oldSelf.source.redisServer) || (has(self.source) && has(self.source.redisServer) && self.source.redisServer.address == oldSelf.source.redisServer.address)", "spec.source.redisServer: address cannot change, for the backups are those of one server: make another DatabaseBackup"),
    validation = ("!has(oldSelf.source) || !has(oldSelf.source.etcd) || (has(self.source) && has(self.source.etcd) && self.source.etcd.endpoints.exists(it, it in oldSelf.source.etcd.endpoints))", "spec.source.etcd: all endpoints at once cannot change, for the backups are those of one etcd: make another DatabaseBackup"),
    validation = ("!has(self.verify) || self.method != 'Wal'", "spec.verify verifies dumps and base backups only: leave it out with method: Wal"),
    validation = ("self.method != 'Wal' || self.retention.keepLast + self.retention.keepHourly + self.retention.keepDaily + self.retention.keepWeekly + self.retention.keepMonthly + self.retention.keepYearly == 0", "spec.retention of method: Wal must be {}, which keeps log as long as a base backup needs it, or maxAge alone, longer than that of the base backups, such as { maxAge: 15d }: a log with gaps cannot be restored"),
    validation = ("self.method == 'Wal' || has(self.retention.maxAge) || self.retention.keepLast + self.retention.keepHourly + self.retention.keepDaily + self.retention.keepWeekly + self.retention.keepMonthly + self.retention.keepYearly > 0", "spec.retention keeps nothing: give at least one of keepLast, keepHourly, keepDaily, keepWeekly, keepMonthly, keepYearly and maxAge"),
    validation = ("!has(self.hooks) || (self.method == 'Dump' && has(self.source) && (has(self.source.postgresql) || has(self.source.mysql)))", "spec.hooks are SQL statements around a dump: give spec.source.postgresql or spec.source.mysql, with method: Dump, or leave them out")
)]
pub struct DatabaseBackupSpec {
    /// When backups are taken, in the syntax of a `CronJob`: five fields (minute, hour, day of the month, month, day of
    /// the week), such as `0 2 * * *` or `*/15 8-18 * * MON-FRI`, or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    /// `@yearly`.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = (r"self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.matches('^ *([0-9A-Za-z*?,/-]+ +){4}[0-9A-Za-z*?,/-]+ *$')", "spec.schedule must be a cron schedule of five fields, such as 0 2 * * *, or @hourly, @daily, @weekly, @monthly or @yearly"))]
    pub schedule: String,

    /// Time zone of the schedule, and of the days and weeks of `retention`, such as `Europe/Berlin`. Left out, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = ("self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')", "spec.timeZone must be a name of the time zone database, such as Europe/Berlin"))]
    pub time_zone: Option<String>,

    /// Takes no more backups and changes nothing, also not in S3; `false` unless given. A running backup finishes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,

    /// A backup that could not start within this time after it was due is skipped, such as `30m`: 10s to 168h (7 days);
    /// 1h unless given. After a longer outage Causeway takes one backup, not all that were missed.
    #[serde(default = "one_hour")]
    #[x_kube(validation = ("duration(self) >= duration('10s') && duration(self) <= duration('168h')", "spec.startingDeadline must be 10s to 168h, such as 1h"))]
    pub starting_deadline: Duration,

    /// Databases to back up, such as `{ redis: { name: cache } }`. Left out, every present and future EtcdCluster and Redis of
    /// the namespace. The address of another server (`postgresql`, `mysql`, `redisServer`, `etcd`), and its `database`, cannot
    /// change: retention takes all backups for those of one server. Of an etcd's endpoints at least one must stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("[has(self.etcdCluster), has(self.redis), has(self.etcd), has(self.redisServer), has(self.postgresql), has(self.mysql)].exists_one(it, it)", "spec.source must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql; leave spec.source out to back up every EtcdCluster and Redis of the namespace"))]
    pub source: Option<Source>,

    /// How a PostgreSQL is backed up: `Dump` (the default) dumps its databases with `pg_dump`. Recovery to any point in
    /// time needs two objects: one with `BaseBackup`, for example each night, which copies the files of the server, and
    /// one with `Wal`, for example every five minutes, which stores the write-ahead log since its previous backup. The
    /// database user of both needs `REPLICATION`. It cannot change: create another object.
    #[serde(default)]
    pub method: Method,

    /// SQL statements that run around each backup of a PostgreSQL, MySQL or MariaDB with `method: Dump`, such as
    /// `{ before: ["CALL shop.pause()"], after: ["CALL shop.resume()"], timeout: 2m }`. Each try of a backup runs them again.
    /// They run as the user of `authSecretName`, in `database` if that is given. Every client that may write this object can
    /// make that user run any statement, so the Secret needs the label `causeway.example.com/hooks-by: databasebackup`, beside
    /// `usable-by`. Every client that may read this object can read the statements: put no passwords into them. Left out, none
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,

    /// Where backups are stored, such as `{ bucket: backups-shop }`. Left out, in the operator's bucket.
    #[serde(default)]
    pub destination: Destination,

    /// Which backups are kept, such as `{ keepLast: 12, keepDaily: 30 }`. The newest complete backup of each database
    /// is always kept. Left out, the last twelve, one per day for a week and one per week for four weeks. With
    /// `method: Wal` you must give it: `{}` keeps log as long as a base backup of the same server needs it, and
    /// `maxAge` alone keeps it for that time.
    #[serde(default = "usual_retention")]
    pub retention: Retention,

    /// Encrypts backups before they leave the cluster, so that S3, and others who can read the bucket, cannot read their
    /// content. Left out, only S3 encrypts them, with its own keys or with `destination.kmsKeyId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,

    /// Backups under this object's prefix that were written before this instant count even though no Job of this object
    /// reported them to the operator, such as `2026-11-22T12:00:00Z`: for example backups from a day when the operator
    /// was down. First check who may write to the bucket, because such backups can be forged. A future instant has no
    /// effect until it has come. Left out, only backups that Jobs reported count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_unrecorded_before: Option<Time>,

    /// An earlier DatabaseBackup of this name, with the same destination, such as
    /// `{ uid: 5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11 }`. A DatabaseRestore from this object also finds its backups, if
    /// this object has none that fits. This object never deletes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_from: Option<AdoptFrom>,

    /// How often and for how long a backup, and its verification, is tried, such as `{ limit: 5, deadline: 2h }`.
    #[serde(default)]
    pub retry: Retry,

    /// Verifies backups by restoring them into a temporary server, such as `{ afterEach: true }`. Left out, backups are
    /// not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,

    /// CPU and memory of each container of the Jobs' pods that runs Causeway's program, such as
    /// `{ limits: { memory: 4Gi } }`. Left out, it requests 50m CPU and 64Mi memory, and its memory limit is 1Gi, or
    /// 2Gi beside the programs of PostgreSQL and MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Decides what happens to the backups in S3 when this object is deleted: `Retain` (the default) or `Delete`. `Delete` also
    /// deletes the bucket if Causeway created it for backups, it is empty, and no other object uses it.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,
}

/// Which backups of a database are kept. A backup is kept if any of the rules keeps it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Number of newest backups to keep, such as 12.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_last: i32,

    /// Number of hours for which to keep the newest backup of the hour, such as 24. Hours without a backup do not
    /// count.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_hourly: i32,

    /// Number of days for which to keep the newest backup of the day, such as 7. Days without a backup do not count.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_daily: i32,

    /// Number of weeks (ISO 8601) for which to keep the newest backup of the week, such as 4. Weeks without a backup do
    /// not count.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_weekly: i32,

    /// Number of months for which to keep the newest backup of the month, such as 12. Months without a backup do not
    /// count.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_monthly: i32,

    /// Number of years for which to keep the newest backup of the year, such as 3. Years without a backup do not count.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub keep_yearly: i32,

    /// Age at which backups are deleted, whatever the other rules say, such as `36h`, `30d` or `8w`. Without other
    /// rules, all younger backups are kept. Left out, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 8))]
    #[x_kube(validation = ("self.matches('^[1-9][0-9]{0,5}[hdw]$')", "spec.retention.maxAge must be hours, days or weeks, such as 36h, 30d or 8w"))]
    pub max_age: Option<String>,
}

/// An earlier DatabaseBackup of the same name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptFrom {
    /// UID of the earlier object, which follows its name in the keys of its backups, such as
    /// `5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11`.
    #[schemars(length(min = 36, max = 36))]
    #[x_kube(validation = ("self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')", "spec.adoptFrom.uid must be the UID of a DatabaseBackup, such as 5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11"))]
    pub uid: String,
}

/// How often and for how long a backup is tried.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Number of retries after the first try failed, with growing pauses: 0 to 20; 3 unless given.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 20))]
    pub limit: i32,

    /// How long all tries together may take before the backup has failed for good, such as `2h`: 1m to 24h; 1h unless
    /// given. If a backup is still missing this long after it was due, the condition `BackupOverdue` reports it.
    #[serde(default = "one_hour")]
    #[x_kube(validation = ("duration(self) >= duration('1m') && duration(self) <= duration('24h')", "spec.retry.deadline must be 1m to 24h, such as 1h"))]
    pub deadline: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { limit: three(), deadline: one_hour() }
    }
}

/// When backups are verified.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.schedule) != (has(self.afterEach) && self.afterEach)", "spec.verify must have either schedule or afterEach: true"))]
pub struct Verify {
    /// When the newest backup of each database is verified, in the syntax and the time zone of `spec.schedule`, such as
    /// `30 4 * * *`. After an outage Causeway catches up once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = (r"self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.matches('^ *([0-9A-Za-z*?,/-]+ +){4}[0-9A-Za-z*?,/-]+ *$')", "spec.verify.schedule must be a cron schedule of five fields, such as 0 4 * * *, or @hourly, @daily, @weekly, @monthly or @yearly"))]
    pub schedule: Option<String>,

    /// Verifies each backup when it is complete; `false` unless given. If backups arrive faster than Causeway can
    /// verify them, it skips to the newest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_each: bool,
}

fn usual_retention() -> Retention {
    Retention { keep_last: 12, keep_daily: 7, keep_weekly: 4, ..Retention::default() }
}

fn one_hour() -> Duration {
    Duration::from_hours(1)
}

fn three() -> i32 {
    3
}

fn retain() -> DeletionPolicy {
    DeletionPolicy::Retain
}
