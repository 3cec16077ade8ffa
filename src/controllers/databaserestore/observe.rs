//! Reads the world: the Job, and before there is one, which backup goes where.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job as KubernetesJob;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::error::Error;
use super::facts::{Choice, Chosen, Job, Observed, Target};
use super::resources;
use crate::api::databaserestore::{RestoreOutcome, Restored};
use crate::api::{DatabaseBackup, DatabaseRestore, EtcdCluster, Redis};
use crate::backup::jobs::{
    Catalog, SERVICE_ACCOUNT, Served, Settings, end_of, image_of, in_words, last_words, of_etcd_cluster, of_redis,
    of_source, report_of,
};
use crate::backup::manifest::{Manifest, NAME, due_of, id_of};
use crate::backup::plan::Destination;
use crate::external::s3::{Place, S3};
use crate::runtime::manifest::is_controlled_by;

/// The database that it belongs to does not know of it.
pub const NOT_NOTED: &str = "NotNoted";

/// Reads for all objects.
pub struct Observer {
    client: Client,
    s3: S3,
    settings: Settings,
}

/// Why nothing can be chosen, or not yet.
type No = Choice;

impl Observer {
    /// Reads through these.
    pub fn new(client: Client, s3: S3, settings: Settings) -> Self {
        Self { client, s3, settings }
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
            observed.choice = self.choose(object).await?;
        }
        Ok(observed)
    }

    async fn get<K>(&self, object: &DatabaseRestore, name: &str, what: &'static str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        api.get_opt(name).await.map_err(|source| Error::Read { what, source })
    }

    async fn job(&self, object: &DatabaseRestore, job: &KubernetesJob) -> Result<Job, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let selector = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name_any()));
        let mut pods = api.list(&selector).await.map_err(|source| Error::Read { what: "pods", source })?.items;
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let mut end = end_of(job);
        let said = pods.iter().rev().find_map(last_words).and_then(|words| in_words(&words));
        if let (Some(said), Some(failure)) = (said, end.as_mut().and_then(|end| end.failure.as_mut())) {
            *failure = said;
        }
        let report = pods.iter().rev().find_map(report_of);
        let note = |key| job.annotations().get(key).cloned();
        Ok(Job {
            ours: is_controlled_by(job, object),
            chosen: note(resources::ID).zip(note(resources::SOURCE)),
            made: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            writing: pods.iter().any(has_begun),
            keys: report.and_then(|report| report.results.into_iter().find_map(|outcome| outcome.keys)),
            end,
        })
    }

    /// Which backup goes where.
    async fn choose(&self, object: &DatabaseRestore) -> Result<Choice, Error> {
        if self.settings.role.is_none() {
            let told =
                "no IAM role for the Job: set the operator's option BACKUP_ROLE_ARN (see docs/databasebackup.md)";
            return Ok(Choice::Refused("RoleMissing", told.into()));
        }
        if self.settings.image.is_none() {
            let told = "no image for the Job: set the operator's option JOB_IMAGE to the operator's own image";
            return Ok(Choice::Refused("ImageMissing", told.into()));
        }
        let target = match self.target(object).await? {
            Ok(target) => target,
            Err(no) => return Ok(no),
        };
        let backup = &object.spec.from.backup;
        let Some(backup) = self.get::<DatabaseBackup>(object, backup, "DatabaseBackup").await? else {
            let told = format!("spec.from.backup: there is no DatabaseBackup {backup} in this namespace");
            return Ok(Choice::Waiting("BackupMissing", told));
        };
        let status = backup.status.clone().unwrap_or_default();
        let (Some(bucket), Some(prefix)) = (status.bucket, status.prefix) else {
            let told = format!("DatabaseBackup {} has taken no backup yet", backup.name_any());
            return Ok(Choice::Waiting("NoBackup", told));
        };
        let destination = &backup.spec.destination;
        if let Some(endpoint) = destination.endpoint.as_ref().filter(|it| !self.settings.endpoints.contains(it)) {
            let told = format!("the backup is at {endpoint}: add that to the operator's option BACKUP_ENDPOINTS");
            return Ok(Choice::Refused("EndpointNotAllowed", told));
        }
        let owner = self.s3.account().await?;
        let origin = self.settings.place(destination, &bucket, &owner, &prefix);
        let (folder, manifest) = match self.find(object, &origin, &target).await? {
            Ok(found) => found,
            Err(no) => return Ok(no),
        };
        if let Some((reason, told)) = unfit(&manifest, &target) {
            return Ok(Choice::Refused(reason, told));
        }
        let usual = backup.spec.encryption.as_ref().and_then(|it| it.identity_secret_name.clone());
        let identity =
            object.spec.from.identity_secret_name.clone().or(usual).filter(|_| manifest.encryption.is_some());
        if manifest.encryption.is_some() && identity.is_none() {
            let told = format!(
                "backup {} is encrypted: name the Secret with the secret key in spec.encryption.identitySecretName of \
                 DatabaseBackup {}, or in identitySecretName beside the backup's name here",
                manifest.id,
                backup.name_any()
            );
            return Ok(Choice::Waiting("IdentityMissing", told));
        }
        Ok(Choice::Made(Box::new(Chosen { manifest, folder, origin, target, identity })))
    }

    /// The backup that is asked for.
    async fn find(
        &self,
        object: &DatabaseRestore,
        origin: &Destination,
        target: &Target,
    ) -> Result<Result<(String, Manifest), No>, Error> {
        let place =
            Place { bucket: origin.bucket.clone(), region: origin.region.clone(), endpoint: origin.endpoint.clone() };
        let prefix = format!("{}/", origin.prefix);
        let listing = self.s3.list(&place, &origin.owner, &prefix).await?;
        let catalog = Catalog::of(&prefix, &listing, Vec::new());
        let (folder, due) = match pick(object, &catalog, target) {
            Ok(picked) => picked,
            Err(no) => return Ok(Err(no)),
        };
        let key = format!("{prefix}{folder}/{}/{NAME}", id_of(due));
        let Some(bytes) = self.s3.read(&place, &origin.owner, &key).await? else {
            return Ok(Err(Choice::Waiting("BackupMissing", format!("backup {} was deleted just now", id_of(due)))));
        };
        Ok(match serde_json::from_slice(&bytes) {
            Ok(manifest) => Ok((folder, manifest)),
            Err(error) => Err(Choice::Refused("ManifestInvalid", format!("{key} cannot be read: {error}"))),
        })
    }

    async fn target(&self, object: &DatabaseRestore) -> Result<Result<Target, No>, Error> {
        let target = &object.spec.target;
        if let Some(access) = of_source(target) {
            let usual = if target.etcd.is_some() { "etcd" } else { "redis" };
            let kind = image_of(target).map_or(usual, |(kind, _)| kind);
            return Ok(Ok(Target { access, kind, served: Served::of_source(target), born: None }));
        }
        let missing = |field: &str, kind: &str, name: &str| {
            let told = format!("spec.target.{field}: there is no {kind} {name} in this namespace");
            Err(Choice::Waiting("TargetMissing", told))
        };
        if let Some(named) = &target.etcd_cluster {
            let Some(cluster) = self.get::<EtcdCluster>(object, &named.name, "EtcdCluster").await? else {
                return Ok(missing("etcdCluster", "EtcdCluster", &named.name));
            };
            if let Some(no) = unnoted(object, &cluster, cluster.status.as_ref().and_then(|it| it.restored.as_ref())) {
                return Ok(Err(no));
            }
            let (access, served) = (of_etcd_cluster(&cluster), Served::of_etcd_cluster(&cluster));
            return Ok(Ok(Target { access, kind: "etcd", served, born: born(object, &cluster) }));
        }
        let name = target.redis.as_ref().map(|named| named.name.clone()).unwrap_or_default();
        let Some(redis) = self.get::<Redis>(object, &name, "Redis").await? else {
            return Ok(missing("redis", "Redis", &name));
        };
        if let Some(no) = unnoted(object, &redis, redis.status.as_ref().and_then(|it| it.restored.as_ref())) {
            return Ok(Err(no));
        }
        // Only the master takes writes.
        let (access, served) = (of_redis(&redis, true), Served::of_redis(&redis));
        Ok(Ok(Target { access, kind: "redis", served, born: born(object, &redis) }))
    }
}

/// Why one that a database made for itself may not begin: the database has not noted it yet, or is another one by now. So
/// none can have begun of which the database does not know.
pub fn unnoted(
    object: &DatabaseRestore,
    target: &impl Resource<DynamicType = ()>,
    restored: Option<&Restored>,
) -> Option<No> {
    let mut owners = object.owner_references().iter().filter(|owner| owner.controller == Some(true));
    let owner = owners.find(|owner| is_a::<EtcdCluster>(owner) || is_a::<Redis>(owner))?;
    let noted = restored.is_some_and(|it| it.outcome == RestoreOutcome::Running && it.uid == object.uid());
    if noted && is_controlled_by(object, target) {
        return None;
    }
    let told = format!("{} {} made this, and has to note it in its status first", owner.kind, owner.name);
    Some(Choice::Waiting(NOT_NOTED, told))
}

fn is_a<K: Resource<DynamicType = ()>>(owner: &OwnerReference) -> bool {
    owner.kind == K::kind(&()) && owner.api_version == K::api_version(&())
}

/// Whether the pod has begun to write into the target.
fn has_begun(pod: &Pod) -> bool {
    let containers = pod.status.iter().flat_map(|status| &status.container_statuses).flatten();
    let states = containers.filter_map(|it| it.state.as_ref());
    states.into_iter().any(|state| state.running.is_some() || state.terminated.is_some())
}

/// Folder and instant of the backup that is asked for.
pub fn pick(object: &DatabaseRestore, catalog: &Catalog, target: &Target) -> Result<(String, Timestamp), No> {
    let from = &object.spec.from;
    let folders: Vec<&String> = catalog.folders.keys().filter(|folder| !catalog.complete(folder).is_empty()).collect();
    let folder = match &from.source {
        Some(source) => {
            let wanted = source.to_ascii_lowercase().replace('/', "-");
            folders.iter().find(|folder| ***folder == wanted).map(|folder| (*folder).clone()).ok_or_else(|| {
                let told = format!("spec.from.source: there is no backup of {source}; there are {}", list(&folders));
                Choice::Waiting("BackupMissing", told)
            })?
        }
        None => match folders.as_slice() {
            [] => return Err(Choice::Waiting("BackupMissing", "there is no complete backup yet".into())),
            [folder] => (*folder).clone(),
            several => {
                let told = format!("spec.from.source is needed, for there are backups of {}", list(several));
                return Err(Choice::Refused("SourceAmbiguous", told));
            }
        },
    };
    let complete = catalog.complete(&folder);
    let due = match from.id.as_str() {
        "latest" => complete.iter().rfind(|due| !is_of_the_new(catalog, &folder, **due, target)).copied(),
        id => due_of(id).filter(|due| complete.contains(due)),
    };
    due.map(|due| (folder.clone(), due)).ok_or_else(|| {
        let told = format!("spec.from.id: there is no complete backup {} of {folder}", from.id);
        Choice::Refused("BackupMissing", told)
    })
}

/// Whether a backup was taken of the target itself since that was made anew, and before its data came back.
fn is_of_the_new(catalog: &Catalog, folder: &str, due: Timestamp, target: &Target) -> bool {
    let taken = catalog.folders.get(folder).and_then(|backups| backups.get(&due)).map(|stored| stored.modified);
    folder == target.access.source.folder && target.born.zip(taken).is_some_and(|(born, taken)| taken >= born)
}

/// When a database was made that made this for itself.
fn born(object: &DatabaseRestore, target: &impl Resource<DynamicType = ()>) -> Option<Timestamp> {
    let made = target.meta().creation_timestamp.as_ref().map(|time| time.0);
    made.filter(|_| is_controlled_by(object, target))
}

fn list(folders: &[&String]) -> String {
    if folders.is_empty() {
        return "none at all".into();
    }
    folders.iter().map(|folder| folder.as_str()).collect::<Vec<_>>().join(", ")
}

/// Why a backup does not fit a target.
pub fn unfit(manifest: &Manifest, target: &Target) -> Option<(&'static str, String)> {
    let title = &target.access.source.title;
    if manifest.kind != target.kind {
        let told = format!("spec.target: {title} is no {}, of which the backup is: name another target", manifest.kind);
        return Some(("KindMismatch", told));
    }
    let major = |version: &str| version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let (theirs, ours) = (target.served.version.as_deref().and_then(major)?, major(&manifest.version)?);
    (theirs < ours).then(|| {
        let version = target.served.version.as_deref().unwrap_or_default();
        let told = format!(
            "spec.target: {title} is of version {version}, and the backup of {}: upgrade the target first",
            manifest.version
        );
        ("TargetTooOld", told)
    })
}
