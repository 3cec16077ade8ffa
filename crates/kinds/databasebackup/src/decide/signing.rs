//! Which backups are to be signed, and what is reported where that fails.

use std::collections::BTreeSet;

use jiff::Timestamp;

use causeway_backup::record::Evidence;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::facts::{Bucket, Signing, Unsigned};
use super::super::unkept::Backup;
use super::super::view::View;

const UNSIGNED: &str = "UnsignedBackups";
/// How many are signed before everything is looked at again.
const AT_ONCE: usize = 10;

/// The newest backups that count and are not signed, without those that are going to be deleted.
pub fn step(view: &View<'_>, bucket: &Bucket, going: &[Backup<'_>]) -> Option<Action> {
    let observed = view.observed;
    let (Signing::Key(_), Some(catalog)) = (&observed.signing, &observed.catalog) else { return None };
    let record = observed.recording.as_ref().map(|recording| &recording.record)?;
    let unsigned = catalog.folders.iter().flat_map(|(folder, backups)| {
        let counts = catalog.complete(folder).into_iter().filter(|due| !backups[due].signed);
        counts.map(move |due| (due, folder.clone()))
    });
    let going: BTreeSet<(Timestamp, &str)> = going.iter().map(|(folder, due, _)| (*due, *folder)).collect();
    let is_wanted = |(due, folder): &(Timestamp, String)| {
        !observed.odd.contains(&(folder.clone(), *due)) && !going.contains(&(*due, folder.as_str()))
    };
    let mut unsigned: Vec<(Timestamp, String)> = unsigned.filter(is_wanted).collect();
    unsigned.sort_unstable();
    let backups: Vec<Unsigned> = unsigned
        .into_iter()
        .rev()
        .take(AT_ONCE)
        .map(|(due, folder)| {
            let manifest = match record.evidence(&folder, due) {
                Some(Evidence::Manifest(hash)) => Some(hash.clone()),
                _ => None,
            };
            Unsigned { folder, due, manifest }
        })
        .collect();
    let bucket = Box::new(bucket.clone());
    (!backups.is_empty()).then(|| Action::Sign { bucket, prefix: view.prefix.clone(), backups })
}

/// The condition that backups are not signed; present only while that is so.
pub fn part(view: &View<'_>) -> ExtraCondition {
    let absent =
        ExtraCondition { type_: UNSIGNED, status: ConditionStatus::Absent, reason: "Signed", message: String::new() };
    let Signing::Refused(why) = &view.observed.signing else { return absent };
    let message = format!(
        "new backups are taken and count, but are not signed, so that no other cluster will know them as Causeway's: {why}. \
         Let the operator read and make its Secret (deploy/base/backup-records.yaml) and write signatures \
         (iam/policy-backup-operator.json)"
    );
    ExtraCondition { status: ConditionStatus::True, reason: "SigningFailed", message, ..absent }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Recording;
    use super::super::super::fixtures::backup;
    use super::super::tests::{catalog, decided, now, settled, words};
    use super::*;
    use causeway_api::databasebackup::Retention;
    use causeway_backup::manifest::due_of;
    use causeway_backup::record::Record;

    const OLD: &str = "20261121T020000Z";
    const NEW: &str = "20261122T020000Z";

    #[test]
    fn what_counts_is_signed_once_and_nothing_else_is() {
        let object = backup();
        let mut observed = settled(&object);
        observed.catalog = Some(catalog(&[OLD, NEW], &["20261122T030000Z"], now()));
        let mut record = Record::default();
        let due = |id| due_of(id).expect("an ID");
        let hash = "ab".repeat(32);
        record.backups.entry("redis-cache".into()).or_default().insert(due(NEW), Evidence::Manifest(hash.clone()));
        observed.recorded = Some(record.clone());
        observed.recording = Some(Recording { record, accepted: 0 });
        let signed = |observed: &crate::facts::Observed| {
            let actions = decided(&object, observed).actions;
            actions.into_iter().find_map(|action| match action {
                Action::Sign { backups, .. } => Some(backups),
                _ => None,
            })
        };
        assert_eq!(signed(&observed), None, "there is no key");
        observed.signing = Signing::Key("ssh-ed25519 AAAA".into());
        let of = |id, manifest| Unsigned { folder: "redis-cache".into(), due: due(id), manifest };
        assert_eq!(signed(&observed), Some(vec![of(NEW, Some(hash)), of(OLD, None)]));
        observed.odd.insert(("redis-cache".into(), due(NEW)));
        assert_eq!(signed(&observed), Some(vec![of(OLD, None)]), "one is not what was reported");
        let backups = observed.catalog.as_mut().and_then(|it| it.folders.get_mut("redis-cache")).expect("backups");
        backups.get_mut(&due(OLD)).expect("a backup").signed = true;
        assert_eq!(signed(&observed), None);
        assert_eq!(decided(&object, &observed).status.signing_key.as_deref(), Some("ssh-ed25519 AAAA"));
    }

    #[test]
    fn new_backups_are_signed_before_old_ones_go() {
        let mut object = backup();
        object.spec.retention = Retention { keep_last: 1, ..Retention::default() };
        let mut observed = settled(&object);
        observed.catalog = Some(catalog(&[OLD, NEW], &[], now()));
        observed.signing = Signing::Key("ssh-ed25519 AAAA".into());
        observed.recorded = Some(Record::default());
        observed.recording = Some(Recording { record: Record::default(), accepted: 0 });
        let deletion = "DeleteObjects(causeway-prod-111122223333-eu-west-1)";
        assert_eq!(words(&decided(&object, &observed)), ["Sign(1 backups)", deletion, deletion]);
    }

    #[test]
    fn unsigned_backups_are_reported_and_still_taken() {
        let object = backup();
        let mut observed = settled(&object);
        observed.signing = Signing::Refused("AccessDenied".into());
        let plan = decided(&object, &observed);
        assert!(words(&plan).is_empty() && matches!(plan.health, causeway_runtime::Health::Ready(_)));
        let part = plan.parts.iter().find(|part| part.type_ == UNSIGNED).expect("the condition");
        assert!(part.status == ConditionStatus::True && part.message.contains("AccessDenied"), "{part:?}");
        assert!(plan.requeue.is_some(), "it is tried again");
    }
}
