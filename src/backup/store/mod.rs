//! Objects in S3: where backups are. A call has a deadline and names the account that must own the bucket.
//!
//! Administration of buckets is elsewhere: the Jobs' role may read and write objects, no more.

mod call;
mod checksum;
mod download;
mod error;
mod leftovers;
mod object;
mod parts;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{ResponseChecksumValidation, StalledStreamProtectionConfig};

use super::manifest::{self, Manifest};
use super::plan::Destination;

pub use download::Download;
pub use error::{StoreError, Trouble};
pub use upload::{Upload, UploadError};

use call::{DEADLINE, again};

pub use call::pauses;

/// A connection that is not made by then is not made.
const CONNECT: Duration = Duration::from_secs(5);
/// Data that do not flow for so long are not waited for.
const STALLED: Duration = Duration::from_secs(30);
/// No manifest of ours is larger.
const MANIFEST_LIMIT: usize = 1024 * 1024;

/// A place in S3, and the way to it.
#[derive(Clone)]
pub struct Store {
    client: Client,
    place: Arc<Destination>,
}

/// An object, as far as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    etag: Option<String>,
    size: i64,
    sha256: Option<String>,
}

impl Store {
    /// A client for that place, with the credentials of the environment: the web identity of the pod.
    pub async fn connect(place: &Destination) -> Self {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).build();
        let shared = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(place.region.clone()))
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(STALLED).build())
            .load()
            .await;
        // Checksums of parts say nothing about what is read across them; all bytes have a checksum in the manifest.
        let mut config = aws_sdk_s3::config::Builder::from(&shared)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        if let Some(endpoint) = &place.endpoint {
            config = config.endpoint_url(endpoint);
        }
        // Names of buckets are no names of hosts anywhere else than in AWS.
        let foreign = place.endpoint.is_some() || shared.endpoint_url().is_some();
        let client = Client::from_conf(config.force_path_style(foreign).build());
        Self { client, place: Arc::new(place.clone()) }
    }

    /// The key of an object of a backup.
    #[must_use]
    pub fn key(&self, folder: &str, id: &str, name: &str) -> String {
        format!("{}/{folder}/{id}/{name}", self.place.prefix)
    }

    /// What is known of a backup; none where it is not complete.
    pub async fn manifest(&self, folder: &str, id: &str) -> Result<Option<Manifest>, ManifestError> {
        let key = self.key(folder, id, manifest::NAME);
        let Some(bytes) = self.small(&key, MANIFEST_LIMIT).await? else { return Ok(None) };
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|error| ManifestError::Unreadable { key: key.clone(), message: error.to_string() })?;
        if manifest.format != manifest::FORMAT {
            return Err(ManifestError::Newer { key, format: manifest.format });
        }
        Ok(Some(manifest))
    }

    /// IDs of what lies in a source's folder, complete or not, the newest first.
    pub async fn ids(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let prefix = format!("{}/{folder}/", self.place.prefix);
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let page = again("ListObjectsV2", DEADLINE, || {
                self.client
                    .list_objects_v2()
                    .bucket(&self.place.bucket)
                    .expected_bucket_owner(&self.place.owner)
                    .prefix(&prefix)
                    .delimiter("/")
                    .set_continuation_token(next.clone())
                    .send()
            })
            .await?;
            let names = page.common_prefixes().iter().filter_map(|it| it.prefix()?.strip_prefix(&prefix));
            let ids = names.map(|name| name.trim_end_matches('/')).filter(|id| manifest::due_of(id).is_some());
            found.extend(ids.map(str::to_owned));
            next = page.next_continuation_token().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        Ok(found)
    }
}

/// Why a manifest could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// S3 did not give it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is none of ours, or damaged.
    #[error("{key} is no manifest: {message}")]
    Unreadable {
        /// Its key.
        key: String,
        /// Why.
        message: String,
    },
    /// It is of a version of Causeway that this one does not know.
    #[error("{key} has format {format}, and this version of Causeway knows format 1: use the version that wrote it")]
    Newer {
        /// Its key.
        key: String,
        /// Its format.
        format: u32,
    },
}
