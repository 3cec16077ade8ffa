//! The report of a restore.

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Number of restored keys, or rows.
    pub keys: u64,
    /// Parts of the backup that were left out, in a sentence.
    pub note: Option<String>,
}

impl From<u64> for Restored {
    fn from(keys: u64) -> Self {
        Self { keys, note: None }
    }
}
