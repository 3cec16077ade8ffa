//! Uploads data of unknown size into one object: in parts, a few at a time, each tried again while its error is transient.
//!
//! The object appears only with [`Upload::complete`], and only if nothing is at its key: nothing is overwritten.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart, StorageClass};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::bytes::{Bytes, BytesMut};

use super::call::{DEADLINE, again, once, pause, pauses};
use super::object::{Condition, time_for};
use super::{Seen, Store, StoreError, Trouble, checksum, parts};
use crate::manifest;

/// How long aborting an upload may take. A process that is stopped has 30 s in all.
const ABORT_TIMEOUT: Duration = Duration::from_secs(20);

/// The reasons why data could not be uploaded.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// A call of S3 failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It does not fit into the parts that S3 takes.
    #[error("the backup is too large: S3 takes {} parts of an object, and these are used up", parts::MOST)]
    TooLarge,
    /// A task of ours ended before its time.
    #[error("a part's upload ended: {0}")]
    Task(#[from] JoinError),
}

/// An object that is being written.
pub struct Upload {
    store: Store,
    key: String,
    /// The condition on the key when the object is written.
    condition: Condition,
    /// S3's ID of the upload, once a whole part is there. Less than that is put without an upload in parts.
    id: Option<String>,
    /// True if S3 was asked to begin an upload. It may have done so even if its answer was lost.
    asked: bool,
    /// The part that is being filled.
    filling: BytesMut,
    /// Buffer of a part that has arrived, used again for the next one. If each part had a new buffer, the allocator would
    /// hold more memory than is used.
    spare: Option<BytesMut>,
    /// Number of the part that is being filled.
    number: i32,
    on_their_way: JoinSet<Result<(Arrived, Bytes), StoreError>>,
    arrived: Vec<Arrived>,
    size: u64,
}

/// A part that S3 has.
struct Arrived {
    number: i32,
    etag: Option<String>,
    sha256: [u8; 32],
}

impl Upload {
    /// Begins to write the data of a backup that has none yet.
    #[must_use]
    pub fn begin(store: &Store, folder: &str, id: &str) -> Self {
        Self {
            store: store.clone(),
            key: store.key(folder, id, manifest::DATA),
            condition: Condition::Absent,
            id: None,
            asked: false,
            filling: BytesMut::new(),
            spare: None,
            number: 1,
            on_their_way: JoinSet::new(),
            arrived: Vec::new(),
            size: 0,
        }
    }

    /// Bytes that were written.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes bytes; waits while as many parts are on their way as memory allows.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), UploadError> {
        while !bytes.is_empty() {
            let whole = parts::size(self.number);
            if self.filling.capacity() == 0 {
                self.filling = self.spare.take().unwrap_or_default();
                self.filling.reserve(whole);
            }
            let (now, later) = bytes.split_at(bytes.len().min(whole - self.filling.len()));
            self.filling.extend_from_slice(now);
            self.size += now.len() as u64;
            bytes = later;
            if self.filling.len() == whole {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// Starts to send the part that is filled.
    async fn send(&mut self) -> Result<(), UploadError> {
        if self.number > parts::MOST {
            return Err(UploadError::TooLarge);
        }
        let id = match &self.id {
            Some(id) => id.clone(),
            None => self.create().await?,
        };
        while self.on_their_way.len() >= parts::at_once(self.number) {
            self.receive().await?;
        }
        let body = std::mem::take(&mut self.filling).freeze();
        let (store, key, number) = (self.store.clone(), self.key.clone(), self.number);
        self.on_their_way.spawn(async move { Ok((store.put_part(&key, &id, number, &body).await?, body)) });
        self.number += 1;
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), UploadError> {
        if let Some(part) = self.on_their_way.join_next().await {
            let (part, body) = part??;
            self.arrived.push(part);
            self.spare = body.try_into_mut().ok().map(|mut body| {
                body.clear();
                body
            });
        }
        Ok(())
    }

    /// Makes S3 begin the upload. A try whose answer was lost may have begun one, too. Such uploads are aborted before the
    /// next try, if the role may list uploads.
    async fn create(&mut self) -> Result<String, UploadError> {
        let mut pauses = pauses();
        self.asked = true;
        loop {
            let place = &self.store.place;
            let (encryption, kms) = self.store.encryption();
            let call = self.store.client.create_multipart_upload().bucket(&place.bucket).key(&self.key);
            let call = call.expected_bucket_owner(&place.owner).set_server_side_encryption(encryption);
            let call = call.set_ssekms_key_id(kms).checksum_algorithm(ChecksumAlgorithm::Sha256);
            let call = call.checksum_type(ChecksumType::Composite);
            let call = call.set_storage_class(place.storage_class.as_deref().map(StorageClass::from));
            let created = once("CreateMultipartUpload", DEADLINE, call.send()).await.and_then(|answer| {
                let id = answer.upload_id().map(str::to_owned);
                id.ok_or_else(|| StoreError::incomplete("CreateMultipartUpload", "upload ID"))
            });
            match created {
                Ok(id) => {
                    self.id = Some(id.clone());
                    return Ok(id);
                }
                Err(error) => {
                    pause(&mut pauses, error).await?;
                    self.clean().await?;
                }
            }
        }
    }

    /// Makes the object out of what was written. If that fails, the upload is aborted.
    pub async fn complete(mut self) -> Result<(), UploadError> {
        let done = self.finish().await;
        if done.is_err() {
            self.abandon().await;
        }
        done
    }

    async fn finish(&mut self) -> Result<(), UploadError> {
        if self.id.is_none() {
            let body = std::mem::take(&mut self.filling).freeze();
            return Ok(self.store.put_data(&self.key, body, self.condition).await?);
        }
        if !self.filling.is_empty() {
            self.send().await?;
        }
        while !self.on_their_way.is_empty() {
            self.receive().await?;
        }
        self.join().await
    }

    /// Joins the parts. A try whose answer was lost may have joined them: the object's checksum shows whether it did.
    async fn join(&mut self) -> Result<(), UploadError> {
        self.arrived.sort_unstable_by_key(|part| part.number);
        let sums: Vec<[u8; 32]> = self.arrived.iter().map(|part| part.sha256).collect();
        let whole = checksum::of_parts(&sums);
        let mut pauses = pauses();
        loop {
            let error = match self.join_once().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.trouble {
                Trouble::NotImplemented if self.condition != Condition::Any => self.condition = Condition::Any,
                Trouble::Passing | Trouble::Changed | Trouble::NoUpload => {
                    if self.store.look(&self.key).await?.is_some_and(|seen| self.is_ours(&seen, &whole)) {
                        return Ok(());
                    }
                    pause(&mut pauses, error).await?;
                }
                _ => return Err(error.into()),
            }
        }
    }

    fn is_ours(&self, seen: &Seen, whole: &str) -> bool {
        u64::try_from(seen.size) == Ok(self.size) && seen.sha256.as_deref() == Some(whole)
    }

    async fn join_once(&self) -> Result<(), StoreError> {
        let place = &self.store.place;
        let parts = self.arrived.iter().map(|part| {
            CompletedPart::builder()
                .part_number(part.number)
                .set_e_tag(part.etag.clone())
                .checksum_sha256(checksum::text(&part.sha256))
                .build()
        });
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build();
        let call = self.store.client.complete_multipart_upload().bucket(&place.bucket).key(&self.key);
        let call = call.expected_bucket_owner(&place.owner).set_upload_id(self.id.clone()).multipart_upload(parts);
        let call = call.checksum_type(ChecksumType::Composite).mpu_object_size(self.size.cast_signed());
        let call = call.set_if_none_match(self.condition.none_match());
        // S3 may take minutes to join many parts, and sends whitespace meanwhile.
        once("CompleteMultipartUpload", DEADLINE * 15, call.send()).await.map(drop)
    }

    /// Aborts the upload, so that nothing of it stays in S3. If that fails, it is logged, and the operator or the bucket's
    /// lifecycle rule aborts the upload later.
    pub async fn abandon(&mut self) {
        self.on_their_way.shutdown().await;
        if !self.asked {
            return;
        }
        let problem = match timeout(ABORT_TIMEOUT, self.clean()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no time is left".into(),
        };
        tracing::warn!(key = self.key, problem, "the upload could not be aborted; the operator does so");
    }

    async fn clean(&self) -> Result<(), StoreError> {
        match &self.id {
            Some(id) => self.store.abort(&self.key, id).await,
            None => self.store.clean(&self.key).await,
        }
    }
}

impl Store {
    async fn put_part(&self, key: &str, id: &str, number: i32, body: &Bytes) -> Result<Arrived, StoreError> {
        let sha256 = checksum::sha256(body);
        let sum = checksum::text(&sha256);
        let answer = again("UploadPart", time_for(body.len()), || {
            let call = self.client.upload_part().bucket(&self.place.bucket).key(key).upload_id(id);
            let call = call.expected_bucket_owner(&self.place.owner).part_number(number);
            let call = call.checksum_sha256(&sum).body(ByteStream::from(body.clone()));
            // The signature covers the header with the checksum, so the body need not be hashed once more.
            call.customize().disable_payload_signing().send()
        })
        .await?;
        Ok(Arrived { number, etag: answer.e_tag().map(str::to_owned), sha256 })
    }
}
