//! The contents of tables: how many rows, and a sum of hashes of them that does not depend on their order. Kept in the backup,
//! and compared with what was restored.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::words::some_of;

/// How a sum begins whose rows were hashed with their columns sorted by name.
pub const BY_NAME: &str = "n:";
/// The text in place of a sum of a table whose rows are only counted: a restore gives them values of its own.
const COUNTED: &str = "c:";
/// How a text begins that is no sum, but the reason why there is none.
const UNCOMPARED: &str = "?:";
/// How many tables are named that were not compared.
const NAMED: usize = 3;

/// Tables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(pub BTreeMap<String, Table>);

/// The contents of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub rows: u64,
    /// The sum of their hashes. Sums are comparable only for the same kind of server and the same major version, and if both
    /// or neither begin with [`BY_NAME`].
    pub sum: String,
    /// The table that is partitioned, if this is a partition. Only a server says it, and a backup does not.
    pub root: Option<String>,
}

impl Table {
    /// A table of which it is not known what it holds.
    pub fn without_sum(why: &str) -> Self {
        Self { rows: 0, sum: format!("{UNCOMPARED}{why}"), root: None }
    }

    /// A table of which only the number of rows can be compared.
    pub fn counted(rows: u64) -> Self {
        Self { rows, sum: COUNTED.into(), root: None }
    }

    /// Explains why it is not known what the table holds; none if it is known.
    pub fn uncompared(&self) -> Option<&str> {
        self.sum.strip_prefix(UNCOMPARED)
    }
}

impl Tables {
    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        self.0.values().map(|table| table.rows).sum()
    }

    /// Splits the tables into `count` shares with about equally many rows. There are fewer shares if there are fewer tables.
    pub fn shares(&self, count: usize) -> Vec<Self> {
        let mut shares = vec![(0, Self::default()); count.min(self.0.len()).max(1)];
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, table)| Reverse(table.rows));
        for (name, table) in all {
            // There is at least one share.
            let Some((rows, least)) = shares.iter_mut().min_by_key(|(rows, _)| *rows) else { break };
            // A table without rows counts as one row, because it is work, too.
            *rows += table.rows + 1;
            least.0.insert(name.clone(), table.clone());
        }
        shares.into_iter().map(|(_, share)| share).collect()
    }

    /// The text in the backup: one line of JSON for each table.
    pub fn text(&self) -> String {
        // Names and numbers cannot fail to serialize.
        let line = |(name, table): (&String, &Table)| {
            serde_json::to_string(&(name, table.rows, &table.sum)).unwrap_or_default() + "\n"
        };
        self.0.iter().map(line).collect()
    }

    /// Parses that text.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let line = |line: &str| {
            let (name, rows, sum) = serde_json::from_str(line)?;
            Ok((name, Table { rows, sum, root: None }))
        };
        text.lines().map(line).collect::<Result<_, _>>().map(Self)
    }

    /// The first difference in `restored`, in words; none if each table of the backup is there with the same rows. Unless
    /// `exact` is set and their sums are comparable, the same number of rows is enough.
    ///
    /// Partitions of one table are compared together: `pg_dump` may load rows by that table, and a hash of a type whose values
    /// have other numbers after a restore, such as an enum, then puts them into other partitions.
    /// <https://www.postgresql.org/docs/current/app-pgdump.html>
    pub fn difference(&self, restored: &Self, exact: bool) -> Option<String> {
        let mut groups: BTreeMap<&str, Vec<(&Table, &Table)>> = BTreeMap::new();
        for (name, before) in &self.0 {
            let Some(after) = restored.0.get(name) else { return Some(format!("the table {name} is missing")) };
            groups.entry(after.root.as_deref().unwrap_or(name)).or_default().push((before, after));
        }
        groups.iter().find_map(|(name, pairs)| group_difference(name, pairs, exact))
    }

    /// The tables whose rows are only counted, in words; none if there are none.
    pub fn only_counted(&self) -> Option<String> {
        let all = self.0.iter().filter(|(_, table)| table.sum == COUNTED);
        let names: Vec<&String> = all.map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| {
            let names = some_of(&names, NAMED);
            format!("rows are counted, not compared, as the server gives them new times of their versions: {names}")
        })
    }

    /// The tables that were not compared, with the reasons; none if all were.
    pub fn uncompared(&self) -> Option<String> {
        let all = self.0.iter().filter_map(|(name, table)| Some(format!("{name} ({})", table.uncompared()?)));
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| some_of(&all, NAMED))
    }
}

/// The difference of tables that are compared together.
fn group_difference(name: &str, pairs: &[(&Table, &Table)], exact: bool) -> Option<String> {
    if pairs.iter().any(|(before, after)| before.uncompared().or_else(|| after.uncompared()).is_some()) {
        return None;
    }
    let (before, after): (u64, u64) =
        (pairs.iter().map(|(before, _)| before.rows).sum(), pairs.iter().map(|(_, after)| after.rows).sum());
    if before != after {
        return Some(format!("the table {name} has {after} rows, and {before} in the backup"));
    }
    // A table gets its parents after it was made, or loses them, so the same rows may be hashed in two ways.
    let is_comparable =
        pairs.iter().all(|(before, after)| is_by_name(before) == is_by_name(after) && before.sum != COUNTED);
    let is_other = match pairs {
        [(before, after)] => before.sum != after.sum,
        _ => total(pairs.iter().map(|(before, _)| *before)) != total(pairs.iter().map(|(_, after)| *after)),
    };
    (exact && is_comparable && is_other)
        .then(|| format!("the table {name} has as many rows as in the backup, and other ones"))
}

/// The sum of the sums of several tables.
fn total<'a>(tables: impl Iterator<Item = &'a Table>) -> i128 {
    let sum = |table: &Table| table.sum.trim_start_matches(BY_NAME).parse::<i128>().unwrap_or_default();
    tables.map(sum).fold(0, i128::wrapping_add)
}

fn is_by_name(table: &Table) -> bool {
    table.sum.starts_with(BY_NAME)
}

/// Reports whether servers of these versions print values in the same way: other major versions print some of them differently.
pub fn alike(one: &str, other: &str) -> bool {
    let major = |version: &str| version.split(|c: char| !c.is_ascii_digit()).next().map(str::to_owned);
    major(one).is_some_and(|it| !it.is_empty() && Some(it) == major(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tables(all: &[(&str, u64, &str)]) -> Tables {
        let table = |(name, rows, sum): &(&str, u64, &str)| {
            ((*name).to_owned(), Table { rows: *rows, sum: (*sum).to_owned(), root: None })
        };
        Tables(all.iter().map(table).collect())
    }

    #[test]
    fn shares_have_about_as_many_rows_and_together_all_tables() {
        let all = tables(&[("a", 100, ""), ("b", 60, ""), ("c", 50, ""), ("d", 0, ""), ("e", 0, "")]);
        let shares = all.shares(2);
        assert_eq!(shares.iter().map(Tables::rows).collect::<Vec<_>>(), [100, 110]);
        assert_eq!(Tables(shares.into_iter().flat_map(|share| share.0).collect()), all);
        assert_eq!((all.shares(16).len(), all.shares(1).len(), Tables::default().shares(4).len()), (5, 1, 1));
    }

    proptest! {
        #[test]
        fn tables_are_read_as_they_were_written(all in prop::collection::btree_map(any::<String>(), (any::<u64>(), "[0-9a-f]*"), 0..9)) {
            let table = |(name, (rows, sum))| (name, Table { rows, sum, root: None });
            let tables = Tables(all.into_iter().map(table).collect());
            prop_assert_eq!(Tables::read(&tables.text()).unwrap(), tables);
        }
    }

    #[test]
    fn a_changed_table_is_named() {
        let before = tables(&[("public.a", 2, "7"), ("public.b", 0, "0")]);
        assert_eq!(before.difference(&before, true), None);
        let more = tables(&[("public.a", 2, "7"), ("public.b", 0, "0"), ("public.c", 5, "9")]);
        assert_eq!(before.difference(&more, true), None, "what the backup lacks is not its matter");
        let message = |after: &[(&str, u64, &str)], exact| before.difference(&tables(after), exact).unwrap_or_default();
        assert_eq!(message(&[("public.a", 2, "7")], true), "the table public.b is missing");
        let fewer = message(&[("public.a", 1, "7"), ("public.b", 0, "0")], false);
        assert_eq!(fewer, "the table public.a has 1 rows, and 2 in the backup");
        let other = [("public.a", 2, "8"), ("public.b", 0, "0")];
        assert!(message(&other, true).contains("public.a has as many rows"));
        assert_eq!(message(&other, false), "");
    }

    #[test]
    fn sums_of_other_hashes_are_not_compared() {
        let differ = |before: &str, after: &str, rows| {
            tables(&[("public.a", 2, before)]).difference(&tables(&[("public.a", rows, after)]), true).is_some()
        };
        assert!(!differ("7", "n:8", 2) && !differ("n:8", "7", 2), "only the number of rows counts");
        assert!(differ("7", "n:8", 3) && differ("n:8", "7", 1));
        assert!(differ("n:7", "n:8", 2) && !differ("n:7", "n:7", 2));
    }

    #[test]
    fn moved_rows_are_compared_by_the_root_table() {
        let before = tables(&[("public.p1", 2, "n:7"), ("public.p2", 1, "n:5"), ("public.t", 1, "1")]);
        let after = |first: (u64, &str), second: (u64, &str)| {
            let mut after =
                tables(&[("public.p1", first.0, first.1), ("public.p2", second.0, second.1), ("public.t", 1, "1")]);
            for name in ["public.p1", "public.p2"] {
                after.0.get_mut(name).unwrap().root = Some("public.parts".into());
            }
            before.difference(&after, true)
        };
        assert_eq!(after((0, "n:0"), (3, "n:12")), None, "as one partition is restored");
        assert_eq!(after((2, "n:7"), (1, "n:5")), None);
        assert_eq!(
            after((2, "n:7"), (0, "n:0")),
            Some("the table public.parts has 2 rows, and 3 in the backup".into())
        );
        assert!(after((0, "n:0"), (3, "n:13")).unwrap().contains("public.parts has as many rows"));
        assert_eq!(after((0, "0"), (3, "13")), None, "hashed in another way");
    }

    #[test]
    fn a_table_that_could_not_be_counted_is_only_named() {
        let mut before = tables(&[("public.a", 2, "7")]);
        before.0.insert("public.b".into(), Table::without_sum("function helper(text) does not exist"));
        let before = Tables::read(&before.text()).unwrap();
        assert_eq!(before.uncompared().as_deref(), Some("public.b (function helper(text) does not exist)"));
        assert_eq!(before.difference(&tables(&[("public.a", 2, "7"), ("public.b", 9, "3")]), true), None);
        assert_eq!(
            before.difference(&tables(&[("public.a", 2, "7")]), true),
            Some("the table public.b is missing".into())
        );
        assert_eq!(tables(&[("public.a", 2, "7")]).uncompared(), None);
    }

    #[test]
    fn only_servers_of_one_major_version_write_alike() {
        assert!(alike("15.18 (Debian 15.18-0)", "15.20"));
        assert!(alike("10.11.19-MariaDB", "10.11.2-MariaDB"));
        assert!(!alike("15.18", "16.1") && !alike("", ""));
    }
}
