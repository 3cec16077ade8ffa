//! An object and what was observed of it, with values derived from both. Pure.

use jiff::Timestamp;

use causeway_api::{DatabaseBackup, DatabaseBackupStatus};

use super::facts::Observed;
use super::names::prefix;

/// The facts that a decision is based on.
pub struct View<'a> {
    pub object: &'a DatabaseBackup,
    pub observed: &'a Observed,
    /// The status as it was reported last.
    pub before: DatabaseBackupStatus,
    /// The prefix of all keys, without a slash at the end.
    pub prefix: String,
    pub now: Timestamp,
}

impl<'a> View<'a> {
    /// The view of an object at an instant.
    pub fn new(object: &'a DatabaseBackup, observed: &'a Observed, now: Timestamp) -> Self {
        Self { object, observed, before: object.status.clone().unwrap_or_default(), prefix: prefix(object), now }
    }
}
