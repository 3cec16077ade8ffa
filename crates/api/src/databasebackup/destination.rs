//! Where backups are kept.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place in S3. It cannot change, because the existing backups would no longer be found: create another object
/// instead.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.region) || !has(self.kmsKeyId) || has(self.endpoint) || self.kmsKeyId.contains(':kms:' + self.region + ':')", "spec.destination.kmsKeyId must be a key of the region of spec.destination.region: S3 uses keys of the bucket's region only"))]
#[x_kube(validation = ("has(self.bucket) == has(oldSelf.bucket) && has(self.prefix) == has(oldSelf.prefix) && has(self.region) == has(oldSelf.region) && has(self.endpoint) == has(oldSelf.endpoint)", "spec.destination.bucket, prefix, region and endpoint cannot change: make another DatabaseBackup"))]
#[x_kube(validation = ("!has(self.objectLock) || (has(self.bucket) && !has(self.endpoint))", "spec.destination.objectLock needs spec.destination.bucket, a bucket of its own at AWS: the lock applies to everything that is written to it"))]
pub struct Destination {
    /// Name of the bucket, such as `backups-shop`. Causeway creates it if it does not exist. It uses an existing bucket
    /// only if its tag `causeway.example.com/backups` holds the name of this Kubernetes cluster, and does not change
    /// that bucket. Left out, the operator's bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 63))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9][a-z0-9-]*[a-z0-9]$')", "spec.destination.bucket must have lower case letters, digits and hyphens, and begin and end with a letter or digit"),
        validation = ("self == oldSelf", "spec.destination.bucket cannot change: make another DatabaseBackup")
    )]
    pub bucket: Option<String>,

    /// Prefix of the keys after the namespace, such as `team-a/databases`. The name and the UID of this object follow
    /// it. No part of it may be `.` or `..`. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(
        validation = ("self.matches('^[A-Za-z0-9_.=-]+(/[A-Za-z0-9_.=-]+)*$')", "spec.destination.prefix must be of letters, digits and _ . = - in parts joined by a slash, without a slash at its ends"),
        validation = ("!self.matches('(^|/)[.]{1,2}(/|$)')", "spec.destination.prefix must have no part that is . or .."),
        validation = ("self == oldSelf", "spec.destination.prefix cannot change: make another DatabaseBackup")
    )]
    pub prefix: Option<String>,

    /// Region of the bucket, such as `eu-west-1`. Left out, the operator's region. If a region is newer than this
    /// version of Causeway, it must be in the operator's option `BACKUP_REGIONS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 32))]
    #[x_kube(
        validation = ("self.matches('^[a-z]{2,4}(-[a-z]+)+-[0-9]$')", "spec.destination.region must be a region of AWS, such as eu-west-1"),
        validation = ("self == oldSelf", "spec.destination.region cannot change: make another DatabaseBackup")
    )]
    pub region: Option<String>,

    /// An S3 endpoint other than AWS's, such as `https://minio.example.com`. The operator must allow it (option
    /// `BACKUP_ENDPOINTS`). Left out, AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = (r"self.matches('^https?://[A-Za-z0-9.-]+(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$')", "spec.destination.endpoint must be a URL without a path, such as https://minio.example.com"),
        validation = ("self == oldSelf", "spec.destination.endpoint cannot change: make another DatabaseBackup")
    )]
    pub endpoint: Option<String>,

    /// Storage class of the data: `STANDARD` (the default), `STANDARD_IA`, `ONEZONE_IA`, `INTELLIGENT_TIERING` or
    /// `GLACIER_IR`. Archive classes are refused, because their data cannot be read at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = ("self in ['STANDARD', 'STANDARD_IA', 'ONEZONE_IA', 'INTELLIGENT_TIERING', 'GLACIER_IR']", "spec.destination.storageClass must be STANDARD, STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING or GLACIER_IR: from others nothing can be read at once"))]
    pub storage_class: Option<String>,

    /// ARN of the KMS key that encrypts the data, such as
    /// `arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab`. It must be in the region of the
    /// bucket. Left out, S3 encrypts with its own keys, or as the bucket says if its owner
    /// offered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = ("self.matches('^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$')", "spec.destination.kmsKeyId must be the ARN of a key, such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"))]
    pub kms_key_id: Option<String>,

    /// S3 Object Lock: for how long no user can delete a backup, not even one who has taken over the operator, such as
    /// `{ mode: Governance, days: 30 }`. It needs `bucket`, a bucket that no other namespace uses. Left out, the lock of the
    /// bucket stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_lock: Option<ObjectLock>,
}

/// S3 Object Lock of everything that is written to the bucket. Causeway never shortens the lock that a bucket already
/// has.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectLock {
    /// `Governance`: only a user with the permission `s3:BypassGovernanceRetention` can delete a locked backup. `Compliance`:
    /// no user can, not even the account's root user.
    pub mode: LockMode,
    /// Number of days for which a backup is locked after it was written, such as 30. Retention does not delete it
    /// earlier.
    #[schemars(range(min = 1, max = 3650))]
    pub days: i32,
}

/// Who can delete what is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LockMode {
    /// Only users with `s3:BypassGovernanceRetention`.
    Governance,
    /// No user, not even the account's root user.
    Compliance,
}
