//! Finds where each database is in a dump of several databases. Pure.
//!
//! ```text
//! head │ CREATE DATABASE `a`; USE `a`; … │ CREATE DATABASE `b`; USE `b`; … │ USE `a`; views │ USE `b`; views │ tail
//! ```
//!
//! A dump in any other order is refused: nothing of one database may get into another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::quoted;
use super::rows::{FILLS, identifier};
use super::statements::{Statement, Statements, bare};

/// The statement that the tail begins with.
const TAIL: &[u8] = b"SET TIME_ZONE=@OLD_TIME_ZONE";

/// A dump that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// First the sections that make each database, then those with the views of each, if there are any.
    all: Vec<Section>,
    /// Where the last section ends and the tail begins.
    tail: u64,
    end: u64,
}

/// A part of a dump that belongs to one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Section {
    database: String,
    begin: u64,
    /// The statement that makes the database.
    create: Option<Named>,
    /// The statement that chooses it (`USE`); empty before it was read.
    chosen: Range<u64>,
    /// Statements that change it: from one collation to another, around a program.
    changes: Vec<Named>,
    tables: BTreeSet<String>,
}

/// A statement that names its database, and the place of the name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    statement: Range<u64>,
    name: Range<u64>,
}

/// A piece of a part of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the dump.
    Bytes(Range<u64>),
    /// A text in place of bytes of the dump.
    Text(String),
}

/// Reads a dump, and finds its sections.
pub struct Reader {
    statements: Statements,
    finding: Finding,
}

/// Reads a dump of one database, and finds the statements that change the database: only these name it.
pub struct Renaming {
    statements: Statements,
    changes: Vec<Named>,
}

/// The findings so far.
#[derive(Default)]
struct Finding {
    sections: Vec<Section>,
    tail: Option<u64>,
    /// True if something is in a place where no dump has it.
    strange: bool,
}

/// Effects of a statement on databases.
enum Kind {
    Create(String, Range<u64>),
    Change(String, Range<u64>),
    Choose(String),
    Table(String),
    Tail,
    Other,
}

impl Reader {
    /// A reader for a dump. `maria` says whether the server is MariaDB.
    pub fn new(maria: bool) -> Self {
        Self { statements: Statements::new(maria), finding: Finding::default() }
    }

    /// Takes what comes next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.statements.push(bytes, &mut |statement| self.finding.add(statement));
    }

    /// The sections; none if it is no dump of several databases, or one in another order.
    pub fn finish(mut self) -> Option<Sections> {
        let end = self.statements.finish(&mut |statement| self.finding.add(statement))?;
        let Finding { sections, tail, strange } = self.finding;
        let is_chosen = |section: &Section| !section.chosen.is_empty();
        let is_whole = !strange && !sections.is_empty() && sections.iter().all(is_chosen);
        is_whole.then(|| Sections { all: sections, tail: tail.unwrap_or(end), end })
    }
}

impl Renaming {
    /// A reader for a dump. `maria` says whether the server is MariaDB.
    pub fn new(maria: bool) -> Self {
        Self { statements: Statements::new(maria), changes: Vec::new() }
    }

    /// Takes what comes next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.statements.push(bytes, &mut |statement| self.changes.extend(changed(statement)));
    }

    /// The pieces that restore the database under another name; none if the last statement has no end.
    pub fn finish(mut self, into: &str) -> Option<Vec<Piece>> {
        let end = self.statements.finish(&mut |statement| self.changes.extend(changed(statement)))?;
        Some(renamed(0..end, &self.changes, into))
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

    /// Handles `USE`: it must name the database that was just made, or begin the views of a database that is after the one
    /// whose views came before.
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
    let after = |words: &[u8]| statement.head.strip_prefix(words).and_then(|rest| name_in(statement, rest));
    if let Some((name, range)) = after(b"ALTER DATABASE ") {
        return Kind::Change(name, range);
    }
    // The other kinds never stand where the delimiter is that of programs.
    if !statement.plain {
        return Kind::Other;
    }
    if let Some((name, range)) = after(b"CREATE DATABASE ") {
        Kind::Create(name, range)
    } else if let Some((name, _)) = after(b"USE ") {
        Kind::Choose(name)
    } else if let Some((name, _)) = after(FILLS).or_else(|| after(b"INSERT INTO ")) {
        Kind::Table(name)
    } else if bare(statement.head).starts_with(TAIL) {
        Kind::Tail
    } else {
        Kind::Other
    }
}

/// The statement, if it changes a database.
fn changed(statement: &Statement<'_>) -> Option<Named> {
    let Kind::Change(_, name) = kind(statement) else { return None };
    Some(Named { statement: statement.range.clone(), name })
}

/// These bytes of a dump, in which the changes have another name of the database.
fn renamed(bytes: Range<u64>, changes: &[Named], into: &str) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), bytes.start);
    for change in changes {
        pieces.push(Piece::Bytes(at..change.statement.start));
        pieces.extend(change.pieces(into));
        at = change.statement.end;
    }
    pieces.push(Piece::Bytes(at..bytes.end));
    pieces
}

/// The name that the rest of a statement begins with, and its place. It may come after a comment with `IF NOT EXISTS`.
fn name_in(statement: &Statement<'_>, rest: &[u8]) -> Option<(String, Range<u64>)> {
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

    /// The tables of a database, each with its full name in the backup, which includes the database.
    pub fn tables(&self, database: &str) -> BTreeMap<String, String> {
        let its = self.all.iter().filter(|it| it.database == database);
        its.flat_map(|it| &it.tables).map(|table| (table.clone(), format!("{database}.{table}"))).collect()
    }

    /// The statement that makes the database `into` as `database` was made; empty if it is not known.
    pub fn create(&self, database: &str, into: &str) -> Vec<Piece> {
        let create = self.all.iter().find(|it| it.database == database).and_then(|it| it.create.as_ref());
        create.map(|create| create.pieces(into).to_vec()).unwrap_or_default()
    }

    /// The pieces that restore these databases under their own names.
    pub fn pieces_of(&self, databases: &[String]) -> Vec<Piece> {
        self.part(databases, |section, end| vec![Piece::Bytes(section.begin..end)])
    }

    /// The pieces that restore one of them into the database that the client has chosen. They neither make nor choose it, and
    /// statements that change it have the new name.
    pub fn pieces_under(&self, database: &str, into: &str) -> Vec<Piece> {
        self.part(&[database.to_owned()], |section, end| {
            let (mut pieces, mut at) = (Vec::new(), section.begin);
            let made = section.create.iter().map(|create| create.statement.clone());
            for left_out in made.chain([section.chosen.clone()]) {
                pieces.push(Piece::Bytes(at..left_out.start));
                at = left_out.end;
            }
            pieces.extend(renamed(at..end, &section.changes, into));
            pieces
        })
    }

    /// The head, the sections of these databases, and the tail.
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
    /// The statement with another name of the database.
    fn pieces(&self, into: &str) -> [Piece; 3] {
        let (before, after) = (self.statement.start..self.name.start, self.name.end..self.statement.end);
        [Piece::Bytes(before), Piece::Text(quoted(into)), Piece::Bytes(after)]
    }
}

#[cfg(test)]
mod tests;
