//! The bucket: hardened, put right, never taken over, and deleted only if the spec says so.

use aws_sdk_s3::types::{
    BucketVersioningStatus, ServerSideEncryption, ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration,
    ServerSideEncryptionRule, Tag, Tagging, VersioningConfiguration,
};
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::stage::{NAME, NEVER, Stage, describe};
use crate::support::{Operator, role, wait_for};

/// Checks that a bucket has the settings with which the operator makes buckets.
async fn is_hard(stage: &Stage, bucket: &str) -> Result<(), String> {
    let s3 = &stage.s3;
    let failed = |what: &str| what.to_owned();
    let block =
        s3.get_public_access_block().bucket(bucket).send().await.map_err(|_| failed("no block of public access"))?;
    let block = block.public_access_block_configuration.ok_or_else(|| failed("an empty block"))?;
    let all =
        [block.block_public_acls, block.block_public_policy, block.ignore_public_acls, block.restrict_public_buckets];
    if all != [Some(true); 4] {
        return Err(format!("{all:?} is blocked"));
    }
    let owner = s3.get_bucket_ownership_controls().bucket(bucket).send().await.map_err(|_| failed("no owner"))?;
    let rules = owner.ownership_controls.map(|controls| controls.rules).unwrap_or_default();
    if rules.first().map(|rule| rule.object_ownership.as_str()) != Some("BucketOwnerEnforced") {
        return Err(failed("access lists count"));
    }
    let encryption = s3.get_bucket_encryption().bucket(bucket).send().await.map_err(|_| failed("no encryption"))?;
    if encryption.server_side_encryption_configuration.is_none_or(|it| it.rules.is_empty()) {
        return Err(failed("no rule of encryption"));
    }
    let policy = s3.get_bucket_policy().bucket(bucket).send().await.map_err(|_| failed("no policy"))?;
    let policy = policy.policy.unwrap_or_default();
    if !policy.contains("aws:SecureTransport") {
        return Err(failed("the policy allows access without TLS"));
    }
    if !policy.contains("s3:if-none-match") {
        return Err(failed("the policy allows overwriting"));
    }
    let rules = s3.get_bucket_lifecycle_configuration().bucket(bucket).send().await.map_err(|_| failed("no rules"))?;
    let aborts = rules.rules().iter().any(|rule| rule.abort_incomplete_multipart_upload().is_some());
    if aborts { Ok(()) } else { Err(failed("uploads are not aborted")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_made_hard_and_stays_so() {
    let stage = Stage::new("bucket-hard").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    stage.becomes("the bucket", |status| describe(status, "BucketReady").0 == "True").await;
    let bucket = stage.bucket();
    is_hard(&stage, &bucket).await.expect("hard from the beginning");
    let tags = stage.s3.get_bucket_tagging().bucket(&bucket).send().await.expect("tags").tag_set;
    let cluster = tags.iter().find(|tag| tag.key() == "causeway.example.com/cluster").map(|tag| tag.value().to_owned());
    assert_eq!(cluster.as_deref(), Some(stage.namespace.as_str()));
    stage.s3.delete_public_access_block().bucket(&bucket).send().await.expect("the block goes");
    stage.s3.delete_bucket_policy().bucket(&bucket).send().await.expect("the policy goes");
    stage.s3.delete_bucket_lifecycle().bucket(&bucket).send().await.expect("the rules go");
    wait_for("the bucket to be hard again", || is_hard(&stage, &bucket), Result::is_ok).await.expect("hard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_bucket_is_used_by_tag_and_unchanged() {
    let stage = Stage::new("bucket-theirs").await;
    let _operator = Operator::start(&stage).await;
    let bucket = format!("theirs-{}", stage.namespace);
    stage.s3.create_bucket().bucket(&bucket).send().await.expect("a bucket");
    let spec = json!({ "schedule": NEVER, "destination": { "bucket": bucket } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    let object = stage.becomes("a refusal", |status| describe(status, "Stalled").1 == "BucketForeign").await;
    let message = object.status.expect("a status").conditions.into_iter().find(|it| it.type_ == "Stalled");
    let message = message.expect("a condition").message;
    assert!(message.contains(&format!("causeway.example.com/backups={}", stage.namespace)), "{message}");
    let tag = Tag::builder().key("causeway.example.com/backups").value(&stage.namespace).build().expect("a tag");
    let tagging = Tagging::builder().tag_set(tag).build().expect("tags");
    stage.s3.put_bucket_tagging().bucket(&bucket).tagging(tagging.clone()).send().await.expect("the tag");
    stage
        .becomes("the offer to be taken", |status| describe(status, "BucketReady") == ("True".into(), "Offered".into()))
        .await;
    assert!(stage.s3.get_bucket_policy().bucket(&bucket).send().await.is_err(), "an offered bucket keeps its policy");
    stage.s3.delete_bucket().bucket(&bucket).send().await.expect("its owner deletes it");
    stage.becomes("its loss", |status| describe(status, "BucketReady").1 == "OfferedBucketLost").await;
    assert!(stage.s3.head_bucket().bucket(&bucket).send().await.is_err(), "an offered bucket is not made again");
    stage.s3.create_bucket().bucket(&bucket).send().await.expect("its owner makes it again");
    stage.s3.put_bucket_tagging().bucket(&bucket).tagging(tagging).send().await.expect("the tag");
    stage.becomes("the offer to be taken again", |status| describe(status, "BucketReady").1 == "Offered").await;
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    stage.s3.head_bucket().bucket(&bucket).send().await.expect("it stays");
}

/// Every version and every delete marker in a bucket, by key.
async fn versions(stage: &Stage, bucket: &str) -> Vec<String> {
    let answer = stage.s3.list_object_versions().bucket(bucket).send().await.expect("versions");
    let versions = answer.versions().iter().filter_map(|it| it.key());
    let markers = answer.delete_markers().iter().filter_map(|it| it.key());
    versions.chain(markers).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_backups_stay_until_the_lock_ends() {
    let stage = Stage::new("bucket-locked").await;
    // A bucket of its own, where Jobs may write.
    let issuer = role::trust_cluster(&stage).await;
    role::put_jobs_of(&stage, &issuer, &stage.namespace, &["us-east-1", "locked"]).await;
    let bucket = stage.bucket().replace("us-east-1", "locked");
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    let destination = json!({ "bucket": bucket, "objectLock": { "mode": "Governance", "days": 1 } });
    let spec = json!({ "schedule": NEVER, "destination": destination, "retention": { "keepLast": 1 } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.backup_now("one").await;
    stage.has_backups(1).await;
    stage.backup_now("two").await;
    let is_locked = |status: &DatabaseBackupStatus| {
        status.backups == 2 && status.locked.as_ref().is_some_and(|locked| locked.backups == 1)
    };
    stage.becomes("the first backup to be locked", is_locked).await;
    let answer = stage.s3.get_object_lock_configuration().bucket(&bucket).send().await.expect("a lock");
    let rule = answer.object_lock_configuration.and_then(|it| it.rule?.default_retention).expect("a rule");
    assert_eq!((rule.mode.map(|mode| mode.as_str().to_owned()), rule.days), (Some("GOVERNANCE".into()), Some(1)));
    let answer = stage.s3.list_object_versions().bucket(&bucket).send().await.expect("versions");
    let version = answer.versions().first().expect("a version");
    let delete = stage.s3.delete_object().bucket(&bucket).set_key(version.key.clone());
    delete.set_version_id(version.version_id.clone()).send().await.expect_err("a locked version cannot be deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_locks_or_takes_the_default_bucket() {
    let stage = Stage::new("bucket-of-all").await;
    let _operator = Operator::start(&stage).await;
    let lock = json!({ "mode": "Compliance", "days": 3650 });
    let elsewhere = stage.bucket().replace("us-east-1", "eu-west-1");
    for (destination, reason, words) in [
        (
            json!({ "bucket": stage.bucket(), "objectLock": lock }),
            "BucketShared",
            format!("spec.destination.objectLock: bucket {} is not of this namespace alone", stage.bucket()),
        ),
        (
            json!({ "bucket": elsewhere }),
            "BucketNameReserved",
            format!("bucket {elsewhere} has the name reserved for the operator's bucket in region eu-west-1"),
        ),
    ] {
        stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "destination": destination })).await;
        let object = stage.becomes("a refusal", |status| describe(status, "Stalled").1 == reason).await;
        let conditions = object.status.expect("a status").conditions;
        let message = conditions.into_iter().find(|it| it.type_ == "Stalled").expect("a condition").message;
        assert!(message.contains(&words), "{message}");
        let bucket = destination["bucket"].as_str().expect("a name");
        stage.s3.head_bucket().bucket(bucket).send().await.expect_err("it is not made");
        stage.delete::<DatabaseBackup>(NAME).await;
        stage.gone::<DatabaseBackup>(NAME).await;
    }
    // Where the bucket is there, it is not locked either.
    stage.create::<DatabaseBackup>("usual", json!({ "schedule": NEVER })).await;
    let head = || async { stage.s3.head_bucket().bucket(stage.bucket()).send().await.is_ok() };
    wait_for("the bucket", head, |there| *there).await;
    let destination = json!({ "bucket": stage.bucket(), "objectLock": lock });
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "destination": destination })).await;
    stage.becomes("a refusal", |status| describe(status, "Stalled").1 == "BucketShared").await;
    let lock = stage.s3.get_object_lock_configuration().bucket(stage.bucket()).send().await;
    assert!(lock.is_err() || lock.is_ok_and(|it| it.object_lock_configuration.is_none_or(|it| it.rule.is_none())));
}

/// How a bucket encrypts by default.
async fn default_of(stage: &Stage, bucket: &str) -> Option<(ServerSideEncryption, Option<String>)> {
    let answer = stage.s3.get_bucket_encryption().bucket(bucket).send().await.expect("an answer");
    let rule = answer.server_side_encryption_configuration?.rules.into_iter().next()?;
    let default = rule.apply_server_side_encryption_by_default?;
    Some((default.sse_algorithm, default.kms_master_key_id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_one_object_encrypts_nothing_of_another() {
    let stage = Stage::new("bucket-key").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    let bucket = stage.bucket();
    let arn = format!("arn:aws:kms:us-east-1:{}:key/1234abcd-12ab-34cd-56ef-1234567890ab", stage.emulator.account());
    let spec = json!({ "schedule": NEVER, "destination": { "kmsKeyId": arn } });
    stage.create::<DatabaseBackup>("with-key", spec).await;
    let api = stage.api::<DatabaseBackup>();
    let look = || async { api.get("with-key").await.expect("the object").status.unwrap_or_default() };
    wait_for("the bucket", look, |status| describe(status, "BucketReady").0 == "True").await;
    assert_eq!(default_of(&stage, &bucket).await, Some((ServerSideEncryption::Aes256, None)));
    // An administrator set the bucket like this.
    let default = ServerSideEncryptionByDefault::builder()
        .sse_algorithm(ServerSideEncryption::AwsKms)
        .kms_master_key_id(&arn)
        .build()
        .expect("a default");
    let rule = ServerSideEncryptionRule::builder().apply_server_side_encryption_by_default(default).build();
    let rules = ServerSideEncryptionConfiguration::builder().rules(rule).build().expect("rules");
    let put = stage.s3.put_bucket_encryption().bucket(&bucket).server_side_encryption_configuration(rules);
    put.send().await.expect("the default");
    stage.backed_up(json!({ "redis": { "name": "cache" } })).await;
    stage.has_signatures(1).await;
    let keys = stage.keys(&bucket).await;
    assert_eq!(keys.len(), 3, "data, manifest and signature: {keys:?}");
    for key in keys {
        let head = stage.s3.head_object().bucket(&bucket).key(&key).send().await.expect("the object");
        assert_eq!(head.server_side_encryption, Some(ServerSideEncryption::Aes256), "{key}");
    }
    let left = default_of(&stage, &bucket).await.map(|(algorithm, _)| algorithm);
    assert_eq!(left, Some(ServerSideEncryption::AwsKms), "it is the administrator's to reset");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offered_bucket_is_locked_by_its_owner() {
    let stage = Stage::new("bucket-kept").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    let bucket = stage.bucket();
    let offered = Tag::builder().key("causeway.example.com/backups").value(&stage.namespace).build().expect("a tag");
    let offered = Tagging::builder().tag_set(offered).build().expect("tags");
    stage.s3.create_bucket().bucket(&bucket).send().await.expect("a bucket");
    stage.s3.put_bucket_tagging().bucket(&bucket).tagging(offered).send().await.expect("the tag");
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    stage.s3.put_bucket_versioning().bucket(&bucket).versioning_configuration(enabled).send().await.expect("versions");
    let lock = json!({ "mode": "Compliance", "days": 1 });
    let destination = json!({ "bucket": bucket, "objectLock": lock });
    let spec = json!({ "schedule": NEVER, "destination": destination, "retention": { "keepLast": 1 } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.becomes("a refusal", |status| describe(status, "BucketReady").1 == "ObjectLockMissing").await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "destination": { "objectLock": null } })).await;
    stage.becomes("the bucket", |status| describe(status, "BucketReady").1 == "Offered").await;
    stage.backup_now("one").await;
    let first = stage.has_backups(1).await.recent[0].id.clone();
    stage.backup_now("two").await;
    let alone = |keys: &Vec<String>| keys.len() == 3 && !keys.iter().any(|key| key.contains(&first));
    wait_for("a signed backup, and no version of the first", || versions(&stage, &bucket), alone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_of_another_account_is_refused() {
    let stage = Stage::new("bucket-foreign").await;
    let other = Stage::new("bucket-other").await;
    let bucket = format!("foreign-{}", stage.namespace);
    other.s3.create_bucket().bucket(&bucket).send().await.expect("a bucket");
    let _operator = Operator::start(&stage).await;
    let spec = json!({ "schedule": NEVER, "destination": { "bucket": bucket } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    let stalled = |status: &causeway_api::DatabaseBackupStatus| describe(status, "Stalled").0 == "True";
    let object = stage.becomes("a refusal", stalled).await;
    let (_, reason) = describe(&object.status.expect("a status"), "Stalled");
    // LocalStack lets accounts see each other's buckets; AWS does not.
    assert!(["BucketForbidden", "BucketForeign"].contains(&reason.as_str()), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_deletion_policy_delete_removes_backups() {
    let stage = Stage::new("bucket-delete").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    let bucket = stage.bucket();
    for (policy, token, signed) in [("Retain", "one", 1), ("Delete", "two", 2)] {
        stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "deletionPolicy": policy })).await;
        stage.backup_now(token).await;
        stage.has_backups(1).await;
        stage.has_signatures(signed).await;
        stage.delete::<DatabaseBackup>(NAME).await;
        stage.gone::<DatabaseBackup>(NAME).await;
        // The second object must not delete the backups of the first.
        assert_eq!(stage.keys(&bucket).await.len(), 3, "{policy}");
    }
    for key in stage.keys(&bucket).await {
        stage.s3.delete_object().bucket(&bucket).key(key).send().await.expect("a deletion");
    }
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "deletionPolicy": "Delete" })).await;
    stage.becomes("the bucket", |status| describe(status, "BucketReady").0 == "True").await;
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    assert!(stage.s3.head_bucket().bucket(&bucket).send().await.is_err(), "an empty bucket goes with its last user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_missing_holds_up_a_deletion() {
    let stage = Stage::new("bucket-gone").await;
    let operator = Operator::start(&stage).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "deletionPolicy": "Delete" })).await;
    stage.becomes("the bucket", |status| describe(status, "BucketReady").0 == "True").await;
    operator.stop().await;
    stage.s3.delete_bucket().bucket(stage.bucket()).send().await.expect("the bucket goes");
    stage.delete::<DatabaseBackup>(NAME).await;
    let _operator = Operator::start(&stage).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    // A refusal by S3 does not hold up a deletion either.
    stage.create::<DatabaseBackup>("denied", json!({ "schedule": NEVER, "deletionPolicy": "Delete" })).await;
    let api = stage.api::<DatabaseBackup>();
    let look = || async { api.get("denied").await.expect("the object").status.unwrap_or_default() };
    wait_for("the bucket", look, |status| describe(status, "BucketReady").0 == "True").await;
    stage.emulator.fault(json!({ "kind": "access_denied", "service": "s3" })).await;
    stage.delete::<DatabaseBackup>("denied").await;
    stage.gone::<DatabaseBackup>("denied").await;
    stage.emulator.no_faults().await;
    // The event comes after the object is gone.
    stage.has_event("denied", "CleanupGivenUp", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_does_not_go_holds_up_no_deletion() {
    let stage = Stage::new("bucket-stuck").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "deletionPolicy": "Delete" })).await;
    stage.backup_now("one").await;
    let prefix = stage.has_backups(1).await.prefix.expect("a prefix");
    let jobs = stage.api::<Job>();
    let job =
        jobs.list(&ListParams::default()).await.expect("Jobs").items.into_iter().next().expect("a Job").name_any();
    // The finalizer keeps the Job, as a Job's pod on a lost node would.
    let held = |finalizers: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    jobs.patch(&job, &PatchParams::default(), &held(&["example.com/stuck"])).await.expect("the finalizer");
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    let there = jobs.get_opt(&job).await.expect("an answer").and_then(|job| job.metadata.deletion_timestamp);
    let left = stage.keys(&stage.bucket()).await;
    jobs.patch(&job, &PatchParams::default(), &held(&[])).await.expect("it may go");
    assert!(there.is_some(), "the Job is being deleted, but not gone");
    assert!(!left.iter().any(|key| key.starts_with(&format!("{prefix}/"))), "{left:?}");
    stage.has_event(NAME, "JobsRemained", &job).await;
    stage.gone::<Job>(&job).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_share_a_bucket_and_an_account() {
    const OBJECTS: usize = 24;
    let stage = Stage::new("bucket-shared").await;
    let _operator = Operator::start(&stage).await;
    stage.emulator.clear_journal().await;
    let objects = stage.api::<DatabaseBackup>();
    for index in 0..OBJECTS {
        stage.create::<DatabaseBackup>(&format!("nightly-{index}"), json!({ "schedule": NEVER })).await;
    }
    let look = || async {
        let all = objects.list(&ListParams::default()).await.expect("objects").items;
        let ready = |it: &DatabaseBackup| it.status.as_ref().is_some_and(|it| describe(it, "Ready").0 == "True");
        all.iter().filter(|it| ready(it)).count()
    };
    wait_for("all to be ready", look, |ready| *ready == OBJECTS).await;
    let journal = stage.emulator.journal().await;
    let asked = |operation: &str| journal.iter().filter(|call| call.operation == operation).count();
    let once = ["PutBucketTagging", "PutBucketPolicy", "PutBucketLifecycleConfiguration"];
    // A call that took too long is made again.
    let counts = once.map(asked);
    assert!(counts.iter().all(|count| (1..OBJECTS / 4).contains(count)), "one object does it for all: {counts:?}");

    let accounts = stage.api::<ServiceAccount>();
    let owners = || async {
        let account = accounts.get_opt("causeway-backup").await.expect("an answer");
        account.map(|account| account.owner_references().len())
    };
    assert_eq!(owners().await, Some(OBJECTS), "the account goes with the last object");
    let secrets = json!({ "imagePullSecrets": [{ "name": "registry" }] });
    let change = Patch::Merge(&secrets);
    accounts.patch("causeway-backup", &PatchParams::default(), &change).await.expect("the change");
    stage.create::<DatabaseBackup>("nightly-0-late", json!({ "schedule": NEVER })).await;
    wait_for("another owner", owners, |owners| *owners == Some(OBJECTS + 1)).await;
    let account = accounts.get("causeway-backup").await.expect("the account");
    let named = account.image_pull_secrets.into_iter().flatten().map(|secret| secret.name);
    assert_eq!(named.collect::<Vec<_>>(), ["registry"], "the Secret of another client stays");
    objects.delete("nightly-0-late", &DeleteParams::default()).await.expect("the deletion");
    for index in 1..OBJECTS {
        objects.delete(&format!("nightly-{index}"), &DeleteParams::default()).await.expect("the deletion");
    }
    wait_for("one owner to be left", owners, |owners| *owners == Some(1)).await;
    objects.delete("nightly-0", &DeleteParams::default()).await.expect("the deletion");
    wait_for("the account to be gone", owners, Option::is_none).await;
}
