//! Conditions where more is in S3 than was read. Pure.
//!
//! What was read are the first keys, and those of the newest backups. The rules keep no less of that than they would keep
//! if all were known, so retention goes on.

use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::view::View;

/// Text to append to a message; none where all was read.
pub fn unread(view: &View<'_>) -> Option<String> {
    let catalog = view.observed.catalog.as_ref().filter(|catalog| catalog.cut)?;
    let read = if catalog.lacks_newest { "the oldest of it is" } else { "only the oldest and the newest of it are" };
    Some(format!("; more lies under {0} than is read: {read} counted. {1}", place(view), advice(view)))
}

/// The condition that a backup is missing, where newer ones may be there than those that were read: that is not known.
pub fn overdue(view: &View<'_>) -> Option<ExtraCondition> {
    view.observed.catalog.as_ref().filter(|catalog| catalog.lacks_newest)?;
    let message = format!(
        "more lies under {} than is read, so that the newest backups are not known. {}",
        place(view),
        advice(view)
    );
    let status = ConditionStatus::Unknown;
    Some(ExtraCondition { type_: "BackupOverdue", status, reason: "ListingCut", message })
}

fn place(view: &View<'_>) -> String {
    let bucket = view.observed.bucket.as_ref().map_or("", |bucket| bucket.place.bucket.as_str());
    format!("s3://{bucket}/{}/", view.prefix)
}

fn advice(view: &View<'_>) -> String {
    format!(
        "Keep fewer backups by spec.retention, and look who else writes there: aws s3 ls {} --recursive --summarize",
        place(view)
    )
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::super::super::action::{Action, Change};
    use super::super::super::facts::{Observed, Recording, Signing};
    use super::super::super::fixtures::backup;
    use super::super::tests::{aged, decided, now, settled, words};
    use causeway_api::DatabaseBackup;
    use causeway_aws::s3::{Listing, Object};
    use causeway_backup::jobs::Catalog;
    use causeway_backup::manifest::due_of;
    use causeway_backup::record::{Evidence, Record};
    use causeway_runtime::{ConditionStatus, Health};

    const OLD: &str = "20261118T020000Z";
    const NEW: &str = "20261119T020000Z";

    /// An object, and what is read of its backups, all of which are days old: a signed one, and these keys of the next one.
    fn cut_after(files: &[&str]) -> (DatabaseBackup, Observed) {
        let mut object = backup();
        object.spec.retention = serde_json::from_value(json!({ "keepLast": 1 })).expect("rules");
        let modified = now() - SignedDuration::from_hours(3 * 24);
        let of = |id: &str, file: &str| Object { key: format!("p/redis-cache/{id}/{file}"), size: 10, modified };
        let whole = ["data", "manifest.json", "manifest.json.sig"].map(|file| of(OLD, file));
        let objects = whole.into_iter().chain(files.iter().map(|file| of(NEW, file))).collect();
        let found = Catalog::new("p/", &Listing { objects, cut: true }, Vec::new());
        let mut record = Record::default();
        for id in [OLD, NEW] {
            let due = due_of(id).expect("an ID");
            let evidence = Evidence::Manifest("ab".repeat(32));
            record.backups.entry("redis-cache".into()).or_default().insert(due, evidence);
        }
        let mut observed = aged(settled(&object));
        observed.catalog = Some(found);
        observed.recorded = Some(record.clone());
        observed.recording = Some(Recording { record, accepted: 0 });
        observed.signing = Signing::Key("ssh-ed25519 AAAA".into());
        (object, observed)
    }

    #[test]
    fn a_partly_read_backup_is_not_deleted() {
        let (object, observed) = cut_after(&["data"]);
        let actions = decided(&object, &observed).actions;
        let deletes = |it: &Action| matches!(it, Action::Bucket { change: Change::DeleteObjects { .. }, .. });
        assert!(!actions.iter().any(deletes), "{actions:?}");
    }

    #[test]
    fn an_unread_signature_is_not_written_again() {
        let (object, observed) = cut_after(&["data", "manifest.json"]);
        assert_eq!(words(&decided(&object, &observed)), Vec::<String>::new());
    }

    #[test]
    fn a_cut_listing_reports_nothing_as_overdue() {
        let (object, mut observed) = cut_after(&["data"]);
        let overdue = |observed: &Observed| {
            let plan = decided(&object, observed);
            let part = plan.parts.into_iter().find(|part| part.type_ == "BackupOverdue").expect("the condition");
            (part.status, part.reason, part.message, plan.status)
        };
        let (status, reason, message, reported) = overdue(&observed);
        assert_eq!((status, reason), (ConditionStatus::Unknown, "ListingCut"));
        assert!(message.contains("s3://causeway-prod-111122223333-eu-west-1/shop/nightly/uid-1/"), "{message}");
        assert_eq!((reported.databases.len(), reported.last_success), (0, None), "what was said before stays");
        // The newest are read, and there is more between them and the oldest.
        observed.catalog.as_mut().expect("a catalog").lacks_newest = false;
        let (status, reason, ..) = overdue(&observed);
        assert_eq!((status, reason), (ConditionStatus::True, "BackupMissing"));
        let Health::Ready(cause) = decided(&object, &observed).health else { panic!("ready") };
        assert!(cause.message.contains("than is read: only the oldest and the newest"), "{}", cause.message);
    }
}
