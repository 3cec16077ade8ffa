//! Reads children from the watches, or from the apiserver after something was changed, and members from etcd.

use jiff::Timestamp;
use kube::Client;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::Etcd;
use causeway_databases::refusals::Refusals;
use causeway_databases::{Rules, Sets};
use causeway_runtime::guardrails::Guardrails;

use super::auth;
use super::backups::Backups;
use super::cache::Cache;
use super::database::{EtcdDatabase, MemberPod};
use super::error::Error;
use super::facts::{Observed, Pod};
use super::monitor::Monitor;
use super::tls::secrets::Secrets;

/// Reads for all clusters.
pub struct Observer {
    pub(super) etcd: Etcd,
    own_image: Option<String>,
    pub sets: Sets<EtcdDatabase>,
    pub backups: Backups,
    pub cache: Cache,
    pub refusals: Refusals,
    pub monitor: Monitor,
}

impl Observer {
    /// Creates an observer that reads through these clients.
    pub fn new(client: Client, etcd: Etcd, own_image: Option<String>, rules: Rules, guardrails: Guardrails) -> Self {
        Self {
            sets: Sets::new(client, rules, guardrails),
            monitor: Monitor::new(etcd.clone()),
            etcd,
            own_image,
            backups: Backups::default(),
            cache: Cache::default(),
            refusals: Refusals::default(),
        }
    }

    /// Reads all that matters to one object.
    pub async fn observe(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        let fresh = self.sets.take_change(object);
        let (set, backup) =
            tokio::try_join!(self.sets.look(object, fresh), self.backups.look(&self.sets.client, object, fresh))?;
        let mut observed = Observed { set, backup, ..Observed::default() };
        if object.spec.tls.is_some() || observed.set.pods.values().any(Pod::speaks_tls) {
            let secrets = Secrets::read(&self.sets.client, object).await?;
            observed.set.children.extend(secrets.children());
            observed.certificates = secrets.facts(object, Timestamp::now());
            observed.credentials = secrets.credentials(object);
        }
        if auth::concerns(object) {
            observed.auth = auth::secrets::read(&self.sets.client, object).await?;
        }
        self.ask_members(object, &mut observed).await;
        observed.unsure = self.is_unsure(object, &observed);
        if observed.quorum.as_ref().is_some_and(|quorum| quorum.alarms.is_empty()) {
            self.cache.forget_compaction(object);
        }
        observed.compacted = self.cache.compacted(object);
        observed.undefragmented = self.cache.undefragmented(object);
        observed.deferred = self.cache.deferred(object);
        observed.refused = self.refusals.current(object);
        observed.own_image.clone_from(&self.own_image);
        Ok(observed)
    }
}
