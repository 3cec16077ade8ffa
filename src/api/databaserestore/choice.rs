//! Which backup is brought back.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Which backup.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupChoice {
    /// Name of the DatabaseBackup of the namespace that took it.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "backup must be the name of a DatabaseBackup"))]
    pub backup: String,

    /// The database that was backed up, such as `EtcdCluster/prod-etcd` or `Redis/cache`, or its folder in S3. Left out
    /// where the DatabaseBackup has but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = ("self.matches('^[A-Za-z0-9][A-Za-z0-9./-]*$')", "source must be a kind and a name, such as Redis/cache"))]
    pub source: Option<String>,

    /// Its ID, such as `20261122T000500Z` (see `status.recent` of the DatabaseBackup), or `latest`.
    #[serde(default = "latest")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = ("self == 'latest' || self.matches('^[0-9]{8}T[0-9]{6}Z$')", "id must be latest or the ID of a backup, such as 20261122T000500Z"))]
    pub id: String,

    /// Secret of the namespace with the secret key of age that opens the backup, in its key `identity`. Left out, the one
    /// of the DatabaseBackup's `spec.encryption`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "identitySecretName must be the name of a Secret"))]
    pub identity_secret_name: Option<String>,
}

fn latest() -> String {
    "latest".into()
}
