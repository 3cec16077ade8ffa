//! Predicts what a restore into MySQL or MariaDB would do. Only reads.

use std::collections::BTreeSet;

use causeway_api::databaserestore::RestoreAction;

use super::super::tables::alike;
use super::super::{Account, Fetched, How};
use super::accounts::Accounts;
use super::restore::Work;
use super::{MARK, Tools, definers, demands, packet, text};
use crate::Error;
use crate::outlook::Outlook;

/// Predicts what would happen to databases, tables and accounts.
pub async fn outlook(account: &Account, fetched: &Fetched, how: &How<'_>) -> Result<Outlook, Error> {
    let mut tools = Tools::find(account.clone()).await?;
    let version = tools.log_in().await?;
    let exact = alike(&version, &fetched.version);
    let mut outlook = Outlook::default();
    for checked in [tools.check_dump().await, tools.prepare().await] {
        outlook.note(checked)?;
    }
    let work = match Work::choose(&tools, fetched, how).await {
        Err(error) if error.is_refusal() => {
            outlook.refuse(&error);
            return Ok(outlook);
        }
        work => work?,
    };
    let Some(work) = work else { return Ok(outlook) };
    match work.is_to_do(how, exact).await {
        Err(error) if error.is_refusal() => outlook.refuse(&error),
        Ok(false) => return Ok(outlook),
        other => drop(other?),
    }
    outlook.note(tools.check_comparison(work.most_rows()).await)?;
    outlook.note(packet::check(&work, fetched).await)?;
    let demands = match demands::check(&work, fetched, &version).await {
        Err(error) if error.is_refusal() => {
            outlook.refuse(&error);
            None
        }
        demands => Some(demands?),
    };
    let present = tools.databases().await?;
    let new = work.databases.iter().filter(|name| !present.contains(name));
    outlook.add(RestoreAction::Create, "databases", new);
    let there = work.table_names().await?;
    let tables: BTreeSet<String> = work.tables.0.keys().cloned().collect();
    outlook.add(RestoreAction::Create, "tables", tables.difference(&there));
    outlook.add(RestoreAction::Replace, "tables", tables.intersection(&there));
    outlook.add(RestoreAction::Keep, "tables", there.difference(&tables));
    outlook.count(RestoreAction::Create, "rows", work.tables.rows());
    let accounts = Accounts::look(&tools, &version, fetched, &BTreeSet::new(), work.only().as_deref()).await?;
    if let Some(demands) = demands {
        outlook.note(definers::check(&work, &demands, &accounts, &version).await.map(drop))?;
    }
    let (make, keep) = accounts.outlook();
    outlook.add(RestoreAction::Create, "accounts", make);
    outlook.add(RestoreAction::Keep, "accounts", keep);
    Ok(outlook)
}

impl Work<'_> {
    /// Tables that are in the target, named as in the backup.
    async fn table_names(&self) -> Result<BTreeSet<String>, Error> {
        let query = format!(
            "SELECT CONCAT(HEX(table_schema), ' ', HEX(table_name)) FROM information_schema.tables WHERE table_schema IN ({}) AND \
             table_type LIKE '%TABLE' AND table_name <> '{MARK}'",
            self.schemas()
        );
        let rows = self.tools.ask(&query).await?;
        let name = |(database, table): (&str, &str)| self.table(&text(database), text(table));
        Ok(rows.iter().filter_map(|row| row.split_once(' ')).map(name).collect())
    }
}
