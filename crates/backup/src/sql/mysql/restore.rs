//! Restores into MySQL or MariaDB. Not all their statements can be in one transaction. So a mark in the target tells an
//! unfinished restore of ours from data of others, and a second try replaces what the first one made.
//!
//! Events could change what has just been restored, so the event scheduler is off until all of it was compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::super::choice::Choice;
use super::super::tables::{Tables, alike};
use super::super::words::some_of;
use super::super::{Account, DATABASES, Fetched, How, PROGRAM_SILENCE_TIMEOUT, Side, WHOLE_JOB, tools};
use super::accounts::{Accounts, Only, Who};
use super::mark::{Kept, Mark};
use super::rows::Rows;
use super::sections::{Piece, Sections};
use super::{MARK, Tools, definers, demands, literal, packet, part, text};
use crate::Error;
use crate::restored::Restored;

/// How many columns are named.
const NAMED: usize = 5;
/// The note about names that the target has in another form.
const FOLDED: &str =
    "names of databases and tables are in lower case, as lower_case_table_names of the target is not 0";

/// The data to restore, and their target.
pub struct Work<'a> {
    pub tools: &'a Tools,
    pub dump: &'a Path,
    /// The pieces of the dump that are restored, unless it is all of it.
    pub pieces: Option<Vec<Piece>>,
    /// The chosen databases of the backup; empty for all of them.
    from: Vec<String>,
    pub tables: Tables,
    /// Databases of the target.
    pub databases: Vec<String>,
    /// True if one database is restored with statements that do not name it.
    pub alone: bool,
    /// The statement that makes that one as it was made; empty if it is not known.
    pub create: String,
    /// True if the target has some of the names in lower case.
    pub folded: bool,
}

/// Restores the chosen databases of a backup and the accounts that are missing, and compares.
pub async fn restore(account: &Account, fetched: &Fetched, how: &How<'_>) -> Result<Restored, Error> {
    let mut tools = Tools::find(account.clone()).await?;
    tools::check(tools.client, account, how.origin).await?;
    let version = tools.log_in().await?;
    tools.check_dump().await?;
    tools.prepare().await?;
    let exact = alike(&version, &fetched.version);
    let Some(work) = Work::choose(&tools, fetched, how).await? else { return Ok(Restored::default()) };
    if !work.is_to_do(how, exact).await? {
        return Ok(work.tables.rows().into());
    }
    tools.check_comparison(work.most_rows()).await?;
    packet::check(&work, fetched).await?;
    let demands = demands::check(&work, fetched, &version).await?;
    let before = work.mark().await?.unwrap_or_default();
    // Who may write into a database may write a mark there. The other place of marks is ours alone.
    let is_trusted = before.run == how.run || !work.alone;
    let (ours, others) = if is_trusted {
        (before.kept.accounts, BTreeSet::default())
    } else {
        (BTreeSet::default(), before.kept.accounts)
    };
    let mut accounts = Accounts::look(&tools, &version, fetched, &ours, work.only().as_deref()).await?;
    let lacking = definers::check(&work, &demands, &accounts, &version).await?;
    // An earlier try that did not finish left the event scheduler off.
    let events = before.kept.events || tools.runs_events().await?;
    let mut mark = Mark { run: how.run.to_owned(), kept: Kept { events, accounts: accounts.fresh() } };
    work.set_mark(&mark, &before.run, how.work).await?;
    if events && !tools.run_events(false).await? {
        mark.kept.events = false;
        work.set_mark(&mark, &mark.run, how.work).await?;
    }
    let loaded = work.bring(&mut accounts, fetched, exact, how).await;
    if mark.kept.events {
        tools.run_events(true).await?;
    }
    loaded?;
    work.check_mark(how.run).await?;
    let notes = [
        accounts.note(),
        lacking,
        unfinished(&others),
        work.tables.only_counted(),
        work.rounded().await?,
        work.folded.then(|| FOLDED.to_owned()),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    work.remove_mark().await?;
    let rows = work.tables.rows();
    tracing::info!(host = account.host, rows, exact, "restored, and equal to the backup");
    Ok(Restored { keys: rows, note: (!notes.is_empty()).then(|| notes.join("; ")) })
}

impl<'a> Work<'a> {
    /// Returns what to restore, with names as the target has them; none if the backup has no database at all.
    pub async fn choose(tools: &'a Tools, fetched: &'a Fetched, how: &How<'_>) -> Result<Option<Self>, Error> {
        let Some(work) = Self::written(tools, fetched, how).await? else { return Ok(None) };
        let folds = tools.ask("SELECT @@lower_case_table_names").await?.first().is_some_and(|it| it != "0");
        if folds { work.in_lower_case().map(Some) } else { Ok(Some(work)) }
    }

    /// The same work with all names in lower case. Two names that then are one cannot be restored.
    /// <https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html>
    fn in_lower_case(self) -> Result<Self, Error> {
        let mut tables = BTreeMap::new();
        let mut databases: Vec<String> = Vec::new();
        let refused = |name: &str| {
            Err(Error::ServerUnfit(format!(
                "lower_case_table_names of the target is not 0, so that {name} of the backup and another name, with other capital \
                 letters, are one: restore into a server with lower_case_table_names = 0"
            )))
        };
        let folded = self.databases.iter().chain(self.tables.0.keys()).any(|name| name.to_lowercase() != *name);
        for name in self.databases {
            if databases.contains(&name.to_lowercase()) {
                return refused(&name);
            }
            databases.push(name.to_lowercase());
        }
        for (name, table) in self.tables.0 {
            if tables.insert(name.to_lowercase(), table).is_some() {
                return refused(&name);
            }
        }
        Ok(Self { databases, tables: Tables(tables), folded, ..self })
    }

    /// Returns what to restore, with names as the backup has them; none if the backup has no database at all.
    async fn written(tools: &'a Tools, fetched: &'a Fetched, how: &How<'_>) -> Result<Option<Self>, Error> {
        let account = &tools.account;
        let Some((name, dump)) = fetched.dumps().into_iter().next() else {
            return if how.include.databases.is_empty() {
                Ok(None)
            } else {
                Choice::of(&[], account, how).map(|_| None)
            };
        };
        let tables = fetched.tables(name)?;
        let whole = Self {
            tools,
            dump,
            pieces: None,
            from: vec![],
            tables,
            databases: vec![],
            alone: false,
            create: String::new(),
            folded: false,
        };
        if !name.is_empty() {
            Choice::of(&[name.to_owned()], account, how)?;
            let into = account.database.clone().unwrap_or_else(|| name.to_owned());
            let pieces = if into == name { None } else { Some(part::renamed(fetched, dump, &into).await?) };
            return Ok(Some(Self { pieces, from: vec![name.to_owned()], databases: vec![into], alone: true, ..whole }));
        }
        if account.database.is_none() && how.include.databases.is_empty() {
            return Ok(Some(Self { databases: fetched.lines(DATABASES)?, ..whole }));
        }
        let sections = part::read(fetched, dump, &whole.tables).await?;
        let chosen = Choice::of(&sections.databases(), account, how)?;
        whole.part(&sections, chosen).map(Some)
    }

    /// The chosen part of a dump of several databases.
    fn part(self, sections: &Sections, choice: Choice) -> Result<Self, Error> {
        let mut tables = self.tables.0;
        Ok(match choice {
            Choice::All => Self { databases: sections.databases(), tables: Tables(tables), ..self },
            Choice::Some(names) => {
                let its: BTreeSet<String> = names.iter().flat_map(|name| sections.tables(name).into_values()).collect();
                tables.retain(|name, _| its.contains(name));
                let (pieces, from) = (Some(sections.pieces_of(&names)), names.clone());
                Self { pieces, from, tables: Tables(tables), databases: names, ..self }
            }
            Choice::One { from, into } => {
                let its = sections.tables(&from).into_iter();
                let tables = its.filter_map(|(table, full)| Some((table, tables.remove(&full)?))).collect();
                Self {
                    pieces: Some(sections.pieces_under(&from, &into)),
                    create: part::text(self.dump, &sections.create(&from, &into))?,
                    from: vec![from],
                    tables: Tables(tables),
                    databases: vec![into],
                    alone: true,
                    ..self
                }
            }
        })
    }

    /// The rows of the largest table.
    pub fn most_rows(&self) -> u64 {
        self.tables.0.values().map(|table| table.rows).max().unwrap_or_default()
    }

    /// The chosen databases; none if all are restored.
    pub fn only(&self) -> Option<Vec<Only<'_>>> {
        let pairs = self.from.iter().zip(&self.databases);
        (!self.from.is_empty()).then(|| pairs.map(|(from, into)| Only { from, into }).collect())
    }

    /// Restores accounts and databases, and compares.
    async fn bring(&self, accounts: &mut Accounts, fetched: &Fetched, exact: bool, how: &How<'_>) -> Result<(), Error> {
        accounts.make(self.tools, how.work).await?;
        accounts.give_first(self.tools, how.work).await?;
        if self.tools.account.side == Side::Scratch {
            demands::make_definers(self, fetched, how.work).await?;
        }
        self.load().await?;
        accounts.give(self.tools, how.work).await?;
        match self.difference(exact).await? {
            Some(difference) => Err(Error::Differs(difference)),
            None => Ok(()),
        }
    }

    /// Reports whether there is something left to do; an error if the target must not be touched.
    pub async fn is_to_do(&self, how: &How<'_>, exact: bool) -> Result<bool, Error> {
        // The tables first: another restore removes its mark only when they are all there.
        let there = self.tables_there().await?;
        let mark = self.mark().await?;
        if how.force || mark.as_ref().is_some_and(|mark| mark.run == how.run) {
            return Ok(true);
        }
        // A restore that has just begun has made no table yet.
        if mark.is_some() {
            return Err(self.taken());
        }
        let Some((database, tables)) = there else { return Ok(true) };
        // An earlier try that died after it had removed the mark left no difference.
        if matches!(self.difference(exact).await, Ok(None)) {
            return Ok(false);
        }
        Err(Error::TargetHoldsTables { database, tables })
    }

    /// The databases of the target, as a list in a statement.
    pub fn schemas(&self) -> String {
        self.databases.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", ")
    }

    /// The name of a table of the target, in the form of the backup's names.
    pub fn table(&self, database: &str, table: String) -> String {
        if self.alone { table } else { format!("{database}.{table}") }
    }

    /// The first database of the target that holds something, and how many tables it has.
    async fn tables_there(&self) -> Result<Option<(String, u64)>, Error> {
        let query = format!(
            "SELECT CONCAT(HEX(table_schema), ' ', COUNT(*)) FROM information_schema.tables WHERE table_schema IN ({}) AND \
             table_name <> '{MARK}' GROUP BY table_schema ORDER BY table_schema LIMIT 1",
            self.schemas()
        );
        let rows = self.tools.ask(&query).await?;
        let row = rows.first().and_then(|row| row.split_once(' '));
        Ok(row.map(|(name, tables)| (text(name), tables.parse().unwrap_or(1))))
    }

    /// A note about columns whose values may have lost digits: servers print six digits of a `FLOAT`, and so does every dump. A
    /// column with a number of decimals, such as `FLOAT(7,4)`, is not affected: its values were rounded when they were stored.
    /// <https://dev.mysql.com/doc/refman/8.4/en/problems-with-float.html>
    async fn rounded(&self) -> Result<Option<String>, Error> {
        let query = format!(
            "SELECT CONCAT_WS(' ', HEX(table_schema), HEX(table_name), HEX(column_name)) FROM information_schema.columns WHERE \
             data_type = 'float' AND numeric_scale IS NULL AND table_schema IN ({}) ORDER BY table_schema, table_name, \
             ordinal_position",
            self.schemas()
        );
        let mut columns = Vec::new();
        for row in self.tools.ask(&query).await? {
            let [database, table, column] = row.split(' ').map(text).collect::<Vec<_>>().try_into().unwrap_or_default();
            let table = self.table(&database, table);
            // Views have columns, too.
            if self.tables.0.contains_key(&table) {
                columns.push(format!("{table}.{column}"));
            }
        }
        Ok(rounded(&columns))
    }

    async fn load(&self) -> Result<(), Error> {
        let into = self.alone.then(|| format!("--database={}", self.databases[0]));
        let client = self.tools.reader().args(into);
        if let Some(pieces) = &self.pieces {
            return part::carry_out(client, &self.tools.account, self.dump, pieces).await;
        }
        let file = File::open(self.dump).map_err(|source| Error::Work { path: self.dump.to_owned(), source })?;
        let loaded = client.run(Stdio::from(file), WHOLE_JOB).await?;
        loaded.map(drop).map_err(|failure| self.tools.account.side.failed(&failure))
    }

    /// The first difference of the target from the backup. The target is dumped to find it, because only a dump writes values
    /// in the same form as the backup.
    async fn difference(&self, exact: bool) -> Result<Option<String>, Error> {
        let failed = |failure| self.tools.dump_failed(&failure);
        let mut dump = self.tools.dump(&self.databases, self.alone, true).start(Stdio::null())?;
        let mut rows = Rows::default();
        while let Some(chunk) = dump.next(PROGRAM_SILENCE_TIMEOUT).await.map_err(failed)? {
            rows.push(&chunk);
        }
        dump.end(PROGRAM_SILENCE_TIMEOUT).await.map_err(failed)?;
        let there = rows.finish().ok_or_else(|| Error::TargetFailed("its dump to compare with has no end".into()))?;
        Ok(self.tables.difference(&there, exact))
    }
}

/// The sentence about accounts that another restore made and gave no rights, because it did not end; none if there are none.
fn unfinished(accounts: &BTreeSet<Who>) -> Option<String> {
    let names: Vec<String> = accounts.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| {
        let some = some_of(&names, NAMED);
        format!(
            "these accounts of a restore that did not end stay as they are, and may lack the backup's rights: {some}"
        )
    })
}

/// The sentence about columns that lost digits; none if there are none.
fn rounded(columns: &[String]) -> Option<String> {
    let some = some_of(columns, NAMED);
    (!columns.is_empty()).then(|| format!("six digits are left of each FLOAT, as a dump has no more: {some}"))
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::Table;
    use super::*;

    fn work<'a>(tools: &'a Tools, tables: &[&str]) -> Work<'a> {
        let tables = tables.iter().map(|name| ((*name).to_owned(), Table::default())).collect();
        let (dump, databases, create) = (Path::new("/work/dump"), vec!["Shop".to_owned()], String::new());
        Work {
            tools,
            dump,
            pieces: None,
            from: vec![],
            tables: Tables(tables),
            databases,
            alone: false,
            create,
            folded: false,
        }
    }

    #[test]
    fn names_are_those_that_the_target_has_or_refused() {
        let tools = Tools::of_tests(Account::of_tests(Side::Target, "mysql", "u"));
        let folded = work(&tools, &["Shop.Orders", "Shop.lines"]).in_lower_case().unwrap();
        assert_eq!(folded.databases, ["shop"]);
        assert_eq!(folded.tables.0.keys().collect::<Vec<_>>(), ["shop.lines", "shop.orders"]);
        assert!(folded.folded);
        let error = work(&tools, &["Shop.Orders", "Shop.orders"]).in_lower_case().err().unwrap();
        assert_eq!((error.reason(), error.is_refusal()), ("ServerUnfit", true));
        assert!(error.to_string().contains("Shop.orders of the backup and another name"), "{error}");
    }

    #[test]
    fn columns_with_lost_digits_are_named_or_counted() {
        let columns = |count: u8| (0..count).map(|at| format!("t.c{at}")).collect::<Vec<_>>();
        assert_eq!(rounded(&columns(0)), None);
        let text = |count| rounded(&columns(count)).unwrap();
        assert!(text(2).ends_with("no more: t.c0, t.c1"), "{}", text(2));
        assert!(text(9).ends_with("t.c4 and 4 more"), "{}", text(9));
    }
}
