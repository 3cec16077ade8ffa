//! Looks at verifications, and at the backup that is to be proven next.

use jiff::Timestamp;

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::Scratch;
use causeway_backup::manifest::Document;
use causeway_runtime::guardrails::Denial;

use super::super::accepted::When;
use super::super::error::Error;
use super::super::facts::{Bucket, Observed};
use super::super::outcomes;
use super::super::verification::{candidate, unreported};
use super::Observer;

impl Observer {
    /// Observes what verifications found that is not reported yet.
    pub(super) async fn look_at_verifications(
        &self,
        object: &DatabaseBackup,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let names = unreported(object, observed, Timestamp::now());
        for it in observed.verifications.iter_mut().filter(|it| names.contains(&it.job.name)) {
            outcomes::explain_verification(&self.client, object, it).await?;
        }
        Ok(())
    }

    /// The manifest of the backup that is to be proven next: it says which server can load it. Databases of which policies
    /// deny that server lose their turn.
    pub(super) async fn look_at_candidate(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        when: &When,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let record = observed.recording.as_ref().map(|recording| recording.record.clone()).unwrap_or_default();
        while let Some((folder, due)) = candidate(object, observed, when, Timestamp::now()) {
            let document = match self.manifest(object, bucket, &record, &folder, due).await? {
                Some(Ok(document)) => document,
                Some(Err(why)) => {
                    observed.unreadable = Some(((folder, due), why));
                    break;
                }
                // A user deleted it, so the cached catalog is out of date.
                None => {
                    self.forget_catalog(object);
                    break;
                }
            };
            let denied = self.denied_scratch(object, observed, &folder, &document);
            observed.manifests.insert((folder.clone(), due), document);
            let Some(denied) = denied else { break };
            observed.unprovable.insert(folder, denied);
        }
        Ok(())
    }

    /// Explains why policies deny the server that a backup of a database is loaded into.
    fn denied_scratch(
        &self,
        object: &DatabaseBackup,
        observed: &Observed,
        folder: &str,
        document: &Document,
    ) -> Option<Denial> {
        let database = observed.sources.iter().find(|it| it.access.source.folder == folder)?;
        let scratch = Scratch::for_backup(&document.manifest, &database.served);
        self.guardrails.denial(object, || crate::asks::of_scratch(scratch.images()))
    }
}
