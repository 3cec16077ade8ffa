//! A dump of MySQL or MariaDB: accounts, then all databases at one instant, with the server's own program.

use std::process::Stdio;

use super::super::dump::Writer;
use super::super::{Account, DATABASES, DUMP, PROGRAM_SILENCE_TIMEOUT, TABLES, USERS};
use super::rows::Rows;
use super::{Tools, accounts, rights};
use crate::backup::Error;
use crate::backup::manifest::{Contents, LEFT_OUT};

/// Said of a backup of all databases by a login to which the server does not list all of them.
const HIDDEN: &str = "databases hidden from it (it lacks SHOW DATABASES)";

/// A server to dump.
pub struct MysqlDump {
    tools: Tools,
    databases: Vec<String>,
    /// Whether there may be further databases that the server does not list for this login.
    is_partial: bool,
    /// The server's version.
    pub version: String,
}

impl MysqlDump {
    /// Logs in, lists the databases, and checks that all of them may be read.
    pub async fn open(account: Account) -> Result<Self, Error> {
        let tools = Tools::find(account).await?;
        let version = tools.log_in().await?;
        let databases = match &tools.account.database {
            Some(database) => vec![database.clone()],
            None => tools.databases().await?,
        };
        let sees_all = rights::check(&tools, &version, &databases).await?;
        let is_partial = tools.account.database.is_none() && !sees_all;
        if is_partial {
            tracing::warn!("left out: {HIDDEN}");
        }
        tracing::info!(host = tools.account.host, version, databases = databases.len(), "a server can be dumped");
        Ok(Self { tools, databases, is_partial, version })
    }

    /// Writes the whole dump, and returns what it holds.
    pub async fn write(self, into: &mut Writer) -> Result<Contents, Error> {
        let alone = self.tools.account.database.as_deref();
        let name = alone.unwrap_or_default();
        into.text(DATABASES, &self.databases.join("\n")).await;
        let mut contents = Contents::default();
        let accounts = match accounts::dumped(&self.tools, &self.version).await? {
            Ok((text, count)) => {
                into.text(USERS, &text).await;
                count.to_string()
            }
            Err(why) => {
                tracing::warn!("users are left out: this login {why}");
                "left out".into()
            }
        };
        contents.facts.insert("accounts".into(), accounts);
        contents.facts.insert("databases".into(), self.databases.len().to_string());
        contents.facts.insert("tables".into(), "0".into());
        contents.facts.extend(self.is_partial.then(|| (LEFT_OUT.to_owned(), HIDDEN.to_owned())));
        // Without databases there is nothing to dump: the program would refuse to run.
        if self.databases.is_empty() {
            return Ok(contents);
        }
        let dump = self.tools.dump(&self.databases, alone.is_some(), false).start(Stdio::null())?;
        let mut rows = Rows::default();
        let written =
            into.observed(&format!("{DUMP}{name}"), dump, PROGRAM_SILENCE_TIMEOUT, |bytes| rows.push(bytes)).await;
        written.map_err(|failure| self.tools.account.side.failed(&failure))?;
        if let Some(lost) = self.databases.iter().find(|name| alone.is_none() && rows.lacks(name)) {
            let message = format!("{} ended well, but its dump has no database {lost}", self.tools.dump);
            return Err(Error::SourceDamaged(message));
        }
        let Some(tables) = rows.finish() else {
            let message = format!("{} ended well, but the last line of its dump is missing", self.tools.dump);
            return Err(Error::SourceDamaged(message));
        };
        contents.keys = tables.rows();
        contents.facts.insert("tables".into(), tables.0.len().to_string());
        into.text(&format!("{TABLES}{name}"), &tables.text()).await;
        Ok(contents)
    }
}
