//! Calls about buckets that keep what is overwritten or deleted, and how long it is locked against deletion.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/Versioning.html>,
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html>

use std::collections::BTreeSet;

use aws_sdk_s3::types::{
    BucketVersioningStatus, DefaultRetention, Delete, DeleteMarkerEntry, ObjectIdentifier, ObjectLockConfiguration,
    ObjectLockEnabled, ObjectLockRetentionMode, ObjectLockRule, ObjectVersion, VersioningConfiguration,
};

use causeway_runtime::Class;

use super::keeping::{Keeping, Lock};
use super::object::{DELETED_AT_ONCE, Refusals};
use super::objects::PAGES;
use super::{Outcome, Place, S3, built, if_set};

impl S3 {
    /// The versioning and the locks of the bucket. Nothing is known if we may not ask.
    pub(super) async fn read_keeping(&self, place: &Place, owner: &str) -> Outcome<Keeping> {
        let (client, caller) = (self.client(place), self.caller());
        let call = client.get_bucket_versioning().bucket(&place.bucket).expected_bucket_owner(owner);
        let status = match caller.call("GetBucketVersioning", call.send()).await {
            Ok(answer) => answer.status,
            Err(error) if error.class == Class::Denied || error.is("NotImplemented") => None,
            Err(error) => return Err(error),
        };
        let Some(status) = status else { return Ok(Keeping::default()) };
        let call = client.get_object_lock_configuration().bucket(&place.bucket).expected_bucket_owner(owner);
        let lock = match if_set(caller.call("GetObjectLockConfiguration", call.send()).await) {
            Err(error) if error.class == Class::Denied || error.is("NotImplemented") => None,
            answer => answer?,
        };
        let rule = lock.and_then(|answer| answer.object_lock_configuration?.rule?.default_retention);
        let lock = rule.map(|rule| Lock {
            compliance: rule.mode == Some(ObjectLockRetentionMode::Compliance),
            days: rule.days.unwrap_or_default().max(rule.years.unwrap_or_default().saturating_mul(365)),
        });
        Ok(Keeping { versions: Some(status == BucketVersioningStatus::Enabled), lock })
    }

    /// Turns versioning of a bucket on.
    pub async fn keep_versions(&self, place: &Place, owner: &str) -> Outcome<()> {
        let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let call = self.client(place).put_bucket_versioning().bucket(&place.bucket).expected_bucket_owner(owner);
        self.caller().call("PutBucketVersioning", call.versioning_configuration(enabled).send()).await.map(drop)
    }

    /// Locks objects that are written from now on. The bucket must keep versions.
    pub async fn lock(&self, place: &Place, owner: &str, lock: Lock) -> Outcome<()> {
        let mode =
            if lock.compliance { ObjectLockRetentionMode::Compliance } else { ObjectLockRetentionMode::Governance };
        let retention = DefaultRetention::builder().mode(mode).days(lock.days).build();
        let rule = ObjectLockRule::builder().default_retention(retention).build();
        let enabled = ObjectLockEnabled::Enabled;
        let configuration = ObjectLockConfiguration::builder().object_lock_enabled(enabled).rule(rule).build();
        let call = self.client(place).put_object_lock_configuration().bucket(&place.bucket);
        let call = call.expected_bucket_owner(owner).object_lock_configuration(configuration);
        self.caller().call("PutObjectLockConfiguration", call.send()).await.map(drop)
    }

    /// Deletes objects, at most [`DELETED_AT_ONCE`], with all their versions and the markers of earlier deletions;
    /// returns what S3 refused to delete. Objects that are gone do not matter.
    pub async fn delete_versions(&self, place: &Place, owner: &str, keys: &[String]) -> Outcome<Refusals> {
        let versions = self.versions(place, owner, keys).await?;
        let mut refused = Refusals::new();
        for chunk in versions.chunks(DELETED_AT_ONCE) {
            let delete = Delete::builder().set_objects(Some(chunk.to_vec())).quiet(true).build();
            refused.extend(self.delete_these(place, owner, built("DeleteObjects", delete)?).await?);
        }
        Ok(refused)
    }

    /// All versions and delete markers of these objects.
    async fn versions(&self, place: &Place, owner: &str, keys: &[String]) -> Outcome<Vec<ObjectIdentifier>> {
        let wanted: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let (mut found, mut after) = (Vec::new(), (None, None));
        for _ in 0..PAGES {
            let call = self.client(place).list_object_versions().bucket(&place.bucket).expected_bucket_owner(owner);
            let call = call.prefix(common(keys)).set_key_marker(after.0).set_version_id_marker(after.1);
            let page = match self.caller().call("ListObjectVersions", call.send()).await {
                Err(error) if error.is("NoSuchBucket") => return Ok(found),
                page => page?,
            };
            let versions = page.versions.unwrap_or_default().into_iter();
            let versions = versions.map(|ObjectVersion { key, version_id, .. }| (key, version_id));
            let markers = page.delete_markers.unwrap_or_default().into_iter();
            let markers = markers.map(|DeleteMarkerEntry { key, version_id, .. }| (key, version_id));
            found.extend(versions.chain(markers).filter_map(|(key, version)| {
                let key = key.filter(|key| wanted.contains(key.as_str()))?;
                ObjectIdentifier::builder().key(key).set_version_id(version).build().ok()
            }));
            if page.is_truncated != Some(true) {
                break;
            }
            after = (page.next_key_marker, page.next_version_id_marker);
        }
        Ok(found)
    }
}

/// The longest common prefix of these keys.
fn common(keys: &[String]) -> &str {
    let Some((first, others)) = keys.split_first() else { return "" };
    let length = others.iter().fold(first.len(), |length, other| {
        first.bytes().zip(other.bytes()).take(length).take_while(|(one, other)| one == other).count()
    });
    // Our keys are ASCII. If another key would be cut within a character, the prefix is empty.
    first.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_all_keys_begin_with_is_listed() {
        let keys = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(common(&keys(&["p/a/1/data", "p/a/2/data"])), "p/a/");
        assert_eq!(common(&keys(&["p/a/1/data", "p/a/1/data.sig"])), "p/a/1/data");
        assert_eq!(common(&keys(&["a", "b"])), "");
        assert_eq!(common(&[]), "");
    }
}
