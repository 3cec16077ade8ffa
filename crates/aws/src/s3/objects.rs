//! Calls about the objects in a bucket.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{self, Delete, ObjectIdentifier, ServerSideEncryption};
use jiff::Timestamp;

use causeway_runtime::Class;

use super::object::{LOCKED, Listing, Object, Refusals, Upload};
use super::{Outcome, Place, S3};
use crate::aws::AwsError;

/// The most pages, of a thousand entries each, that are read. What is left out shows up when the rest is gone.
pub(super) const PAGES: usize = 200;

/// The most pages, and the most bytes of memory for their keys, that the operator reads at once: every account that may
/// write to the bucket may write many keys, or long ones.
const BOUND: (usize, usize) = (PAGES, 8 * 1024 * 1024);
/// Bytes that an object takes beside its key, here and in what is made of it.
const BESIDE: usize = 100;
/// The same for a command that a user runs: it has a process of its own, and time.
const BOUND_OF_COMMANDS: (usize, usize) = (10_000, 1 << 30);

impl S3 {
    /// Lists everything under a prefix. A bucket that is gone is empty.
    pub async fn list(&self, place: &Place, owner: &str, prefix: &str) -> Outcome<Listing> {
        self.list_from(place, owner, (prefix, None), BOUND).await
    }

    /// Lists the same, but only keys that sort after `after`.
    pub async fn list_after(&self, place: &Place, owner: &str, prefix: &str, after: &str) -> Outcome<Listing> {
        self.list_from(place, owner, (prefix, Some(after)), BOUND).await
    }

    /// Lists the same as [`Self::list`], for commands: they read far more.
    pub async fn list_for_command(&self, place: &Place, owner: &str, prefix: &str) -> Outcome<Listing> {
        self.list_from(place, owner, (prefix, None), BOUND_OF_COMMANDS).await
    }

    async fn list_from(
        &self,
        place: &Place,
        owner: &str,
        (prefix, after): (&str, Option<&str>),
        (pages, most): (usize, usize),
    ) -> Outcome<Listing> {
        let (mut listing, mut token, mut bytes) = (Listing::default(), None, 0);
        for _ in 0..pages {
            let call = self.client(place).list_objects_v2().bucket(&place.bucket).expected_bucket_owner(owner);
            let call = call.prefix(prefix).set_start_after(after.map(str::to_owned)).set_continuation_token(token);
            let page = match self.caller().call("ListObjectsV2", call.send()).await {
                Err(error) if error.is("NoSuchBucket") => return Ok(Listing::default()),
                page => page?,
            };
            for object in page.contents.unwrap_or_default() {
                let (Some(key), Some(modified)) = (object.key, instant(object.last_modified)) else { continue };
                bytes += key.len() + BESIDE;
                let size = u64::try_from(object.size.unwrap_or_default()).unwrap_or_default();
                listing.objects.push(Object { key, size, modified });
            }
            token = page.next_continuation_token.filter(|_| page.is_truncated == Some(true));
            if token.is_none() {
                return Ok(listing);
            }
            if bytes >= most {
                break;
            }
        }
        listing.cut = true;
        Ok(listing)
    }

    /// The names between a prefix, which ends in a slash, and the next slash, and the token of the next page if there is one.
    /// A page has at most a thousand entries. Objects beside the names are entries, too.
    pub async fn names(
        &self,
        place: &Place,
        owner: &str,
        prefix: &str,
        token: Option<String>,
    ) -> Outcome<(Vec<String>, Option<String>)> {
        let call = self.client(place).list_objects_v2().bucket(&place.bucket).expected_bucket_owner(owner);
        let call = call.prefix(prefix).delimiter("/").set_continuation_token(token);
        let page = match self.caller().call("ListObjectsV2", call.send()).await {
            Err(error) if error.is("NoSuchBucket") => return Ok((Vec::new(), None)),
            page => page?,
        };
        let all = page.common_prefixes.unwrap_or_default().into_iter().filter_map(|it| it.prefix);
        let names = all.filter_map(|it| Some(it.strip_prefix(prefix)?.trim_end_matches('/').to_owned()));
        let names = names.filter(|name| !name.is_empty()).collect();
        Ok((names, page.next_continuation_token.filter(|_| page.is_truncated == Some(true))))
    }

    /// Returns true if nothing is in the bucket.
    pub async fn is_empty(&self, place: &Place, owner: &str) -> Outcome<bool> {
        let call = self.client(place).list_objects_v2().bucket(&place.bucket).expected_bucket_owner(owner);
        let page = self.caller().call("ListObjectsV2", call.max_keys(1).send()).await?;
        Ok(page.contents.unwrap_or_default().is_empty())
    }

    /// Reads a small object; `None` if there is none. Of an object that is larger than `limit`, only one byte more is
    /// returned: another writer may have made it so large that it does not fit into memory.
    pub async fn read(&self, place: &Place, owner: &str, key: &str, limit: usize) -> Outcome<Option<Vec<u8>>> {
        const OPERATION: &str = "GetObject";
        let call = self.client(place).get_object().bucket(&place.bucket).expected_bucket_owner(owner).key(key);
        let mut answer = match self.caller().call(OPERATION, call.send()).await {
            Err(error) if error.is("NoSuchKey") => return Ok(None),
            answer => answer?,
        };
        let body = async {
            let mut bytes = Vec::new();
            while bytes.len() <= limit {
                let Some(chunk) = answer.body.next().await else { break };
                bytes.extend_from_slice(&chunk.ok()?);
            }
            bytes.truncate(limit + 1);
            Some(bytes)
        };
        // The deadline of the call covers only the head of the answer.
        match tokio::time::timeout(std::time::Duration::from_secs(5), body).await {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) | Err(_) => Err(self.caller().empty_answer(OPERATION)),
        }
    }

    /// Writes a small object, unless there is one already. S3 encrypts it with a key of its own where `own_key` says so,
    /// and otherwise as the bucket says.
    pub async fn put_new(&self, place: &Place, owner: &str, key: &str, body: &str, own_key: bool) -> Outcome<()> {
        const OPERATION: &str = "PutObject";
        let call = |none_match: Option<&str>| {
            let call = self.client(place).put_object().bucket(&place.bucket).expected_bucket_owner(owner).key(key);
            let call = call.set_server_side_encryption(own_key.then_some(ServerSideEncryption::Aes256));
            call.set_if_none_match(none_match.map(str::to_owned)).body(ByteStream::from(body.as_bytes().to_vec()))
        };
        match self.caller().call(OPERATION, call(Some("*")).send()).await {
            Err(error) if error.is("PreconditionFailed") => Ok(()),
            // This S3 does not support conditional writes.
            Err(error) if error.is("NotImplemented") => {
                self.caller().call(OPERATION, call(None).send()).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    /// Deletes objects, at most [`DELETED_AT_ONCE`](super::DELETED_AT_ONCE); returns what S3 refused to delete. Objects
    /// that are gone do not matter.
    pub async fn delete(&self, place: &Place, owner: &str, keys: &[String]) -> Outcome<Refusals> {
        const OPERATION: &str = "DeleteObjects";
        let objects = keys.iter().filter_map(|key| ObjectIdentifier::builder().key(key).build().ok()).collect();
        let built = Delete::builder().set_objects(Some(objects)).quiet(true).build();
        let delete = built.map_err(|error| AwsError::stale(OPERATION, error.to_string()))?;
        self.delete_these(place, owner, delete).await
    }

    pub(super) async fn delete_these(&self, place: &Place, owner: &str, delete: Delete) -> Outcome<Refusals> {
        let call = self.client(place).delete_objects().bucket(&place.bucket).expected_bucket_owner(owner);
        let answer = match self.caller().call("DeleteObjects", call.delete(delete).send()).await {
            Err(error) if error.is("NoSuchBucket") => return Ok(Refusals::new()),
            answer => answer?,
        };
        refusals(answer.errors.unwrap_or_default())
    }

    /// Lists uploads under a prefix that were begun and neither completed nor aborted. Only the first thousand are
    /// returned.
    pub async fn uploads(&self, place: &Place, owner: &str, prefix: &str) -> Outcome<Vec<Upload>> {
        let call = self.client(place).list_multipart_uploads().bucket(&place.bucket).expected_bucket_owner(owner);
        let answer = match self.caller().call("ListMultipartUploads", call.prefix(prefix).send()).await {
            Err(error) if error.is("NoSuchBucket") => return Ok(Vec::new()),
            answer => answer?,
        };
        let uploads = answer.uploads.unwrap_or_default().into_iter();
        let found = uploads.filter_map(|upload| {
            Some(Upload { key: upload.key?, id: upload.upload_id?, begun: instant(upload.initiated)? })
        });
        // Other S3s may not respect the prefix exactly.
        Ok(found.filter(|upload| upload.key.starts_with(prefix)).collect())
    }

    /// Aborts such an upload, and frees its storage.
    pub async fn abort(&self, place: &Place, owner: &str, upload: &Upload) -> Outcome<()> {
        let call = self.client(place).abort_multipart_upload().bucket(&place.bucket).expected_bucket_owner(owner);
        let call = call.key(&upload.key).upload_id(&upload.id);
        match self.caller().call("AbortMultipartUpload", call.send()).await {
            Err(error) if error.is("NoSuchUpload") || error.is("NoSuchBucket") => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

/// Returns the objects that S3 refused to delete. An error that may pass by itself is one of the whole call.
fn refusals(errors: Vec<types::Error>) -> Outcome<Refusals> {
    let mut refused = Refusals::new();
    for types::Error { key, code, message, .. } in errors {
        let message = message.unwrap_or_default();
        let code = if is_lock(&message) { Some(LOCKED.to_owned()) } else { code };
        let is_lasting = matches!(code.as_deref(), Some(LOCKED | "AccessDenied"));
        let class = if is_lasting { Class::Denied } else { Class::Transient };
        let error = AwsError { operation: "DeleteObjects", service: "s3", code, message, class, ambiguous: true };
        if !is_lasting {
            return Err(error);
        }
        refused.insert(key.unwrap_or_default(), error);
    }
    Ok(refused)
}

/// Returns true if an answer says that a lock holds a version, in the words of AWS or of `MinIO`.
fn is_lock(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("object lock") || message.contains("worm protected")
}

fn instant(time: Option<aws_sdk_s3::primitives::DateTime>) -> Option<Timestamp> {
    Timestamp::from_second(time?.secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(key: &str, code: &str, message: &str) -> types::Error {
        types::Error::builder().key(key).code(code).message(message).build()
    }

    #[test]
    fn a_locked_object_is_told_from_a_missing_right() {
        let answer = vec![
            error("a", "AccessDenied", "Access Denied because object protected by object lock."),
            error("b", "InvalidRequest", "Object is WORM protected and cannot be overwritten"),
            error("c", "AccessDenied", "Access Denied"),
        ];
        let refused = refusals(answer).expect("refusals");
        let locked: Vec<(&str, bool)> = refused.iter().map(|(key, error)| (key.as_str(), error.is(LOCKED))).collect();
        assert_eq!(locked, [("a", true), ("b", true), ("c", false)]);
        assert!(refused.values().all(|error| error.class == Class::Denied));
        assert!(!refused["a"].to_string().contains("IAM"), "{}", refused["a"]);
    }

    #[test]
    fn what_may_pass_by_itself_fails_the_call() {
        let answer = vec![
            error("a", "AccessDenied", "Access Denied"),
            error("b", "InternalError", "We encountered an internal error. Please try again."),
        ];
        assert_eq!(refusals(answer).map_err(|error| error.class).err(), Some(Class::Transient));
    }
}
