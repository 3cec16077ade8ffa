//! The mark of a restore in its target: the name of the restore, and what another try of it has to know. A target has one mark,
//! and so one restore at a time.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::accounts::Who;
use super::restore::Work;
use super::{MARK, literal, quoted, text};
use crate::Error;

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

    /// Writes the mark into the target. It takes the place of an earlier try's mark, or of that of the run `over`; it is an error
    /// if yet another run has the target.
    pub async fn set_mark(&self, mark: &Mark, over: &str, work: &Path) -> Result<(), Error> {
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
        let (_, end) = self.tools.script(work, &claim(&database, mark, over), &[]).await?;
        end.map_err(|failure| self.tools.account.side.failed(&failure))?;
        self.check_mark(&mark.run).await
    }

    /// Checks that the mark is that of this run: another restore may have been quicker, or taken the target over by force.
    pub async fn check_mark(&self, run: &str) -> Result<(), Error> {
        match self.mark().await? {
            Some(mark) if mark.run != run => Err(self.taken()),
            _ => Ok(()),
        }
    }

    /// The error if another restore has the target.
    pub fn taken(&self) -> Error {
        Error::TargetHoldsHalf { database: self.databases.first().cloned().unwrap_or_default() }
    }

    pub async fn remove_mark(&self) -> Result<(), Error> {
        let database = quoted(self.marked());
        let what = if self.alone { format!("TABLE {database}.{MARK}") } else { format!("DATABASE {database}") };
        self.tools.ask(&format!("DROP {what}")).await.map(drop)
    }
}

/// The statements that write a mark where there is none, or one of the same run or of the run `over`. The key lets only one of
/// two runs at once insert its own. A try that dies in between leaves the mark that was there.
fn claim(database: &str, mark: &Mark, over: &str) -> String {
    // The value cannot fail to serialize.
    let (run, kept) = (literal(&mark.run), literal(&serde_json::to_string(&mark.kept).unwrap_or_default()));
    let over = literal(over);
    format!(
        "CREATE TABLE IF NOT EXISTS {database}.{MARK} (one TINYINT PRIMARY KEY, run VARCHAR(255), kept LONGTEXT) CHARACTER SET \
         utf8mb4;\nINSERT IGNORE INTO {database}.{MARK} (one, run, kept) VALUES (1, {run}, {kept});\nUPDATE {database}.{MARK} \
         SET run = {run}, kept = {kept} WHERE one = 1 AND run IN ({run}, {over});\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_replaces_no_other_run_but_the_one_that_was_seen() {
        let mark = Mark { run: "b'".into(), kept: Kept::default() };
        let script = claim("`shop`", &mark, "a");
        let statements: Vec<&str> = script.lines().collect();
        assert!(statements[0].contains("one TINYINT PRIMARY KEY"), "{script}");
        assert!(statements[1].starts_with("INSERT IGNORE INTO `shop`.causeway_restore "), "{script}");
        let (run, over) = (literal("b'"), literal("a"));
        assert!(statements[2].ends_with(&format!(" WHERE one = 1 AND run IN ({run}, {over});")), "{script}");
        assert_eq!(statements.len(), 3, "{script}");
    }
}
