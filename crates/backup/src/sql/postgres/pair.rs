//! A dump, and the database into which all of it or a part goes.

use std::path::{Path, PathBuf};

use super::super::child::Program;
use super::super::choice::Choice;
use super::super::tables::Tables;
use super::super::{Account, Fetched, How};
use super::contents::Contents;
use super::dependents::{Dependent, dependents};
use super::locks::Room;
use super::restore::State;
use super::selection::{Present, Selected, Wanted};
use super::session::{Attributes, Session};
use super::steps::{Progress, Steps};
use super::target::{ownerless, run, write_list};
use super::toc::Toc;
use super::{MAINTENANCE, present, program, remedy, row_security};
use crate::Error;

/// A dump, and where it goes.
pub struct Pair<'a> {
    pub dump: &'a Path,
    /// The name that the database had.
    pub name: &'a str,
    pub into: &'a str,
    /// Tables that are restored.
    pub tables: Tables,
    /// The encoding that the database had, if the backup says it.
    encoding: Option<String>,
    pub contents: Contents,
    /// The part of the dump that is restored; none if it is all of it.
    selected: Option<Selected>,
    /// True if only some schemas or tables of it are restored.
    pub is_part: bool,
    /// How many of the restored tables, views and sequences the target has already.
    pub there: u64,
}

/// The dumps that are restored, each with the name of its database.
pub fn chosen<'a>(account: &Account, fetched: &'a Fetched, how: &How<'_>) -> Result<Vec<(&'a str, &'a Path)>, Error> {
    let dumps = fetched.dumps();
    let names: Vec<String> = dumps.iter().map(|(name, _)| (*name).to_owned()).collect();
    let choice = Choice::of(&names, account, how)?;
    let is_chosen = |name: &str| match &choice {
        Choice::All => true,
        Choice::Some(names) => names.iter().any(|it| it == name),
        Choice::One { from, .. } => from == name,
    };
    Ok(dumps.into_iter().filter(|(name, _)| is_chosen(name)).collect())
}

/// The contents of a dump.
pub async fn contents(account: &Account, dump: &Path) -> Result<Contents, Error> {
    let list = program("pg_restore", account, MAINTENANCE)?.args(["--list"]).args([dump]);
    run(account, list).await.map(|list| Contents::of(&list))
}

impl<'a> Pair<'a> {
    /// Finds what of the dump is restored, and what the target has already.
    pub async fn of(
        account: &'a Account,
        fetched: &'a Fetched,
        how: &How<'_>,
        (name, dump): (&'a str, &'a Path),
        admin: &mut Session,
        (is_there, user): (bool, Attributes),
    ) -> Result<Self, Error> {
        let superuser = user.superuser;
        let (into, mut tables) = (account.database.as_deref().unwrap_or(name), fetched.tables(name)?);
        let encoding = fetched.encoding(name)?;
        let wanted = Wanted { include: &how.include, exclude: &how.exclude, superuser };
        let is_part = wanted.is_part();
        if superuser && !is_part {
            let contents = contents(account, dump).await?;
            return Ok(Self { dump, name, into, tables, encoding, contents, selected: None, is_part, there: 0 });
        }
        let there = if is_there {
            present::read(&mut Session::open(account, into).await?).await?
        } else {
            present::of_none(admin).await?
        };
        let script = script(account, dump).await?;
        let selected = wanted.select(&toc(account, dump, &script).await?, &there).map_err(Error::Unsupported)?;
        if is_part {
            tables.0.retain(|name, _| unquoted(name).is_some_and(|name| selected.relations.contains(&name)));
        }
        if !superuser && !user.bypasses_row_security {
            row_security::check(&script, &tables, account, into)?;
        }
        let contents = Contents::of(&selected.lines.join("\n"));
        let there = count(&selected, &there);
        Ok(Self { dump, name, into, tables, encoding, contents, selected: Some(selected), is_part, there })
    }

    /// Explains why values of the target cannot be compared with those of the backup: the same text has other bytes in
    /// another encoding.
    pub async fn encoded_otherwise(&self, session: &mut Session) -> Result<Option<String>, Error> {
        let its = session.encoding().await?;
        let earlier = self.encoding.as_ref().filter(|earlier| **earlier != its);
        let into = self.into;
        Ok(earlier.map(|earlier| format!("rows of {into} are counted, not compared: it is {its}, and was {earlier}")))
    }

    /// The parts that are left out although they were asked for.
    pub fn left_out(&self) -> &[String] {
        self.selected.as_ref().map_or(&[], |selected| &selected.left_out)
    }

    /// Reports whether one transaction can restore it, and leave half of all locks to others.
    fn fits(&self, room: Room) -> bool {
        self.contents.locks() * 2 <= room.locks()
    }

    /// Reports whether nothing shows that the target holds it already: it makes objects, but no tables whose rows could be
    /// compared.
    pub fn is_unrecognizable(&self) -> bool {
        !self.is_part && self.tables.0.is_empty() && self.contents.makes_objects()
    }

    /// Reports whether objects that a database without tables may hold already are replaced.
    pub fn replaces_unseen(&self, room: Room, force: bool) -> bool {
        force && self.is_unrecognizable() && self.fits(room)
    }

    /// Objects of the target that would be dropped together with what is replaced.
    pub async fn dependents(
        &self,
        account: &Account,
        work: &Path,
        session: &mut Session,
    ) -> Result<Vec<Dependent>, Error> {
        let arguments = ["--clean", "--if-exists", "--schema-only", "--file", "/dev/stdout"];
        let print = self.listed(program("pg_restore", account, self.into)?.args(arguments), work)?.args([self.dump]);
        dependents(session, &run(account, print).await?).await
    }

    /// Limits `pg_restore` to what is selected.
    fn listed(&self, program: Program, work: &Path) -> Result<Program, Error> {
        Ok(limited(program, self.list(work)?.as_deref()))
    }

    /// The file with what is selected.
    fn list(&self, work: &Path) -> Result<Option<PathBuf>, Error> {
        self.selected.as_ref().map(|selected| write_list(work, "selected.list", &selected.lines)).transpose()
    }

    /// Restores it, and returns what is to be said of that. If the rules of a dump stop it, it is tried again with what
    /// [`remedy`] has.
    pub async fn load(
        &self,
        account: &Account,
        state: &State,
        superuser: bool,
        room: Room,
        how: &How<'_>,
    ) -> Result<Vec<String>, Error> {
        let (mut notes, mut list, mut state) = (Vec::new(), self.list(how.work)?, state.clone());
        let (mut has_default_path, mut grants_in_place) = (false, false);
        loop {
            let tried = self.attempt(account, &state, (superuser, room), list.as_deref(), how).await;
            let Err(error) = tried else { return Ok(notes) };
            let text = error.to_string();
            let failed = |source| Error::Work { path: self.dump.to_owned(), source };
            // Both at once: every try writes all rows again. A user that is no superuser owns all of it, and grants nothing.
            let is_granted = superuser
                && !grants_in_place
                && remedy::is_about_a_right(&text)
                && remedy::grant_in_place(self.dump).map_err(failed)?;
            grants_in_place |= is_granted;
            if !has_default_path
                && remedy::is_about_a_name(&text)
                && remedy::set_default_path(self.dump).map_err(failed)?
            {
                tracing::warn!(database = self.into, %error, "tried again with the default search path");
                has_default_path = true;
                notes.push(format!(
                    "{} was restored with its own search path, as functions name objects without a schema",
                    self.into
                ));
            } else if is_granted {
                tracing::warn!(database = self.into, %error, "tried again with rights as soon as their objects are made");
            } else if let Some((name, view)) = remedy::unfilled(&text).and_then(|name| Some((name, unquoted(name)?))) {
                tracing::warn!(database = self.into, name, %error, "tried again without filling a materialized view");
                let entries = match &list {
                    Some(list) => std::fs::read_to_string(list).map_err(failed)?,
                    None => {
                        run(account, program("pg_restore", account, MAINTENANCE)?.args(["--list"]).args([self.dump]))
                            .await?
                    }
                };
                let left = remedy::without(&entries, &view);
                if left.len() == entries.lines().count() {
                    return Err(error);
                }
                list = Some(write_list(how.work, "filled.list", &left)?);
                notes.push(format!(
                    "{name} in {} is empty, for it could not be filled: REFRESH MATERIALIZED VIEW {name}",
                    self.into
                ));
            } else {
                return Err(error);
            }
            let mut session = Session::open(account, self.into).await?;
            state = match (Progress::of(&mut session).await?, state) {
                (Some(progress), _) if progress.run == how.run => State::Half(progress.step),
                // What depends on it was dropped before the first try.
                (_, State::Full(_)) => State::Full(Vec::new()),
                (_, state) => state,
            };
        }
    }

    async fn attempt(
        &self,
        account: &Account,
        state: &State,
        (superuser, room): (bool, Room),
        list: Option<&Path>,
        how: &How<'_>,
    ) -> Result<(), Error> {
        let Self { dump, into, contents, .. } = self;
        let (again, step) = if let State::Half(step) = state { (true, *step) } else { (false, 0) };
        let parallelism = how.parallelism;
        let is_unseen = matches!(state, State::Bare | State::Empty) && self.replaces_unseen(room, how.force);
        let is_full = is_unseen || matches!(state, State::Full(_) | State::Beside);
        if again || (!is_full && (parallelism > 1 || !self.fits(room))) {
            let progress = Progress { run: how.run.to_owned(), step };
            let list = list.map(Path::to_owned);
            return Steps { account, dump, contents, list, into, superuser, parallelism, work: how.work }
                .go_on(progress, again)
                .await;
        }
        let arguments = ["--single-transaction", "--exit-on-error", "--no-tablespaces", "--no-password", "--dbname"];
        let mut restore =
            program("pg_restore", account, into)?.args(arguments).args([super::restore::connection(into)]);
        if let State::Full(dependents) = state {
            // `pg_restore` cannot drop them, so they are dropped before. What is replaced stays until the restore commits.
            let drops: Vec<&str> = dependents.iter().map(|it| it.drop.as_str()).collect();
            if !drops.is_empty() {
                tracing::warn!(database = into, dropped = ?dependents, "these depend on what is replaced");
                let statement = format!("BEGIN; {}; COMMIT", drops.join("; "));
                Session::open(account, into).await?.tell(&statement).await?;
            }
        }
        if is_unseen || matches!(state, State::Full(_)) {
            restore = restore.args(["--clean", "--if-exists"]);
        }
        let restore = limited(restore.args(ownerless(superuser)), list);
        run(account, restore.args([dump])).await.map(drop)
    }
}

/// Limits `pg_restore` to the entries of a list.
fn limited(program: Program, list: Option<&Path>) -> Program {
    match list {
        Some(list) => program.args(["--use-list".as_ref(), list.as_os_str()]),
        None => program,
    }
}

/// The script of all that a dump makes, without rows.
async fn script(account: &Account, dump: &Path) -> Result<String, Error> {
    let arguments = ["--schema-only", "--verbose", "--file", "/dev/stdout"];
    run(account, program("pg_restore", account, MAINTENANCE)?.args(arguments).args([dump])).await
}

/// The table of contents of a dump, with the dependencies between its entries.
async fn toc(account: &Account, dump: &Path, script: &str) -> Result<Toc, Error> {
    let list = program("pg_restore", account, MAINTENANCE)?.args(["--list", "--verbose"]).args([dump]);
    Ok(Toc::read(&run(account, list).await?, script))
}

/// How many of the selected tables, views and sequences the target has.
fn count(selected: &Selected, there: &Present) -> u64 {
    selected.relations.intersection(&there.relations).count() as u64
}

/// Schema and name from the form in which statements name a table: `public."Lines"`.
pub fn unquoted(name: &str) -> Option<(String, String)> {
    let (schema, rest) = part(name)?;
    let (table, rest) = part(rest.strip_prefix('.')?)?;
    rest.is_empty().then_some((schema, table))
}

/// The identifier that a text begins with, and what follows.
fn part(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find('.').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        let Some(more) = after.strip_prefix('"') else { return Some((name, after)) };
        name.push('"');
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::Table;
    use super::*;

    #[test]
    fn a_database_with_objects_and_no_tables_is_not_recognized_by_what_it_holds() {
        let pair = |list: &str, tables: Tables, is_part| {
            let (contents, dump) = (Contents::of(list), Path::new("/work/dump"));
            let encoding = None;
            Pair { dump, name: "shop", into: "shop", tables, encoding, contents, selected: None, is_part, there: 0 }
                .is_unrecognizable()
        };
        let schema = "7; 0 7 SCHEMA - pgbouncer postgres";
        assert!(pair(schema, Tables::default(), false));
        assert!(!pair(schema, Tables::default(), true), "a part of one");
        assert!(!pair("7; 0 7 EXTENSION - citext", Tables::default(), false), "as most databases postgres are");
        let table = Table::default();
        assert!(!pair(schema, Tables([("public.t".to_owned(), table)].into()), false));
    }

    #[test]
    fn a_name_is_read_as_a_statement_has_it() {
        let pair = |schema: &str, name: &str| Some((schema.to_owned(), name.to_owned()));
        assert_eq!(unquoted("public.orders"), pair("public", "orders"));
        assert_eq!(unquoted("\"odd \"\"one\".\"a.b\""), pair("odd \"one", "a.b"));
        assert_eq!(unquoted("public"), None);
        assert_eq!(unquoted("\"open.orders"), None);
        assert_eq!(unquoted("a.b.c"), None);
    }
}
