//! The mark of a restore in its target: the name of the restore, and what another try of it has to know.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::accounts::Who;
use super::restore::Work;
use super::{MARK, literal, quoted, text};
use crate::backup::Error;

/// The mark of an unfinished restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Name of the restore.
    pub run: String,
    pub kept: Kept,
}

/// Facts that another try has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// True if the event scheduler ran before the restore.
    #[serde(default)]
    pub events: bool,
    /// Accounts that were missing before the restore, so the restore makes them.
    #[serde(default)]
    pub accounts: BTreeSet<Who>,
}

impl Work<'_> {
    /// The database that the mark is in.
    fn marked(&self) -> &str {
        if self.alone { &self.databases[0] } else { MARK }
    }

    /// Reads the mark; none if there is none.
    pub async fn mark(&self) -> Result<Option<Mark>, Error> {
        let exists = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {} AND table_name = '{MARK}'",
            literal(self.marked())
        );
        if self.tools.ask(&exists).await?.first().is_none_or(|count| count == "0") {
            return Ok(None);
        }
        let query = format!("SELECT CONCAT(HEX(run), ' ', HEX(kept)) FROM {}.{MARK}", quoted(self.marked()));
        let rows = self.tools.ask(&query).await?;
        let (run, kept) = rows.first().and_then(|row| row.split_once(' ')).unwrap_or_default();
        Ok(Some(Mark { run: text(run), kept: serde_json::from_str(&text(kept)).unwrap_or_default() }))
    }

    /// Writes the mark into the target.
    pub async fn set_mark(&self, mark: &Mark, work: &Path) -> Result<(), Error> {
        let database = quoted(self.marked());
        let exists =
            format!("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = {}", literal(self.marked()));
        // A user who may write into a database may lack the right to make one.
        if self.tools.ask(&exists).await?.first().is_none_or(|count| count == "0") {
            let plain = format!("CREATE DATABASE {database};\n");
            let create = if self.create.is_empty() { &plain } else { &self.create };
            let (_, end) = self.tools.script(work, create, &[]).await?;
            end.map_err(|failure| self.tools.account.side.failed(&failure))?;
        }
        // The value cannot fail to serialize.
        let (run, kept) = (literal(&mark.run), literal(&serde_json::to_string(&mark.kept).unwrap_or_default()));
        // The mark is updated, not deleted and inserted: a try that dies in between leaves the mark that was there.
        let statements = format!(
            "CREATE TABLE IF NOT EXISTS {database}.{MARK} (run VARCHAR(255), kept LONGTEXT) CHARACTER SET utf8mb4;\nINSERT \
             INTO {database}.{MARK} SELECT {run}, {kept} FROM (SELECT COUNT(*) AS marks FROM {database}.{MARK}) AS there WHERE \
             marks = 0;\nUPDATE {database}.{MARK} SET run = {run}, kept = {kept};\n"
        );
        let (_, end) = self.tools.script(work, &statements, &[]).await?;
        end.map_err(|failure| self.tools.account.side.failed(&failure))
    }

    pub async fn remove_mark(&self) -> Result<(), Error> {
        let database = quoted(self.marked());
        let what = if self.alone { format!("TABLE {database}.{MARK}") } else { format!("DATABASE {database}") };
        self.tools.ask(&format!("DROP {what}")).await.map(drop)
    }
}
