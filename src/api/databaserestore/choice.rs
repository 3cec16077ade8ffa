//! Which backup is brought back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::BucketChoice;

/// Which backup: of a DatabaseBackup of the namespace, or of a bucket.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.backup) != has(self.s3)", "exactly one of backup (a DatabaseBackup of this namespace) and s3 (a bucket) must be given"),
    validation = ("!has(self.s3) || (!has(self.uid) && (!has(self.acceptUnrecorded) || !self.acceptUnrecorded))", "uid and acceptUnrecorded belong to backup: with s3 give s3.prefix and s3.trust"),
    validation = ("!has(self.before) || self.id == 'latest'", "before chooses the latest of an earlier time: leave id out")
)]
pub struct BackupChoice {
    /// Name of the DatabaseBackup of the namespace that took it, such as `nightly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "backup must be the name of a DatabaseBackup"))]
    pub backup: Option<String>,

    /// The bucket that holds it, in the place of `backup`: needs neither the object nor the cluster that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<BucketChoice>,

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

    /// The latest that was due before this instant, such as `2026-11-22T12:00:00Z`. Left out, the latest of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Time>,

    /// UID of an earlier DatabaseBackup of that name in a namespace of this name, whose backups are wanted: one that was
    /// deleted and made again, also in a cluster that is lost. Its destination is that of the present one. Left out, backups
    /// of the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 36, max = 36))]
    #[x_kube(validation = ("self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')", "uid must be the UID of a DatabaseBackup, such as 5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11"))]
    pub uid: Option<String>,

    /// Brings back also what no Job reported to this operator: backups of a cluster that is lost, of before an outage, or
    /// forged ones. Whoever may write into the bucket chooses the data then; look before who that is. `false` unless it is
    /// given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_unrecorded: bool,

    /// Brings back also a backup that is not encrypted although `spec.encryption` of the DatabaseBackup, or
    /// `identitySecretName` here, asks for encryption: one of before that. `false` unless it is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_unencrypted: bool,

    /// Secret of the namespace with the secret key of age that opens the backup, in its key `identity`. Left out, the
    /// one of the DatabaseBackup's `spec.encryption`. It needs the label `causeway.example.com/usable-by:
    /// databaserestore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "identitySecretName must be the name of a Secret"))]
    pub identity_secret_name: Option<String>,
}

impl BackupChoice {
    /// Where it comes from, in words.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.backup, &self.s3) {
            (Some(backup), _) => format!("DatabaseBackup {backup}"),
            (None, Some(s3)) => format!("s3://{}", s3.bucket),
            (None, None) => "no DatabaseBackup".into(),
        }
    }
}

fn latest() -> String {
    "latest".into()
}
