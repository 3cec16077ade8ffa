//! Reads the world: children and databases from watches, or from the apiserver after something was changed; the bucket and
//! what is in it from S3, as seldom as possible.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job as KubernetesJob};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::buckets::Buckets;
use super::children::observed;
use super::databases::databases;
use super::decide::{When, accepted, are_overdue, candidate, newest, prefix, untold, written_under};
use super::error::Error;
use super::facts::{Bucket, Job, Observed, Remains};
use super::names::{self, LABEL, NOW};
use super::outcomes;
use super::watches::Watches;
use crate::api::{DatabaseBackup, DeletionPolicy};
use crate::backup::jobs::{Catalog, SERVICE_ACCOUNT, Settings};
use crate::backup::manifest::{Manifest, NAME, id_of};
use crate::external::aws::AwsError;
use crate::external::s3::{Found, Place, S3};
use crate::metrics::Metrics;
use crate::runtime::Class;

/// What is in S3 is looked at at least so often: others may delete something.
const STALE: Duration = Duration::from_hours(1);
/// A cleanup that fails for so long is given up: the namespace may be waiting for it. The time begins with the first
/// failure that this process saw, so that one after a time without an operator ends nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ended Jobs are asked for their reasons, a few at a time.
const ASKED: usize = 4;

/// Reads for all objects.
pub struct Observer {
    client: Client,
    s3: S3,
    settings: Settings,
    metrics: Metrics,
    pub buckets: Buckets,
    pub watches: Watches,
    /// Objects about which something was changed: the watches may not show it yet.
    changed: Mutex<HashSet<String>>,
    /// What there was in S3, by object.
    catalogs: Mutex<HashMap<String, Seen>>,
    /// Objects that could not be cleaned up: since when, and why.
    failing: Mutex<HashMap<String, (Instant, String)>>,
}

/// What there was in S3.
#[derive(Clone)]
struct Seen {
    catalog: Arc<Catalog>,
    at: Instant,
    /// Ended Jobs at that moment.
    ended: Vec<String>,
}

impl Observer {
    /// Reads through these.
    pub fn new(client: Client, s3: S3, settings: Settings, metrics: Metrics, sweep: Duration) -> Self {
        let buckets = Buckets::new(s3.clone(), settings.cluster.clone(), sweep);
        Self {
            client,
            s3,
            settings,
            metrics,
            buckets,
            watches: Watches::new(),
            changed: Mutex::default(),
            catalogs: Mutex::default(),
            failing: Mutex::default(),
        }
    }

    /// Something is about to be changed: the next look goes to the apiserver.
    pub fn expect_change(&self, object: &DatabaseBackup) {
        let uid = object.uid().unwrap_or_default();
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
    }

    /// Something was deleted from S3: the next look goes there.
    pub fn forget_catalog(&self, object: &DatabaseBackup) {
        let uid = object.uid().unwrap_or_default();
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
    }

    /// What is in S3 of a deleted object could not be deleted.
    pub fn cleanup_failed(&self, object: &DatabaseBackup, error: &AwsError) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, why) = failing.entry(object.uid().unwrap_or_default()).or_insert((Instant::now(), String::new()));
        *why = error.to_string();
    }

    /// Reads all that matters to one object.
    pub async fn observe(&self, object: &DatabaseBackup) -> Result<Observed, Error> {
        self.watches.ready().await;
        self.count_overdue();
        let uid = object.uid().unwrap_or_default();
        let fresh = self.changed.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        let mut observed = if fresh { self.read(object).await? } else { self.watched(object) };
        observed.settings = self.settings.clone();
        if object.meta().deletion_timestamp.is_some() {
            self.look_at_remains(object, &mut observed).await?;
            return Ok(observed);
        }
        // The schedule has to stand still, whether or not AWS answers; nothing else is done.
        if object.spec.suspend {
            return Ok(observed);
        }
        observed.sources = databases(&self.watches, object);
        observed.asked = self.asked(object);
        let Ok(accepted) = accepted(object, &self.settings) else { return Ok(observed) };
        let news: Vec<&mut Job> = observed.jobs.iter_mut().filter(|job| is_news(object, job)).take(ASKED).collect();
        outcomes::explain(&self.client, object, news).await?;
        let owner = self.s3.account().await?;
        let destination = &object.spec.destination;
        let place = Place {
            bucket: self.settings.bucket_of(destination, &owner),
            region: self.settings.region_of(destination).to_owned(),
            endpoint: destination.endpoint.clone(),
        };
        let found = Some(self.buckets.look(&place, &owner).await?);
        let usual = destination.bucket.is_none();
        let bucket = Bucket { place, owner, usual, found };
        if matches!(bucket.found, Some(Found::There(_))) {
            let catalog = self.catalog(object, &bucket, &observed).await?;
            observed.manifests = self.manifests(object, &bucket, &catalog).await?;
            observed.catalog = Some(catalog.as_ref().clone());
            self.look_at_verifications(object, &mut observed).await?;
            if let Some(when) = &accepted.verify {
                self.look_at_candidate(object, &bucket, when, &mut observed).await?;
            }
        }
        observed.bucket = Some(bucket);
        Ok(observed)
    }

    /// What verifications found of which nobody was told.
    async fn look_at_verifications(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<(), Error> {
        let names = untold(object, observed, Timestamp::now());
        for it in observed.verifications.iter_mut().filter(|it| names.contains(&it.job.name)) {
            outcomes::explain_verification(&self.client, object, it).await?;
        }
        Ok(())
    }

    /// The manifest of the backup that is to be proven next: it says what its server must be like.
    async fn look_at_candidate(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        when: &When,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let Some((folder, due)) = candidate(object, observed, when, Timestamp::now()) else { return Ok(()) };
        match self.manifest(object, bucket, &folder, due).await? {
            Some(Ok(manifest)) => drop(observed.manifests.insert((folder, due), manifest)),
            Some(Err(why)) => observed.unreadable = Some(((folder, due), why)),
            // Somebody deleted it: the next look does not go by what was there.
            None => self.forget_catalog(object),
        }
        Ok(())
    }

    /// Tells how many objects lack a backup, as their conditions say.
    fn count_overdue(&self) {
        let is_overdue = |object: &Arc<DatabaseBackup>| {
            let conditions = object.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|condition| condition.type_ == "BackupOverdue" && condition.status == "True")
        };
        self.metrics.set_backups_overdue(self.watches.objects.all().iter().filter(|it| is_overdue(it)).count());
    }

    /// Forgets objects that are gone.
    fn forget_gone(&self) {
        let alive: HashSet<String> = self.watches.objects.all().iter().filter_map(|object| object.uid()).collect();
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| alive.contains(uid));
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| alive.contains(uid));
    }

    fn watched(&self, object: &DatabaseBackup) -> Observed {
        let watches = &self.watches;
        let jobs = watches.jobs.of(object);
        let account = watches.accounts.get(&object.namespace().unwrap_or_default(), SERVICE_ACCOUNT);
        let plan = watches.config_maps.named(object, &names::plan(object));
        observed(
            object,
            watches.cron_jobs.get(object).as_deref(),
            plan.as_deref(),
            account.as_deref(),
            jobs.iter().map(Arc::as_ref),
        )
    }

    async fn read(&self, object: &DatabaseBackup) -> Result<Observed, Error> {
        let (name, plan) = (object.name_any(), names::plan(object));
        let selector = ListParams::default().labels(&format!("{LABEL}={name}"));
        let jobs = async {
            let api: Api<KubernetesJob> = self.api(object);
            api.list(&selector).await.map_err(|source| Error::Read { what: "Jobs", source })
        };
        let (schedule, plan, account, jobs) = tokio::try_join!(
            self.get::<CronJob>(object, &name, "CronJob"),
            self.get::<ConfigMap>(object, &plan, "ConfigMap"),
            self.get::<ServiceAccount>(object, SERVICE_ACCOUNT, "service account"),
            jobs,
        )?;
        Ok(observed(object, schedule.as_ref(), plan.as_ref(), account.as_ref(), jobs.items.iter()))
    }

    fn api<K>(&self, object: &DatabaseBackup) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }

    async fn get<K>(&self, object: &DatabaseBackup, name: &str, what: &'static str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.api::<K>(object).get_opt(name).await.map_err(|source| Error::Read { what, source })
    }

    /// The annotation, from the watch that woke us for it.
    fn asked(&self, object: &DatabaseBackup) -> Option<String> {
        let seen = self.watches.objects.get(&object.namespace().unwrap_or_default(), &object.name_any());
        let seen = seen.filter(|seen| seen.uid() == object.uid());
        let annotations = seen.as_ref().map_or_else(|| object.annotations(), |seen| seen.annotations());
        annotations.get(NOW).filter(|token| !token.is_empty() && token.len() <= 256).cloned()
    }

    /// What is in S3: read when a Job ended, after we deleted something, and once in a while.
    async fn catalog(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        observed: &Observed,
    ) -> Result<Arc<Catalog>, Error> {
        let uid = object.uid().unwrap_or_default();
        let ended: Vec<String> =
            observed.jobs.iter().filter(|job| job.end.is_some()).map(|job| job.name.clone()).collect();
        let seen = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
        if let Some(seen) = seen.filter(|seen| seen.at.elapsed() < STALE && seen.ended == ended) {
            return Ok(seen.catalog);
        }
        self.forget_gone();
        let prefix = format!("{}/", prefix(object));
        let listing = self.s3.list(&bucket.place, &bucket.owner, &prefix).await?;
        let uploads = self.s3.uploads(&bucket.place, &bucket.owner, &prefix).await?;
        let catalog = Arc::new(Catalog::of(&prefix, &listing, uploads));
        let seen = Seen { catalog: catalog.clone(), at: Instant::now(), ended };
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, seen);
        Ok(catalog)
    }

    /// Manifests of the newest backups that the status does not tell of.
    async fn manifests(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        catalog: &Catalog,
    ) -> Result<BTreeMap<(String, Timestamp), Manifest>, Error> {
        let told = object.status.as_ref().map(|status| status.recent.as_slice()).unwrap_or_default();
        let mut manifests = BTreeMap::new();
        for (due, folder) in newest(catalog) {
            let id = id_of(due);
            if told.iter().any(|run| run.id == id && run.folder == *folder) {
                continue;
            }
            match self.manifest(object, bucket, folder, due).await? {
                Some(Ok(manifest)) => drop(manifests.insert((folder.clone(), due), manifest)),
                Some(Err(error)) => tracing::warn!(folder, id, error, "a manifest cannot be read"),
                None => {}
            }
        }
        Ok(manifests)
    }

    /// A manifest, or why it cannot be read; none where there is none any more.
    async fn manifest(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        folder: &str,
        due: Timestamp,
    ) -> Result<Option<Result<Manifest, String>>, Error> {
        let key = format!("{}/{folder}/{}/{NAME}", prefix(object), id_of(due));
        let bytes = self.s3.read(&bucket.place, &bucket.owner, &key).await?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())))
    }

    /// What a deleted object leaves behind.
    async fn look_at_remains(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<(), Error> {
        let status = object.status.as_ref();
        let Some(name) = status.and_then(|status| status.bucket.clone()) else { return Ok(()) };
        if object.spec.deletion_policy == DeletionPolicy::Retain {
            return Ok(());
        }
        let uid = object.uid().unwrap_or_default();
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
        if let Some((_, why)) = failing.filter(|(since, _)| since.elapsed() > PATIENCE) {
            observed.remains = Some(Remains { given_up: Some(why), ..Remains::default() });
            return Ok(());
        }
        let (bucket, mut remains) =
            self.remains(object, name).await.inspect_err(|error| self.cleanup_failed(object, error))?;
        remains.overdue = are_overdue(object, observed, Timestamp::now());
        (observed.bucket, observed.remains) = (Some(bucket), Some(remains));
        Ok(())
    }

    async fn remains(&self, object: &DatabaseBackup, name: String) -> Result<(Bucket, Remains), AwsError> {
        let destination = &object.spec.destination;
        let region = self.settings.region_of(destination).to_owned();
        let endpoint = destination.endpoint.clone().filter(|it| self.settings.endpoints.contains(it));
        let place = Place { bucket: name, region, endpoint };
        let owner = self.s3.account().await?;
        let found = self.buckets.look(&place, &owner).await?;
        if let Found::Forbidden(said) | Found::Invalid(said) = &found {
            // What cannot be looked at may hold anything: that is no success.
            return Err(AwsError {
                operation: "GetBucketTagging",
                service: "s3",
                code: Some("AccessDenied".into()),
                message: said.clone(),
                class: Class::Denied,
                ambiguous: false,
            });
        }
        let uid = object.uid();
        let mut remains = Remains::default();
        if let Found::There(facts) = &found {
            let ours = super::decide::is_ours(&facts.tags, &self.settings.cluster);
            let is_user = |other: &Arc<DatabaseBackup>| {
                let bucket = other.status.as_ref().and_then(|status| status.bucket.as_ref());
                other.uid() != uid && bucket == Some(&place.bucket)
            };
            let prefix = format!("{}/", written_under(object));
            remains.objects = self.s3.list(&place, &owner, &prefix).await?.objects;
            remains.uploads = self.s3.uploads(&place, &owner, &prefix).await?;
            let last = ours && !self.watches.objects.all().iter().any(is_user);
            let empty = remains.objects.is_empty() && remains.uploads.is_empty();
            remains.bucket_may_go = last && empty && self.s3.is_empty(&place, &owner).await?;
        }
        let bucket = Bucket { place, owner, usual: destination.bucket.is_none(), found: Some(found) };
        Ok((bucket, remains))
    }
}

/// Whether a Job failed and nobody was told why.
fn is_news(object: &DatabaseBackup, job: &Job) -> bool {
    let told = object.status.as_ref().map(|status| status.ended.as_slice()).unwrap_or_default();
    let failed = job.end.as_ref().is_some_and(|end| end.failure.is_some());
    failed && !told.contains(&job.name)
}
