//! `DatabaseRestore`: brings a backup back into a database, once.

mod bucket;
mod choice;
mod planned;
mod point_in_time;
mod restorable;
mod restored;
mod selection;
mod status;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use bucket::{BackupTrust, BucketChoice};
pub use choice::BackupChoice;
pub use planned::{OnDependents, RestoreAction, RestoreChange, RestoreOutlook};
pub use point_in_time::{PointInTime, RecoveredTo};
pub use restorable::Restorable;
pub use restored::{RestoreOutcome, Restored};
pub use selection::{Excluded, Included};
pub use status::{DatabaseRestoreStatus, RestorePhase};

use super::databasebackup::Source;
use super::{Duration, pods};

/// One restore of one backup.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "DatabaseRestore",
    plural = "databaserestores",
    shortname = "dbr",
    category = "causeway",
    namespaced,
    status = "DatabaseRestoreStatus",
    doc = "A backup that is brought back into a database, once. To do it again, make another object.",
    printcolumn(name = "Backup", type_ = "string", json_path = ".spec.from.backup"),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.backupId"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Keys", type_ = "integer", json_path = ".status.keys"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 48 lower case letters, digits and hyphens and begin with a letter: its Job and pod are named after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("self == oldSelf", "spec cannot change: a restore is done once; make another DatabaseRestore"),
    validation = ("!has(self.pointInTime) || has(self.target.postgresql)", "spec.pointInTime is for PostgreSQL only: give spec.target.postgresql"),
    validation = ("!has(self.pointInTime) || !(has(self.from.before) || has(self.from.source) || has(self.from.uid))", "spec.pointInTime determines what is restored: leave out before, source and uid of spec.from (with spec.from.s3, its prefix names an earlier DatabaseBackup)"),
    validation = ("!has(self.include) || !has(self.include.databases) || has(self.target.postgresql) || has(self.target.mysql)", "spec.include.databases is for PostgreSQL, MySQL and MariaDB only: leave it out"),
    validation = ("(!has(self.include) || !(has(self.include.schemas) || has(self.include.tables))) && !has(self.exclude) || has(self.target.postgresql)", "schemas and tables are for PostgreSQL only: give spec.target.postgresql, or leave them out of spec.include and spec.exclude"),
    validation = ("!has(self.onDependents) || self.onDependents == 'Fail' || (has(self.target.postgresql) && has(self.force) && self.force)", "onDependents: Cascade belongs to force: true and target.postgresql: leave it out"),
    validation = ("!has(self.parallelism) || self.parallelism == 1 || has(self.target.postgresql)", "spec.parallelism is for PostgreSQL only: give spec.target.postgresql, or leave it out")
)]
pub struct DatabaseRestoreSpec {
    /// Which backup is restored, such as `{ backup: nightly, source: Redis/cache }`.
    pub from: BackupChoice,

    /// Restores a PostgreSQL as it was at an instant, such as `{ until: "2026-11-22T11:59:00Z" }`; `{}` restores
    /// everything up to the end of the log. `from` must then have base backups (a DatabaseBackup with
    /// `method: BaseBackup`): the newest that was complete by then is used, or the one that `from.id` names. A
    /// temporary server recovers it and the log since, and its databases are copied into `target.postgresql` in the
    /// same way as those of a dump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<PointInTime>,

    /// Which part of a backup of PostgreSQL, MySQL or MariaDB is restored, such as `{ databases: [shop] }`: some of its
    /// databases or, with PostgreSQL, schemas and tables. Left out, everything.
    #[serde(default, skip_serializing_if = "Included::is_all")]
    pub include: Included,

    /// Which schemas and tables of a PostgreSQL are not restored, such as `{ schemas: [audit] }`. Left out, none.
    #[serde(default, skip_serializing_if = "Excluded::is_nothing")]
    pub exclude: Excluded,

    /// The database that receives the backup, such as `{ redis: { name: cache } }`. It must be empty unless `force` is
    /// set.
    #[x_kube(validation = ("[has(self.etcdCluster), has(self.redis), has(self.etcd), has(self.redisServer), has(self.postgresql), has(self.mysql)].exists_one(it, it)", "spec.target must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql"))]
    pub target: Source,

    /// Restores into a database that is not empty; `false` unless given. With etcd and Redis, keys of the backup are
    /// overwritten, and keys that the backup lacks are deleted. With PostgreSQL, MySQL and MariaDB, tables of the
    /// backup are replaced, and tables that the backup lacks stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,

    /// Decides what happens to objects of a PostgreSQL that were created after the backup and depend on what `force` replaces,
    /// such as a view, a foreign key, or a partition that the backup lacks. `Fail` (the default) restores nothing and names
    /// them; `Cascade` drops them.
    #[serde(default, skip_serializing_if = "OnDependents::is_fail")]
    pub on_dependents: OnDependents,

    /// Only reports what the restore would do: Causeway fetches and checks the backup, inspects the target, and writes
    /// to `status.outlook` what would be created, replaced and dropped. The target is not changed. The phase then is
    /// `Planned`; create another object to restore. `false` unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,

    /// Number of connections over which a PostgreSQL is restored, such as `4`: 1 to 16; 1 unless given. With more than
    /// one, rows of several tables are written and several indexes are built at the same time. An empty database is
    /// then restored in steps that can be repeated, and holds only a part of the backup until the restore ends. A
    /// database that is not empty is replaced in one transaction, and therefore over one connection, whatever this
    /// says.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 16))]
    pub parallelism: u8,

    /// CPU and memory of each container of the Job's pod that runs Causeway's program, such as
    /// `{ limits: { memory: 4Gi } }`. Left out, it requests 50m CPU and 64Mi memory, and its memory limit is 1Gi, or
    /// 2Gi beside the programs of PostgreSQL and MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// How long all tries together may take before the restore has failed for good, such as `2h`: 1m to 24h; 1h unless
    /// given.
    #[serde(default = "one_hour")]
    #[x_kube(validation = ("duration(self) >= duration('1m') && duration(self) <= duration('24h')", "spec.deadline must be 1m to 24h, such as 1h"))]
    pub deadline: Duration,
}

/// Returns the default of [`DatabaseRestoreSpec::parallelism`].
#[must_use]
pub fn one() -> u8 {
    1
}

/// Reports whether [`DatabaseRestoreSpec::parallelism`] is the default.
#[must_use]
pub fn is_one(number: &u8) -> bool {
    *number == 1
}

fn one_hour() -> Duration {
    Duration::from_hours(1)
}
