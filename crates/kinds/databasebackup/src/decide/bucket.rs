//! The bucket: made where there is none, hardened where it is ours, and used as it is where its owner offers it.

use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::LockMode;
use causeway_aws::s3::{BucketFacts, Found, Lock, Tags};
use causeway_backup::manifest::id_of;
use causeway_backup::transfer::{CAUSEWAY, CLUSTER, MANAGED_BY, OFFERED, is_ours};

use super::super::action::{Action, Change, Hardening};
use super::super::facts::{BACKUPS_LOST, Bucket, Observed, bucket_reason};
use super::super::names::LOST;

/// The reason where the bucket belongs to another owner.
pub const BUCKET_FOREIGN: &str = "BucketForeign";

/// The reason where the bucket is gone and belonged to another owner.
const OFFERED_BUCKET_LOST: &str = "OfferedBucketLost";

/// The reason where a lock is asked for a bucket in which other namespaces have backups, too.
const BUCKET_SHARED: &str = "BucketShared";

/// The verdict about the bucket.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It can be used.
    Usable(&'static str),
    /// It can be used after this change.
    Change(Action),
    /// It cannot be used: a reason, and a sentence with the fix.
    Refused(&'static str, String),
}

/// Returns what is to be done about the bucket that was found.
pub fn verdict(object: &DatabaseBackup, observed: &Observed, bucket: &Bucket) -> Option<Verdict> {
    let (place, cluster) = (&bucket.place, &observed.settings.cluster);
    let name = &place.bucket;
    let change = |change| Action::Bucket { bucket: Box::new(bucket.clone()), change };
    let tags = tags_of(cluster);
    let found = match bucket.found.as_ref()? {
        Found::Absent if is_of_another_cluster(bucket, cluster) => {
            let message = format!(
                "bucket {name} is named as one that an operator makes for its cluster: choose another \
                 spec.destination.bucket, or leave it out"
            );
            return Some(Verdict::Refused("BucketNameReserved", message));
        }
        Found::Absent if let Some(region) = region_of_own(observed, bucket) => {
            let message = format!(
                "bucket {name} has the name reserved for the operator's bucket in region {region}, and this object is of {}: \
                 make another DatabaseBackup with another spec.destination.bucket or region, or leave both out",
                place.region
            );
            return Some(Verdict::Refused("BucketNameReserved", message));
        }
        Found::Absent if was_offered(object) => {
            let message = format!(
                "bucket {name} is gone; its owner had offered it, so it is not made again: make it and give it the tag \
                 {OFFERED}={cluster}, or make another DatabaseBackup"
            );
            return Some(Verdict::Refused(OFFERED_BUCKET_LOST, message));
        }
        Found::Absent if let Some(lost) = loss_message(object, observed, name) => {
            return Some(Verdict::Refused(BACKUPS_LOST, lost));
        }
        Found::Absent if let Some(why) = asked_lock(object).and_then(|_| why_unlocked(observed, bucket)) => {
            return Some(Verdict::Refused(BUCKET_SHARED, why));
        }
        Found::Absent => return Some(Verdict::Change(change(Change::Create(tags)))),
        Found::Forbidden(api_message) => {
            let message = format!(
                "bucket {name} belongs to another account, or the operator may not look at it ({api_message}): choose another \
                 spec.destination.bucket, or allow s3:GetBucketTagging (see iam/policy-backup-operator.json)"
            );
            return Some(Verdict::Refused("BucketForbidden", message));
        }
        Found::Invalid(api_message) => {
            let message =
                format!("bucket {name} cannot be used: {api_message}; check spec.destination.bucket and region");
            return Some(Verdict::Refused("BucketInvalid", message));
        }
        Found::There(found) => found,
    };
    if !is_ours(&found.tags, cluster) {
        if found.tags.get(OFFERED) == Some(cluster) {
            return Some(match missing_lock(object, found) {
                Some(lock) => Verdict::Refused("ObjectLockMissing", unlocked(name, lock)),
                None => Verdict::Usable("Offered"),
            });
        }
        // The operator died between making it and tagging it, on an S3 server that does not do both at once.
        if bucket.usual && found.tags.is_empty() && found.empty {
            return Some(Verdict::Change(change(Change::Tag(tags))));
        }
        let message = format!(
            "bucket {name} exists and is not ours: give it the tag {OFFERED}={cluster} to let backups into it, or choose \
             another spec.destination.bucket"
        );
        return Some(Verdict::Refused(BUCKET_FOREIGN, message));
    }
    if place.endpoint.is_some() {
        return Some(Verdict::Usable("Owned"));
    }
    if let Some(why) = missing_lock(object, found).and_then(|_| why_unlocked(observed, bucket)) {
        return Some(Verdict::Refused(BUCKET_SHARED, why));
    }
    let changes = drift(object, name, found);
    Some(if changes.is_empty() { Verdict::Usable("Owned") } else { Verdict::Change(change(Change::Harden(changes))) })
}

/// Reports whether the bucket belonged to another owner when it was seen last.
fn was_offered(object: &DatabaseBackup) -> bool {
    let reason = bucket_reason(object);
    matches!(reason, Some("Offered" | OFFERED_BUCKET_LOST))
}

/// The message about backups that were lost with the bucket, with the command that acknowledges the loss. None where no
/// backup was recorded, or the loss is acknowledged.
fn loss_message(object: &DatabaseBackup, observed: &Observed, name: &str) -> Option<String> {
    let backups = || observed.recorded.iter().flat_map(|record| record.backups.values()).flatten();
    let newest = id_of(*backups().map(|(due, _)| due).max()?);
    if observed.acknowledged.as_ref() == Some(&newest) {
        return None;
    }
    let (object_name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    Some(format!(
        "bucket {name} is gone, and with it {} backups, the newest of {newest}: check who deleted it (CloudTrail has \
         DeleteBucket). To start again in a new bucket: kubectl -n {namespace} annotate dbb {object_name} {LOST}={newest} \
         --overwrite",
        backups().count()
    ))
}

/// Reports whether the bucket's name is one that the operator of another cluster makes for itself:
/// `causeway-CLUSTER-ACCOUNT-REGION`. A bucket of that name would be in its way.
fn is_of_another_cluster(bucket: &Bucket, cluster: &str) -> bool {
    let (name, of_account) = (&bucket.place.bucket, format!("-{}-", bucket.owner));
    let ours = bucket.usual || name.starts_with(&format!("causeway-{cluster}{of_account}"));
    !ours && name.starts_with("causeway-") && name.contains(&of_account)
}

/// The region of the operator's own bucket of that name, where the object is of another. A bucket made there would be in
/// the way of all objects that name none.
fn region_of_own<'a>(observed: &'a Observed, bucket: &Bucket) -> Option<&'a str> {
    let place = &bucket.place;
    let region = observed.settings.region_of_default(&place.bucket, &bucket.owner)?;
    (place.endpoint.is_none() && region != place.region).then_some(region)
}

/// Reports whether other namespaces have backups in the bucket, or will have some: it is that of objects that name none.
fn is_of_several(observed: &Observed, bucket: &Bucket) -> bool {
    bucket.shared || observed.settings.region_of_default(&bucket.place.bucket, &bucket.owner).is_some()
}

/// Explains why the bucket must not be locked, if it must not.
fn why_unlocked(observed: &Observed, bucket: &Bucket) -> Option<String> {
    let name = &bucket.place.bucket;
    let unknown = || bucket.unlisted.as_ref().map(|namespaces| unknown(name, namespaces));
    if is_of_several(observed, bucket) { Some(shared(name)) } else { unknown() }
}

fn shared(name: &str) -> String {
    format!(
        "spec.destination.objectLock: bucket {name} is not of this namespace alone, and a lock binds everything that is \
         written there: make another DatabaseBackup with a spec.destination.bucket of its own, or leave objectLock out"
    )
}

/// The message about a bucket of which it is not known whether other namespaces use it.
fn unknown(name: &str, namespaces: &str) -> String {
    format!(
        "spec.destination.objectLock: bucket {name} is not locked yet: objects in {namespaces} may use it, and \
         Causeway does not know them all. Let the operator list objects there (its RoleBinding may be missing), make those \
         smaller that have an event Undecodable, or take the namespace out of WATCH_NAMESPACE"
    )
}

fn tags_of(cluster: &str) -> Tags {
    Tags::from([(CLUSTER.into(), cluster.to_owned()), (MANAGED_BY.into(), CAUSEWAY.into())])
}

fn drift(object: &DatabaseBackup, name: &str, found: &BucketFacts) -> Vec<Hardening> {
    let mut changes = Vec::new();
    if !found.private {
        changes.push(Hardening::BlockPublicAccess);
    }
    if !found.owner_enforced {
        changes.push(Hardening::EnforceOwner);
    }
    // A key of a spec is never the default: objects of other namespaces would be encrypted with it, too.
    if found.encryption.is_none() {
        changes.push(Hardening::Encrypt);
    }
    if !found.is_guarded(name) {
        changes.push(Hardening::Guard(Box::new(found.clone())));
    }
    if !found.aborts_uploads() {
        changes.push(Hardening::AbortUploads(Box::new(found.clone())));
    }
    if let Some(lock) = missing_lock(object, found) {
        changes.extend((found.keeping.versions != Some(true)).then_some(Hardening::KeepVersions));
        changes.push(Hardening::Lock(lock));
    }
    changes
}

/// The lock that the bucket lacks. One that it has is never shortened.
fn missing_lock(object: &DatabaseBackup, found: &BucketFacts) -> Option<Lock> {
    let asked = asked_lock(object)?;
    let live = found.keeping.lock;
    let wanted = live.map_or(asked, |live| live.stricter(asked));
    (live != Some(wanted)).then_some(wanted)
}

fn asked_lock(object: &DatabaseBackup) -> Option<Lock> {
    let asked = object.spec.destination.object_lock.as_ref()?;
    Some(Lock { compliance: asked.mode == LockMode::Compliance, days: asked.days })
}

fn unlocked(name: &str, Lock { compliance, days }: Lock) -> String {
    let mode = if compliance { "COMPLIANCE" } else { "GOVERNANCE" };
    format!(
        "spec.destination.objectLock: bucket {name} was offered, and does not lock what is written for {days} days: its owner \
         enables versioning and then aws s3api put-object-lock-configuration --bucket {name} --object-lock-configuration \
         'ObjectLockEnabled=Enabled,Rule={{DefaultRetention={{Mode={mode},Days={days}}}}}'; or leave objectLock out"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::super::fixtures::{backup, observed, prepared, tags};
    use super::super::tests::{decided, words};
    use super::*;
    use causeway_api::databasebackup::ObjectLock;
    use causeway_aws::s3::Keeping;
    use causeway_backup::manifest::due_of;
    use causeway_backup::record::{Evidence, Record};
    use causeway_runtime::{ConditionStatus, Health};

    #[test]
    fn a_bucket_that_another_cluster_will_need_is_not_made() {
        let (object, observed) = (backup(), observed());
        let verdict_on = |name: &str, usual: bool| {
            let mut bucket = observed.bucket.clone().expect("a bucket");
            bucket.place.bucket = name.to_owned();
            bucket.usual = usual;
            verdict(&object, &observed, &bucket)
        };
        let theirs = "causeway-other-111122223333-eu-west-1";
        assert!(matches!(verdict_on(theirs, false), Some(Verdict::Refused("BucketNameReserved", _))));
        assert!(matches!(verdict_on(theirs, true), Some(Verdict::Change(_))), "its own");
        let ours = "causeway-prod-111122223333-locked";
        assert!(matches!(verdict_on(ours, false), Some(Verdict::Change(_))), "of the same cluster");
        assert!(matches!(verdict_on("shop-backups", false), Some(Verdict::Change(_))));
    }

    #[test]
    fn the_operators_bucket_is_made_in_its_region_only() {
        let mut observed = observed();
        let verdict_on = |observed: &Observed, name: &str, endpoint: Option<&str>| {
            let mut bucket = observed.bucket.clone().expect("a bucket");
            bucket.place.bucket = name.to_owned();
            bucket.place.endpoint = endpoint.map(str::to_owned);
            bucket.usual = false;
            verdict(&backup(), observed, &bucket)
        };
        let usual = "causeway-prod-111122223333-us-east-1";
        let refused = verdict_on(&observed, usual, None);
        let Some(Verdict::Refused("BucketNameReserved", message)) = &refused else { panic!("{refused:?}") };
        assert!(message.contains("in region us-east-1, and this object is of eu-west-1"), "{message}");
        let own = "causeway-prod-111122223333-eu-west-1";
        assert!(matches!(verdict_on(&observed, own, None), Some(Verdict::Change(_))));
        let elsewhere = verdict_on(&observed, usual, Some("https://minio.example.com"));
        assert!(matches!(elsewhere, Some(Verdict::Change(_))), "another S3");
        (observed.settings.bucket, observed.settings.region) = (Some("all".into()), "eu-central-1".into());
        assert!(matches!(verdict_on(&observed, "all", None), Some(Verdict::Refused("BucketNameReserved", _))));
    }

    #[test]
    fn only_a_bucket_of_one_namespace_is_locked() {
        let mut object = backup();
        object.spec.destination.object_lock = Some(ObjectLock { mode: LockMode::Compliance, days: 3650 });
        let mut observed = prepared();
        observed.settings.bucket = Some("all".into());
        let verdict_on = |object: &DatabaseBackup, name: &str, shared: bool, found: Option<Found>| {
            let mut bucket = observed.bucket.clone().expect("a bucket");
            bucket.place.bucket = name.to_owned();
            (bucket.usual, bucket.shared) = (false, shared);
            bucket.found = found.or(bucket.found);
            verdict(object, &observed, &bucket)
        };
        let usual = "causeway-prod-111122223333-eu-west-1";
        for (name, is_shared) in [(usual, false), ("all", false), ("locked", true)] {
            // `all` is made in the operator's own region.
            for found in [None, Some(Found::Absent)] {
                let refused = verdict_on(&object, name, is_shared, found);
                let Some(Verdict::Refused(reason, message)) = &refused else { panic!("{name}: {refused:?}") };
                assert_eq!(*reason, "BucketShared", "{name}");
                assert!(message.starts_with(&format!("spec.destination.objectLock: bucket {name} is")), "{message}");
            }
        }
        assert!(matches!(verdict_on(&object, "locked", false, Some(Found::Absent)), Some(Verdict::Change(_))));
        let mut bucket = observed.bucket.clone().expect("a bucket");
        (bucket.place.bucket, bucket.usual, bucket.unlisted) = ("locked".into(), false, Some("shop".into()));
        for found in [Some(Found::Absent), bucket.found.clone()] {
            let refused = verdict(&object, &observed, &Bucket { found, ..bucket.clone() });
            assert!(
                matches!(refused, Some(Verdict::Refused("BucketShared", why)) if why.contains("objects in shop may use it"))
            );
        }
        let locked = |days| {
            let lock = Some(Lock { compliance: true, days });
            let facts =
                BucketFacts { tags: tags(), keeping: Keeping { versions: Some(true), lock }, ..BucketFacts::default() };
            Some(Found::There(Box::new(facts.after_hardening("locked"))))
        };
        assert_eq!(verdict_on(&object, "locked", true, locked(3650)), Some(Verdict::Usable("Owned")), "as it is");
        assert!(matches!(verdict_on(&object, "locked", true, locked(30)), Some(Verdict::Refused("BucketShared", _))));
        object.spec.destination.object_lock = None;
        assert!(matches!(verdict_on(&object, usual, false, Some(Found::Absent)), Some(Verdict::Change(_))));
    }

    #[test]
    fn a_specs_kms_key_never_becomes_the_buckets_default() {
        let mut object = backup();
        object.spec.destination.kms_key_id = Some("arn:aws:kms:eu-west-1:111122223333:key/1234abcd".into());
        let changes = |encryption| drift(&object, "b", &BucketFacts { encryption, ..BucketFacts::default() });
        assert!(changes(None).contains(&Hardening::Encrypt));
        for algorithm in ["AES256", "aws:kms"] {
            assert!(!changes(Some(algorithm.into())).contains(&Hardening::Encrypt), "{algorithm}");
        }
    }

    #[test]
    fn a_lock_is_set_and_never_shortened() {
        let mut object = backup();
        let lock = |compliance, days| Lock { compliance, days };
        let hardened = |object: &DatabaseBackup, keeping: Keeping| {
            let facts = BucketFacts { keeping, ..BucketFacts::default() };
            let changes = drift(object, "b", &facts).into_iter();
            changes.skip_while(|it| !matches!(it, Hardening::KeepVersions | Hardening::Lock(_))).collect::<Vec<_>>()
        };
        assert_eq!(hardened(&object, Keeping::default()), [], "no spec asked");
        object.spec.destination.object_lock = Some(ObjectLock { mode: LockMode::Governance, days: 30 });
        let asked = Hardening::Lock(lock(false, 30));
        assert_eq!(hardened(&object, Keeping::default()), [Hardening::KeepVersions, asked.clone()]);
        let with = |lock| Keeping { versions: Some(true), lock };
        assert_eq!(hardened(&object, with(None)), std::slice::from_ref(&asked));
        assert_eq!(hardened(&object, with(Some(lock(false, 7)))), [asked]);
        assert_eq!(hardened(&object, with(Some(lock(true, 7)))), [Hardening::Lock(lock(true, 30))]);
        for enough in [lock(false, 30), lock(true, 30), lock(false, 31)] {
            assert_eq!(hardened(&object, with(Some(enough))), [], "{enough:?}");
        }
    }

    fn planned(object: &DatabaseBackup, observed: &Observed) -> (Vec<String>, Option<String>) {
        let plan = decided(object, observed);
        let part = plan.parts.iter().find(|part| part.type_ == "BucketReady").expect("the condition");
        let refused = matches!(plan.health, Health::Stalled(_)) && part.status == ConditionStatus::False;
        (words(&plan), refused.then(|| format!("{}: {}", part.reason, part.message)))
    }

    #[test]
    fn a_lost_bucket_is_reported_until_acknowledged() {
        let object = backup();
        let mut observed = observed();
        let made = vec!["CreateBucket(causeway-prod-111122223333-eu-west-1)".to_owned()];
        assert_eq!(planned(&object, &observed), (made.clone(), None), "nothing was there");
        let due = |id: &str| due_of(id).expect("an ID");
        let newest = "20261122T020000Z";
        let backups = [due("20261121T020000Z"), due(newest)].map(|due| (due, Evidence::Manifest("ab".repeat(32))));
        let backups = BTreeMap::from([("redis-cache".to_owned(), BTreeMap::from(backups))]);
        observed.recorded = Some(Record { backups, ..Record::default() });
        let (actions, alarm) = planned(&object, &observed);
        let alarm = alarm.expect("an alarm");
        assert_eq!(actions, Vec::<String>::new(), "no bucket is made");
        for words in ["BackupsLost: ", "2 backups, the newest of 20261122T020000Z", "backups-lost=20261122T020000Z"] {
            assert!(alarm.contains(words), "{words}: {alarm}");
        }
        observed.acknowledged = Some("20261121T020000Z".into());
        assert!(planned(&object, &observed).1.is_some(), "that was an earlier loss");
        observed.acknowledged = Some(newest.into());
        assert_eq!(planned(&object, &observed), (made, None));
    }

    #[test]
    fn an_offered_bucket_is_not_made_again() {
        let mut object = backup();
        let mut observed = observed();
        for before in ["Offered", "OfferedBucketLost"] {
            let condition = json!({
                "type": "BucketReady", "status": "True", "reason": before, "message": "",
                "lastTransitionTime": "2026-11-22T00:00:00Z",
            });
            object.status = serde_json::from_value(json!({ "conditions": [condition] })).expect("a status");
            observed.acknowledged = Some("20261122T020000Z".into());
            let (actions, alarm) = planned(&object, &observed);
            assert_eq!(actions, Vec::<String>::new(), "{before}");
            assert!(alarm.is_some_and(|it| it.starts_with("OfferedBucketLost: ")), "{before}");
        }
    }
}
