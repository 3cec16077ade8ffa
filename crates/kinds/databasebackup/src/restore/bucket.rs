//! Finds a backup in a bucket, where this cluster has neither an object nor a record of it.

use kube::ResourceExt;

use causeway_api::DatabaseRestore;
use causeway_api::databaserestore::{BackupTrust, BucketChoice};
use causeway_aws::s3::{Found, Place};
use causeway_backup::manifest::{Document, LIMIT, NAME, parse};
use causeway_backup::plan::Destination;
use causeway_backup::signature::{Distrust, LARGEST_SIGNATURE, PublicKey, SIGNATURE, verify};
use causeway_backup::transfer::{Error, READABLE, lets_read};

use super::facts::{Choice, Note, Offer, Target};
use super::observe::{Observer, lasting};
use super::shelf::{Candidate, candidates, prefix_of_choice, trusted};

/// How many backups are looked at, the best first.
const LOOKED_AT: usize = 50;

/// Where a bucket is, and the account that must own it.
pub struct At {
    pub place: Place,
    pub owner: String,
}

/// A bucket that may be read.
pub struct Opened {
    pub at: At,
    /// The prefix of keys that is asked for, without a slash at the end.
    pub prefix: String,
    /// Keys of which one must have signed a backup; none where no signature is required.
    pub believed_keys: Option<Vec<PublicKey>>,
}

impl Opened {
    /// The place of backups whose keys have this prefix.
    pub fn origin(&self, prefix: &str) -> Destination {
        let Place { bucket, region, endpoint } = self.at.place.clone();
        let (owner, prefix) = (self.at.owner.clone(), prefix.to_owned());
        Destination {
            bucket,
            owner,
            region,
            endpoint,
            prefix,
            storage_class: None,
            kms_key: None,
            bucket_encrypts: false,
        }
    }
}

impl Observer {
    /// The backup in a bucket that is asked for.
    pub(super) async fn of_bucket(
        &self,
        object: &DatabaseRestore,
        choice: &BucketChoice,
        target: &Target,
    ) -> Result<Result<Offer, Choice>, Error> {
        let opened = match self.open_bucket(object, choice).await? {
            Ok(opened) => opened,
            Err(no) => return Ok(Err(no)),
        };
        let Opened { at, prefix, believed_keys } = &opened;
        let found = match self.catalogs(at, prefix, None).await? {
            Ok(found) => found.all,
            Err(no) => return Ok(Err(no)),
        };
        let found = match candidates(object, &found, target) {
            Ok(found) => found,
            Err(no) => return Ok(Err(no)),
        };
        let mut passed: Vec<String> = Vec::new();
        let mut looked_at = 0;
        for candidate in &found {
            // An unsigned backup does not count against the limit: otherwise, many of them could hide the signed ones.
            if believed_keys.is_some() && !candidate.signed {
                passed.push(format!("{} {}", candidate.place(), Distrust::Missing));
                continue;
            }
            looked_at += 1;
            if looked_at > LOOKED_AT {
                break;
            }
            match self.read(at, candidate, believed_keys.as_deref()).await? {
                Ok(document) => {
                    let note = match (believed_keys, passed.first()) {
                        (None, _) => Note::Unverified,
                        (Some(_), Some(first)) => Note::Passed(format!("{first} ({} in all)", passed.len())),
                        (Some(_), None) => Note::None,
                    };
                    return Ok(Ok(offer(&opened, candidate, document, note)));
                }
                Err(why) => passed.push(format!("{} {why}", candidate.place())),
            }
        }
        Ok(Err(nothing(object, choice, &format!("s3://{}/{prefix}/", choice.bucket), &passed)))
    }

    /// The bucket that is asked for; or why it is not read.
    pub(super) async fn open_bucket(
        &self,
        object: &DatabaseRestore,
        choice: &BucketChoice,
    ) -> Result<Result<Opened, Choice>, Error> {
        let namespace = object.namespace().unwrap_or_default();
        if let Some(no) = self.not_allowed(choice.endpoint.as_ref()) {
            return Ok(Err(no));
        }
        let (prefix, named) = match prefix_of_choice(choice, &namespace).and_then(|it| Ok((it, trusted(choice)?))) {
            Ok(known) => known,
            Err(no) => return Ok(Err(no)),
        };
        let believed_keys = match self.believed_keys(choice, named).await {
            Ok(keys) => keys,
            Err(no) => return Ok(Err(no)),
        };
        let region = choice.region.clone().unwrap_or_else(|| self.settings.region.clone());
        // Another S3 names its regions as it likes.
        if choice.endpoint.is_none() && !self.settings.knows_region(&region) {
            let message = format!(
                "spec.from.s3.region {region} is no region of AWS that this version knows: make another DatabaseRestore with a \
                 region that there is, or, where {region} is new, add it to the operator's option BACKUP_REGIONS first"
            );
            return Ok(Err(Choice::Refused("RegionUnknown", message)));
        }
        let owner = self.s3.account().await.map_err(lasting)?;
        let at =
            At { place: Place { bucket: choice.bucket.clone(), region, endpoint: choice.endpoint.clone() }, owner };
        if let Some(no) = self.kept_out(&at).await? {
            return Ok(Err(no));
        }
        Ok(Ok(Opened { at, prefix, believed_keys }))
    }

    /// Keys of which one must have signed the backup; none where no signature is required.
    async fn believed_keys(
        &self,
        choice: &BucketChoice,
        named: Vec<PublicKey>,
    ) -> Result<Option<Vec<PublicKey>>, Choice> {
        if choice.trust == BackupTrust::Unverified {
            return Ok(None);
        }
        if !named.is_empty() {
            return Ok(Some(named));
        }
        match self.signing.existing().await {
            Ok(Some(key)) => Ok(Some(vec![key.public()])),
            Ok(None) => {
                let message = "this cluster has signed no backup yet, so that it trusts no key: name the public key of the \
                               cluster that took the backup in spec.from.s3.trustedKeys of another DatabaseRestore";
                Err(Choice::Refused("KeyMissing", message.into()))
            }
            Err(why) => Err(Choice::Held("KeyUnreadable", why.to_string())),
        }
    }

    /// Explains why this cluster may not read the bucket. Its tags must allow that: with the name alone, a tenant could read
    /// buckets of others.
    async fn kept_out(&self, at: &At) -> Result<Option<Choice>, Error> {
        let (bucket, cluster) = (&at.place.bucket, &self.settings.cluster);
        Ok(match self.s3.bucket(&at.place, &at.owner, |_| false).await.map_err(lasting)? {
            Found::There(facts) if lets_read(&facts.tags, cluster) => None,
            Found::There(_) => {
                let message = format!(
                    "spec.from.s3.bucket: bucket {bucket} is not of this cluster: give it the tag {READABLE}={cluster} to let \
                     this cluster restore from it"
                );
                Some(Choice::Held("BucketForeign", message))
            }
            Found::Absent => {
                let message = format!("spec.from.s3.bucket: there is no bucket {bucket}");
                Some(Choice::Waiting("BucketMissing", message))
            }
            Found::Forbidden(words) | Found::Invalid(words) => {
                let message = format!(
                    "spec.from.s3.bucket: bucket {bucket} belongs to another account or is in another region, or the operator \
                     may not look at it ({words}): see spec.from.s3.region, and allow s3:GetBucketTagging \
                     (iam/policy-backup-operator.json)"
                );
                Some(Choice::Held("BucketForbidden", message))
            }
        })
    }

    /// The manifest of a backup, or why it is not believed.
    pub(super) async fn read(
        &self,
        At { place, owner }: &At,
        candidate: &Candidate,
        trusted: Option<&[PublicKey]>,
    ) -> Result<Result<Document, String>, Error> {
        let under = candidate.place();
        let read = async |name: &str, limit| self.s3.read(place, owner, &format!("{under}/{name}"), limit).await;
        let Some(bytes) = read(NAME, LIMIT).await.map_err(lasting)? else {
            return Ok(Err("was deleted just now".into()));
        };
        if let Some(trusted) = trusted {
            let signature = read(SIGNATURE, LARGEST_SIGNATURE).await.map_err(lasting)?;
            let checked = signature.ok_or(Distrust::Missing).and_then(|it| verify(trusted, &under, &bytes, &it));
            if let Err(why) = checked {
                return Ok(Err(why.to_string()));
            }
        }
        let id = under.rsplit('/').next().unwrap_or_default();
        Ok(parse(&bytes, id).map_err(|mistake| format!("has an invalid manifest: {mistake}")))
    }
}

fn offer(opened: &Opened, candidate: &Candidate, document: Document, note: Note) -> Offer {
    let (folder, origin) = (candidate.folder.clone(), opened.origin(&candidate.base));
    Offer { document, folder, origin, encrypts: false, identity: None, note, log: None }
}

/// Explains why nothing is chosen.
fn nothing(object: &DatabaseRestore, choice: &BucketChoice, under: &str, passed: &[String]) -> Choice {
    let id = &object.spec.from.id;
    let Some(first) = passed.first() else {
        let message = format!("there is no complete backup {id} under {under} that fits: see causeway backups ls");
        return Choice::Refused("BackupMissing", message);
    };
    if choice.trust == BackupTrust::Unverified {
        return Choice::Refused("ManifestInvalid", first.clone());
    }
    let message = format!(
        "under {under} no backup is signed by a trusted key: {first} ({} in all). Name the public key of the cluster that took \
         it in spec.from.s3.trustedKeys of another DatabaseRestore, or the ID of a backup in spec.from.id, or, once you know who may write into the bucket, \
         spec.from.s3.trust: Unverified",
        passed.len()
    );
    Choice::Refused("NotSigned", message)
}
