//! Which backup is brought back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::BucketChoice;

/// Which backup is restored: one of a DatabaseBackup of the namespace (`backup`), or one in a bucket (`s3`).
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.backup) != has(self.s3)", "exactly one of backup (a DatabaseBackup of this namespace) and s3 (a bucket) must be given"),
    validation = ("!has(self.s3) || (!has(self.uid) && (!has(self.acceptUnrecorded) || !self.acceptUnrecorded))", "uid and acceptUnrecorded belong to backup: with s3 give s3.prefix and s3.trust"),
    validation = ("!has(self.before) || self.id == 'latest'", "before chooses the latest of an earlier time: leave id out")
)]
pub struct BackupChoice {
    /// Name of the DatabaseBackup of the namespace that took the backup, such as `nightly`. Give either this or `s3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "backup must be the name of a DatabaseBackup"))]
    pub backup: Option<String>,

    /// The bucket that holds the backup, such as `{ bucket: causeway-prod-111122223333-eu-west-1 }`, instead of
    /// `backup`. Neither the DatabaseBackup nor the cluster that took the backup needs to exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<BucketChoice>,

    /// The database that was backed up, such as `EtcdCluster/prod-etcd` or `Redis/cache`, or its folder in S3. You can
    /// leave it out if the DatabaseBackup has only one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = ("self.matches('^[A-Za-z0-9][A-Za-z0-9./-]*$')", "source must be a kind and a name, such as Redis/cache"))]
    pub source: Option<String>,

    /// ID of the backup, such as `20261122T000500Z` (see `status.recent` of the DatabaseBackup), or `latest` (the
    /// default).
    #[serde(default = "latest")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = ("self == 'latest' || self.matches('^[0-9]{8}T[0-9]{6}Z$')", "id must be latest or the ID of a backup, such as 20261122T000500Z"))]
    pub id: String,

    /// Chooses the latest backup that was due before this instant, such as `2026-11-22T12:00:00Z`. Left out, the latest
    /// of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Time>,

    /// UID of an earlier DatabaseBackup with that name, in a namespace with this name, whose backups are restored, such
    /// as `5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11`. Use it for a DatabaseBackup that was deleted and created again, also
    /// in a cluster that is lost. The present DatabaseBackup must have the same destination. Left out, backups of the
    /// present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 36, max = 36))]
    #[x_kube(validation = ("self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')", "uid must be the UID of a DatabaseBackup, such as 5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11"))]
    pub uid: Option<String>,

    /// Also accepts backups that no Job reported to this operator: those of a lost cluster, those from before an outage, or
    /// forged ones. Every client that may write to the bucket can then choose the data, so check first who that is. `false`
    /// unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_unrecorded: bool,

    /// Also accepts an unencrypted backup although `spec.encryption` of the DatabaseBackup, or `identitySecretName`
    /// here, requires encryption: for backups from before you turned encryption on. `false` unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_unencrypted: bool,

    /// Name of a Secret of the namespace with the age secret key that opens the backup, in its key `identity`, such as
    /// `backup-key`. It needs the label `causeway.example.com/usable-by: databaserestore`. Left out, the Secret in
    /// `spec.encryption` of the DatabaseBackup.
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
