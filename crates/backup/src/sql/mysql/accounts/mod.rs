//! Users, roles and their rights, which belong to no database: `SHOW CREATE USER` and `SHOW GRANTS` print them as SQL.
//!
//! ```text
//! source: mysql.user ─▶ SHOW … of each ─▶ the file `users` ─▶ target: made if missing │ databases │ rights
//! ```
//!
//! Accounts are made before the databases, whose views and routines name some of them as definers. They get their rights after
//! the databases, because a right on a table needs the table.

mod plan;
mod restore;
mod source;
mod statement;
mod tokens;

pub use plan::{Only, escaped, matches, nearness};
pub use restore::Accounts;
pub use source::{dumped, own, shown};
pub use statement::{Level, Statement, Who};
pub use tokens::{Kind, Token, render, statements};

use std::collections::BTreeSet;

use self::plan::Target;
use self::source::SESSION;
use super::super::child::Failure;
use super::{Tools, text};
use crate::Error;

/// The right that a login needs to read other accounts.
const NEEDS: &str = "needs SELECT on mysql.*";

/// All accounts and roles; or why this login may not read them.
pub async fn all(tools: &Tools, version: &str) -> Result<Result<BTreeSet<Who>, Failure>, Error> {
    // Only MariaDB distinguishes roles from accounts.
    let role = if version.contains("MariaDB") { "is_role" } else { "'N'" };
    // By some modes the server would fill names up with blanks.
    let query = format!("{SESSION}SELECT CONCAT(HEX(user), ' ', HEX(host), ' ', {role}) FROM mysql.user");
    let rows = tools.answer(&query).await?;
    let who = |row: &String| {
        let mut parts = row.splitn(3, ' ');
        let (user, host) = (text(parts.next()?), text(parts.next()?));
        Some(Who { user, host: (parts.next()? != "Y").then_some(host) })
    };
    Ok(rows.map(|rows| rows.iter().filter_map(who).collect()))
}

/// The account that is logged in.
pub async fn me(tools: &Tools) -> Result<Who, Error> {
    let name = tools.ask("SELECT HEX(CURRENT_USER())").await?.first().map(|name| text(name)).unwrap_or_default();
    let (user, host) = name.rsplit_once('@').unwrap_or((&name, ""));
    Ok(Who { user: user.to_owned(), host: Some(host.to_owned()) })
}

/// The accounts of the target of a restore; or why this login may not read them.
async fn target(tools: &Tools, version: &str) -> Result<Result<Target, Failure>, Error> {
    let present = match all(tools, version).await? {
        Ok(present) => present,
        Err(failure) => return Ok(Err(failure)),
    };
    let partial = tools.ask("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'").await?;
    Ok(Ok(Target { present, me: me(tools).await?, partial_revokes: partial.iter().any(|it| it.ends_with("ON")) }))
}
