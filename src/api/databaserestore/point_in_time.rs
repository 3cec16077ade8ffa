//! The instant to which a PostgreSQL is brought back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// An instant, from a base backup and the log since.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PointInTime {
    /// The instant, by the clock of the server that was backed up, such as `2026-11-22T11:59:00Z` or
    /// `2026-11-22T11:59:00.25Z`: the target then has what was committed by then, and nothing later. A base backup must have
    /// been complete before. Left out, all that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,

    /// Name of the DatabaseBackup with `method: Wal` that keeps the log of the same server, such as `shop-log`. Left out, the
    /// one of this namespace with the same host and port; of a bucket, the log of the same server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "log must be the name of a DatabaseBackup"))]
    pub log: Option<String>,

    /// Image in which the server comes back before its databases are copied into the target: of the major version of the
    /// server that was backed up, and with its extensions, such as `postgres:15`. Left out, the image of the DatabaseBackup;
    /// of a bucket, that of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = (r"self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,128})?$')", "image must be the reference of an image, such as registry.example.com/postgres:15"))]
    pub image: Option<String>,
}

/// What a server came back from, and how far.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveredTo {
    /// The instant that was asked for. Left out where all that there is was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,

    /// Backups of the log that were read behind the base backup, whose ID is `backupId`.
    pub log_backups: i32,

    /// When the last transaction was committed that the target has, by the clock of the server that was backed up. Left out
    /// where none was committed since the base backup, and until the restore is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<MicroTime>,
}
