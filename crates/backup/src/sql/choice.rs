//! Which databases of a backup are restored, and under which names. Pure.

use super::{Account, How};
use crate::Error;

/// The field that chooses databases.
pub const FIELD: &str = "spec.include.databases";

/// Which databases of a backup are restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All of them, under their own names.
    All,
    /// These, under their own names.
    Some(Vec<String>),
    /// One of them, under the name in the target's field `database`.
    One { from: String, into: String },
}

impl Choice {
    /// The choice among the databases `there`, which the backup has; an error if the fields contradict each other or the
    /// backup. If the target names a database and nothing is included, the backup's database of that name is taken.
    pub fn of(there: &[String], account: &Account, how: &How<'_>) -> Result<Self, Error> {
        let mut included = how.include.databases.clone();
        included.sort();
        included.dedup();
        let refused = |message: String| Err(Error::Unsupported(message));
        let target = account.side.field(account.kind, "database");
        if let Some(name) = included.iter().find(|name| !there.contains(name)) {
            return refused(format!("{FIELD}: the backup has no database {name}, and of {}", listed(there)));
        }
        match (&account.database, included.as_slice()) {
            (None, []) => Ok(Self::All),
            (None, _) => Ok(Self::Some(there.iter().filter(|name| included.contains(name)).cloned().collect())),
            (Some(into), [one]) => Ok(Self::One { from: one.clone(), into: into.clone() }),
            (Some(name), []) if there.contains(name) => Ok(Self::One { from: name.clone(), into: name.clone() }),
            (Some(name), []) => match there {
                [only] => Ok(Self::One { from: only.clone(), into: name.clone() }),
                _ => refused(format!(
                    "{target}: the backup has no database {name}, and of {}: name one of them, leave it out for all, or say in \
                     {FIELD} which one is restored as {name}",
                    listed(there)
                )),
            },
            (Some(_), several) => {
                let count = several.len();
                refused(format!("{target}: {FIELD} names {count} databases: leave the field out, or include one"))
            }
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Side;
    use super::*;

    fn choose(there: &[&str], included: &[&str], database: Option<&str>) -> Result<Choice, String> {
        let database = database.map(str::to_owned);
        let account = Account { database, ..Account::of_tests(Side::Target, "mysql", "u") };
        let mut how = How::verification(Path::new("/work"));
        how.include.databases = included.iter().map(|name| (*name).to_owned()).collect();
        let there: Vec<String> = there.iter().map(|name| (*name).to_owned()).collect();
        Choice::of(&there, &account, &how).map_err(|error| error.to_string())
    }

    #[test]
    fn databases_are_chosen_by_name() {
        let some = |names: &[&str]| Ok(Choice::Some(names.iter().map(|name| (*name).to_owned()).collect()));
        let one = |from: &str, into: &str| Ok(Choice::One { from: from.into(), into: into.into() });
        let all = ["a", "b", "c"];
        assert_eq!(choose(&all, &[], None), Ok(Choice::All));
        assert_eq!(choose(&all, &["c", "a", "c"], None), some(&["a", "c"]));
        assert_eq!(choose(&all, &["b"], Some("x")), one("b", "x"));
        assert_eq!(choose(&all, &["b"], Some("a")), one("b", "a"), "what is included counts");
        assert_eq!(choose(&all, &["b", "b"], Some("b")), one("b", "b"));
        assert_eq!(choose(&all, &[], Some("b")), one("b", "b"));
        assert_eq!(choose(&["a"], &[], Some("x")), one("a", "x"));
    }

    #[test]
    fn a_choice_that_cannot_be_is_told_with_its_field() {
        for (there, included, database, expected) in [
            (
                &["a", "b"][..],
                &["b", "x"][..],
                None,
                "spec.include.databases: the backup has no database x, and of a, b",
            ),
            (&["a"], &["x"], Some("a"), "spec.include.databases: the backup has no database x, and of a"),
            (&[], &["x"], None, "spec.include.databases: the backup has no database x, and of none"),
            (
                &["a", "b"],
                &["a", "b"],
                Some("a"),
                "spec.target.mysql.database: spec.include.databases names 2 databases: leave",
            ),
            (
                &["a", "b"],
                &[],
                Some("x"),
                "spec.target.mysql.database: the backup has no database x, and of a, b: name one",
            ),
        ] {
            let message = choose(there, included, database).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
