//! Service account and schedule: what is missing or differs is applied.

use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::service_account;
use causeway_backup::plan::BackupPlan;
use causeway_runtime::Health;
use causeway_runtime::manifest::{Manifest, is_left_over, left_over, owners_of};

use super::super::action::Action;
use super::super::resources;
use super::super::view::View;

/// Explains why nothing is touched: something with the name of a child does not belong to this object.
pub fn foreign(view: &View<'_>) -> Option<Health> {
    let ((kind, name), child) = view.observed.children.iter().find(|(_, child)| !child.ours)?;
    if is_left_over(&owners_of(&child.value), view.object) {
        return Some(Health::progressing("Applying", left_over::<DatabaseBackup>(kind, name)));
    }
    let message =
        format!("{kind} {name} exists and does not belong to this object: delete it, or choose another metadata.name");
    Some(Health::stalled("NameTaken", message))
}

/// Children that are missing or differ.
pub fn step(view: &View<'_>, plan: &BackupPlan) -> Vec<Action> {
    let (object, observed) = (view.object, view.observed);
    let account = service_account(object);
    let account = (!observed.account.as_ref().is_some_and(|live| account.is_met_by(live)))
        .then(|| Action::Apply { child: Box::new(account), uid: None });
    account.into_iter().chain(unless_met(view, resources::cron_job(object, observed, plan))).collect()
}

/// Suspends the schedule, if it is not suspended. [`step`] resumes it.
pub fn hold(view: &View<'_>) -> Option<Action> {
    let name = view.object.name_any();
    let live = view.observed.child("CronJob", &name)?;
    (live.ours && live.value["spec"]["suspend"] != true).then(|| Action::Hold { name, uid: live.uid.clone() })
}

fn unless_met(view: &View<'_>, child: Manifest) -> Option<Action> {
    let live = view.observed.child(child.kind(), child.name());
    if live.is_some_and(|live| child.is_met_by(&live.value)) {
        return None;
    }
    Some(Action::Apply { uid: live.map(|live| live.uid.clone()), child: Box::new(child) })
}

#[cfg(test)]
mod tests {
    use super::super::super::action::Action;
    use super::super::super::facts::{Observed, Withheld};
    use super::super::super::fixtures::backup;
    use super::super::tests::{aged, decided, settled, words};
    use causeway_api::DatabaseBackup;
    use causeway_aws::s3::{BucketFacts, Found, Tags};
    use causeway_runtime::consent::Refusal;
    use causeway_runtime::{ConditionStatus, Health};
    use kube::ResourceExt;
    use serde_json::json;

    fn why(object: &DatabaseBackup, observed: &Observed) -> (Vec<String>, String) {
        let plan = decided(object, observed);
        let Health::Stalled(cause) = &plan.health else { panic!("stalled") };
        (words(&plan), cause.reason.to_string())
    }

    fn suspend_schedule(observed: &mut Observed) {
        let schedule = observed.children.values_mut().find(|child| child.value["kind"] == "CronJob");
        schedule.expect("a schedule").value["spec"]["suspend"] = true.into();
    }

    #[test]
    fn leftovers_are_waited_for_and_foreign_children_reported() {
        let object = backup();
        let mut observed = settled(&object);
        let plan = observed.children.values_mut().next().expect("a schedule");
        plan.ours = false;
        let owner = json!([{ "apiVersion": "example.com/v1", "controller": true, "kind": "DatabaseBackup", "name": object.name_any(), "uid": "earlier" }]);
        plan.value["metadata"]["ownerReferences"] = owner;
        let decision = decided(&object, &observed);
        let Health::Progressing(cause) = &decision.health else { panic!("{:?}", decision.health) };
        assert!(cause.message.contains("earlier DatabaseBackup") && words(&decision).is_empty(), "{cause:?}");
        let plan = observed.children.values_mut().next().expect("a schedule");
        plan.value["metadata"]["ownerReferences"][0]["name"] = "other".into();
        assert_eq!(why(&object, &observed), (Vec::new(), "NameTaken".to_owned()));
    }

    #[test]
    fn no_backup_goes_into_a_bucket_of_another_owner() {
        let object = backup();
        let mut observed = settled(&object);
        let usable = observed.bucket.clone();
        let theirs = Tags::from([("team".into(), "data".into())]);
        if let Some(bucket) = &mut observed.bucket {
            bucket.found = Some(Found::There(Box::new(BucketFacts { tags: theirs, ..BucketFacts::default() })));
        }
        assert_eq!(why(&object, &observed), (vec!["Hold(nightly)".to_owned()], "BucketForeign".to_owned()));
        suspend_schedule(&mut observed);
        assert!(decided(&object, &observed).actions.is_empty(), "it stands still");
        observed.bucket = usable;
        assert_eq!(words(&decided(&object, &observed)), ["Apply(CronJob nightly)"], "it goes on");
    }

    #[test]
    fn no_backup_goes_to_a_forbidden_endpoint() {
        let mut object = backup();
        let mut observed = settled(&object);
        object.spec.destination.endpoint = Some("https://minio.example.com".into());
        let refused = (vec!["Hold(nightly)".to_owned()], "EndpointNotAllowed".to_owned());
        assert_eq!(why(&object, &observed), refused);
        object.spec.schedule = "61 * * * *".into();
        assert_eq!(why(&object, &observed), refused, "whatever else is wrong");
        object.spec.destination.endpoint = None;
        assert_eq!(why(&object, &observed), (Vec::new(), "ScheduleInvalid".to_owned()));
        object.spec.schedule = "@daily".into();
        observed.settings.identity = None;
        assert_eq!(why(&object, &observed), (Vec::new(), "RoleMissing".to_owned()));
    }

    #[test]
    fn a_database_without_consent_leaves_the_schedule() {
        let object = backup();
        let mut observed = aged(settled(&object));
        let database = observed.sources.remove(0);
        let refusal = Refusal { reason: "SecretNotShared", message: "Secret cache-auth does not agree".into() };
        observed.withheld.push(Withheld { database, refusal });
        let plan = decided(&object, &observed);
        assert_eq!(words(&plan), ["Apply(CronJob nightly)"]);
        let schedule = plan.actions.iter().find_map(|action| match action {
            Action::Apply { child, .. } if child.kind() == "CronJob" => Some(&child.value["spec"]),
            _ => None,
        });
        let schedule = schedule.expect("a schedule");
        assert_eq!(schedule["suspend"], true, "it stands still");
        assert!(!schedule.to_string().contains("cache-auth"), "and mounts nothing: {schedule}");
        let Health::Stalled(cause) = &plan.health else { panic!("stalled") };
        assert_eq!((cause.reason, plan.status.next_run.is_none()), ("SecretNotShared", true));
        assert!(cause.message.starts_with("Redis cache is not backed up: Secret cache-auth"), "{}", cause.message);
        let overdue = plan.parts.iter().find(|part| part.type_ == "BackupOverdue").expect("the condition");
        assert_eq!(overdue.status, ConditionStatus::True, "a backup is missing all the same: {overdue:?}");
    }

    #[test]
    fn withdrawn_consent_stops_an_outdated_schedule() {
        let mut object = backup();
        let mut observed = settled(&object);
        let schedule = observed.children.values_mut().find(|child| child.value["kind"] == "CronJob");
        let pod = &mut schedule.expect("a schedule").value["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        pod["volumes"] = serde_json::json!([{ "name": "secret-0", "secret": { "secretName": "withdrawn" } }]);
        let bucket = observed.bucket.clone();
        object.spec.schedule = "61 * * * *".into();
        assert_eq!(why(&object, &observed), (vec!["Hold(nightly)".to_owned()], "ScheduleInvalid".to_owned()));
        object.spec.schedule = "@daily".into();
        observed.bucket = None;
        assert_eq!(words(&decided(&object, &observed)), ["Hold(nightly)"], "AWS does not answer");
        observed.bucket = bucket;
        if let Some(bucket) = &mut observed.bucket {
            bucket.found = Some(Found::Forbidden("no".into()));
        }
        assert_eq!(why(&object, &observed), (vec!["Hold(nightly)".to_owned()], "BucketForbidden".to_owned()));
        suspend_schedule(&mut observed);
        assert_eq!(why(&object, &observed), (Vec::new(), "BucketForbidden".to_owned()), "it stands still");
    }

    #[test]
    fn a_bucket_that_cannot_be_looked_at_stops_nothing() {
        let object = backup();
        let mut observed = settled(&object);
        if let Some(bucket) = &mut observed.bucket {
            bucket.found = Some(Found::Forbidden("no".into()));
        }
        assert_eq!(why(&object, &observed), (Vec::new(), "BucketForbidden".to_owned()));
    }
}
