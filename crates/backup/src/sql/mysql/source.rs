//! A dump of MySQL or MariaDB: accounts, then all databases at one instant, with the server's own program.

use std::process::Stdio;

use super::super::dump::Writer;
use super::super::words::listed;
use super::super::{Account, DATABASES, DUMP, PROGRAM_SILENCE_TIMEOUT, TABLES, USERS};
use super::rows::Rows;
use super::{Tools, accounts, events, rights};
use crate::Error;
use crate::manifest::{Contents, LEFT_OUT};

/// Said of a backup of all databases by a login to which the server does not list all of them.
const HIDDEN: &str = "databases hidden from it (it lacks SHOW DATABASES)";

/// The prefix that the server gives to the name of a directory that is none of its databases.
const STRAY: &str = "#mysql50#";
/// Characters of a fact of a manifest.
const LONGEST_FACT: usize = 128;

/// A server to dump.
pub struct MysqlDump {
    tools: Tools,
    databases: Vec<String>,
    /// Directories that the server lists as if they were databases.
    strays: Vec<String>,
    /// True if there may be further databases that the server does not list for this login.
    is_partial: bool,
    /// The server's version.
    pub version: String,
}

impl MysqlDump {
    /// Logs in, lists the databases, and checks that all of them may be read.
    pub async fn open(account: Account) -> Result<Self, Error> {
        let mut tools = Tools::find(account).await?;
        let version = tools.log_in().await?;
        tools.check_dump().await?;
        tools.prepare_to_read().await?;
        let databases = match &tools.account.database {
            Some(database) => vec![database.clone()],
            None => tools.databases().await?,
        };
        let (strays, databases): (Vec<String>, Vec<String>) =
            databases.into_iter().partition(|name| tools.account.database.is_none() && is_stray(name));
        if !strays.is_empty() {
            tracing::warn!(?strays, "left out: directories in the server's data directory that are no databases");
        }
        let sees_all = rights::check(&tools, &version, &databases).await?;
        events::check(&tools, &databases).await?;
        let is_partial = tools.account.database.is_none() && !sees_all;
        if is_partial {
            tracing::warn!("left out: {HIDDEN}");
        }
        tracing::info!(host = tools.account.host, version, databases = databases.len(), "a server can be dumped");
        Ok(Self { tools, databases, strays, is_partial, version })
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
        contents.facts.extend(left_out(self.is_partial, &self.strays).map(|words| (LEFT_OUT.to_owned(), words)));
        // Without databases there is nothing to dump: the program would refuse to run.
        if self.databases.is_empty() {
            return Ok(contents);
        }
        let dump = self.tools.dump(&self.databases, alone.is_some(), false).start(Stdio::null())?;
        let mut rows = Rows::default();
        let written =
            into.observed(&format!("{DUMP}{name}"), dump, PROGRAM_SILENCE_TIMEOUT, |bytes| rows.push(bytes)).await;
        written.map_err(|failure| self.tools.dump_failed(&failure))?;
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

/// Reports whether a database is only a directory in the server's data directory, such as `lost+found` of a file system or
/// `.rocksdb`. The server writes names of its own databases in another form; to these it gives a prefix, with which no database
/// can be made. <https://dev.mysql.com/doc/refman/8.4/en/identifier-mapping.html>
fn is_stray(name: &str) -> bool {
    name.get(..STRAY.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(STRAY))
}

/// Describes what a backup of all databases lacks; `None` if it lacks nothing.
fn left_out(is_partial: bool, strays: &[String]) -> Option<String> {
    let names: Vec<String> = strays.iter().map(|name| name.get(STRAY.len()..).unwrap_or_default().to_owned()).collect();
    let directories = listed(&names).map(|names| format!("directories that are no databases ({names})"));
    let hidden = is_partial.then(|| HIDDEN.to_owned());
    let all: Vec<String> = hidden.into_iter().chain(directories).collect();
    (!all.is_empty()).then(|| all.join(", ").chars().take(LONGEST_FACT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_beside_databases_are_left_out_and_told() {
        let strays = ["#mysql50#lost+found", "#mysql50#.rocksdb", "#MYSQL50#x"].map(str::to_owned);
        assert!(strays.iter().all(|name| is_stray(name)));
        assert!(!["lost+found", "shop", "mysql50", "#mysql5", "é#mysql50#", ""].iter().any(|name| is_stray(name)));
        assert_eq!(left_out(false, &[]), None);
        assert_eq!(left_out(true, &[]).as_deref(), Some(HIDDEN));
        let words = left_out(false, &strays[..2]);
        assert_eq!(words.as_deref(), Some("directories that are no databases (lost+found, .rocksdb)"));
        let many: Vec<String> = (0..90).map(|number| format!("{STRAY}{number:064}")).collect();
        let both = left_out(true, &many).expect("words");
        assert!(both.starts_with(HIDDEN) && both.len() <= LONGEST_FACT, "{both}");
    }
}
