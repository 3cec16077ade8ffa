//! A bucket as the place that a backup comes from, without the object or the cluster that took it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Backups in a bucket, whichever Causeway took them. The newest that fits and is signed by a trusted key is restored.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.trust != 'Unverified' || !has(self.trustedKeys)", "trustedKeys has no effect with trust: Unverified: leave one of them out"))]
pub struct BucketChoice {
    /// Name of the bucket, such as `causeway-prod-111122223333-eu-west-1`. It must be this cluster's own bucket, or
    /// have the tag `causeway.example.com/backups` or `causeway.example.com/restores` with the name of this cluster as
    /// its value.
    #[schemars(length(min = 3, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')", "bucket must have lower case letters, digits, dots and hyphens"))]
    pub bucket: String,

    /// Prefix of the keys, such as `shop/nightly/5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11`: the namespace of this object,
    /// and optionally more of what `causeway backups ls` shows. Backups of another namespace are refused. Left out, all
    /// backups of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 400))]
    #[x_kube(validation = ("self.matches('^[A-Za-z0-9_.=-]+(/[A-Za-z0-9_.=-]+)*$')", "prefix must be parts joined by a slash, such as shop/nightly, without a slash at its ends"))]
    pub prefix: Option<String>,

    /// Region of the bucket, such as `eu-west-1`. Left out, the operator's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 32))]
    #[x_kube(validation = ("self.matches('^[a-z]{2,4}(-[a-z]+)+-[0-9]$')", "region must be a region of AWS, such as eu-west-1"))]
    pub region: Option<String>,

    /// An S3 endpoint other than AWS's, such as `https://minio.example.com`. The operator must allow it (option
    /// `BACKUP_ENDPOINTS`). Left out, AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = (r"self.matches('^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$')", "endpoint must be a URL without a path, such as https://minio.example.com"))]
    pub endpoint: Option<String>,

    /// Trusted public keys, such as `ssh-ed25519 AAAA…`. Use the `status.signingKey` that you saved of a DatabaseBackup
    /// in the cluster that took the backup. Left out, only this cluster's own key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 60, max = 200)))]
    #[x_kube(validation = ("self.all(key, key.startsWith('ssh-ed25519 '))", "trustedKeys must be public keys, such as ssh-ed25519 AAAA…"))]
    pub trusted_keys: Vec<String>,

    /// `Signed` (the default) accepts only backups that a trusted key signed. `Unverified` accepts any backup: every client
    /// that may write to the bucket can then choose the data, and what a dump of a SQL server does while it is loaded.
    #[serde(default)]
    pub trust: BackupTrust,
}

/// Decides which backups of a bucket are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackupTrust {
    /// Only backups that a trusted key signed.
    #[default]
    Signed,
    /// Any backup that lies there.
    Unverified,
}
