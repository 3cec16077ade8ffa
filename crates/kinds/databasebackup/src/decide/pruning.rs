//! Deletes from S3 the backups that no rule keeps, and what dead runs left behind.

use causeway_aws::s3::DELETED_AT_ONCE;
use causeway_backup::manifest::{DATA, NAME};
use causeway_backup::signature::SIGNATURE;
use causeway_runtime::Health;

use super::super::action::{Action, Change};
use super::super::facts::Bucket;
use super::super::undeleted::Undeleted;
use super::super::unkept::{Backup, OLD, YOUNG, age, base};
use super::super::view::View;

/// Returns what is to be deleted. Manifests go first: without one, what is left is no backup. The data of some backups go
/// before the manifests of the next, so that an error leaves little behind.
pub fn step(view: &View<'_>, bucket: &Bucket, going: &[Backup<'_>]) -> Vec<Action> {
    let Some(catalog) = &view.observed.catalog else { return Vec::new() };
    let change = |change| Action::Bucket { bucket: Box::new(bucket.clone()), change };
    let mut actions = Vec::new();
    // Data and signature are two keys.
    for group in going.chunks(DELETED_AT_ONCE / 2) {
        let (mut manifests, mut data, mut backups) = (Vec::new(), Vec::new(), 0);
        for (folder, due, backup) in group {
            backups += usize::from(backup.is_complete());
            let key = |file| format!("{}/{file}", base(view, folder, *due));
            manifests.extend(backup.manifest.then(|| key(NAME)));
            data.extend(backup.data.then(|| key(DATA)));
            data.extend(backup.signed.then(|| key(SIGNATURE)));
        }
        for keys in [manifests, data].into_iter().filter(|keys| !keys.is_empty()) {
            actions.push(change(Change::DeleteObjects { keys, backups: std::mem::take(&mut backups) }));
        }
    }
    if !view.observed.is_running() {
        let stale = catalog.uploads.iter().filter(|upload| {
            let age = age(view, upload.begun);
            age > OLD || (age > YOUNG && catalog.is_overtaken(upload))
        });
        actions.extend(stale.map(|upload| change(Change::Abort(upload.clone()))));
    }
    actions
}

/// That a right is missing to delete backups.
pub fn denied(view: &View<'_>) -> Option<Health> {
    let is_denied = |it: &Undeleted| !it.locked && it.again > view.now;
    let denied: Vec<(&String, &Undeleted)> = view.observed.undeleted.iter().filter(|(_, it)| is_denied(it)).collect();
    let (backup, first) = denied.first()?;
    let message = format!(
        "spec.retention: {} backups that it does not keep cannot be deleted, such as {backup}: {}",
        denied.len(),
        first.why
    );
    Some(Health::stalled("AccessDenied", message))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::super::facts::{Job, Observed};
    use super::super::super::fixtures::backup;
    use super::super::tests::{catalog, decided, now, settled};
    use super::*;
    use causeway_api::databasebackup::Retention;
    use causeway_aws::s3::{Found, Keeping, Lock, Upload};

    const BEFORE: &str = "p/redis-cache/20261120T020000Z/data";
    const AFTER: &str = "p/redis-cache/20261122T020000Z/data";
    const OTHER: &str = "p/redis-other/20261120T020000Z/data";

    fn aborted(observed: &Observed) -> Vec<String> {
        let actions = decided(&backup(), observed).actions.into_iter();
        let key = |action| match action {
            Action::Bucket { change: Change::Abort(upload), .. } => Some(upload.key),
            _ => None,
        };
        actions.filter_map(key).collect()
    }

    fn with_uploads(minutes: i64) -> Observed {
        let begun = now() - SignedDuration::from_mins(minutes);
        let upload = |key: &str| Upload { key: key.into(), id: "i".into(), begun };
        let mut found = catalog(&["20261121T020000Z"], &[], now());
        found.uploads = [BEFORE, AFTER, OTHER, "p/redis-cache/notes/data"].map(upload).to_vec();
        Observed { catalog: Some(found), ..settled(&backup()) }
    }

    #[test]
    fn overtaken_uploads_are_aborted_sooner() {
        assert!(aborted(&with_uploads(59)).is_empty());
        assert_eq!(aborted(&with_uploads(61)), [BEFORE]);
        assert_eq!(aborted(&with_uploads(25 * 60)).len(), 4);
    }

    #[test]
    fn locked_backups_stay_and_are_reported() {
        let mut object = backup();
        object.spec.retention = Retention { keep_last: 1, ..Retention::default() };
        let with = |hours: i64, lock: Option<Lock>| {
            let written = now() - SignedDuration::from_hours(hours);
            let found = catalog(&["20261120T020000Z", "20261121T020000Z"], &[], written);
            let mut observed = Observed { catalog: Some(found), ..settled(&object) };
            if let Some(Found::There(facts)) = observed.bucket.as_mut().and_then(|bucket| bucket.found.as_mut()) {
                facts.keeping = Keeping { versions: Some(true), lock };
            }
            let plan = decided(&object, &observed);
            let deletes =
                |action: &Action| matches!(action, Action::Bucket { change: Change::DeleteObjects { .. }, .. });
            (plan.actions.iter().any(deletes), plan.status.locked)
        };
        let day = Some(Lock { compliance: false, days: 1 });
        assert_eq!(with(2, None), (true, None));
        let (deleted, locked) = with(2, day);
        assert_eq!(
            (deleted, locked.map(|it| (it.backups, it.until.0))),
            (false, Some((1, now() + SignedDuration::from_hours(23))))
        );
        assert_eq!(with(26, day), (true, None));
    }

    #[test]
    fn while_a_job_runs_no_upload_is_aborted() {
        let mut observed = with_uploads(25 * 60);
        observed.jobs.push(Job { name: "nightly-1".into(), ..Job::default() });
        assert!(aborted(&observed).is_empty());
    }
}
