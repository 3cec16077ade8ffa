//! `causeway backups ls`: what is in a bucket, for people. It needs no cluster.

use std::io::{self, Write};

use jiff::Timestamp;

use super::jobs::{Catalog, Stored};
use super::manifest::{LIMIT, NAME, due_of, id_of, parse};
use super::signature::{Distrust, KeyError, LARGEST_SIGNATURE, PublicKey, SIGNATURE, verify};
use crate::clients;
use crate::config::BackupsOptions;
use crate::external::aws::AwsError;
use crate::external::s3::{Place, S3};
use crate::leader::Fence;
use crate::metrics::Metrics;

/// Why nothing could be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody says where.
    #[error("no AWS region to work in: set AWS_REGION, for example to us-east-1, or give --region")]
    Region,
    /// A key is none.
    #[error("--trusted-key {0:?}: {1}")]
    Key(String, #[source] KeyError),
    /// S3 could not be asked.
    #[error("bucket {bucket}: {why}")]
    Aws {
        /// Its name.
        bucket: String,
        /// What S3 said.
        why: AwsError,
    },
    /// Nothing could be printed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

/// A backup that was found.
struct Found {
    base: String,
    folder: String,
    due: Timestamp,
    stored: Stored,
}

impl Found {
    fn place(&self) -> String {
        format!("{}/{}/{}", self.base, self.folder, id_of(self.due))
    }
}

/// Lists backups.
pub async fn run(options: BackupsOptions) -> Result<(), Error> {
    let keys = options.trusted_keys.iter().map(|key| key.parse().map_err(|why| Error::Key(key.clone(), why)));
    let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>()?;
    let aws = clients::aws().load().await;
    let region = options.region.clone().or_else(|| aws.region().map(ToString::to_string)).ok_or(Error::Region)?;
    let s3 = S3::new(&aws, Metrics::new(), Fence::closed());
    let failed = |why| Error::Aws { bucket: options.bucket.clone(), why };
    let owner = match &options.owner {
        Some(owner) => owner.clone(),
        None => s3.account().await.map_err(failed)?,
    };
    let place = Place { bucket: options.bucket.clone(), region, endpoint: options.endpoint.clone() };
    let prefix = options.prefix.as_deref().map(|it| format!("{}/", it.trim_end_matches('/'))).unwrap_or_default();
    let listing = s3.list(&place, &owner, &prefix).await.map_err(failed)?;
    let cut = listing.cut;
    let mut out = io::stdout().lock();
    let found = sorted(Catalog::of_all(listing));
    if found.is_empty() {
        writeln!(out, "No backups are under s3://{}/{prefix}", options.bucket)?;
        return Ok(());
    }
    writeln!(out, "{:<16} {:<30} {:>12} {:<20} {:<9} PREFIX", "ID", "DATABASE", "BYTES", "WRITTEN", "STATE")?;
    for it in &found {
        let state = state(&s3, (&place, &owner), it, &keys).await.map_err(failed)?;
        let (id, written) = (id_of(it.due), it.stored.modified);
        writeln!(out, "{id} {:<30} {:>12} {written:<20} {state:<9} {}", it.folder, it.stored.size, it.base)?;
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

/// Whether it is whole, and signed; by a trusted key, where one was given.
async fn state(
    s3: &S3,
    (place, owner): (&Place, &str),
    it: &Found,
    keys: &[PublicKey],
) -> Result<&'static str, AwsError> {
    if !it.stored.is_complete() {
        return Ok("partial");
    }
    if keys.is_empty() {
        return Ok(if it.stored.signed { "signed" } else { "unsigned" });
    }
    let at = it.place();
    let manifest = s3.read(place, owner, &format!("{at}/{NAME}"), LIMIT).await?.unwrap_or_default();
    let signature = s3.read(place, owner, &format!("{at}/{SIGNATURE}"), LARGEST_SIGNATURE).await?;
    let checked = signature.ok_or(Distrust::Missing).and_then(|it| verify(keys, &at, &manifest, &it));
    let is_valid =
        at.rsplit('/').next().filter(|id| due_of(id).is_some()).is_some_and(|id| parse(&manifest, id).is_ok());
    Ok(match checked {
        Ok(_) if is_valid => "trusted",
        Err(Distrust::Missing) => "unsigned",
        Err(Distrust::Stranger(_)) => "other key",
        Ok(_) | Err(_) => "INVALID",
    })
}
