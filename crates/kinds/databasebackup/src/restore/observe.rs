//! Reads the cluster: the Job, and before there is one, which backup goes where.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job as KubernetesJob;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_aws::aws::AwsError;
use causeway_aws::s3::{Place, S3};
use causeway_backup::jobs::{RECOVER, SERVICE_ACCOUNT, Settings, end_of, prefix_of};
use causeway_backup::manifest::{Document, id_of};
use causeway_backup::plan::Destination;
use causeway_backup::record::Record;
use causeway_backup::report::Outcome;
use causeway_backup::transfer::{self, Disbelief, Error, Records, Signing, key_of};
use causeway_runtime::Class;
use causeway_runtime::consent::{self, Consent, DATABASERESTORE, Refusal};
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::manifest::{is_controlled_by, is_left_over};

use super::choice::{self, pick, unencrypted, unfit, unrecorded};
use super::facts::{Choice, Chosen, Job, Note, Observed, Offer, OfferedLog, Target};
use super::resources;

/// Reads for all objects.
pub struct Observer {
    pub(super) client: Client,
    pub(super) s3: S3,
    pub(super) settings: Settings,
    pub(super) guardrails: Guardrails,
    records: Records,
    pub(super) signing: Signing,
}

/// The reason why nothing can be chosen, or not yet.
type No = Choice;

impl Observer {
    /// Reads with these clients and settings.
    pub fn new(client: Client, s3: S3, settings: Settings, guardrails: Guardrails) -> Self {
        let records = Records::new(client.clone(), settings.namespace.clone());
        let signing = Signing::new(client.clone(), settings.namespace.clone());
        Self { client, s3, settings, guardrails, records, signing }
    }

    /// Reads all that matters to one object. One that has ended is not looked at any more.
    pub async fn observe(&self, object: &DatabaseRestore) -> Result<Observed, Error> {
        let mut observed = Observed { settings: self.settings.clone(), ..Observed::default() };
        let status = object.status.clone().unwrap_or_default();
        if status.phase.is_final() {
            return Ok(observed);
        }
        let job = self.get::<KubernetesJob>(object, &resources::name(object), "Job").await?;
        observed.job = match job {
            Some(job) => Some(self.job(object, &job).await?),
            None => None,
        };
        if observed.job.is_none() && status.job.is_none() {
            let account = self.get::<ServiceAccount>(object, SERVICE_ACCOUNT, "service account").await?;
            observed.account = account.map(|account| serde_json::to_value(account).unwrap_or_default());
            self.guardrails.ready().await;
            observed.choice = match self.guardrails.denial(object, || crate::asks::of_restore(&object.spec)) {
                Some((reason, message)) => Choice::Refused(reason, message),
                None => self.choose(object).await?,
            };
        }
        Ok(observed)
    }

    pub(super) async fn get<K>(
        &self,
        object: &DatabaseRestore,
        name: &str,
        what: &'static str,
    ) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        transfer::get(&self.client, object, name, what).await
    }

    async fn job(&self, object: &DatabaseRestore, job: &KubernetesJob) -> Result<Job, Error> {
        let uid = job.uid().unwrap_or_default();
        let pods = transfer::pods(&self.client, object, &job.name_any(), &uid).await?;
        let mut end = end_of(job);
        transfer::explain(end.as_mut(), &pods);
        let Outcome { keys, note, outlook, reached, .. } = transfer::outcome(&pods).unwrap_or_default();
        let stuck = match end {
            None => transfer::stuck(&self.client, job, &pods, Timestamp::now()).await,
            Some(_) => None,
        };
        let annotation = |key| job.annotations().get(key).cloned();
        let until = annotation(resources::UNTIL).and_then(|it| it.parse().ok());
        let log = annotation(resources::LOG).and_then(|it| it.parse().ok());
        let owners = job.owner_references();
        let has_controller = owners.iter().any(|owner| owner.controller == Some(true));
        let is_labelled = job.labels().get(resources::LABEL) == Some(&object.name_any());
        Ok(Job {
            ours: is_controlled_by(job, object),
            lost: is_labelled && !has_controller,
            left_over: is_left_over(owners, object),
            chosen: annotation(resources::ID).zip(annotation(resources::SOURCE)),
            passed_over: annotation(resources::PASSED_OVER),
            made: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            writing: pods.iter().any(has_begun),
            recovering: pods.iter().any(recovers),
            keys,
            note,
            recovery: log.map(|log| (log, until)),
            reached,
            outlook,
            failed_try: transfer::last_try(&pods).filter(|_| end.is_none()),
            stuck,
            end,
        })
    }

    /// Which backup goes where.
    async fn choose(&self, object: &DatabaseRestore) -> Result<Choice, Error> {
        if self.settings.identity.is_none() {
            let message = "no IAM role for the Job: set the operator's option BACKUP_ROLE_ARN or BACKUP_POD_IDENTITY (see \
                           docs/databasebackup.md)";
            return Ok(Choice::Held("RoleMissing", message.into()));
        }
        if self.settings.image.is_none() {
            let message = "no image for the Job: set the operator's option JOB_IMAGE to the operator's own image";
            return Ok(Choice::Held("ImageMissing", message.into()));
        }
        let target = match self.target(object).await? {
            Ok(target) => target,
            Err(no) => return Ok(no),
        };
        for mount in &target.access.mounts {
            let field = mount.field.as_ref().map_or_else(|| "spec.target".to_owned(), |it| format!("spec.target.{it}"));
            if let Some(no) = self.unshared(object, &field, &mount.secret, &mount.consent).await? {
                return Ok(no);
            }
        }
        let (from, backup) = (&object.spec.from, object.spec.from.backup.as_deref().unwrap_or_default());
        let offer = match (&object.spec.point_in_time, &from.s3) {
            (None, Some(s3)) => self.of_bucket(object, s3, &target).await?,
            (None, None) => self.of_object(object, backup, &target).await?,
            (Some(instant), Some(s3)) => self.instant_of_bucket(object, instant, s3).await?,
            (Some(instant), None) => self.instant_of_object(object, instant, backup).await?,
        };
        let Offer { document: Document { manifest, sha256 }, folder, origin, encrypts, identity, note, log } =
            match offer {
                Ok(offer) => offer,
                Err(no) => return Ok(no),
            };
        let alone = log.is_none().then(|| unfit(&manifest, &target)).flatten();
        if let Some((reason, message)) = alone {
            return Ok(Choice::Refused(reason, message));
        }
        let behind =
            log.iter().flat_map(|log| log.documents.iter().map(|it| (&it.manifest, log.encrypts, &log.identity)));
        let mut opens = Vec::new();
        for (manifest, encrypts, identity) in [(&manifest, encrypts, &identity)].into_iter().chain(behind) {
            if let Some((reason, message)) = unencrypted(object, encrypts, manifest) {
                return Ok(Choice::Refused(reason, message));
            }
            if manifest.encryption.is_some() && !opens.contains(identity) {
                opens.push(identity.clone());
            }
        }
        let identity = match choice::identity(from, &manifest.id, &opens) {
            Ok(identity) => identity,
            Err(no) => return Ok(no),
        };
        if let Some(secret) = &identity
            && let Some(no) = self.unshared(object, "identitySecretName", secret, &Consent::Named).await?
        {
            return Ok(no);
        }
        let recovery = log.map(OfferedLog::recovery);
        let chosen = Chosen { manifest, sha256, folder, origin, target, identity, note, recovery };
        let scratch = resources::scratch(&chosen);
        Ok(match self.guardrails.denial(object, || crate::asks::of_scratch(scratch.images())) {
            Some((reason, message)) => Choice::Refused(reason, message),
            None => Choice::Made(Box::new(chosen)),
        })
    }

    /// The backup that is asked for of a DatabaseBackup of the namespace, or of the earlier one in its `spec.adoptFrom`.
    async fn of_object(
        &self,
        object: &DatabaseRestore,
        name: &str,
        target: &Target,
    ) -> Result<Result<Offer, No>, Error> {
        let Some(backup) = self.get::<DatabaseBackup>(object, name, "DatabaseBackup").await? else {
            let message = format!("spec.from.backup: there is no DatabaseBackup {name} in this namespace");
            return Ok(Err(Choice::Waiting("BackupMissing", message)));
        };
        let named = object.spec.from.uid.as_deref();
        let own = self.of_uid(object, &backup, named, target).await?;
        let before = backup.spec.adopt_from.as_ref().filter(|_| named.is_none()).map(|it| it.uid.as_str());
        match (&own, before) {
            (Err(Choice::Waiting(..) | Choice::Refused("BackupMissing", _)), Some(uid)) => {
                self.of_uid(object, &backup, Some(uid), target).await
            }
            _ => Ok(own),
        }
    }

    /// The same from its own backups, or from those of the earlier object with that UID.
    async fn of_uid(
        &self,
        object: &DatabaseRestore,
        backup: &DatabaseBackup,
        uid: Option<&str>,
        target: &Target,
    ) -> Result<Result<Offer, No>, Error> {
        let (origin, record) = match self.origin_and_record(object, backup, uid).await? {
            Ok(kept) => kept,
            Err(no) => return Ok(Err(no)),
        };
        let found = self.find(object, &origin, target, record.as_ref()).await?;
        let encryption = backup.spec.encryption.as_ref();
        Ok(found.map(|(folder, document, note)| Offer {
            document,
            folder,
            origin,
            encrypts: encryption.is_some(),
            identity: encryption.and_then(|it| it.identity_secret_name.clone()),
            note,
            log: None,
        }))
    }

    /// Where the backups of an object are, or of the earlier one with that UID, and their record. There is no record
    /// where the restore accepts unrecorded backups.
    pub(super) async fn origin_and_record(
        &self,
        object: &DatabaseRestore,
        backup: &DatabaseBackup,
        uid: Option<&str>,
    ) -> Result<Result<(Destination, Option<Record>), No>, Error> {
        let destination = &backup.spec.destination;
        if let Some(no) = self.not_allowed(destination.endpoint.as_ref()) {
            return Ok(Err(no));
        }
        let owner = self.s3.account().await.map_err(lasting)?;
        // The place follows from the spec, the UID and the operator's own record. Users who may write a status could
        // otherwise lead the restore to any other place.
        let namespace = object.namespace().unwrap_or_default();
        let own = backup.uid().unwrap_or_default();
        let of = uid.unwrap_or(&own);
        let record = self.records.read(of).await;
        let record = record.map_err(|source| Error::Read { what: "record of backups", source })?;
        let record = record.filter(|record| record.namespace == namespace && record.name == backup.name_any());
        if let Some(no) = unrecorded(object, backup, uid, record.as_ref()) {
            return Ok(Err(no));
        }
        let bucket = record.as_ref().map(|record| record.bucket.clone());
        let bucket = bucket.unwrap_or_else(|| self.settings.bucket_of(destination, &owner));
        let prefix = prefix_of(destination, &namespace, &backup.name_any(), of);
        let origin = self.settings.place(destination, &bucket, &owner, &prefix);
        Ok(Ok((origin, record.filter(|_| !object.spec.from.accept_unrecorded))))
    }

    /// Explains why the S3 endpoint may not be used.
    pub(super) fn not_allowed(&self, endpoint: Option<&String>) -> Option<No> {
        let endpoint = endpoint.filter(|it| !self.settings.endpoints.contains(it))?;
        let message = format!("the backup is at {endpoint}: add that to the operator's option BACKUP_ENDPOINTS");
        Some(Choice::Held("EndpointNotAllowed", message))
    }

    /// Explains why a Secret may not be used.
    async fn unshared(
        &self,
        object: &DatabaseRestore,
        field: &str,
        secret: &str,
        consent: &Consent,
    ) -> Result<Option<No>, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let answers = consent::refusals(&self.client, &namespace, DATABASERESTORE, [(secret, consent)]).await;
        let answers = answers.map_err(|source| Error::Read { what: "Secrets", source })?;
        let refusal = answers.into_iter().flatten().next();
        Ok(refusal.map(|Refusal { reason, message }| Choice::Held(reason, format!("{field}: {message}"))))
    }

    /// The backup that is asked for.
    async fn find(
        &self,
        object: &DatabaseRestore,
        origin: &Destination,
        target: &Target,
        record: Option<&Record>,
    ) -> Result<Result<(String, Document, Note), No>, Error> {
        let catalog = match self.catalog(object, origin, target, record).await? {
            Ok(catalog) => catalog,
            Err(no) => return Ok(Err(no)),
        };
        let (folder, due) = match pick(object, &catalog, target) {
            Ok(picked) => picked,
            Err(no) => return Ok(Err(no)),
        };
        let (place, backup) = (place_of(origin), (origin.prefix.as_str(), folder.as_str(), due));
        let found = transfer::document(&self.s3, (&place, &origin.owner), backup, record);
        let key = key_of(&origin.prefix, &folder, due);
        Ok(match found.await.map_err(lasting)? {
            Some(Ok(document)) => {
                let lost = record.and_then(|record| choice::lost(object, &catalog, record, (&folder, due)));
                Ok((folder, document, lost.map_or(Note::None, Note::Lost)))
            }
            Some(Err(Disbelief::Invalid(mistake))) => {
                Err(Choice::Refused("ManifestInvalid", format!("{key} is invalid: {mistake}")))
            }
            Some(Err(Disbelief::Changed)) => {
                let message = format!(
                    "{key} is not the one that its Job reported: another client wrote it again; look who may write there, and \
                     choose another backup by spec.from.id"
                );
                Err(Choice::Refused("ManifestChanged", message))
            }
            None => Err(Choice::Waiting("BackupMissing", format!("backup {} was deleted just now", id_of(due)))),
        })
    }
}

/// The bucket of a place.
pub fn place_of(origin: &Destination) -> Place {
    Place { bucket: origin.bucket.clone(), region: origin.region.clone(), endpoint: origin.endpoint.clone() }
}

/// Makes `NotFound` a transient error: the runtime retries `NotFound` at once, but a bucket that is gone does not come
/// back so soon.
pub(super) fn lasting(error: AwsError) -> AwsError {
    let class = if error.class == Class::NotFound { Class::Transient } else { error.class };
    AwsError { class, ..error }
}

/// Reports whether the pod has begun to write into the target.
fn has_begun(pod: &Pod) -> bool {
    let containers = pod.status.iter().flat_map(|status| &status.container_statuses).flatten();
    let states = containers.filter_map(|it| it.state.as_ref());
    states.into_iter().any(|state| state.running.is_some() || state.terminated.is_some())
}

/// Reports whether the pod recovers a server.
fn recovers(pod: &Pod) -> bool {
    let containers = pod.status.iter().flat_map(|status| &status.init_container_statuses).flatten();
    containers.filter(|it| it.name == RECOVER).any(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()))
}
