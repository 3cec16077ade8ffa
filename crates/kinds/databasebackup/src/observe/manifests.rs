//! Reads the manifests of the newest backups, which the status lists.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::Catalog;
use causeway_backup::manifest::{Document, id_of};
use causeway_backup::record::{Evidence, Record};
use causeway_backup::transfer::{self, Disbelief, key_of};

use super::super::error::Error;
use super::super::facts::{Bucket, newest};
use super::super::names::prefix;
use super::Observer;

/// Manifests by folder and instant, each with the evidence for it.
pub type Documents = BTreeMap<(String, Timestamp), (Option<Evidence>, Document)>;

impl Observer {
    /// Manifests of those of the newest backups that the status does not list yet.
    pub(super) async fn manifests(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        record: &Record,
        catalog: &Catalog,
    ) -> Result<BTreeMap<(String, Timestamp), Document>, Error> {
        let text = object.status.as_ref().map(|status| status.recent.as_slice()).unwrap_or_default();
        let mut manifests = BTreeMap::new();
        let wanted: BTreeSet<(String, Timestamp)> =
            newest(catalog).into_iter().map(|(due, folder)| (folder.clone(), due)).collect();
        self.documents.with(&object.uid().unwrap_or_default(), |all| all.retain(|key, _| wanted.contains(key)));
        for (due, folder) in newest(catalog) {
            let id = id_of(due);
            if text.iter().any(|run| run.id == id && run.folder == *folder) {
                continue;
            }
            let (uid, key) = (object.uid().unwrap_or_default(), (folder.clone(), due));
            // The manifests that were read stay, so that a call that fails leaves only the rest to the next look.
            let evidence = record.evidence(folder, due);
            let before = self.documents.with(&uid, |known| known.get(&key).cloned()).flatten();
            if let Some((_, document)) = before.filter(|(its, _)| its.as_ref() == evidence) {
                manifests.insert(key, document);
                continue;
            }
            match self.manifest(object, bucket, record, folder, due).await? {
                Some(Ok(document)) => {
                    let known = (evidence.cloned(), document.clone());
                    self.documents.change(&uid, Documents::new, |all| all.insert(key.clone(), known));
                    manifests.insert(key, document);
                }
                Some(Err(error)) => tracing::warn!(folder, id, error, "a manifest cannot be read"),
                None => {}
            }
        }
        Ok(manifests)
    }

    /// A manifest, or why it is not trusted; none where it does not exist any more.
    pub(super) async fn manifest(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        record: &Record,
        folder: &str,
        due: Timestamp,
    ) -> Result<Option<Result<Document, String>>, Error> {
        let (prefix, record) = (prefix(object), Some(record));
        let backup = (prefix.as_str(), folder, due);
        let found = transfer::document(&self.s3, (&bucket.place, &bucket.owner), backup, record).await?;
        Ok(found.map(|document| {
            document.map_err(|why| match why {
                Disbelief::Invalid(mistake) => mistake.to_string(),
                Disbelief::Changed => {
                    let key = key_of(&prefix, folder, due);
                    format!("{key} is not the one that its Job reported: another client wrote it again")
                }
            })
        }))
    }
}
