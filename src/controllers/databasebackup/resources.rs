//! Builds the children. Pure.

use std::path::PathBuf;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobTemplateSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::facts::{Database, Observed};
use super::names;
use crate::api::DatabaseBackup;
use crate::api::databaserestore::{Excluded, Included, OnDependents};
use crate::backup::jobs::{
    IDENTITY, PlanIn, Run, Scratch, SecretMount, Settings, WORK, backup_pod, image_of, job_spec, plan_map, plan_text,
    restore_pod, slot_pod,
};
use crate::backup::manifest::Document;
use crate::backup::plan::{self, BackupPlan, RestorePlan};
use crate::runtime::fingerprint;
use crate::runtime::manifest::{Manifest, controlled};

/// Jobs of the schedule that failed and are kept.
const FAILED: i32 = 3;
/// Such as succeeded: an operator that was away counts what they report.
const SUCCEEDED: i32 = 24;
/// How often it is tried to drop a slot, after the first time.
const SLOT_RETRIES: i32 = 1;
/// So long that may take, with the pull of the image: the object is being deleted, and perhaps its namespace.
const SLOT_SECONDS: i64 = 90;
/// Annotation of pods: what they were told.
const PLAN: &str = "causeway.example.com/plan";
/// Annotation of pods that prove a backup: what they are to do.
const VERIFICATION: &str = "causeway.example.com/verification";

/// What Jobs are told.
pub fn config_map(object: &DatabaseBackup, plan: &BackupPlan) -> Manifest {
    Manifest::hashed(&ConfigMap {
        metadata: metadata(object, names::plan(object)),
        data: Some(plan_map(plan)),
        ..ConfigMap::default()
    })
}

/// The schedule.
pub fn cron_job(object: &DatabaseBackup, observed: &Observed, plan: &BackupPlan) -> Manifest {
    let spec = &object.spec;
    Manifest::hashed(&CronJob {
        metadata: metadata(object, object.name_any()),
        spec: Some(CronJobSpec {
            schedule: spec.schedule.trim().to_owned(),
            time_zone: Some(spec.time_zone.clone().unwrap_or_else(|| "Etc/UTC".into())),
            suspend: Some(spec.suspend || plan.sources.is_empty()),
            starting_deadline_seconds: Some(spec.starting_deadline.signed_seconds()),
            concurrency_policy: Some("Forbid".into()),
            successful_jobs_history_limit: Some(SUCCEEDED),
            failed_jobs_history_limit: Some(FAILED),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(names::labels(object)), ..ObjectMeta::default() }),
                spec: Some(job(object, observed, plan, None)),
            },
        }),
        status: None,
    })
}

/// The Job of a backup that is asked for at once.
pub fn job_now(object: &DatabaseBackup, observed: &Observed, plan: &BackupPlan, token: &str, id: &str) -> Manifest {
    Manifest::hashed(&Job {
        metadata: metadata(object, names::job_now(object, token)),
        spec: Some(job(object, observed, plan, Some(id))),
        status: None,
    })
}

/// The Job that proves a backup. It has its plan with itself: nobody has to delete a `ConfigMap` after it, and what it does
/// cannot change.
pub fn job_verify(
    object: &DatabaseBackup,
    observed: &Observed,
    plan: &BackupPlan,
    database: &Database,
    Document { manifest: backup, sha256 }: &Document,
    id: &str,
    name: String,
) -> Manifest {
    let folder = &database.access.source.folder;
    let scratch = Scratch::of(backup, &database.served);
    let identity = object.spec.encryption.as_ref().and_then(|it| it.identity_secret_name.as_deref());
    let message = plan_text(&RestorePlan {
        origin: plan.destination.clone(),
        folder: folder.clone(),
        id: id.to_owned(),
        manifest: Some(sha256.clone()),
        work: PathBuf::from(WORK),
        scratch: scratch.address().to_owned(),
        identity: identity.map(|_| IDENTITY.into()),
        target: None,
        force: false,
        on_dependents: OnDependents::Fail,
        include: Included::default(),
        exclude: Excluded::default(),
        parallelism: 1,
        dry_run: false,
        unproven: false,
        recovery: None,
    });
    let resources = object.spec.resources.as_ref();
    let namespace = object.namespace().unwrap_or_default();
    let run = Run {
        namespace: &namespace,
        settings: &observed.settings,
        plan: PlanIn::Annotation(VERIFICATION),
        mounts: &[],
        identity,
        resources,
        image: None,
        wal: false,
    };
    let pod = restore_pod(run, "verify", &name, &scratch, backup.size);
    let mut labels = names::labels(object);
    labels.insert(names::VERIFIES.into(), id.to_owned());
    let retry = &object.spec.retry;
    let mut spec = job_spec(pod, &labels, retry.limit, retry.deadline.signed_seconds());
    let pods = spec.template.metadata.get_or_insert_default();
    pods.annotations.get_or_insert_default().insert(VERIFICATION.into(), message);
    let annotations = [(names::FOLDER, folder), (names::SOURCE, &backup.source)];
    let annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let metadata = ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..metadata(object, name) };
    Manifest::hashed(&Job { metadata, spec: Some(spec), status: None })
}

/// The Job that drops the replication slot of an object that is deleted. It has its plan with itself, as one that proves a
/// backup.
pub fn job_slot(object: &DatabaseBackup, settings: &Settings, database: &Database) -> Manifest {
    let namespace = object.namespace().unwrap_or_default();
    // Of where backups go, only what tells the slot's name matters.
    let destination = settings.place(&object.spec.destination, "", "", &names::prefix(object));
    let plan =
        BackupPlan { destination, sources: vec![database.access.source.clone()], recipients: Vec::new(), hooks: None };
    let run = Run {
        namespace: &namespace,
        settings,
        plan: PlanIn::Annotation(PLAN),
        mounts: &database.access.mounts,
        identity: None,
        resources: object.spec.resources.as_ref(),
        image: None,
        wal: false,
    };
    let image = object.spec.source.as_ref().and_then(image_of).map_or("", |(_, image)| image);
    let mut labels = names::labels(object);
    labels.insert(names::DROPS_SLOT.into(), "true".into());
    let mut spec = job_spec(slot_pod(run, image), &labels, SLOT_RETRIES, SLOT_SECONDS);
    let pods = spec.template.metadata.get_or_insert_default();
    pods.annotations.get_or_insert_default().insert(PLAN.into(), plan_text(&plan));
    let metadata = ObjectMeta { labels: Some(labels), ..metadata(object, names::job_slot(object)) };
    Manifest::hashed(&Job { metadata, spec: Some(spec), status: None })
}

/// What Jobs are told, as far as it is known where backups go.
pub fn plan(object: &DatabaseBackup, observed: &Observed, prefix: &str) -> Option<BackupPlan> {
    let bucket = observed.bucket.as_ref()?;
    let (settings, destination) = (&observed.settings, &object.spec.destination);
    Some(BackupPlan {
        destination: settings.place(destination, &bucket.place.bucket, &bucket.owner, prefix),
        sources: observed.sources.iter().map(|database| database.access.source.clone()).collect::<Vec<plan::Source>>(),
        recipients: object.spec.encryption.as_ref().map(|it| it.recipients.clone()).unwrap_or_default(),
        hooks: object.spec.hooks.as_ref().and_then(plan::Hooks::of),
    })
}

fn job(
    object: &DatabaseBackup,
    observed: &Observed,
    plan: &BackupPlan,
    due: Option<&str>,
) -> k8s_openapi::api::batch::v1::JobSpec {
    let mounts: Vec<SecretMount> =
        observed.sources.iter().flat_map(|database| database.access.mounts.clone()).collect();
    let name = names::plan(object);
    let resources = object.spec.resources.as_ref();
    let image = object.spec.source.as_ref().and_then(image_of).map(|(_, image)| image);
    let namespace = object.namespace().unwrap_or_default();
    let run = Run {
        namespace: &namespace,
        settings: &observed.settings,
        plan: PlanIn::ConfigMap(&name),
        mounts: &mounts,
        identity: None,
        resources,
        image,
        wal: plan.sources.iter().any(|source| source.server.kind() == plan::WAL),
    };
    let retry = &object.spec.retry;
    let mut spec = job_spec(backup_pod(run, due), &names::labels(object), retry.limit, retry.deadline.signed_seconds());
    // For people who ask why two runs did different things.
    let message = serde_json::to_vec(plan).unwrap_or_default();
    let metadata = spec.template.metadata.get_or_insert_default();
    metadata.annotations.get_or_insert_default().insert(PLAN.into(), fingerprint(&[&message], 16));
    spec
}

fn metadata(object: &DatabaseBackup, name: String) -> ObjectMeta {
    controlled(object, name, names::labels(object))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixtures::{backup, observed};
    use super::*;

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let (object, observed) = (backup(), observed());
        let plan = plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
        let all = [
            config_map(&object, &plan),
            cron_job(&object, &observed, &plan),
            job_now(&object, &observed, &plan, "today", "20261122T000500Z"),
        ];
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn statements_around_a_dump_are_in_the_plan_and_nowhere_else() {
        let (mut object, observed) = (backup(), observed());
        object.spec.hooks = serde_json::from_str(r#"{ "before": ["CALL pause()"], "timeout": "1m" }"#).expect("hooks");
        let plan = plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
        let text = |manifest: Manifest| manifest.value.to_string();
        let told = text(config_map(&object, &plan));
        assert!(told.contains("CALL pause()") && told.contains(r#"timeoutSeconds\": 60"#), "{told}");
        let schedule = text(cron_job(&object, &observed, &plan));
        assert!(!schedule.contains("CALL pause()"), "{schedule}");
    }
}
