//! The `DatabaseRestore` that a database owns. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::to_value;

use causeway_api::databaserestore::{BackupChoice, Excluded, Included, OnDependents, Restorable};
use causeway_api::{DatabaseRestore, DatabaseRestoreSpec, Duration};
use causeway_runtime::manifest::Manifest;

use crate::names::child;

/// The longest name of a `DatabaseRestore`.
const LONGEST: usize = 48;
/// How long a new database waits for its data: large ones take hours.
const DEADLINE_HOURS: u32 = 6;

/// Its name. If it would be too long, its end becomes a hash.
pub fn name(object: &impl Restorable) -> String {
    child(object, "-restore", LONGEST)
}

/// Returns the spec that brings that backup into this very object. Never with `force`: the database may hold data of
/// its users.
pub fn spec(object: &impl Restorable, from: &BackupChoice) -> DatabaseRestoreSpec {
    DatabaseRestoreSpec {
        from: from.clone(),
        point_in_time: None,
        include: Included::default(),
        exclude: Excluded::default(),
        target: object.target(),
        force: false,
        on_dependents: OnDependents::Fail,
        parallelism: 1,
        dry_run: false,
        resources: None,
        deadline: Duration::from_hours(DEADLINE_HOURS),
    }
}

/// The `DatabaseRestore` of that backup into this very object.
pub fn restore(object: &impl Restorable, from: &BackupChoice, labels: BTreeMap<String, String>) -> Manifest {
    let mut restore = DatabaseRestore::new(&name(object), spec(object, from));
    restore.metadata = ObjectMeta {
        namespace: object.namespace(),
        labels: Some(labels),
        owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..restore.metadata
    };
    Manifest::new::<DatabaseRestore>(to_value(&restore).unwrap_or_default())
}
