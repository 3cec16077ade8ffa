//! Builds the children. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use causeway_api::DatabaseRestore;
use causeway_backup::jobs::{
    PlanIn, Run, Scratch, Settings, WORK, identity_path, job_spec, plan_map, plan_text, restore_pod,
};
use causeway_backup::plan::RestorePlan;
use causeway_runtime::manifest::{Manifest, controlled_metadata};

use super::facts::{Chosen, Note};

/// Label of every child, with the object's name.
pub const LABEL: &str = "causeway.example.com/restore";
/// Annotation of the Job: the backup's ID.
pub const ID: &str = "causeway.example.com/backup-id";
/// Annotation of the Job: the database that was backed up.
pub const SOURCE: &str = "causeway.example.com/backup-source";
/// Annotation of the Job: the better candidates that were passed over, for people.
pub const PASSED_OVER: &str = "causeway.example.com/passed-over";

/// Annotation of the Job: how many backups of the log are replayed after a base backup.
pub const LOG: &str = "causeway.example.com/log-backups";
/// Annotation of the Job: the instant to which a server is recovered; none for all the log that there is.
pub const UNTIL: &str = "causeway.example.com/until";

/// The number of hexadecimal digits of the plan's SHA-256 in the name of its `ConfigMap`.
const PLAN_DIGITS: usize = 12;
/// How often a failed restore is retried: what it wrote before does not hinder the next try.
const RETRIES: i32 = 3;

/// Name of the Job.
pub fn name(object: &DatabaseRestore) -> String {
    format!("{}-restore", object.name_any())
}

/// The plan of the Job, as the text that it reads, and the SHA-256 of that.
fn plan(object: &DatabaseRestore, chosen: &Chosen) -> (String, String) {
    plan_text(&RestorePlan {
        origin: chosen.origin.clone(),
        folder: chosen.folder.clone(),
        id: chosen.manifest.id.clone(),
        manifest: Some(chosen.sha256.clone()),
        work: PathBuf::from(WORK),
        scratch: scratch(chosen).address().to_owned(),
        identity: chosen.identity.as_deref().map(identity_path),
        target: Some(chosen.target.access.source.clone()),
        force: object.spec.force,
        on_dependents: object.spec.on_dependents,
        include: object.spec.include.clone(),
        exclude: object.spec.exclude.clone(),
        parallelism: object.spec.parallelism,
        dry_run: object.spec.dry_run,
        unproven: chosen.note == Note::Unverified || object.spec.from.accept_unrecorded,
        recovery: chosen.recovery.as_ref().map(|it| it.plan.clone()),
    })
}

/// The `ConfigMap` with that plan, which is too long for an annotation where there is much log. Its name has the sum of the plan:
/// a restore that is decided again after a crash may choose another backup.
fn plan_name(object: &DatabaseRestore, sha256: &str) -> String {
    format!("{}-{}", name(object), &sha256[..PLAN_DIGITS])
}

/// The plan of the Job. The Job refuses any other content by the sum in the template of its pods.
pub fn config_map(object: &DatabaseRestore, chosen: &Chosen) -> Manifest {
    let (text, sha256) = plan(object, chosen);
    Manifest::with_hash(&ConfigMap {
        metadata: controlled_metadata(object, plan_name(object, &sha256), labels(object)),
        data: Some(plan_map(text)),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

pub fn job(object: &DatabaseRestore, settings: &Settings, chosen: &Chosen) -> Manifest {
    let uid = object.uid().unwrap_or_default();
    let (_, sha256) = plan(object, chosen);
    let plan_name = plan_name(object, &sha256);
    let mounts = &chosen.target.access.mounts;
    let identity = chosen.identity.as_deref();
    let namespace = object.namespace().unwrap_or_default();
    let run = Run {
        namespace: &namespace,
        settings,
        plan: PlanIn::ConfigMap(&plan_name),
        plan_sha256: &sha256,
        mounts,
        identity,
        resources: object.spec.resources.as_ref(),
        image: None,
        wal: false,
    };
    let log = chosen.recovery.as_ref();
    let size = chosen.manifest.size.saturating_add(log.map_or(0, |it| it.size));
    let pod = restore_pod(run, "restore", &uid, &scratch(chosen), size);
    let message = [(ID, chosen.manifest.id.clone()), (SOURCE, chosen.manifest.source.clone())];
    let count = log.map(|it| (LOG, it.plan.log.len().to_string()));
    let until = log.and_then(|it| Some((UNTIL, it.plan.until?.to_string())));
    let passed_over = chosen.note.passed_over().map(|it| (PASSED_OVER, it));
    let all = message.into_iter().chain(count).chain(until).chain(passed_over);
    let annotations = all.map(|(key, value)| (key.to_owned(), value)).collect();
    let mut metadata = metadata(object, annotations);
    // After a foreground deletion, the object goes only when the Job is gone: then nothing writes into the target any
    // more.
    for owner in metadata.owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = Some(true);
    }
    Manifest::with_hash(&Job {
        metadata,
        spec: Some(job_spec(pod, &labels(object), RETRIES, object.spec.deadline.signed_seconds())),
        status: None,
    })
}

/// The server that is thrown away.
pub fn scratch(chosen: &Chosen) -> Scratch {
    let scratch = Scratch::for_backup(&chosen.manifest, &chosen.target.served);
    match (scratch, &chosen.recovery) {
        (Scratch::Sql { image }, Some(recovery)) => Scratch::Recovered { by: recovery.image.clone(), image },
        (scratch, _) => scratch,
    }
}

fn labels(object: &DatabaseRestore) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL.into(), object.name_any()),
        ("app.kubernetes.io/name".into(), "database-restore".into()),
        ("app.kubernetes.io/instance".into(), object.name_any()),
        ("app.kubernetes.io/managed-by".into(), "causeway".into()),
    ])
}

fn metadata(object: &DatabaseRestore, annotations: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta { annotations: Some(annotations), ..controlled_metadata(object, name(object), labels(object)) }
}
