//! `DatabaseRestore`: brings a backup back into a database, once.

mod bucket;
mod choice;
mod planned;
mod point_in_time;
mod restored;
mod selection;
mod status;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use bucket::{BackupTrust, BucketChoice};
pub use choice::BackupChoice;
pub use planned::{OnDependents, RestoreAction, RestoreChange, RestoreOutlook};
pub use point_in_time::{PointInTime, RecoveredTo};
pub use restored::{RestoreOutcome, Restored};
pub use selection::{Excluded, Included};
pub use status::{DatabaseRestoreStatus, RestorePhase};

use super::Duration;
use super::databasebackup::Source;

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
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 48 lower case letters, digits and hyphens and begin with a letter: its Job and pod are called after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("self == oldSelf", "spec cannot change: a restore is done once; make another DatabaseRestore"),
    validation = ("!has(self.pointInTime) || has(self.target.postgresql)", "spec.pointInTime is of a PostgreSQL: give spec.target.postgresql"),
    validation = ("!has(self.pointInTime) || !(has(self.from.before) || has(self.from.source) || has(self.from.uid))", "spec.pointInTime says what is brought back: leave out before, source and uid of spec.from (with spec.from.s3, its prefix names an earlier DatabaseBackup)"),
    validation = ("!has(self.include) || !has(self.include.databases) || has(self.target.postgresql) || has(self.target.mysql)", "spec.include.databases are of PostgreSQL, MySQL and MariaDB: leave them out"),
    validation = ("(!has(self.include) || !(has(self.include.schemas) || has(self.include.tables))) && !has(self.exclude) || has(self.target.postgresql)", "schemas and tables are of a PostgreSQL: give spec.target.postgresql, or leave them out of spec.include and spec.exclude"),
    validation = ("!has(self.onDependents) || self.onDependents == 'Fail' || (has(self.target.postgresql) && has(self.force) && self.force)", "onDependents: Cascade belongs to force: true and target.postgresql: leave it out"),
    validation = ("!has(self.parallelism) || self.parallelism == 1 || has(self.target.postgresql)", "spec.parallelism is of a PostgreSQL: give spec.target.postgresql, or leave it out")
)]
pub struct DatabaseRestoreSpec {
    /// Which backup.
    pub from: BackupChoice,

    /// Brings a PostgreSQL back as it was at an instant: `from` then has base backups (a DatabaseBackup with `method:
    /// BaseBackup`), and the newest that was complete by then is taken, or that of `from.id`. A server that is thrown away
    /// reads it and the log since, and its databases are copied into `target.postgresql`, as those of a dump are. `{}` for all
    /// that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<PointInTime>,

    /// What of a backup of PostgreSQL, MySQL or MariaDB is restored: one database of several, or, of PostgreSQL, schemas and
    /// tables. Everything unless given.
    #[serde(default, skip_serializing_if = "Included::is_all")]
    pub include: Included,

    /// What of it is not restored: schemas and tables of a PostgreSQL. Nothing is left out unless given.
    #[serde(default, skip_serializing_if = "Excluded::is_nothing")]
    pub exclude: Excluded,

    /// The database that it is brought back into. It must hold nothing, unless `force` is set.
    #[x_kube(validation = ("[has(self.etcdCluster), has(self.redis), has(self.etcd), has(self.redisServer), has(self.postgresql), has(self.mysql)].exists_one(it, it)", "spec.target must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql"))]
    pub target: Source,

    /// Brings it back into a database that holds something: keys of the backup are overwritten, and those that it lacks are
    /// deleted. Of PostgreSQL, MySQL and MariaDB tables of the backup are replaced, and those that it lacks stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,

    /// What becomes of objects of a PostgreSQL that were made after the backup and depend on what `force` replaces, such as
    /// a view, a foreign key, or a partition that the backup lacks. `Fail` (unless given) restores nothing and names them;
    /// `Cascade` drops them.
    #[serde(default, skip_serializing_if = "OnDependents::is_fail")]
    pub on_dependents: OnDependents,

    /// Only says what the restore would do: the backup is fetched and checked, the target is looked at, and
    /// `status.outlook` tells what would be made, replaced and dropped. Nothing is written. It ends `Planned`; make another
    /// object to restore. `false` unless it is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,

    /// Over how many connections a PostgreSQL is restored: 1 to 16, 1 unless given. With more than one, rows of several tables
    /// are written and several indexes are built at a time. A database that holds nothing then gets the backup in steps, each
    /// of which may be repeated, and has a part of it until the restore ends. One that holds something is replaced in one
    /// transaction, and so over one connection, all the same. Example: `4`.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 16))]
    pub parallelism: u8,

    /// How long all tries together may take before the restore has failed for good: 1m to 24h, 1h unless given.
    #[serde(default = "one_hour")]
    #[x_kube(validation = ("duration(self) >= duration('1m') && duration(self) <= duration('24h')", "spec.deadline must be 1m to 24h, such as 1h"))]
    pub deadline: Duration,
}

/// Of [`DatabaseRestoreSpec::parallelism`].
#[must_use]
pub fn one() -> u8 {
    1
}

/// Of [`DatabaseRestoreSpec::parallelism`].
#[must_use]
pub fn is_one(number: &u8) -> bool {
    *number == 1
}

fn one_hour() -> Duration {
    Duration::from_hours(1)
}
