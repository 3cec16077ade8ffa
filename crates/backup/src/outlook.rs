//! The changes that a restore would make, as its Job reports them. Pure.

use serde::{Deserialize, Serialize};

use causeway_api::databaserestore::{RestoreAction, RestoreChange, RestoreOutlook};

use super::Error;

/// How many things of each sort are named.
const NAMED: usize = 5;
/// Characters of a name that are kept.
const LONGEST: usize = 48;

/// The changes that a restore would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// The part that the status shows.
    #[serde(flatten)]
    pub reported: RestoreOutlook,
    /// The reason why it would be refused, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Outlook {
    /// Adds things of a sort and the first few of their names. Adds nothing if there are none.
    pub fn add<S: AsRef<str>>(&mut self, action: RestoreAction, what: &str, names: impl IntoIterator<Item = S>) {
        let names: Vec<S> = names.into_iter().collect();
        let first = names.iter().take(NAMED).map(|name| name.as_ref().chars().take(LONGEST).collect()).collect();
        self.count(action, what, names.len() as u64);
        if let Some(change) = self.reported.changes.last_mut().filter(|_| !names.is_empty()) {
            change.names = first;
        }
    }

    /// Adds the number of things of a sort. Adds nothing if it is 0.
    pub fn count(&mut self, action: RestoreAction, what: &str, count: u64) {
        if count > 0 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.reported.changes.push(RestoreChange { action, what: what.to_owned(), count, names: Vec::new() });
        }
    }

    /// Notes why the restore would be refused. Keeps only the first reason.
    pub fn refuse(&mut self, error: &Error) {
        if self.reported.refused.is_none() {
            self.reported.refused = Some(error.reason().to_owned());
            self.refusal = Some(error.describe());
        }
    }

    /// Notes why a check refuses the restore. Another error is passed on.
    pub fn note(&mut self, checked: Result<(), Error>) -> Result<(), Error> {
        match checked {
            Err(error) if error.is_refusal() => self.refuse(&error),
            other => return other,
        }
        Ok(())
    }

    /// Keeps at most `most` names of each sort.
    pub fn shortened(&mut self, most: usize) {
        for change in &mut self.reported.changes {
            change.names.truncate(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_named_and_all_are_counted() {
        let names: Vec<String> = (0..9).map(|number| format!("public.{number}{}", "x".repeat(90))).collect();
        let mut outlook = Outlook::default();
        outlook.add(RestoreAction::Replace, "tables", &names);
        outlook.add(RestoreAction::Drop, "tables", Vec::<String>::new());
        outlook.count(RestoreAction::Create, "rows", 0);
        let [change] = outlook.reported.changes.as_slice() else { panic!("one change: {outlook:?}") };
        assert_eq!((change.count, change.names.len(), change.names[0].len()), (9, NAMED, LONGEST));
        outlook.refuse(&Error::TargetNotEmpty { keys: 5 });
        outlook.refuse(&Error::Interrupted);
        assert_eq!(outlook.reported.refused.as_deref(), Some("TargetNotEmpty"));
    }
}
