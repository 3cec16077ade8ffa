//! The instant to which a PostgreSQL is brought back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// An instant that a base backup and the log since can restore.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PointInTime {
    /// The instant, by the clock of the server that was backed up, such as `2026-11-22T11:59:00Z` or
    /// `2026-11-22T11:59:00.25Z`. The target then has what was committed by then, and nothing later. A base backup must
    /// have been complete before. Left out, everything up to the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,

    /// Name of the DatabaseBackup with `method: Wal` that stores the log of the same server, such as `shop-log`. Left
    /// out, the one of this namespace with the same host and port; with `from.s3`, the log of the same server in the
    /// bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "log must be the name of a DatabaseBackup"))]
    pub log: Option<String>,

    /// Image of the temporary server from which the databases are copied into the target, such as `postgres:15`. It
    /// must have the major version of the server that was backed up, and its extensions. Left out, the image of the
    /// DatabaseBackup; with `from.s3`, the image of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = (r"self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,128})?$')", "image must be the reference of an image, such as registry.example.com/postgres:15"))]
    pub image: Option<String>,
}

/// The backup that a server was recovered from, and the instant that it reached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveredTo {
    /// The requested instant. Left out if everything up to the end of the log was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,

    /// Number of backups of the log that were read after the base backup, whose ID is `backupId`.
    pub log_backups: i32,

    /// When the last transaction in the target was committed, by the clock of the server that was backed up. Left out
    /// if none was committed since the base backup, and until the restore is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<MicroTime>,
}
