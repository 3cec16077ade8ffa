//! Multipart uploads that nobody goes on with: their parts cost money, and nobody sees them.

use aws_sdk_s3::types::MultipartUpload;
use jiff::{SignedDuration, Timestamp};

use super::call::{DEADLINE, again};
use super::{Store, StoreError, Trouble};

/// An upload of another backup of the same source may still be going on, unless it is older.
const DEAD: SignedDuration = SignedDuration::from_hours(24);

/// Looks until nothing is found: a part that was on its way may have outlived the first look.
const LOOKS: usize = 3;

impl Store {
    /// Aborts uploads to this very key, and such as were left under the prefix a day ago.
    pub(super) async fn clean(&self, prefix: &str, key: &str, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..LOOKS {
            let mut found = false;
            for upload in self.uploads(prefix).await? {
                let (Some(at), Some(id)) = (upload.key(), upload.upload_id()) else { continue };
                if at == key || is_dead(&upload, now) {
                    tracing::info!(key = at, "aborting an upload that nobody goes on with");
                    self.abort(at, id).await?;
                    found = true;
                }
            }
            if !found {
                break;
            }
        }
        Ok(())
    }

    async fn uploads(&self, prefix: &str) -> Result<Vec<MultipartUpload>, StoreError> {
        let mut found = Vec::new();
        let mut marker: (Option<String>, Option<String>) = (None, None);
        loop {
            let page = again("ListMultipartUploads", DEADLINE, || {
                self.client
                    .list_multipart_uploads()
                    .bucket(&self.place.bucket)
                    .expected_bucket_owner(&self.place.owner)
                    .prefix(prefix)
                    .set_key_marker(marker.0.clone())
                    .set_upload_id_marker(marker.1.clone())
                    .send()
            })
            .await?;
            found.extend(page.uploads().iter().cloned());
            let next = (page.next_key_marker().map(str::to_owned), page.next_upload_id_marker().map(str::to_owned));
            if page.is_truncated() != Some(true) || next.0.is_none() || next == marker {
                return Ok(found);
            }
            marker = next;
        }
    }

    /// Aborts an upload; one that is there no more is no error.
    pub(super) async fn abort(&self, key: &str, id: &str) -> Result<(), StoreError> {
        let aborted = again("AbortMultipartUpload", DEADLINE, || {
            self.client
                .abort_multipart_upload()
                .bucket(&self.place.bucket)
                .expected_bucket_owner(&self.place.owner)
                .key(key)
                .upload_id(id)
                .send()
        });
        match aborted.await {
            Err(error) if !matches!(error.trouble, Trouble::NoUpload | Trouble::NoObject) => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_dead(upload: &MultipartUpload, now: Timestamp) -> bool {
    upload
        .initiated()
        .and_then(|at| Timestamp::from_second(at.secs()).ok())
        .is_some_and(|at| now.duration_since(at) > DEAD)
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::primitives::DateTime;

    use super::*;

    #[test]
    fn only_what_is_older_than_a_day_counts_as_dead() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        let begun = |hours: i64| {
            let at = DateTime::from_secs(now.as_second() - hours * 3600);
            MultipartUpload::builder().initiated(at).build()
        };
        assert!(!is_dead(&begun(23), now));
        assert!(is_dead(&begun(25), now));
        assert!(!is_dead(&MultipartUpload::builder().build(), now), "one without an age is left alone");
    }
}
