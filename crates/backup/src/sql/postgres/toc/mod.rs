//! The table of contents of a dump, as `pg_restore --list --verbose` prints it, with the names that `--schema-only --verbose`
//! prints: entries, and which of them needs which. Pure.
//! <https://www.postgresql.org/docs/current/app-pgrestore.html>

use std::collections::{BTreeMap, BTreeSet};

/// Entries that hold data. The names of most are only in the list.
const DATA: &[&str] = &["TABLE DATA", "MATERIALIZED VIEW DATA", "SEQUENCE SET", "STATISTICS DATA"];
/// Entries whose names are that of their table, followed by their own.
const OF_A_TABLE: &[&str] =
    &["CONSTRAINT", "CHECK CONSTRAINT", "FK CONSTRAINT", "DEFAULT", "POLICY", "RULE", "TRIGGER"];
/// Entries that belong to the table that is among what they need.
const OF_ITS_TABLE: &[&str] = &["INDEX", "ROW SECURITY", "STATISTICS"];
/// Entries that belong to everything that they need together.
const OF_ALL: &[&str] = &["TABLE ATTACH", "INDEX ATTACH"];
/// Entries that belong to anything that they need.
const OF_ANY: &[&str] = &["ACL", "COMMENT", "SECURITY LABEL", "SEQUENCE OWNED BY"];
/// Kinds of tables, views and sequences.
const RELATIONS: &[&str] = &["FOREIGN TABLE", "MATERIALIZED VIEW", "SEQUENCE", "TABLE", "VIEW"];

/// An entry of the table of contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub id: u32,
    /// Its line of the list.
    pub line: String,
    /// Its sort, such as `TABLE`.
    pub kind: String,
    /// Its schema; empty if it is in none.
    pub schema: String,
    pub name: String,
    pub owner: String,
    /// The entries that it needs, by id.
    pub needs: BTreeSet<u32>,
}

impl Entry {
    /// Schema and name, as people write them.
    pub fn full_name(&self) -> String {
        if self.schema.is_empty() { self.name.clone() } else { format!("{}.{}", self.schema, self.name) }
    }

    /// Reports whether it is a table, a view or a sequence.
    pub fn is_relation(&self) -> bool {
        RELATIONS.contains(&self.kind.as_str())
    }
}

/// All entries, in the order in which they are restored.
#[derive(Debug, Default)]
pub struct Toc {
    pub entries: Vec<Entry>,
    /// Index of each id in `entries`.
    places: BTreeMap<u32, usize>,
}

impl Toc {
    /// Reads the outputs of `--list --verbose` and of `--schema-only --verbose`.
    pub fn read(list: &str, script: &str) -> Self {
        let names = named(script);
        let mut entries: Vec<Entry> = Vec::new();
        for line in list.lines() {
            if let Some(needs) = line.strip_prefix(";\tdepends on:") {
                let needs = needs.split_whitespace().filter_map(|id| id.parse::<u32>().ok());
                entries.last_mut().into_iter().for_each(|entry| entry.needs.extend(needs.clone()));
            } else if let Some((id, text)) = numbered(line) {
                let entry = names.get(&id).cloned().unwrap_or_else(|| data(text));
                entries.push(Entry { id, line: line.to_owned(), ..entry });
            }
        }
        let places = entries.iter().enumerate().map(|(at, entry)| (entry.id, at)).collect();
        Self { entries, places }
    }

    /// The entry of that id.
    pub fn get(&self, id: u32) -> Option<&Entry> {
        self.entries.get(*self.places.get(&id)?)
    }

    /// Reports whether an entry belongs to entries of `chosen`, and so is selected with them.
    pub fn belongs(&self, entry: &Entry, chosen: &BTreeSet<u32>) -> bool {
        let kind = entry.kind.as_str();
        let is_one = |is: &dyn Fn(&Entry) -> bool| {
            entry.needs.iter().any(|id| chosen.contains(id) && self.get(*id).is_some_and(is))
        };
        if DATA.contains(&kind) {
            // Names must match, because the data of a materialized view also need the tables that it reads.
            is_one(&|it| is_data_of(entry, it))
        } else if OF_A_TABLE.contains(&kind) {
            let is_its = |it: &Entry| it.schema == entry.schema && entry.name.starts_with(&format!("{} ", it.name));
            is_one(&|it| it.is_relation() && is_its(it))
        } else if OF_ITS_TABLE.contains(&kind) {
            is_one(&|it| it.is_relation() && it.kind != "SEQUENCE")
        } else if OF_ALL.contains(&kind) {
            entry.needs.is_subset(chosen)
        } else if OF_ANY.contains(&kind) {
            is_one(&|_| true)
        } else {
            // The sequence of a column.
            kind == "SEQUENCE" && is_one(&|it| it.kind == "TABLE")
        }
    }

    /// Partitions of a table, and tables that inherit from it.
    pub fn children(&self, parent: u32) -> impl Iterator<Item = u32> {
        let attached = self.entries.iter().filter(move |it| it.kind == "TABLE ATTACH" && it.needs.contains(&parent));
        attached.filter_map(move |it| {
            let is_child =
                |id: &&u32| self.get(**id).is_some_and(|child| (&child.schema, &child.name) == (&it.schema, &it.name));
            it.needs.iter().find(is_child).copied().filter(|child| *child != parent)
        })
    }
}

/// Reports whether an entry holds the data of another one. If it is only in the list, its text is schema, name and owner.
fn is_data_of(entry: &Entry, it: &Entry) -> bool {
    let is_named = (&entry.schema, &entry.name) == (&it.schema, &it.name);
    it.is_relation() && (is_named || entry.name.starts_with(&format!("{} {} ", it.schema, it.name)))
}

/// Number and text of a line, such as `TABLE public orders postgres` of `215; 1259 16386 TABLE public orders postgres`.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.split_once("; ")?;
    Some((number.parse().ok()?, rest.splitn(3, ' ').nth(2)?))
}

/// An entry that the script does not have. All of its text except the kind becomes the name.
fn data(text: &str) -> Entry {
    let kind = DATA.iter().find(|kind| text.starts_with(&format!("{kind} ")));
    let (kind, name) = kind.map_or(("", text), |kind| (*kind, text[kind.len()..].trim_start()));
    Entry { kind: kind.to_owned(), name: name.to_owned(), ..Entry::default() }
}

/// Entries by id, from the comments of a script.
fn named(script: &str) -> BTreeMap<u32, Entry> {
    let mut found = BTreeMap::new();
    let mut number = None;
    for line in script.lines() {
        if let Some(rest) = line.strip_prefix("-- TOC entry ") {
            number = rest.split_once(' ').and_then(|(id, _)| id.parse().ok());
        } else if let Some(entry) = line.strip_prefix("-- Name: ").and_then(of_comment) {
            found.extend(number.take().map(|id| (id, entry)));
        }
    }
    found
}

/// Reads a comment such as `orders; Type: TABLE; Schema: public; Owner: postgres`.
fn of_comment(text: &str) -> Option<Entry> {
    let text = text.rsplit_once("; Tablespace: ").map_or(text, |(text, _)| text);
    let (text, owner) = text.rsplit_once("; Owner: ")?;
    let (text, schema) = text.rsplit_once("; Schema: ")?;
    let (name, kind) = text.rsplit_once("; Type: ")?;
    let schema = if schema == "-" { "" } else { schema };
    let [kind, schema, name, owner] = [kind, schema, name, owner].map(str::to_owned);
    Some(Entry { kind, schema, name, owner, ..Entry::default() })
}
