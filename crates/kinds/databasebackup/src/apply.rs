//! Carries out what was decided.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::DeleteParams;
use kube::api::PropagationPolicy::{self, Background, Foreground};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use causeway_api::DatabaseBackup;
use causeway_aws::aws::AwsError;
use causeway_aws::s3::{LOCKED, Refusals, S3};
use causeway_backup::transfer;
use causeway_runtime::manifest::{delete_exactly, patch_exactly};
use causeway_runtime::metrics::Metrics;

use super::action::{Action, Change, Ended, Hardening};
use super::error::Error;
use super::facts::Bucket;
use super::names;
use super::observe::{Observer, Step};
use super::undeleted::{Undeleted, others};

/// The clients that carry out actions.
pub struct Clients {
    pub client: Client,
    pub s3: S3,
    pub metrics: Metrics,
}

pub async fn apply(
    clients: &Clients,
    observer: &Observer,
    object: &DatabaseBackup,
    action: &Action,
) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    match action {
        Action::Apply { child, uid } => {
            observer.expect_change(object);
            Ok(transfer::apply(&clients.client, object, child, uid.as_deref()).await?)
        }
        Action::Start { job } | Action::Verify { job, .. } => {
            observer.expect_change(object);
            Ok(transfer::start(&clients.client, object, job).await?)
        }
        Action::Record(recording) => {
            let uid = object.uid().unwrap_or_default();
            observer.records.write(&uid, &recording.record).await.map_err(Error::Record)
        }
        Action::ForgetRecord => {
            let uid = object.uid().unwrap_or_default();
            observer.records.delete(&uid).await.map_err(Error::Record)
        }
        Action::Hold { name, uid } => {
            observer.expect_change(object);
            hold(&clients.client, &namespace, name, uid).await
        }
        Action::Stop { kind, name, uid } => {
            observer.expect_change(object);
            match *kind {
                "CronJob" => delete::<CronJob>(&clients.client, &namespace, name, uid, Foreground).await,
                _ => delete::<Job>(&clients.client, &namespace, name, uid, Foreground).await,
            }
        }
        // In the background, so the Job is gone at once: it has ended, and nothing has to wait for its pods.
        Action::Forget { name, uid } => {
            observer.expect_change(object);
            delete::<Job>(&clients.client, &namespace, name, uid, Background).await
        }
        Action::AwaitJobs => {
            observer.expect_change(object);
            Err(Error::JobsRemain)
        }
        Action::DropSlot { job } => {
            observer.expect_change(object);
            let made = transfer::start(&clients.client, object, job).await;
            Ok(made.inspect_err(|error| observer.slot_stays(object, error))?)
        }
        Action::AwaitSlot => {
            observer.expect_change(object);
            Err(Error::SlotRemains(names::job_slot(object)))
        }
        Action::Bucket { bucket, change } => change_of(clients, observer, object, bucket, change).await,
        Action::Sign { bucket, prefix, backups } => {
            // Also before the call, which may be cancelled: then no later step forgets it.
            observer.forget_catalog(object);
            observer.signer.sign(&object.uid().unwrap_or_default(), bucket, prefix, backups).await;
            observer.forget_catalog(object);
            Ok(())
        }
        Action::Tell { what, success, .. } => {
            match what {
                Ended::Backup => clients.metrics.backup_ended(*success),
                Ended::Verification => clients.metrics.verification_ended(*success),
            }
            Ok(())
        }
    }
}

/// Changes a bucket, and notes how the cleanup of a deleted object goes on.
async fn change_of(
    clients: &Clients,
    observer: &Observer,
    object: &DatabaseBackup,
    bucket: &Bucket,
    change: &Change,
) -> Result<(), Error> {
    let is_deleted = object.meta().deletion_timestamp.is_some();
    let mut undeleted = observer.undeleted.refusals(&object.uid().unwrap_or_default());
    // A deletion that lacks a right is tried again and again until it is given up.
    undeleted.retain(|_, it| it.locked || !is_deleted);
    let outcome = match change {
        Change::DeleteObjects { .. } | Change::Abort(_) => {
            // Also before the call: a reconciliation that takes too long is cancelled in the middle of it.
            observer.forget_catalog(object);
            let outcome = change_bucket(&clients.s3, bucket, change, &undeleted).await;
            observer.forget_catalog(object);
            outcome
        }
        _ => {
            let mut known = observer.buckets.lock(&bucket.place).await;
            if !known.is(bucket.found.as_ref()) {
                return Err(Error::BucketChanged(bucket.place.bucket.clone()));
            }
            // Before the change: a reconciliation that takes too long is cancelled in the middle of it.
            known.forget();
            change_bucket(&clients.s3, bucket, change, &undeleted).await
        }
    };
    let outcome = outcome.map(|refusals| {
        if is_deleted && refusals.values().all(|error| error.is(LOCKED)) {
            // Backups that a lock holds stay when the object goes. The rest is deleted.
            observer.undeleted.note(&object.uid().unwrap_or_default(), &refusals, Timestamp::now());
            return Refusals::new();
        }
        refusals
    });
    let failure = match &outcome {
        Ok(refusals) => refusals.values().next(),
        Err(error) => Some(error),
    };
    match failure {
        _ if !is_deleted => {}
        None => observer.cleanup_goes_on(object, Step::Delete),
        Some(error) => observer.cleanup_failed(object, Step::Delete, error),
    }
    match outcome {
        Ok(refusals) if refusals.is_empty() => Ok(()),
        Ok(refusals) => Err(Error::Undeleted(refusals)),
        Err(error) if error.is("BucketAlreadyExists") => Err(Error::BucketTaken(bucket.place.bucket.clone())),
        Err(error) => Err(error.into()),
    }
}

/// Changes a bucket; returns what S3 refused to delete. What it refused earlier is not tried again.
async fn change_bucket(
    s3: &S3,
    bucket: &Bucket,
    change: &Change,
    undeleted: &BTreeMap<String, Undeleted>,
) -> Result<Refusals, AwsError> {
    let (place, owner) = (&bucket.place, bucket.owner.as_str());
    let changed = match change {
        Change::Create(tags) => {
            s3.create_bucket(place, tags).await?;
            // Some S3 servers ignore tags at creation. On the others, this writes the same tags again.
            s3.tag_bucket(place, owner, tags).await
        }
        Change::Tag(tags) => s3.tag_bucket(place, owner, tags).await,
        Change::Harden(all) => {
            for hardening in all {
                harden(s3, bucket, hardening).await?;
            }
            Ok(())
        }
        Change::DeleteObjects { keys, .. } => {
            let keys = others(keys, undeleted, Timestamp::now());
            return match bucket.keeping().versions {
                _ if keys.is_empty() => Ok(Refusals::new()),
                // In a bucket with versioning, a delete without a version ID only adds a delete marker.
                Some(_) => s3.delete_versions(place, owner, &keys).await,
                None => s3.delete(place, owner, &keys).await,
            };
        }
        Change::Abort(upload) => s3.abort(place, owner, upload).await,
        Change::Delete => s3.delete_bucket(place, owner).await,
    };
    changed.map(|()| Refusals::new())
}

async fn harden(s3: &S3, bucket: &Bucket, hardening: &Hardening) -> Result<(), AwsError> {
    let (place, owner) = (&bucket.place, bucket.owner.as_str());
    match hardening {
        Hardening::BlockPublicAccess => s3.block_public_access(place, owner).await,
        Hardening::EnforceOwner => s3.enforce_owner(place, owner).await,
        Hardening::Encrypt => s3.encrypt(place, owner).await,
        Hardening::Guard(facts) => s3.guard(place, owner, facts).await,
        Hardening::AbortUploads(facts) => s3.abort_uploads(place, owner, facts).await,
        Hardening::KeepVersions => s3.keep_versions(place, owner).await,
        Hardening::Lock(lock) => s3.lock(place, owner, *lock).await,
    }
}

/// Suspends exactly that `CronJob`, and changes nothing else in it.
async fn hold(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), Error> {
    let api: Api<CronJob> = Api::namespaced(client.clone(), namespace);
    let patched = patch_exactly(&api, name, uid, json!({ "spec": { "suspend": true } })).await;
    let child = format!("CronJob {name}");
    patched.map(drop).map_err(|source| transfer::Error::Apply { child, source }.into())
}

/// Deletes exactly that object. Its dependents are deleted before it (`Foreground`) or after it (`Background`).
async fn delete<K>(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
    pods: PropagationPolicy,
) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let how = DeleteParams { propagation_policy: Some(pods), ..DeleteParams::default() };
    let deleted = delete_exactly(&api, name, uid, how).await;
    deleted.map_err(|source| Error::Delete { child: format!("{} {name}", K::kind(&())), source })
}
