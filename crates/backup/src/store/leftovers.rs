//! Uploads to a key whose ID is unknown because the answer was lost: their parts cost money, and no listing of objects shows
//! them.
//!
//! Only a role that may list the uploads of the whole bucket can look for them, because S3 cannot restrict that permission to
//! a prefix. The published role of Jobs may not: then the operator aborts such uploads, or at last the bucket's lifecycle rule.
//! <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html>

use aws_sdk_s3::types::MultipartUpload;

use super::call::{DEADLINE, again};
use super::{Store, StoreError, Trouble};

/// The most looks. It looks again because a part that was on its way may have outlived the first abort.
const LOOKS: usize = 3;

impl Store {
    /// Aborts uploads to exactly this key, if the role may list uploads.
    pub(super) async fn clean(&self, key: &str) -> Result<(), StoreError> {
        for _ in 0..LOOKS {
            let uploads = match self.uploads(key).await {
                Err(error) if error.trouble == Trouble::Denied => return Ok(()),
                uploads => uploads?,
            };
            let mut found = false;
            for upload in uploads.iter().filter(|upload| upload.key() == Some(key)) {
                let Some(id) = upload.upload_id() else { continue };
                tracing::info!(key, "aborting an abandoned upload");
                self.abort(key, id).await?;
                found = true;
            }
            if !found {
                break;
            }
        }
        Ok(())
    }

    async fn uploads(&self, key: &str) -> Result<Vec<MultipartUpload>, StoreError> {
        let mut found = Vec::new();
        let mut marker: (Option<String>, Option<String>) = (None, None);
        loop {
            let page = again("ListMultipartUploads", DEADLINE, || {
                self.client
                    .list_multipart_uploads()
                    .bucket(&self.place.bucket)
                    .expected_bucket_owner(&self.place.owner)
                    .prefix(key)
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

    /// Aborts an upload. It is no error if the upload is gone.
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
