//! Reads a dump of MySQL or MariaDB as it passes: which tables it has, and which rows. They cannot be counted with a query,
//! because only the dump's own connection sees its snapshot. Pure.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::super::tables::{Table, Tables};

/// Bytes of a line that are looked at; a table's name fits easily.
const LINE: usize = 1024;
/// The last line of a whole dump.
const TRAILER: &[u8] = b"-- Dump completed";
/// The beginning of the statement before the rows of each table, also of an empty one.
pub const FILLS: &[u8] = b"/*!40000 ALTER TABLE ";

/// A column that says since when a row has its values. The server sets it when it writes the row, so also in a restore.
/// <https://mariadb.com/kb/en/system-versioned-tables/>
const PERIOD: &[u8] = b" GENERATED ALWAYS AS ROW START";

/// Reads the rows of a dump.
#[derive(Default)]
pub struct Rows {
    state: State,
    /// The beginning of the line.
    line: Vec<u8>,
    /// True if this is between `DELIMITER ;;` and `DELIMITER ;`: there are programs, whatever they look like.
    program: bool,
    database: String,
    /// The databases that the dump chooses.
    chosen: BTreeSet<String>,
    table: String,
    tables: BTreeMap<String, (u64, u128)>,
    /// The table that a statement makes.
    made: String,
    /// Tables with such a column.
    periods: BTreeSet<String>,
    complete: bool,
}

#[derive(Default)]
enum State {
    /// In a line of something else.
    #[default]
    Line,
    /// Between the table of an `INSERT INTO` and its rows; `quoted` is true within the quotes of a column's name.
    Columns { quoted: bool },
    /// Between rows.
    Between,
    /// In a row.
    Row { hash: Sha256, quoted: bool, escaped: bool },
}

impl Rows {
    /// Takes what comes next.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match std::mem::take(&mut self.state) {
                State::Line => self.line(bytes),
                State::Columns { quoted } => self.columns(bytes, quoted),
                State::Between => self.between(bytes),
                State::Row { hash, quoted, escaped } => self.row(bytes, hash, quoted, escaped),
            };
        }
    }

    /// Reports whether the dump has nothing of a database. Of a name with several lines that is not known.
    pub fn lacks(&self, database: &str) -> bool {
        !database.contains('\n') && !self.chosen.contains(database)
    }

    /// The tables of the dump; none if the dump has no end.
    pub fn finish(mut self) -> Option<Tables> {
        self.end_line();
        let table = |(name, (rows, sum)): (String, (u64, u128))| {
            let is_counted = self.periods.contains(&name);
            let table =
                if is_counted { Table::counted(rows) } else { Table { rows, sum: format!("{sum:032x}"), root: None } };
            (name, table)
        };
        self.complete.then(|| Tables(self.tables.into_iter().map(table).collect()))
    }

    /// Reads up to the end of the line, or to where rows may begin.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let room = LINE.saturating_sub(self.line.len());
        let before = self.line.len();
        let part = &bytes[..end.unwrap_or(bytes.len())];
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        if let Some((table, used)) = self.insert() {
            self.table = table;
            self.line.clear();
            self.state = State::Columns { quoted: false };
            return &bytes[used.saturating_sub(before)..];
        }
        match end {
            Some(end) => {
                self.end_line();
                &bytes[end + 1..]
            }
            None => &[],
        }
    }

    /// The table that the line inserts into, and where its name ends.
    fn insert(&self) -> Option<(String, usize)> {
        let begin = b"INSERT INTO ";
        let (name, length) = identifier(self.line.strip_prefix(begin)?).filter(|_| !self.program)?;
        // The name is known to be complete only when a byte follows it: a quote might be doubled.
        let used = begin.len() + length;
        (self.line.len() > used).then(|| (self.full(&name), used))
    }

    fn full(&self, table: &str) -> String {
        if self.database.is_empty() { table.to_owned() } else { format!("{}.{table}", self.database) }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        self.complete = line.starts_with(TRAILER);
        if let Some(mark) = line.strip_prefix(b"DELIMITER ") {
            self.program = mark.trim_ascii() != b";";
        } else if self.program {
            return;
        }
        if let Some((name, _)) = line.strip_prefix(b"USE ").and_then(identifier) {
            self.chosen.insert(name.clone());
            self.database = name;
        } else if let Some((name, _)) = line.strip_prefix(FILLS).and_then(identifier) {
            self.tables.entry(self.full(&name)).or_default();
        } else if let Some((name, _)) = line.strip_prefix(b"CREATE TABLE ").and_then(identifier) {
            self.made = self.full(&name);
        } else if line.starts_with(b"  `") && line.windows(PERIOD.len()).any(|part| part == PERIOD) {
            self.periods.insert(self.made.clone());
        }
    }

    fn columns<'a>(&mut self, bytes: &'a [u8], mut quoted: bool) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'`' => quoted = !quoted,
                // The last letter of `VALUES`, as names of columns are in quotes.
                b'S' if !quoted => {
                    self.state = State::Between;
                    return &bytes[at + 1..];
                }
                _ => {}
            }
        }
        self.state = State::Columns { quoted };
        &[]
    }

    fn between<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'(' => {
                    self.state = State::Row { hash: Sha256::new(), quoted: false, escaped: false };
                    return &bytes[at + 1..];
                }
                b';' => {
                    self.state = State::Line;
                    return &bytes[at + 1..];
                }
                _ => {}
            }
        }
        self.state = State::Between;
        &[]
    }

    fn row<'a>(&mut self, bytes: &'a [u8], mut hash: Sha256, mut quoted: bool, mut escaped: bool) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                // A quote in a text is doubled, and is read as an end and a new beginning.
                b'\'' => quoted = !quoted,
                b')' if !quoted => {
                    hash.update(&bytes[..at]);
                    self.add(hash);
                    self.state = State::Between;
                    return &bytes[at + 1..];
                }
                _ => {}
            }
        }
        hash.update(bytes);
        self.state = State::Row { hash, quoted, escaped };
        &[]
    }

    fn add(&mut self, hash: Sha256) {
        let number = hash.finalize().iter().take(16).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        // The table's name is looked up without a copy: rows are many.
        if let Some((rows, sum)) = self.tables.get_mut(&self.table) {
            *rows += 1;
            *sum = sum.wrapping_add(number);
        } else {
            self.tables.insert(self.table.clone(), (1, number));
        }
    }
}

/// The identifier in backquotes at the beginning of a text, and the bytes that it takes.
pub fn identifier(text: &[u8]) -> Option<(String, usize)> {
    let mut name = Vec::new();
    let mut at = 1;
    if text.first() != Some(&b'`') {
        return None;
    }
    loop {
        match (text.get(at)?, text.get(at + 1)) {
            (b'`', Some(b'`')) => {
                name.push(b'`');
                at += 2;
            }
            (b'`', _) => return Some((String::from_utf8_lossy(&name).into_owned(), at + 1)),
            (byte, _) => {
                name.push(*byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(dump: &str, cut: usize) -> Option<Tables> {
        let mut rows = Rows::default();
        for chunk in dump.as_bytes().chunks(cut) {
            rows.push(chunk);
        }
        rows.finish()
    }

    fn counts(dump: &str, cut: usize) -> Vec<(String, u64)> {
        let tables = read(dump, cut).expect("a whole dump").0;
        tables.into_iter().map(|(name, table)| (name, table.rows)).collect()
    }

    const DUMP: &str = "/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19\n\n\
        CREATE TABLE `a` (\n  `id` int(11) NOT NULL\n) ENGINE=InnoDB;\n\
        /*!40000 ALTER TABLE `a` DISABLE KEYS */;\nINSERT INTO `a` VALUES\n(1,'x),(y'),\n(2,'it''s \\'; (\\\\'),\n(3,NULL);\n\
        /*!40000 ALTER TABLE `empty` DISABLE KEYS */;\n\
        DELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\nINSERT INTO `a` VALUES (9,'no row');\nEND ;;\nDELIMITER ;\n\
        INSERT INTO `b``c` (`VALUES`, `S`) VALUES (0x00FF,-1.5e10),(_binary 'z',2);INSERT INTO `a` VALUES (7);\n\
        INSERT INTO `b``c` (`VALUES`, `S`) VALUES (1,1);\n\n-- Dump completed on 2026-11-22  0:05:00\n";

    #[test]
    fn rows_are_told_from_whatever_looks_like_them() {
        for cut in 1..80 {
            let found = counts(DUMP, cut);
            assert_eq!(found, [("a".into(), 4), ("b`c".into(), 3), ("empty".into(), 0)], "cut in {cut}");
        }
    }

    #[test]
    fn rows_whose_versions_get_new_times_are_only_counted() {
        let dump = "USE `s`;\nCREATE TABLE `v` (\n  `id` int(11) NOT NULL,\n  `rs` timestamp(6) GENERATED ALWAYS AS ROW START,\n\
            PERIOD FOR SYSTEM_TIME (`rs`, `re`)\n);\nINSERT INTO `v` VALUES\n(1,'2026-01-01');\nCREATE TABLE `w` (\n  `id` int\n);\n\
            INSERT INTO `w` VALUES\n(1);\n-- Dump completed\n";
        let before = read(dump, 30).unwrap();
        let after =
            read(&dump.replace("2026-01-01", "2026-01-02").replace("GENERATED ALWAYS AS ROW START", ""), 30).unwrap();
        assert_eq!(before.difference(&after, true), None);
        assert!(before.only_counted().unwrap().ends_with(": s.v"), "{:?}", before.only_counted());
        let fewer = read(&dump.replace("\n(1,'2026-01-01')", ""), 30).unwrap();
        assert!(before.difference(&fewer, true).unwrap().contains("s.v"));
    }

    #[test]
    fn a_dump_without_its_last_line_is_not_taken() {
        assert_eq!(read(DUMP.split("-- Dump completed").next().unwrap(), 64), None);
        let more = format!("{DUMP}mysqldump: Got error\n");
        assert_eq!(read(&more, 64), None, "nothing comes behind it");
        assert_eq!(read("", 1), None);
    }

    #[test]
    fn each_database_has_tables_of_its_own() {
        let dump = "USE `one`;\nINSERT INTO `t` VALUES (1);\nUSE `two`;\nINSERT INTO `t` VALUES (1),(2);\n\
                    -- Dump completed\n";
        assert_eq!(counts(dump, 5), [("one.t".into(), 1), ("two.t".into(), 2)]);
    }

    #[test]
    fn a_database_that_a_dump_does_not_have_is_noticed() {
        let mut rows = Rows::default();
        rows.push(b"USE `one`;\nINSERT INTO `t` VALUES ('\nUSE `three`;\n');\nUSE `a``b`;\n-- Dump completed\n");
        let lacking: Vec<&str> =
            ["one", "a`b", "-d", "three", "two\nlines"].into_iter().filter(|it| rows.lacks(it)).collect();
        assert_eq!(lacking, ["-d", "three"]);
    }

    proptest! {
        #[test]
        fn sums_depend_on_rows_not_on_their_order(
            mut values in prop::collection::btree_set("[a-z');(,]{0,12}", 1..9), cut in 1..50_usize, at in any::<prop::sample::Index>(),
        ) {
            let escaped = |values: &[String]| -> Vec<String> {
                values.iter().map(|value| format!("('{}')", value.replace('\'', "\\'"))).collect()
            };
            let one: Vec<String> = values.iter().cloned().collect();
            let mut other = one.clone();
            other.reverse();
            let end = "\n-- Dump completed\n";
            let joined = format!("INSERT INTO `t` VALUES {};{end}", escaped(&one).join(","));
            let apart: Vec<String> = escaped(&other).iter().map(|row| format!("INSERT INTO `t` VALUES {row};")).collect();
            let apart = apart.join("\n");
            let found = read(&joined, cut);
            prop_assert_eq!(found.as_ref().map(|it| it.0["t"].rows), Some(one.len() as u64));
            prop_assert_eq!(&read(&format!("{apart}{end}"), 64), &found);
            values.remove(at.get(&one));
            values.insert("A changed row".into());
            let changed: Vec<String> = values.into_iter().collect();
            let changed = format!("INSERT INTO `t` VALUES {};{end}", escaped(&changed).join(","));
            prop_assert_ne!(read(&changed, 64), found);
        }
    }
}
