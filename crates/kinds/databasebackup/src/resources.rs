//! Builds the children. Pure.

use std::path::PathBuf;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobTemplateSpec};
use kube::ResourceExt;
use kube::api::ObjectMeta;

use causeway_api::DatabaseBackup;
use causeway_api::databaserestore::{Excluded, Included, OnDependents};
use causeway_backup::jobs::{
    PlanIn, Run, Scratch, SecretMount, Settings, WORK, backup_pod, identity_path, image_of, job_spec, plan_text,
    restore_pod, slot_pod,
};
use causeway_backup::manifest::Document;
use causeway_backup::plan::{self, BackupPlan, Destination, RestorePlan};
use causeway_runtime::manifest::{Manifest, controlled_metadata};

use super::facts::{Database, Observed};
use super::names;

/// How many failed Jobs of the schedule Kubernetes keeps.
const FAILED: i32 = 3;
/// How many succeeded ones it keeps: after an outage, the operator reads their reports.
const SUCCEEDED: i32 = 24;
/// How often the Job that drops a slot is retried.
const SLOT_RETRIES: i32 = 1;
/// How long that Job may take, image pull included. The deletion of the object, and perhaps of its namespace, waits for
/// it.
const SLOT_SECONDS: i64 = 90;
/// Annotation of the pods that take backups or drop a slot: their plan. It is in the template of the pods and not in a
/// `ConfigMap`, because accounts with rights on `ConfigMap`s alone would otherwise choose where the logins are sent.
const PLAN: &str = "causeway.example.com/plan";
/// Annotation of pods that prove a backup: what they are to do.
const VERIFICATION: &str = "causeway.example.com/verification";

pub fn cron_job(object: &DatabaseBackup, observed: &Observed, plan: &BackupPlan) -> Manifest {
    let spec = &object.spec;
    Manifest::with_hash(&CronJob {
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
    Manifest::with_hash(&Job {
        metadata: metadata(object, names::job_now(object, token)),
        spec: Some(job(object, observed, plan, Some(id))),
        status: None,
    })
}

/// The Job that proves a backup. Its plan is in an annotation of its pod: there is no `ConfigMap` to delete afterwards,
/// and the plan cannot change.
pub fn job_verify(
    object: &DatabaseBackup,
    observed: &Observed,
    plan: &BackupPlan,
    database: &Database,
    Document { manifest: backup, sha256: manifest_sha256 }: &Document,
    id: &str,
    name: String,
) -> Manifest {
    let folder = &database.access.source.folder;
    let scratch = Scratch::for_backup(backup, &database.served);
    let identity = object.spec.encryption.as_ref().and_then(|it| it.identity_secret_name.as_deref());
    let (message, sha256) = plan_text(&RestorePlan {
        origin: plan.destination.clone(),
        folder: folder.clone(),
        id: id.to_owned(),
        manifest: Some(manifest_sha256.clone()),
        work: PathBuf::from(WORK),
        scratch: scratch.address().to_owned(),
        identity: identity.map(identity_path),
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
        plan_sha256: &sha256,
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
    Manifest::with_hash(&Job { metadata, spec: Some(spec), status: None })
}

/// The Job that drops the replication slot of an object that is deleted. Its plan is in an annotation, as in
/// [`job_verify`].
pub fn job_slot(object: &DatabaseBackup, settings: &Settings, database: &Database) -> Manifest {
    let namespace = object.namespace().unwrap_or_default();
    // Of the destination, only the prefix matters: it ends with the UID, which the slot is named after.
    let destination = settings.place(&object.spec.destination, "", "", &names::prefix(object));
    let plan = BackupPlan {
        destination,
        sources: vec![database.access.source.clone()],
        recipients: Vec::new(),
        hooks: None,
        log_slot: None,
    };
    let (text, sha256) = plan_text(&plan);
    let run = Run {
        namespace: &namespace,
        settings,
        plan: PlanIn::Annotation(PLAN),
        plan_sha256: &sha256,
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
    pods.annotations.get_or_insert_default().insert(PLAN.into(), text);
    let metadata = ObjectMeta { labels: Some(labels), ..metadata(object, names::job_slot(object)) };
    Manifest::with_hash(&Job { metadata, spec: Some(spec), status: None })
}

/// The plan of the Jobs that take backups; none while the bucket is not known.
pub fn plan(object: &DatabaseBackup, observed: &Observed, prefix: &str) -> Option<BackupPlan> {
    let bucket = observed.bucket.as_ref()?;
    let settings = &observed.settings;
    let destination = settings.place(&object.spec.destination, &bucket.place.bucket, &bucket.owner, prefix);
    Some(BackupPlan {
        destination: Destination { bucket_encrypts: bucket.is_foreign(&settings.cluster), ..destination },
        sources: observed.sources.iter().map(|database| database.access.source.clone()).collect::<Vec<plan::Source>>(),
        recipients: object.spec.encryption.as_ref().map(|it| it.recipients.clone()).unwrap_or_default(),
        hooks: object.spec.hooks.as_ref().and_then(plan::Hooks::from_spec),
        log_slot: observed.keeps_log.as_ref().map(|log| log.slot.clone()),
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
    let (text, sha256) = plan_text(plan);
    let resources = object.spec.resources.as_ref();
    let image = object.spec.source.as_ref().and_then(image_of).map(|(_, image)| image);
    let namespace = object.namespace().unwrap_or_default();
    let run = Run {
        namespace: &namespace,
        settings: &observed.settings,
        plan: PlanIn::Annotation(PLAN),
        plan_sha256: &sha256,
        mounts: &mounts,
        identity: None,
        resources,
        image,
        wal: plan.sources.iter().any(|source| source.server.kind() == plan::WAL),
    };
    let retry = &object.spec.retry;
    let mut spec = job_spec(backup_pod(run, due), &names::labels(object), retry.limit, retry.deadline.signed_seconds());
    let metadata = spec.template.metadata.get_or_insert_default();
    metadata.annotations.get_or_insert_default().insert(PLAN.into(), text);
    spec
}

fn metadata(object: &DatabaseBackup, name: String) -> ObjectMeta {
    controlled_metadata(object, name, names::labels(object))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sha2::{Digest, Sha256};

    use super::super::fixtures::{backup, observed, tags};
    use super::*;
    use causeway_aws::s3::{BucketFacts, Found, Tags};
    use causeway_backup::manifest::Manifest as Sample;
    use causeway_backup::transfer::OFFERED;

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let (object, observed) = (backup(), observed());
        let plan = plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
        let all =
            [cron_job(&object, &observed, &plan), job_now(&object, &observed, &plan, "today", "20261122T000500Z")];
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn only_an_offered_bucket_chooses_its_encryption() {
        let object = backup();
        let bucket_encrypts = |tags: Tags| {
            let mut observed = observed();
            let facts = BucketFacts { tags, ..BucketFacts::default() };
            observed.bucket.as_mut().expect("a bucket").found = Some(Found::There(Box::new(facts)));
            plan(&object, &observed, "p").expect("a plan").destination.bucket_encrypts
        };
        assert!(!bucket_encrypts(tags()), "the operator made it");
        assert!(bucket_encrypts(Tags::from([(OFFERED.into(), "prod".into())])));
    }

    #[test]
    fn hooks_are_in_the_plan_of_the_pods() {
        let (mut object, observed) = (backup(), observed());
        object.spec.hooks = serde_json::from_str(r#"{ "before": ["CALL pause()"], "timeout": "1m" }"#).expect("hooks");
        let plan = plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
        let template = cron_job(&object, &observed, &plan).value["spec"]["jobTemplate"]["spec"]["template"].take();
        let text = template["metadata"]["annotations"][PLAN].as_str().expect("a plan");
        assert_eq!(serde_json::from_str::<BackupPlan>(text).expect("a plan"), plan);
        assert!(text.contains("CALL pause()") && text.contains(r#""timeoutSeconds": 60"#), "{text}");
    }

    /// Everything that a Job acts on is in the template of its pods: Kubernetes alone writes those that are made of it.
    #[test]
    fn no_job_reads_a_config_map() {
        let (object, observed) = (backup(), observed());
        let plan = plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
        let backup = Document { manifest: Sample::sample("redis", "7.0.15"), sha256: "0f".into() };
        let database = &observed.sources[0];
        for child in [
            cron_job(&object, &observed, &plan),
            job_now(&object, &observed, &plan, "today", "20261122T000500Z"),
            job_verify(&object, &observed, &plan, database, &backup, "20261122T000500Z", "verify".into()),
            job_slot(&object, &observed.settings, database),
        ] {
            let text = child.value.to_string();
            assert!(!text.contains("configMap"), "{text}");
            let spec = &child.value["spec"];
            let spec = if spec["jobTemplate"].is_null() { spec } else { &spec["jobTemplate"]["spec"] };
            let annotations = &spec["template"]["metadata"]["annotations"];
            let plan = [PLAN, VERIFICATION].into_iter().find_map(|key| annotations[key].as_str()).expect("a plan");
            let sum = hex::encode(Sha256::digest(plan));
            assert!(text.contains(&format!(r#"{{"name":"CAUSEWAY_PLAN_SHA256","value":"{sum}"}}"#)), "{text}");
        }
    }
}
