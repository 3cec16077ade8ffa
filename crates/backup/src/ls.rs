//! `causeway backups ls`: what is in a bucket, for people. It needs no cluster.

use std::io::{self, Write};

use jiff::Timestamp;

use causeway_aws::aws::AwsError;
use causeway_aws::connect;
use causeway_aws::s3::{Place, S3};
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use causeway_runtime::terminal::line;

use super::jobs::{Catalog, Stored};
use super::manifest::{Document, LIMIT, NAME, id_of, parse};
use super::options::BackupsOptions;
use super::signature::{Distrust, KeyError, LARGEST_SIGNATURE, PublicKey, SIGNATURE, verify};

/// The reasons why nothing could be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No region is given.
    #[error("no AWS region to work in: set AWS_REGION, for example to us-east-1, or give --region")]
    Region,
    /// A trusted key is not valid.
    #[error("--trusted-key {0:?}: {1}")]
    Key(String, #[source] KeyError),
    /// A call of S3 failed.
    #[error("bucket {bucket}: {why}")]
    Aws {
        /// Name of the bucket.
        bucket: String,
        /// The error of S3.
        why: AwsError,
    },
    /// Nothing could be printed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

/// A backup that was found.
pub struct Found {
    /// The prefix of its key, before its folder.
    pub base: String,
    /// The folder of its database.
    pub folder: String,
    /// When it was due.
    pub due: Timestamp,
    /// Its stored parts.
    pub stored: Stored,
}

impl Found {
    fn place(&self) -> String {
        format!("{}/{}/{}", self.base, self.folder, id_of(self.due))
    }
}

/// A bucket, and the public keys that are trusted.
pub struct Shelf {
    s3: S3,
    /// The bucket and how to reach it.
    pub place: Place,
    /// The account that must own it.
    pub owner: String,
    keys: Vec<PublicKey>,
}

impl Shelf {
    /// Opens the bucket that the options name.
    pub async fn open(options: &BackupsOptions) -> Result<Self, Error> {
        let keys = options.trusted_keys.iter().map(|key| key.parse().map_err(|why| Error::Key(key.clone(), why)));
        let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>()?;
        let aws = connect::aws().load().await;
        let region = options.region.clone().or_else(|| aws.region().map(ToString::to_string)).ok_or(Error::Region)?;
        let s3 = S3::new(&aws, Metrics::new(), Fence::closed_until_lease());
        let place = Place { bucket: options.bucket.clone(), region, endpoint: options.endpoint.clone() };
        let owner = match &options.owner {
            Some(owner) => owner.clone(),
            None => s3.account().await.map_err(|why| Error::Aws { bucket: place.bucket.clone(), why })?,
        };
        Ok(Self { s3, place, owner, keys })
    }

    /// The backups in the bucket by object and database, the newest first; and whether there are more than were read.
    pub async fn list(&self, prefix: Option<&str>) -> Result<(Vec<Found>, bool), Error> {
        let listing = self.s3.list_for_command(&self.place, &self.owner, &below(prefix)).await;
        let listing = listing.map_err(|why| self.failed(why))?;
        let cut = listing.cut;
        Ok((sorted(Catalog::of_all(listing)), cut))
    }

    /// The manifest of a backup, if it is valid, and whether a trusted key signed it.
    pub async fn read(&self, it: &Found) -> Result<(Option<Document>, Result<(), Distrust>), Error> {
        let (at, place) = (it.place(), (&self.place, self.owner.as_str()));
        let read = async |name: &str, limit| self.s3.read(place.0, place.1, &format!("{at}/{name}"), limit).await;
        let manifest = read(NAME, LIMIT).await.map_err(|why| self.failed(why))?.unwrap_or_default();
        let signature = read(SIGNATURE, LARGEST_SIGNATURE).await.map_err(|why| self.failed(why))?;
        let checked = signature.ok_or(Distrust::Missing).and_then(|it| verify(&self.keys, &at, &manifest, &it));
        Ok((parse(&manifest, &id_of(it.due)).ok(), checked.map(drop)))
    }

    fn failed(&self, why: AwsError) -> Error {
        Error::Aws { bucket: self.place.bucket.clone(), why }
    }
}

/// The prefix with one slash at its end; empty without a prefix.
fn below(prefix: Option<&str>) -> String {
    prefix.map(|it| format!("{}/", it.trim_end_matches('/'))).unwrap_or_default()
}

/// Lists the backups of a bucket on standard output.
pub async fn run(options: BackupsOptions) -> Result<(), Error> {
    let shelf = Shelf::open(&options).await?;
    let (found, cut) = shelf.list(options.prefix.as_deref()).await?;
    let mut out = io::stdout().lock();
    if found.is_empty() {
        writeln!(out, "No backups are under s3://{}/{}", options.bucket, below(options.prefix.as_deref()))?;
        return Ok(());
    }
    writeln!(out, "{:<16} {:<30} {:>12} {:<20} {:<9} PREFIX", "ID", "DATABASE", "BYTES", "WRITTEN", "STATE")?;
    for it in &found {
        let state = state(&shelf, it).await?;
        let (id, written) = (id_of(it.due), it.stored.modified);
        let text = format!("{id} {:<30} {:>12} {written:<20} {state:<9} {}", it.folder, it.stored.size, it.base);
        line(&mut out, &text)?;
    }
    if cut {
        writeln!(out, "There is more than is read: give a longer --prefix.")?;
    }
    Ok(())
}

/// By object and database, the newest first.
fn sorted(catalogs: std::collections::BTreeMap<String, Catalog>) -> Vec<Found> {
    let folders = catalogs.into_iter().flat_map(|(base, catalog)| {
        let folders = catalog.folders.into_iter();
        folders.map(move |(folder, backups)| (base.clone(), folder, backups))
    });
    let found = folders.flat_map(|(base, folder, backups)| {
        let all = backups.into_iter().rev();
        all.map(move |(due, stored)| Found { base: base.clone(), folder: folder.clone(), due, stored })
    });
    found.collect()
}

/// Reports whether the backup is complete, and whether it is signed: by a trusted key, if one was given.
async fn state(shelf: &Shelf, it: &Found) -> Result<&'static str, Error> {
    if !it.stored.is_complete() {
        return Ok("partial");
    }
    if shelf.keys.is_empty() {
        return Ok(if it.stored.signed { "signed" } else { "unsigned" });
    }
    Ok(match shelf.read(it).await? {
        (Some(_), Ok(())) => "trusted",
        (_, Err(Distrust::Missing)) => "unsigned",
        (_, Err(Distrust::Stranger(_))) => "other key",
        _ => "INVALID",
    })
}
