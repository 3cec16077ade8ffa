//! The tables of the documentation: found and put between their markers. No I/O.

use std::fmt::Write;

/// The line behind each table.
const END: &str = "<!-- end -->";

/// The line before the table of a database.
fn begin(database: &str) -> String {
    format!("<!-- fidelity: {database}, by cargo xtask test backup::fidelity -->")
}

/// A table of what comes back, and behind that of what does not.
pub fn table(database: &str, rows: &[(&str, bool)]) -> String {
    let mut text = format!("| {database} | comes back |\n|---|---|\n");
    for back in [true, false] {
        for (feature, _) in rows.iter().filter(|row| row.1 == back) {
            // Writing into a `String` cannot fail.
            writeln!(text, "| {feature} | {} |", if back { "yes" } else { "no" }).ok();
        }
    }
    text
}

/// Returns what the documentation has between the markers of a database.
pub fn section_of<'a>(docs: &'a str, database: &str) -> Option<&'a str> {
    let (_, rest) = docs.split_once(&format!("{}\n", begin(database)))?;
    rest.split_once(END).map(|(table, _)| table)
}

/// The documentation with another table between the markers of a database.
pub fn with(docs: &str, database: &str, table: &str) -> Option<String> {
    let begin = begin(database);
    let (before, rest) = docs.split_once(&format!("{begin}\n"))?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{table}{END}{after}"))
}

/// Lines that only one of two tables has: those that are removed, and those that are added.
pub fn difference(old: &str, new: &str) -> Vec<String> {
    let only = |these: &str, those: &str, sign: char| -> Vec<String> {
        let others: Vec<&str> = those.lines().collect();
        these.lines().filter(|line| !others.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    [only(old, new, '-'), only(new, old, '+')].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = "# Docs\n\n<!-- fidelity: Redis, by cargo xtask test backup::fidelity -->\n| old |\n<!-- end -->\n\
                        between\n<!-- fidelity: etcd, by cargo xtask test backup::fidelity -->\n<!-- end -->\nbehind\n";

    #[test]
    fn what_comes_back_is_told_first() {
        let rows = [("users", false), ("keys", true), ("leases", false)];
        let expected = "| etcd | comes back |\n|---|---|\n| keys | yes |\n| users | no |\n| leases | no |\n";
        assert_eq!(table("etcd", &rows), expected);
    }

    #[test]
    fn a_table_is_put_between_its_markers() {
        assert_eq!(section_of(DOCS, "Redis"), Some("| old |\n"));
        assert_eq!(section_of(DOCS, "etcd"), Some(""));
        let table = table("etcd", &[("keys", true)]);
        let docs = with(DOCS, "etcd", &table).expect("it has the markers");
        assert_eq!(section_of(&docs, "etcd"), Some(table.as_str()));
        assert_eq!(section_of(&docs, "Redis"), Some("| old |\n"));
        assert_eq!(docs.replace(&table, ""), DOCS, "nothing else is changed");
    }

    #[test]
    fn what_changed_is_told_line_by_line() {
        let (old, new) =
            (table("etcd", &[("keys", true), ("users", true)]), table("etcd", &[("keys", true), ("users", false)]));
        assert_eq!(difference(&old, &new), ["- | users | yes |", "+ | users | no |"]);
        assert_eq!(difference(&new, &new), Vec::<String>::new());
    }

    #[test]
    fn without_markers_there_is_nothing() {
        assert_eq!(section_of(DOCS, "MariaDB"), None);
        assert_eq!(with(DOCS, "MariaDB", ""), None);
        assert_eq!(with("<!-- fidelity: etcd, by cargo xtask test backup::fidelity -->\n", "etcd", ""), None);
    }
}
