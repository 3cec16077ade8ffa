//! Objects and what is observed of them, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use aws_config::SdkConfig;
use jiff::Timestamp;
use serde_json::json;

use causeway_api::{DatabaseBackup, Redis};
use causeway_aws::s3::{BucketFacts, Found, Place, S3, Tags};
use causeway_backup::jobs::{Identity, Served, Settings, of_redis};
use causeway_backup::transfer::{CAUSEWAY, CLUSTER, MANAGED_BY};
use causeway_runtime::denied;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::facts::{Bucket, Database, Observed};
use super::observe::Observer;
use super::restoring::InUse;

/// An observer that may do nothing in Kubernetes, and how many calls it made.
pub fn denied() -> (Observer, Arc<AtomicUsize>) {
    denied_beside(S3::new(&SdkConfig::builder().build(), Metrics::new(), Fence::always_open()))
}

/// The same with that S3.
pub fn denied_beside(s3: S3) -> (Observer, Arc<AtomicUsize>) {
    let (client, calls) = denied::denying_apiserver();
    (Observer::new(client, s3, Settings::default(), Duration::from_mins(5), Guardrails::default(), true), calls)
}

/// A backup of every database, each day.
pub fn backup() -> DatabaseBackup {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
        "metadata": {
            "name": "nightly", "namespace": "shop", "uid": "uid-1", "creationTimestamp": "2026-11-01T00:00:00Z",
        },
        "spec": { "schedule": "0 2 * * *" },
    });
    serde_json::from_value(object).expect("an object")
}

/// Tags of a bucket of ours.
pub fn tags() -> Tags {
    BTreeMap::from([(CLUSTER.into(), "prod".into()), (MANAGED_BY.into(), CAUSEWAY.into())])
}

/// A namespace with a Redis, and no bucket yet.
pub fn observed() -> Observed {
    let redis = json!({
        "apiVersion": "example.com/v1", "kind": "Redis",
        "metadata": { "name": "cache", "namespace": "shop" }, "spec": { "auth": { "enabled": true } },
    });
    let redis: Redis = serde_json::from_value(redis).expect("a Redis");
    let place =
        Place { bucket: "causeway-prod-111122223333-eu-west-1".into(), region: "eu-west-1".into(), endpoint: None };
    Observed {
        settings: Settings {
            cluster: "prod".into(),
            identity: Some(Identity::WebIdentity("arn:aws:iam::111122223333:role/causeway-backup-{namespace}".into())),
            image: Some("registry.example.com/causeway:1".into()),
            region: "eu-west-1".into(),
            ..Settings::default()
        },
        sources: vec![Database {
            access: of_redis(&redis, false),
            since: Timestamp::UNIX_EPOCH,
            served: Served::of_redis(&redis),
        }],
        bucket: Some(Bucket {
            place,
            owner: "111122223333".into(),
            usual: true,
            shared: false,
            unlisted: None,
            found: Some(Found::Absent),
        }),
        ..Observed::default()
    }
}

/// The same with a bucket as it should be, and without restores.
pub fn prepared() -> Observed {
    let mut observed = Observed { in_use: Some(InUse::default()), ..observed() };
    if let Some(bucket) = &mut observed.bucket {
        let facts = BucketFacts { tags: tags(), private: true, owner_enforced: true, ..BucketFacts::default() };
        bucket.found = Some(Found::There(Box::new(facts.after_hardening(&bucket.place.bucket))));
    }
    observed
}
