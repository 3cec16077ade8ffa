//! Predicts a restore into PostgreSQL. Only reads.

use std::collections::BTreeSet;

use causeway_api::databaserestore::RestoreAction;

use super::super::{Account, Fetched, GLOBALS, How};
use super::globals::made;
use super::limits::lifted;
use super::restore::{Ground, State};
use super::session::Session;
use crate::Error;
use crate::outlook::Outlook;

/// Predicts the changes of databases, tables, what depends on them, and roles.
pub async fn outlook(account: &Account, fetched: &Fetched, how: &How<'_>) -> Result<Outlook, Error> {
    let account = &lifted(account).await?;
    let mut ground = Ground::look_at(account, fetched, how).await?;
    let mut outlook = Outlook::default();
    let (mut new, mut tables, mut there, mut dependents, mut rows) =
        (Vec::new(), BTreeSet::new(), BTreeSet::new(), Vec::new(), 0);
    for pair in &ground.pairs {
        let state = match ground.state(pair, how).await {
            Err(error) if error.is_refusal() => {
                outlook.refuse(&error);
                None
            }
            state => Some(state?),
        };
        if state == Some(State::Done) {
            continue;
        }
        outlook.note(ground.check_extensions(pair))?;
        if let Some(state) = &state {
            outlook.note(ground.database(pair, state, how).await.map(drop))?;
        }
        new.extend((state == Some(State::Missing)).then_some(pair.into));
        // If there are several databases, the name of the database goes before that of the table.
        let named = |table: &String| {
            if ground.pairs.len() > 1 { format!("{}: {table}", pair.into) } else { table.clone() }
        };
        tables.extend(pair.tables.0.keys().map(named));
        rows += pair.tables.rows();
        if ground.has(pair) {
            let mut session = Session::open(account, pair.into).await?;
            there.extend(session.table_names().await?.iter().map(named));
            let found = pair.dependents(account, how.work, &mut session).await?;
            dependents.extend(found.iter().map(|it| named(&it.title)));
        }
    }
    outlook.add(RestoreAction::Create, "databases", new);
    outlook.add(RestoreAction::Create, "tables", tables.difference(&there));
    outlook.add(RestoreAction::Replace, "tables", tables.intersection(&there));
    outlook.add(RestoreAction::Drop, "dependents", &dependents);
    let gone: BTreeSet<String> =
        dependents.iter().map(|it| it.strip_prefix("table ").unwrap_or(it).to_owned()).collect();
    outlook.add(RestoreAction::Keep, "tables", there.difference(&tables).filter(|table| !gone.contains(*table)));
    outlook.count(RestoreAction::Create, "rows", rows);
    let is_part = ground.pairs.iter().any(|pair| pair.is_part);
    if ground.superuser && !is_part && fetched.path(GLOBALS).is_some() {
        let (globals, present) = (fetched.text(GLOBALS)?, ground.admin.roles().await?);
        let (there, missing): (Vec<&str>, Vec<&str>) =
            made(&globals).into_iter().partition(|role| present.iter().any(|it| it == role));
        outlook.add(RestoreAction::Create, "roles", missing);
        outlook.add(RestoreAction::Keep, "roles", there);
    }
    Ok(outlook)
}
