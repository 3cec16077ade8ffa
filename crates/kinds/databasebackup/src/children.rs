//! Picks an object's own children from what was found: schedule, and Jobs of each sort.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use causeway_api::DatabaseBackup;
use causeway_runtime::manifest::is_controlled_by;

use super::facts::{Child, Observed};
use super::names::{DROPS_SLOT, LABEL, VERIFIES};
use super::outcomes;

/// Children as they were found.
pub fn observed<'a>(
    object: &DatabaseBackup,
    schedule: Option<&CronJob>,
    account: Option<&ServiceAccount>,
    jobs: impl Iterator<Item = &'a Job>,
) -> Observed {
    let children = child(schedule, object).into_iter().collect();
    let mut jobs: Vec<&Job> = jobs.filter(|job| is_of(job, object, schedule)).collect();
    jobs.sort_by_key(|job| (job.metadata.creation_timestamp.as_ref().map(|time| time.0), job.name_any()));
    let (slot_jobs, jobs): (Vec<&Job>, Vec<&Job>) =
        jobs.into_iter().partition(|job| job.labels().contains_key(DROPS_SLOT));
    let (verifications, backups): (Vec<&Job>, Vec<&Job>) = jobs.into_iter().partition(|job| is_verification(job));
    let account = account.map(|account| serde_json::to_value(account).unwrap_or_default());
    Observed {
        children,
        account,
        jobs: backups.into_iter().map(outcomes::job).collect(),
        verifications: verifications.into_iter().map(outcomes::verification).collect(),
        slot_job: slot_jobs.first().map(|job| outcomes::job(job)),
        ..Observed::default()
    }
}

/// Reports whether a Job proves a backup rather than taking one.
fn is_verification(job: &Job) -> bool {
    job.labels().contains_key(VERIFIES)
}

/// Reports whether a Job is of this object: the object controls it, or the `CronJob` does that the object controls.
fn is_of(job: &Job, object: &DatabaseBackup, schedule: Option<&CronJob>) -> bool {
    let by_schedule =
        schedule.is_some_and(|schedule| is_controlled_by(job, schedule) && is_controlled_by(schedule, object));
    let labelled = job.labels().get(LABEL) == Some(&object.name_any());
    labelled && (is_controlled_by(job, object) || by_schedule)
}

fn child<K>(live: Option<&K>, object: &DatabaseBackup) -> Option<((String, String), Child)>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let live = live?;
    let child = Child {
        value: serde_json::to_value(live).unwrap_or_default(),
        uid: live.uid().unwrap_or_default(),
        ours: is_controlled_by(live, object),
    };
    Some(((K::kind(&()).into_owned(), live.name_any()), child))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::fixtures::backup;
    use super::*;

    fn job(name: &str, labels: &[(&str, &str)], owner: &str) -> Job {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let owner = json!({
            "apiVersion": "example.com/v1", "kind": "DatabaseBackup", "name": "nightly", "uid": owner, "controller": true,
        });
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "labels": labels, "ownerReferences": [owner],
                "annotations": { (super::super::names::FOLDER): "redis-cache" },
            },
        });
        serde_json::from_value(job).expect("a Job")
    }

    #[test]
    fn jobs_that_verify_and_jobs_that_back_up_differ() {
        let ours = (LABEL, "nightly");
        let jobs = [
            job("nightly-verify-1", &[ours, (VERIFIES, "20261122T020000Z")], "uid-1"),
            job("nightly-now-1", &[ours], "uid-1"),
            job("nightly-verify-2", &[ours, (VERIFIES, "20261122T020000Z")], "uid-other"),
            job("nightly-now-2", &[(LABEL, "other")], "uid-1"),
        ];
        let found = observed(&backup(), None, None, jobs.iter());
        assert_eq!(found.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["nightly-now-1"]);
        let [verification] = found.verifications.as_slice() else { panic!("one: {:?}", found.verifications) };
        assert_eq!(verification.job.name, "nightly-verify-1");
        assert_eq!((verification.folder.as_str(), verification.id.as_str()), ("redis-cache", "20261122T020000Z"));
    }
}
