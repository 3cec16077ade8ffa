//! The demands of a dump on a target besides room: definers, triggers and functions under a binary log, and tables without a
//! key.
//!
//! The dump is read once more for that, before anything is written.
//! <https://mariadb.com/kb/en/stored-routine-privileges/>, <https://dev.mysql.com/doc/refman/8.4/en/stored-programs-logging.html>

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use super::super::words::some_of;
use super::super::{Fetched, Side};
use super::accounts::{Who, me};
use super::definers::Program;
use super::definition::Definition;
use super::restore::Work;
use super::rights::{has, server_rights};
use super::rows::identifier;
use super::sections::Piece;
use super::statements::{Statement, Statements};
use crate::Error;

/// Bytes that are read at once.
const READ: usize = 256 * 1024;
/// Bytes of a statement that are looked at.
const LONGEST: u64 = 1 << 20;
/// The most names in a message.
const NAMED: usize = 3;
/// Rights to make programs and views of others: of MariaDB, and of two versions of MySQL.
const DEFINERS: [&str; 4] = ["SUPER", "SET USER", "SET_USER_ID", "SET_ANY_DEFINER"];
/// Rights to write to a server that is `read_only`.
const WRITERS: [&str; 3] = ["SUPER", "READ_ONLY ADMIN", "CONNECTION_ADMIN"];
/// A function must declare one of these, so that a server with a binary log takes it.
const HARMLESS: [&str; 3] = ["DETERMINISTIC", "NO SQL", "READS SQL DATA"];

/// Parts of a dump that a server may refuse.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// The accounts for which programs and views run.
    pub definers: BTreeSet<String>,
    /// Views and functions that name such an account.
    pub programs_of_accounts: Vec<Program>,
    /// The database that the dump has chosen so far.
    database: String,
    /// Triggers and functions.
    programs: Vec<String>,
    /// Functions that do not say that they are harmless.
    unsafe_functions: Vec<String>,
    /// Tables of `InnoDB` without a key that could be the primary one.
    keyless: Vec<String>,
    /// Tables of `InnoDB` with a key that only some formats of rows have room for.
    long_keyed: Vec<String>,
    /// Tables with named periods.
    periods: Vec<String>,
}

/// Parts of a dump that a target refuses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Refuses {
    /// Definers other than this account, in the form of statements.
    others_than: Option<String>,
    /// Triggers and functions.
    programs: bool,
    /// Functions that do not say that they are harmless.
    unsafe_functions: bool,
    keyless: bool,
    /// The format of rows without room for long keys.
    row_format: Option<String>,
    /// The form of times without room for named periods.
    temporal_format: Option<String>,
}

/// Checks that the target takes all that is restored, and returns what that is. The error names what it would refuse, and what
/// permits it.
pub async fn check(work: &Work<'_>, fetched: &Fetched, version: &str) -> Result<Demands, Error> {
    let tools = work.tools;
    if tools.account.side == Side::Scratch {
        return Ok(Demands::default());
    }
    let rows = tools
        .ask(
            "SHOW GLOBAL VARIABLES WHERE variable_name IN ('log_bin', 'log_bin_trust_function_creators', \
             'innodb_force_primary_key', 'innodb_default_row_format', 'mysql56_temporal_format', 'read_only', 'super_read_only')",
        )
        .await?;
    let value_of = |name: &str| {
        let mut pairs = rows.iter().filter_map(|row| row.split_once('\t'));
        pairs.find(|(its, _)| *its == name).map(|(_, value)| value)
    };
    let is_on = |name: &str| matches!(value_of(name), Some("ON" | "1"));
    // Without grant tables, a server checks no rights.
    let rights = server_rights(tools, version).await?;
    let may = |any: &[&str]| rights.as_ref().is_none_or(|held| any.iter().any(|right| has(held, right)));
    let user = me(tools).await?.quoted();
    if is_on("super_read_only") || (is_on("read_only") && !may(&WRITERS)) {
        let message = format!(
            "the target is read_only, and user {user} may not write to it: name the primary server in spec.target.mysql.host, or \
             SET GLOBAL read_only = OFF, then restore again"
        );
        return Err(Error::ServerUnfit(message));
    }
    let distrusts = is_on("log_bin") && !is_on("log_bin_trust_function_creators");
    let refuses = Refuses {
        others_than: (!may(&DEFINERS)).then(|| user.clone()),
        programs: distrusts && !may(&["SUPER"]),
        unsafe_functions: distrusts,
        keyless: is_on("innodb_force_primary_key"),
        row_format: value_of("innodb_default_row_format").filter(|format| *format != "dynamic").map(str::to_owned),
        temporal_format: value_of("mysql56_temporal_format").filter(|on| matches!(*on, "OFF" | "0")).map(str::to_owned),
    };
    let demands = demands_of(work, fetched).await?.unwrap_or_default();
    demands.refused(&refuses, &user, version).map_or(Ok(demands), Err)
}

/// Makes the accounts that a dump names as definers and that a throw-away server lacks, such as the login that took the backup:
/// MariaDB makes no view that calls a function of an account that is not there (1449).
pub async fn make_definers(work: &Work<'_>, fetched: &Fetched, place: &Path) -> Result<(), Error> {
    let Some(demands) = demands_of(work, fetched).await? else { return Ok(()) };
    // A role has no host.
    let definers = demands.definers.iter().filter(|who| who.contains('@'));
    let statements = |who: &String| {
        [format!("CREATE USER IF NOT EXISTS {who} ACCOUNT LOCK;\n"), format!("GRANT ALL ON *.* TO {who};\n")]
    };
    let script: String = definers.flat_map(statements).collect();
    if script.is_empty() {
        return Ok(());
    }
    // The load of the dump reports an account that could not be made.
    let (_, end) = work.tools.script(place, &script, &["--force"]).await?;
    if let Err(failure) = end {
        tracing::warn!(%failure, "not all definers were made");
    }
    Ok(())
}

/// Reads the demands of the dump that is restored; `None` if its last statement has no end.
async fn demands_of(work: &Work<'_>, fetched: &Fetched) -> Result<Option<Demands>, Error> {
    let maria = fetched.version.contains("MariaDB");
    let failed = |source| Error::Work { path: work.dump.to_owned(), source };
    read(maria, work.dump, work.pieces.as_deref()).await.map_err(failed)
}

impl Demands {
    /// Explains why the target cannot take it; none if it can.
    fn refused(&self, refuses: &Refuses, user: &str, version: &str) -> Option<Error> {
        let trust = "SET GLOBAL log_bin_trust_function_creators = ON";
        let message = if refuses.keyless && !self.keyless.is_empty() {
            format!(
                "the target has innodb_force_primary_key, and these tables of the backup have no primary key (1173): {}: SET GLOBAL \
                 innodb_force_primary_key = OFF",
                some_of(&self.keyless, NAMED)
            )
        } else if let Some(format) = refuses.row_format.as_ref().filter(|_| !self.long_keyed.is_empty()) {
            format!(
                "innodb_default_row_format of the target is {format}, which has no room for a column of more than 767 bytes in a key \
                 (1709), as these tables of the backup have one: {}: SET GLOBAL innodb_default_row_format = dynamic",
                some_of(&self.long_keyed, NAMED)
            )
        } else if let Some(format) = refuses.temporal_format.as_ref().filter(|_| !self.periods.is_empty()) {
            format!(
                "mysql56_temporal_format of the target is {format}, with which it makes no table with named periods (4110): {}: SET GLOBAL \
                 mysql56_temporal_format = ON",
                some_of(&self.periods, NAMED)
            )
        } else if refuses.programs && !self.programs.is_empty() {
            format!(
                "the target writes a binary log, and user {user} lacks SUPER, which triggers and functions need (1419): {}: {trust}, \
                 or GRANT SUPER ON *.* TO {user}",
                some_of(&self.programs, NAMED)
            )
        } else if refuses.unsafe_functions && !self.unsafe_functions.is_empty() {
            format!(
                "the target writes a binary log, and takes no function that is not declared DETERMINISTIC, NO SQL or READS SQL DATA \
                 (1418): {}: {trust}",
                some_of(&self.unsafe_functions, NAMED)
            )
        } else {
            let me = refuses.others_than.as_ref()?;
            let others: Vec<&String> = self.definers.iter().filter(|definer| *definer != me).collect();
            if others.is_empty() {
                return None;
            }
            format!(
                "views, triggers or routines of the backup run as {}, and user {user} may not make such (1227): GRANT {} ON *.* TO \
                 {user}",
                some_of(&others, NAMED),
                definer_right(version)
            )
        };
        Some(Error::ServerUnfit(format!("{message}, then restore again")))
    }

    /// Adds a statement of the dump.
    fn add(&mut self, statement: &str) {
        if let Some((name, _)) = statement.strip_prefix("USE ").and_then(|rest| identifier(rest.as_bytes())) {
            self.database = name;
        }
        let Some(Made { kind, name, definer }) = Made::read(statement) else { return };
        self.definers.extend(definer.clone());
        let has_line = |words: &[&str]| statement.lines().any(|line| words.contains(&line.trim()));
        if let Some(definer) = definer.filter(|_| matches!(kind, "VIEW" | "FUNCTION")) {
            let is_view = kind == "VIEW";
            let (head, body) = statement.split_once(" AS ").filter(|_| is_view).unwrap_or((statement, ""));
            let invokers = "SQL SECURITY INVOKER";
            let is_invokers = if is_view { head.contains(invokers) } else { has_line(&[invokers]) };
            let (database, name, body) = (self.database.clone(), name.clone(), body.to_owned());
            self.programs_of_accounts.push(Program { is_view, database, name, definer, is_invokers, body });
        }
        match kind {
            "TABLE" => {
                let table = Definition::read(statement);
                let found = [
                    (&mut self.keyless, table.is_keyless()),
                    (&mut self.long_keyed, table.has_long_key()),
                    (&mut self.periods, table.has_periods()),
                ];
                for (names, _) in found.into_iter().filter(|(_, is_so)| *is_so) {
                    names.push(name.clone());
                }
            }
            "TRIGGER" => self.programs.push(name),
            "FUNCTION" => {
                if !has_line(&HARMLESS) {
                    self.unsafe_functions.push(name.clone());
                }
                self.programs.push(name);
            }
            _ => {}
        }
    }
}

/// The right to make programs of others.
fn definer_right(version: &str) -> &'static str {
    let mut numbers = version.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse::<u32>().unwrap_or_default());
    let pair = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    match (version.contains("MariaDB"), pair) {
        (true, (10, 5..) | (11.., _)) => "SET USER",
        (true, _) | (false, (..8, _)) => "SUPER",
        (false, (8, ..2)) => "SET_USER_ID",
        (false, _) => "SET_ANY_DEFINER",
    }
}

/// The object that a statement makes.
struct Made {
    kind: &'static str,
    name: String,
    definer: Option<String>,
}

impl Made {
    /// Reads a statement that makes something; none for any other.
    fn read(statement: &str) -> Option<Self> {
        const KINDS: [&str; 6] = ["TABLE", "VIEW", "TRIGGER", "FUNCTION", "PROCEDURE", "EVENT"];
        let mut rest = skip(statement).strip_prefix("CREATE")?;
        let mut definer = None;
        loop {
            rest = skip(rest);
            if let Some(after) = rest.strip_prefix("DEFINER=") {
                let (user, length) = identifier(after.as_bytes())?;
                rest = after.get(length..)?;
                let mut host = None;
                if let Some(after) = rest.strip_prefix('@') {
                    let (its, length) = identifier(after.as_bytes())?;
                    (host, rest) = (Some(its), after.get(length..)?);
                }
                definer = Some(Who { user, host }.quoted());
                continue;
            }
            let word = rest.split(|it: char| it.is_whitespace() || it == '*' || it == '`').next()?;
            rest = rest.get(word.len()..).filter(|_| !word.is_empty())?;
            // A trigger is as its maker wrote it.
            if let Some(kind) = KINDS.into_iter().find(|kind| kind.eq_ignore_ascii_case(word)) {
                let rest = skip(rest);
                let bare = || rest.split_whitespace().next().unwrap_or_default().to_owned();
                let name = identifier(rest.as_bytes()).map_or_else(bare, |(name, _)| name);
                return Some(Self { kind, name, definer });
            }
        }
    }
}

/// The text without blanks, and without marks of comments that hide a part of a statement from some versions.
fn skip(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if let Some(after) = text.strip_prefix("*/") {
            text = after;
        } else if let Some(after) = text.strip_prefix("/*!").or_else(|| text.strip_prefix("/*M!")) {
            text = after.trim_start_matches(|it: char| it.is_ascii_digit());
        } else {
            return text;
        }
    }
}

/// The places of statements that make something.
struct Places {
    statements: Statements,
    /// The parts of the dump that count; none if all of it does.
    chosen: Option<Vec<Range<u64>>>,
    found: Vec<Range<u64>>,
}

/// Notes a statement that makes something, or that chooses a database.
fn note(statement: &Statement<'_>, chosen: Option<&[Range<u64>]>, found: &mut Vec<Range<u64>>) {
    let is_chosen = chosen.is_none_or(|chosen| chosen.iter().any(|part| part.contains(&statement.range.start)));
    let head = String::from_utf8_lossy(statement.head);
    if is_chosen && (skip(&head).starts_with("CREATE") || (statement.plain && head.starts_with("USE `"))) {
        found.push(statement.range.clone());
    }
}

impl Write for Places {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (chosen, found) = (self.chosen.as_deref(), &mut self.found);
        self.statements.push(bytes, &mut |statement| note(statement, chosen, found));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what these pieces of a dump demand (all of it without any); none if the dump cannot be split into statements.
async fn read(maria: bool, dump: &Path, pieces: Option<&[Piece]>) -> io::Result<Option<Demands>> {
    let bytes = |piece: &Piece| match piece {
        Piece::Bytes(range) => Some(range.clone()),
        Piece::Text(_) => None,
    };
    let chosen: Option<Vec<Range<u64>>> = pieces.map(|pieces| pieces.iter().filter_map(bytes).collect());
    let mut file = File::open(dump)?;
    let reading = tokio::task::spawn_blocking(move || {
        let mut places = Places { statements: Statements::new(maria), chosen, found: Vec::new() };
        io::copy(&mut BufReader::with_capacity(READ, &mut file), &mut places)?;
        let Places { statements, chosen, mut found } = places;
        if statements.finish(&mut |statement| note(statement, chosen.as_deref(), &mut found)).is_none() {
            return Ok(None);
        }
        let mut demands = Demands::default();
        for range in found {
            file.seek(SeekFrom::Start(range.start))?;
            let mut statement = Vec::new();
            (&mut file).take((range.end - range.start).min(LONGEST)).read_to_end(&mut statement)?;
            demands.add(&String::from_utf8_lossy(&statement));
        }
        Ok(Some(demands))
    });
    reading.await.map_err(io::Error::other)?
}
