//! Into MySQL or MariaDB. Their statements cannot all be in one transaction: a mark in the target tells a half of ours from
//! somebody's data, and a second try replaces what the first one made.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::super::tables::{Tables, alike};
use super::super::{Account, DATABASES, Fetched, Origin, PROGRAM_SILENCE_TIMEOUT, WHOLE_JOB, tools};
use super::rows::Rows;
use super::{MARK, Tools, hex, quoted, text};
use crate::backup::Error;

/// What is restored, and into what.
struct Work<'a> {
    tools: &'a Tools,
    dump: &'a Path,
    tables: Tables,
    /// Databases of the target.
    databases: Vec<String>,
    /// The dump is of one database, and does not name it.
    alone: bool,
}

/// Restores all databases of a backup, and compares. Gives the number of rows.
pub async fn restore(
    account: &Account,
    fetched: &Fetched,
    force: bool,
    run: &str,
    origin: Origin,
) -> Result<u64, Error> {
    let tools = Tools::find(account.clone()).await?;
    tools::check(tools.client, account, origin).await?;
    let exact = alike(&tools.log_in().await?, &fetched.version);
    let Some(work) = Work::of(&tools, fetched)? else { return Ok(0) };
    let there = work.tables_there().await?;
    let mark = work.mark().await?;
    let is_ours = mark.as_deref() == Some(run);
    if let Some((database, tables)) = there.filter(|_| !force && !is_ours) {
        // A try that died after its very end left no mark, and nothing to do.
        if mark.is_none() && matches!(work.difference(exact).await, Ok(None)) {
            return Ok(work.tables.rows());
        }
        return Err(if mark.is_some() {
            Error::TargetHoldsHalf { database }
        } else {
            Error::TargetHoldsTables { database, tables }
        });
    }
    work.set_mark(run).await?;
    work.load().await?;
    if let Some(difference) = work.difference(exact).await? {
        return Err(Error::Differs(difference));
    }
    work.remove_mark().await?;
    let rows = work.tables.rows();
    tracing::info!(host = account.host, rows, exact, "restored, and equal to the backup");
    Ok(rows)
}

impl<'a> Work<'a> {
    /// None where the backup has no database at all.
    fn of(tools: &'a Tools, fetched: &'a Fetched) -> Result<Option<Self>, Error> {
        let Some((name, dump)) = fetched.dumps().into_iter().next() else { return Ok(None) };
        let (alone, named) = (!name.is_empty(), tools.account.database.clone());
        let databases = match named {
            Some(into) if alone => vec![into],
            None if alone => vec![name.to_owned()],
            None => fetched.lines(DATABASES)?,
            Some(_) => {
                let field = tools.account.side.field(tools.account.kind, "database");
                let message = format!("{field}: the backup is of all databases of a server: leave the field out");
                return Err(Error::Unsupported(message));
            }
        };
        Ok(Some(Self { tools, dump, tables: fetched.tables(name)?, databases, alone }))
    }

    /// A database of the target that holds something, and how many tables.
    async fn tables_there(&self) -> Result<Option<(String, u64)>, Error> {
        let names: Vec<String> = self.databases.iter().map(|name| hex(name)).collect();
        let query = format!(
            "SELECT CONCAT(HEX(table_schema), ' ', COUNT(*)) FROM information_schema.tables WHERE table_schema IN ({}) AND \
             table_name <> '{MARK}' GROUP BY table_schema ORDER BY table_schema LIMIT 1",
            names.join(", ")
        );
        let rows = self.tools.ask(&query).await?;
        let row = rows.first().and_then(|row| row.split_once(' '));
        Ok(row.map(|(name, tables)| (text(name), tables.parse().unwrap_or(1))))
    }

    /// The database that the mark is in.
    fn marked(&self) -> &str {
        if self.alone { &self.databases[0] } else { MARK }
    }

    async fn mark(&self) -> Result<Option<String>, Error> {
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {} AND table_name = '{MARK}'",
            hex(self.marked())
        );
        if self.tools.ask(&query).await?.first().is_none_or(|count| count == "0") {
            return Ok(None);
        }
        let marks = self.tools.ask(&format!("SELECT HEX(run) FROM {}.{MARK}", quoted(self.marked()))).await?;
        Ok(Some(marks.first().map_or_else(String::new, |run| text(run))))
    }

    async fn set_mark(&self, run: &str) -> Result<(), Error> {
        let database = quoted(self.marked());
        let exists =
            format!("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = {}", hex(self.marked()));
        // Who may write into a database need not have the right to make one.
        if self.tools.ask(&exists).await?.first().is_none_or(|count| count == "0") {
            self.tools.ask(&format!("CREATE DATABASE {database}")).await?;
        }
        let statement = format!(
            "CREATE TABLE IF NOT EXISTS {database}.{MARK} (run VARCHAR(255)) CHARACTER SET utf8mb4; DELETE FROM \
             {database}.{MARK}; INSERT INTO {database}.{MARK} VALUES ({})",
            hex(run)
        );
        self.tools.ask(&statement).await.map(drop)
    }

    async fn remove_mark(&self) -> Result<(), Error> {
        let database = quoted(self.marked());
        let what = if self.alone { format!("TABLE {database}.{MARK}") } else { format!("DATABASE {database}") };
        self.tools.ask(&format!("DROP {what}")).await.map(drop)
    }

    async fn load(&self) -> Result<(), Error> {
        let file = File::open(self.dump).map_err(|source| Error::Work { path: self.dump.to_owned(), source })?;
        let into = self.alone.then(|| format!("--database={}", self.databases[0]));
        // Commands of the client's own, such as those of the shell, are none of a dump. MariaDB's begins with one of them.
        let closed = if self.tools.maria { "--loose-sandbox" } else { "--binary-mode" };
        let client = self.tools.program(self.tools.client).args(["--batch", "--local-infile=0", closed]).args(into);
        let loaded = client.run(Stdio::from(file), WHOLE_JOB).await?;
        loaded.map(drop).map_err(|failure| self.tools.account.side.failed(&failure))
    }

    /// What of the backup is not in the target: that is dumped once more, for nobody else writes values as a dump does.
    async fn difference(&self, exact: bool) -> Result<Option<String>, Error> {
        let failed = |failure| self.tools.account.side.failed(&failure);
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
