//! Whole objects of a few bytes up to one part, written so that a lost answer does not matter.

use std::time::Duration;

use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumMode, ServerSideEncryption, StorageClass};
use jiff::Timestamp;
use tokio_util::bytes::Bytes;

use super::call::{DEADLINE, again, once, pause, pauses};
use super::{Seen, Store, StoreError, StoredObject, Trouble, checksum};
use crate::plan::Destination;

/// Further tries of a HEAD that is refused without an error code.
const HEAD_AGAIN: usize = 4;

/// The condition on a key for an object to be put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing is there. The Jobs' role may put objects only under this condition.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html>
    Absent,
    /// Anything may be there: this S3 knows no conditions.
    Any,
}

impl Condition {
    /// The value of the header `If-None-Match`.
    pub(super) fn none_match(self) -> Option<String> {
        (self == Self::Absent).then(|| "*".into())
    }
}

/// Deadline of one try that carries that many bytes: 20 s, and their time at 128 KiB/s.
pub(super) fn time_for(bytes: usize) -> Duration {
    DEADLINE + Duration::from_secs(bytes as u64 / (128 * 1024))
}

impl Store {
    /// Reports whether something is at a key. It is listed, because HEAD cannot tell: S3 answers 403 for an absent object if
    /// the role may list only a part of the bucket. <https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html>
    pub(super) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.listed(key).await?.is_some())
    }

    /// Size of the object at a key, and when it was written; none if there is no object.
    pub(super) async fn listed(&self, key: &str) -> Result<Option<StoredObject>, StoreError> {
        let page = again("ListObjectsV2", DEADLINE, || {
            let call = self.client.list_objects_v2().bucket(&self.place.bucket);
            // The key itself sorts before all longer keys that begin with it.
            call.expected_bucket_owner(&self.place.owner).prefix(key).max_keys(1).send()
        });
        let page = page.await?;
        let found = page.contents().iter().find(|object| object.key() == Some(key));
        Ok(found.map(|object| StoredObject {
            size: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
            modified: object.last_modified().and_then(|time| Timestamp::from_second(time.secs()).ok()),
        }))
    }

    /// The object at a key; none if there is none.
    pub(super) async fn look(&self, key: &str) -> Result<Option<Seen>, StoreError> {
        if self.has(key).await? { self.head(key).await } else { Ok(None) }
    }

    /// The object at a key where there should be one; none if there is none. Not listed first: see [`Self::has`].
    pub(super) async fn head(&self, key: &str) -> Result<Option<Seen>, StoreError> {
        let mut pauses = pauses().take(HEAD_AGAIN);
        loop {
            let error = match self.head_once(key).await {
                Ok(seen) => return Ok(Some(seen)),
                Err(error) if error.trouble == Trouble::NoObject => return Ok(None),
                Err(error) => error,
            };
            // An answer to HEAD has no body, so an expired token looks like a missing permission: it is tried again.
            match pauses.next().filter(|_| error.trouble == Trouble::Denied && error.code.is_none()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    async fn head_once(&self, key: &str) -> Result<Seen, StoreError> {
        let head = again("HeadObject", DEADLINE, || {
            self.client
                .head_object()
                .bucket(&self.place.bucket)
                .expected_bucket_owner(&self.place.owner)
                .key(key)
                .checksum_mode(ChecksumMode::Enabled)
                .send()
        })
        .await?;
        Ok(Seen {
            etag: head.e_tag().map(str::to_owned),
            size: head.content_length().unwrap_or_default(),
            sha256: head.checksum_sha256().map(str::to_owned),
        })
    }

    /// The bytes of a small object; none if there is none.
    pub(super) async fn small(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let mut pauses = pauses();
        loop {
            let error = match tokio::time::timeout(DEADLINE, self.small_once(key, limit)).await {
                Ok(Ok(bytes)) => return Ok(Some(bytes)),
                Ok(Err(error)) if error.trouble == Trouble::NoObject => return Ok(None),
                Ok(Err(error)) => error,
                Err(_) => StoreError::overdue("GetObject", DEADLINE.as_secs()),
            };
            pause(&mut pauses, error).await?;
        }
    }

    async fn small_once(&self, key: &str, limit: usize) -> Result<Vec<u8>, StoreError> {
        let call = self.client.get_object().bucket(&self.place.bucket).key(key);
        let call = call.expected_bucket_owner(&self.place.owner).checksum_mode(ChecksumMode::Enabled);
        let mut answer = once("GetObject", DEADLINE, call.send()).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.body.next().await {
            let chunk = chunk.map_err(|error| StoreError::broken("GetObject", error.to_string()))?;
            if bytes.len() + chunk.len() > limit {
                return Err(StoreError {
                    trouble: Trouble::Refused,
                    ..StoreError::broken("GetObject", format!("{key} is larger than {limit} bytes: it is none of ours"))
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Writes the manifest, which makes the backup complete. A manifest that is there already stays.
    pub async fn put_manifest(&self, key: &str, text: Vec<u8>) -> Result<(), StoreError> {
        self.put(key, text.into(), Condition::Absent, |call| call.content_type("application/json")).await
    }

    /// Writes the data of a small backup.
    pub(super) async fn put_data(&self, key: &str, body: Bytes, condition: Condition) -> Result<(), StoreError> {
        let class = self.place.storage_class.as_deref().map(StorageClass::from);
        self.put(key, body, condition, |call| call.set_storage_class(class.clone())).await
    }

    /// Puts an object. A try whose answer was lost may have put it: the object's checksum shows whether it did.
    async fn put(
        &self,
        key: &str,
        body: Bytes,
        mut condition: Condition,
        with: impl Fn(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> Result<(), StoreError> {
        let sum = checksum::text(&checksum::sha256(&body));
        let size = i64::try_from(body.len()).unwrap_or(i64::MAX);
        let mut pauses = pauses();
        loop {
            let (encryption, kms) = self.encryption();
            let call = self.client.put_object().bucket(&self.place.bucket).key(key);
            let call = call.expected_bucket_owner(&self.place.owner).set_if_none_match(condition.none_match());
            let call = call.set_server_side_encryption(encryption).set_ssekms_key_id(kms);
            let call = with(call.checksum_sha256(&sum).body(ByteStream::from(body.clone())));
            // The signature covers the header with the checksum, so the body need not be hashed once more.
            let sent = call.customize().disable_payload_signing().send();
            let Err(error) = once("PutObject", time_for(body.len()), sent).await else { return Ok(()) };
            match error.trouble {
                Trouble::NotImplemented if condition != Condition::Any => condition = Condition::Any,
                Trouble::Changed | Trouble::Passing => {
                    let there = self.look(key).await?;
                    if there.is_some_and(|seen| seen.size == size && seen.sha256.as_ref() == Some(&sum)) {
                        return Ok(());
                    }
                    pause(&mut pauses, error).await?;
                }
                _ => return Err(error),
            }
        }
    }

    /// How S3 is to encrypt.
    pub(super) fn encryption(&self) -> (Option<ServerSideEncryption>, Option<String>) {
        encryption_of(&self.place)
    }
}

/// How S3 is to encrypt what is put into a place: with a key of KMS, with its own key, or by the bucket's default.
fn encryption_of(place: &Destination) -> (Option<ServerSideEncryption>, Option<String>) {
    match &place.kms_key {
        Some(key) => (Some(ServerSideEncryption::AwsKms), Some(key.clone())),
        // Another S3 may have no key of its own, and refuses then what asks for it.
        None if place.bucket_encrypts || place.endpoint.is_some() => (None, None),
        // The bucket may have a default, which would be a key of another owner.
        None => (Some(ServerSideEncryption::Aes256), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_kms_key_s3_encrypts() {
        let place = |more: serde_json::Value| -> Destination {
            let mut place = serde_json::json!({ "bucket": "b", "owner": "0", "region": "r", "prefix": "p" });
            place.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(place).unwrap()
        };
        let asked = |more| encryption_of(&place(more));
        assert_eq!(asked(serde_json::json!({})), (Some(ServerSideEncryption::Aes256), None));
        let key = serde_json::json!({ "kmsKey": "arn:k", "bucketEncrypts": true });
        assert_eq!(asked(key), (Some(ServerSideEncryption::AwsKms), Some("arn:k".into())));
        assert_eq!(asked(serde_json::json!({ "bucketEncrypts": true })), (None, None), "its owner's");
        assert_eq!(asked(serde_json::json!({ "endpoint": "https://minio" })), (None, None), "it may have no key");
    }
}
