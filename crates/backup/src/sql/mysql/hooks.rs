//! Statements of a user around a dump of MySQL or MariaDB: one client for all of them.

use std::fmt::Write;

use super::super::Account;
use super::super::child::{Child, Failure};
use super::super::hooks::{Broken, Deadline};
use super::Tools;
use crate::Error;

/// Printed after each statement, with its number.
const END: &str = "causeway-end";

/// Runs the statements up to the first that fails.
pub async fn run(account: Account, statements: &[String], deadline: Deadline) -> Result<Result<(), Broken>, Error> {
    let begun = tokio::time::timeout(deadline.answer_timeout(), begin(account, statements, deadline)).await;
    let Ok(begun) = begun else {
        return Ok(Err(Broken { index: 0, failure: Failure::Silent("mysql", deadline.answer_timeout()) }));
    };
    let (client, mut child) = begun?;
    let mut marks = Marks::default();
    let end = carry_out(&mut child, &mut marks, deadline).await;
    if marks.done == statements.len() {
        return Ok(Ok(()));
    }
    // A client that finds no end of a statement reports nothing.
    let silent = || Failure::Ended(client, "its end was not found: close its quotes and comments".into());
    Ok(Err(Broken { index: marks.done, failure: end.err().unwrap_or_else(silent) }))
}

/// Logs in, and starts the client with all statements. Returns the client's name, too.
async fn begin(account: Account, statements: &[String], deadline: Deadline) -> Result<(&'static str, Child), Error> {
    // Statements of users run with the settings that the server gives their login.
    let tools = Tools::find(account).await?.unprepared();
    tools.log_in().await?;
    // With these options the client takes only the command `delimiter`, and sends no statement that is only a comment.
    let arguments = ["--binary-mode", "--skip-comments", "--line-numbers=0", "--unbuffered", "--skip-column-names"];
    let arguments = arguments.into_iter().chain(tools.account.database.as_deref());
    let text = script(statements, deadline.left().as_secs());
    let child = tools.start(&std::env::temp_dir(), &text, &arguments.collect::<Vec<_>>())?;
    Ok((tools.client, child))
}

async fn carry_out(child: &mut Child, marks: &mut Marks, deadline: Deadline) -> Result<(), Failure> {
    while let Some(chunk) = child.next(deadline.answer_timeout()).await? {
        marks.push(&chunk);
    }
    child.end(deadline.answer_timeout()).await
}

/// All statements, each with a mark after it. MariaDB ends a statement after `seconds`; MySQL has no such limit.
/// <https://mariadb.com/kb/en/aborting-statements/>
fn script(statements: &[String], seconds: u64) -> String {
    let mut text = format!("SET @causeway = 1 /*M!100101 , SESSION max_statement_time = {} */;\n", seconds.max(1));
    for (number, statement) in statements.iter().enumerate() {
        // The line break ends a comment at the end of the statement. If the statement has its own `;`, ours ends an empty one,
        // which is not sent.
        write!(text, "{statement}\n;\nDELIMITER ;\nSELECT '{END} {number}';\n").ok();
    }
    text
}

/// How many statements have come to their end, by what is printed.
#[derive(Default)]
struct Marks {
    done: usize,
    line: Vec<u8>,
}

impl Marks {
    fn push(&mut self, printed: &[u8]) {
        for byte in printed {
            if *byte == b'\n' {
                self.done += usize::from(self.line == format!("{END} {}", self.done).as_bytes());
                self.line.clear();
            } else if self.line.len() <= END.len() + 4 {
                // The rest of a long line is not kept: a row may be larger than the memory, and is no mark.
                self.line.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_a_mark_behind_its_end() {
        let text = script(&["CALL pause() -- it's".into(), "DELETE FROM a;".into()], 0);
        let expected = "SET @causeway = 1 /*M!100101 , SESSION max_statement_time = 1 */;\nCALL pause() -- it's\n;\nDELIMITER \
                        ;\nSELECT 'causeway-end 0';\nDELETE FROM a;\n;\nDELIMITER ;\nSELECT 'causeway-end 1';\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_marks_in_order_are_counted() {
        let mut marks = Marks::default();
        for chunk in ["row\ncauseway-end 1\ncause", "way-end 0\n", "causeway-end 0\ncauseway-end 1 and more\n"] {
            marks.push(chunk.as_bytes());
        }
        assert_eq!(marks.done, 1);
        marks.push("x".repeat(100_000).as_bytes());
        assert!(marks.line.len() < 100, "rows are not kept");
        marks.push(b"\ncauseway-end 1\n");
        assert_eq!(marks.done, 2);
    }
}
