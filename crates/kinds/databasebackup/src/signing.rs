//! Signs manifests. A signature proves that Causeway took a backup, even when this cluster is gone. A failure to sign
//! never keeps a backup from being taken.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use causeway_aws::aws::AwsError;
use causeway_aws::s3::S3;
use causeway_backup::manifest::{LIMIT, NAME, id_of, parse};
use causeway_backup::signature::{SIGNATURE, SigningKey};
use causeway_backup::transfer;
use causeway_runtime::PerObject;

use super::facts::{Bucket, Signing, Unsigned};

/// How long after a failure signing is tried again.
pub const RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Signs for all objects.
pub struct Signer {
    s3: S3,
    key: transfer::Signing,
    cluster: String,
    /// The reason why something could not be signed, and since when.
    failed: PerObject<(Instant, String)>,
    /// Backups that are not signed, because their manifests are invalid or differ from what was reported.
    odd: PerObject<BTreeSet<(String, Timestamp)>>,
}

impl Signer {
    /// Signs with this key, for the cluster of that name.
    pub fn new(s3: S3, key: transfer::Signing, cluster: String) -> Self {
        Self { s3, key, cluster, failed: PerObject::default(), odd: PerObject::default() }
    }

    /// The key that signs the backups of an object, and the backups that are not signed because of their manifests.
    pub async fn look(&self, uid: &str) -> (Signing, BTreeSet<(String, Timestamp)>) {
        let odd = self.odd.get(uid).unwrap_or_default();
        if let Some((_, why)) = self.failed.get(uid).filter(|(at, _)| at.elapsed() < RETRY_INTERVAL) {
            return (Signing::Refused(why), odd);
        }
        match self.key.key().await {
            Ok(key) => (Signing::Key(key.public().to_string()), odd),
            Err(why) => (Signing::Refused(why.to_string()), odd),
        }
    }

    /// Signs some backups of an object.
    pub async fn sign(&self, uid: &str, bucket: &Bucket, prefix: &str, backups: &[Unsigned]) {
        if let Err(why) = self.signed(uid, bucket, prefix, backups).await {
            tracing::warn!(uid, why, "backups are not signed");
            self.failed.set(uid, (Instant::now(), why));
        }
    }

    async fn signed(&self, uid: &str, bucket: &Bucket, prefix: &str, backups: &[Unsigned]) -> Result<(), String> {
        let key = self.key.key().await.map_err(|why| why.to_string())?;
        for it in backups {
            match self.sign_one(&key, bucket, prefix, it).await {
                Ok(true) => {}
                Ok(false) => {
                    let (folder, due) = (&it.folder, it.due);
                    tracing::warn!(
                        folder,
                        id = id_of(due),
                        "manifest not signed: it differs from what its Job reported"
                    );
                    self.odd.change(uid, BTreeSet::new, |odd| odd.insert((folder.clone(), due)));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Signs one backup, unless it is gone. False if its manifest is invalid or differs from what was reported.
    async fn sign_one(&self, key: &SigningKey, bucket: &Bucket, prefix: &str, it: &Unsigned) -> Result<bool, AwsError> {
        let (place, owner) = (&bucket.place, bucket.owner.as_str());
        let id = id_of(it.due);
        let at = format!("{prefix}/{}/{id}", it.folder);
        let Some(bytes) = self.s3.read(place, owner, &format!("{at}/{NAME}"), LIMIT).await? else { return Ok(true) };
        let is_reported = it.manifest.as_ref().is_none_or(|hash| *hash == hex::encode(Sha256::digest(&bytes)));
        if !is_reported || parse(&bytes, &id).is_err() {
            return Ok(false);
        }
        // As the Jobs put what they write.
        let own_key = place.endpoint.is_none() && !bucket.is_foreign(&self.cluster);
        let (to, signature) = (format!("{at}/{SIGNATURE}"), key.sign(&at, &bytes));
        self.s3.put_new(place, owner, &to, &signature, own_key).await?;
        Ok(true)
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        self.failed.forget(uid);
        self.odd.forget(uid);
    }
}
