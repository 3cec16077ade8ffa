//! What is decided where more is in S3 than was read.

use jiff::SignedDuration;
use serde_json::json;

use super::super::action::{Action, Change};
use super::super::facts::{Observed, Recording, Signing};
use super::super::fixtures::backup;
use super::tests::{decided, now, settled, words};
use crate::api::DatabaseBackup;
use crate::backup::jobs::Catalog;
use crate::backup::manifest::due_of;
use crate::backup::record::{Evidence, Record};
use crate::external::s3::{Listing, Object};

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
    let found = Catalog::of("p/", &Listing { objects, cut: true }, Vec::new());
    let mut record = Record::default();
    for id in [OLD, NEW] {
        let due = due_of(id).expect("an ID");
        let evidence = Evidence::Manifest("ab".repeat(32));
        record.backups.entry("redis-cache".into()).or_default().insert(due, evidence);
    }
    let mut observed = settled(&object);
    observed.catalog = Some(found);
    observed.recorded = Some(record.clone());
    observed.recording = Some(Recording { record, accepted: 0 });
    observed.signing = Signing::Key("ssh-ed25519 AAAA".into());
    (object, observed)
}

#[test]
fn a_good_backup_that_was_read_in_part_is_not_deleted() {
    let (object, observed) = cut_after(&["data"]);
    let actions = decided(&object, &observed).actions;
    let deletes = |it: &Action| matches!(it, Action::Bucket { change: Change::DeleteObjects { .. }, .. });
    assert!(!actions.iter().any(deletes), "{actions:?}");
}

#[test]
fn a_backup_whose_signature_was_not_read_is_not_signed_again() {
    let (object, observed) = cut_after(&["data", "manifest.json"]);
    assert_eq!(words(&decided(&object, &observed)), Vec::<String>::new());
}
