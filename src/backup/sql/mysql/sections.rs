//! Where a dump of several databases has which of them. Pure.
//!
//! ```text
//! head │ CREATE DATABASE `a`; USE `a`; … │ CREATE DATABASE `b`; USE `b`; … │ USE `a`; views │ USE `b`; views │ tail
//! ```
//!
//! A dump that is not in this order is not taken apart: nothing of one database may come into another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::quoted;
use super::rows::identifier;
use super::statements::{Statement, Statements, bare};

/// What the tail begins with.
const TAIL: &[u8] = b"SET TIME_ZONE=@OLD_TIME_ZONE";

/// A dump that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// First what makes each database, then, where there are any, the views of each.
    all: Vec<Section>,
    /// Where the last one ends.
    tail: u64,
    end: u64,
}

/// A part of a dump that is of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Section {
    database: String,
    begin: u64,
    /// The statement that makes the database.
    create: Option<Named>,
    /// The one that chooses it.
    chosen: Range<u64>,
    /// Those that change it: from one collation to another, around a program.
    changes: Vec<Named>,
    tables: BTreeSet<String>,
}

/// A statement that names its database, and where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    statement: Range<u64>,
    name: Range<u64>,
}

/// What comes next of a part of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of it.
    Bytes(Range<u64>),
    /// In place of others.
    Text(String),
}

/// Reads a dump.
pub struct Reader {
    statements: Statements,
    finding: Finding,
}

/// What was found so far.
#[derive(Default)]
struct Finding {
    sections: Vec<Section>,
    tail: Option<u64>,
    /// Something is where no dump has it.
    strange: bool,
}

/// What a statement says of databases.
enum Kind {
    Create(String, Range<u64>),
    Change(String, Range<u64>),
    Choose(String),
    Table(String),
    Tail,
    Other,
}

impl Reader {
    /// Of a dump of a server that is MariaDB or not.
    pub fn of(maria: bool) -> Self {
        Self { statements: Statements::of(maria), finding: Finding::default() }
    }

    /// Takes what comes next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.statements.push(bytes, &mut |statement| self.finding.add(statement));
    }

    /// What there was; none where it is no dump of several databases, or one of another order.
    pub fn finish(mut self) -> Option<Sections> {
        let end = self.statements.finish(&mut |statement| self.finding.add(statement))?;
        let Finding { sections, tail, strange } = self.finding;
        let is_chosen = |section: &Section| !section.chosen.is_empty();
        let is_whole = !strange && !sections.is_empty() && sections.iter().all(is_chosen);
        is_whole.then(|| Sections { all: sections, tail: tail.unwrap_or(end), end })
    }
}

impl Finding {
    fn add(&mut self, statement: &Statement<'_>) {
        match kind(statement) {
            Kind::Other => {}
            _ if self.tail.is_some() => self.strange = true,
            Kind::Create(database, name) => {
                self.strange |= self.sections.iter().any(|it| it.database == database || it.create.is_none());
                let create = Some(Named { statement: statement.range.clone(), name });
                self.sections.push(Section { database, begin: statement.begin, create, ..Section::default() });
            }
            Kind::Choose(database) => self.choose(database, statement),
            Kind::Change(database, name) => match self.sections.last_mut().filter(|it| it.database == database) {
                Some(section) => section.changes.push(Named { statement: statement.range.clone(), name }),
                None => self.strange = true,
            },
            Kind::Table(table) => match self.sections.last_mut().filter(|it| !it.chosen.is_empty()) {
                Some(section) => {
                    section.tables.insert(table);
                }
                None => self.strange = true,
            },
            Kind::Tail => self.tail = Some(statement.begin),
        }
    }

    /// The database that was just made, or a later one than that whose views came before.
    fn choose(&mut self, database: String, statement: &Statement<'_>) {
        let chosen = statement.range.clone();
        if let Some(made) = self.sections.last_mut().filter(|it| it.chosen.is_empty()) {
            self.strange |= made.database != database;
            made.chosen = chosen;
            return;
        }
        let place = |name: &str| self.sections.iter().position(|it| it.database == name);
        let before = self.sections.last().filter(|it| it.create.is_none()).and_then(|it| place(&it.database));
        self.strange |= place(&database).is_none_or(|at| before.is_some_and(|before| before >= at));
        self.sections.push(Section { database, begin: statement.begin, chosen, ..Section::default() });
    }
}

fn kind(statement: &Statement<'_>) -> Kind {
    let after = |words: &[u8]| statement.head.strip_prefix(words).and_then(|rest| named(statement, rest));
    if let Some((name, range)) = after(b"ALTER DATABASE ") {
        return Kind::Change(name, range);
    }
    // What follows is in no program's place.
    if !statement.plain {
        return Kind::Other;
    }
    if let Some((name, range)) = after(b"CREATE DATABASE ") {
        Kind::Create(name, range)
    } else if let Some((name, _)) = after(b"USE ") {
        Kind::Choose(name)
    } else if let Some((name, _)) = after(b"LOCK TABLES ").or_else(|| after(b"INSERT INTO ")) {
        Kind::Table(name)
    } else if bare(statement.head).starts_with(TAIL) {
        Kind::Tail
    } else {
        Kind::Other
    }
}

/// The name that the rest of a statement begins with, behind `IF NOT EXISTS` for servers of some versions; and where it is.
fn named(statement: &Statement<'_>, rest: &[u8]) -> Option<(String, Range<u64>)> {
    let rest = rest.strip_prefix(b"/*!32312 IF NOT EXISTS*/ ").unwrap_or(rest);
    let (name, length) = identifier(rest)?;
    let begin = statement.range.start + (statement.head.len() - rest.len()) as u64;
    Some((name, begin..begin + length as u64))
}

impl Sections {
    /// The databases in their order.
    pub fn databases(&self) -> Vec<String> {
        self.all.iter().filter(|it| it.create.is_some()).map(|it| it.database.clone()).collect()
    }

    /// The tables of a database, and what a backup calls them beside those of others.
    pub fn tables(&self, database: &str) -> BTreeMap<String, String> {
        let its = self.all.iter().filter(|it| it.database == database);
        its.flat_map(|it| &it.tables).map(|table| (table.clone(), format!("{database}.{table}"))).collect()
    }

    /// What makes a database as another one was made.
    pub fn create(&self, database: &str, into: &str) -> Vec<Piece> {
        let create = self.all.iter().find(|it| it.database == database).and_then(|it| it.create.as_ref());
        create.map(|create| create.pieces(into).to_vec()).unwrap_or_default()
    }

    /// What restores these databases under their own names.
    pub fn of(&self, databases: &[String]) -> Vec<Piece> {
        self.part(databases, |section, end| vec![Piece::Bytes(section.begin..end)])
    }

    /// What restores one of them into the database that a client begins with: it is neither made nor chosen, and has another
    /// name where it is changed.
    pub fn under(&self, database: &str, into: &str) -> Vec<Piece> {
        self.part(&[database.to_owned()], |section, end| {
            let (mut pieces, mut at) = (Vec::new(), section.begin);
            let made = section.create.iter().map(|create| create.statement.clone());
            for left_out in made.chain([section.chosen.clone()]) {
                pieces.push(Piece::Bytes(at..left_out.start));
                at = left_out.end;
            }
            for change in &section.changes {
                pieces.push(Piece::Bytes(at..change.statement.start));
                pieces.extend(change.pieces(into));
                at = change.statement.end;
            }
            pieces.push(Piece::Bytes(at..end));
            pieces
        })
    }

    /// Head, sections of these databases, and tail.
    fn part(&self, databases: &[String], pieces: impl Fn(&Section, u64) -> Vec<Piece>) -> Vec<Piece> {
        let begins: Vec<u64> = self.all.iter().map(|it| it.begin).chain([self.tail]).collect();
        let mut all = vec![Piece::Bytes(0..begins[0])];
        for (section, end) in self.all.iter().zip(&begins[1..]) {
            if databases.contains(&section.database) {
                all.extend(pieces(section, *end));
            }
        }
        all.push(Piece::Bytes(self.tail..self.end));
        all
    }
}

impl Named {
    /// The statement with another name in it.
    fn pieces(&self, into: &str) -> [Piece; 3] {
        let (before, after) = (self.statement.start..self.name.start, self.name.end..self.statement.end);
        [Piece::Bytes(before), Piece::Text(quoted(into)), Piece::Bytes(after)]
    }
}

#[cfg(test)]
mod tests;
