//! Looks at the restores of the namespace before retention deletes a backup.

use jiff::Timestamp;

use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_backup::transfer;
use causeway_runtime::{Class, Failure};

use super::super::accepted::Accepted;
use super::super::facts::Observed;
use super::super::restoring::in_use;
use super::super::unkept::prunes;
use super::Observer;

impl Observer {
    /// Which backups restores read. The API server is asked, because a watch lags behind, and only where a backup is
    /// about to be deleted. Where it does not answer, no backup is deleted.
    pub(super) async fn look_at_restores(&self, object: &DatabaseBackup, accepted: &Accepted, observed: &mut Observed) {
        let Some(bucket) = observed.bucket.as_ref().map(|bucket| bucket.place.bucket.clone()) else { return };
        if !prunes(object, observed, &accepted.schedule, Timestamp::now()) {
            return;
        }
        let listed = transfer::list::<DatabaseRestore>(&self.client, object, "", "DatabaseRestores").await;
        let restores = match listed {
            Ok(all) => all,
            Err(error) => match error.class() {
                // The kind is not installed.
                Class::NotFound => Vec::new(),
                // An operator that does not serve the kind needs no rights on it.
                Class::Denied if !self.serves_restores => Vec::new(),
                _ => {
                    tracing::warn!(%error, "no backup is deleted: it is not known which of them restores read");
                    return;
                }
            },
        };
        // After the answer, which may have taken a while.
        observed.in_use = Some(in_use(object, &bucket, &restores, Timestamp::now()));
    }
}
