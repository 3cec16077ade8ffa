//! Makes the accounts of a backup that a target lacks, as far as the login's rights allow, and reports what it left out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::super::super::{Fetched, USERS};
use super::super::Tools;
use super::plan::{Only, Plan};
use super::statement::{Level, Statement, Who};
use super::{NEEDS, target};
use crate::Error;

/// Characters of names in a note.
const NAMES: usize = 300;
/// Characters of a reason in a note.
const REASON: usize = 140;
/// Printed after each statement. It is selected from a table, because only such a statement clears earlier errors.
/// <https://dev.mysql.com/doc/refman/8.4/en/show-warnings.html>
const END: &str = "causeway-end";

/// The accounts of a backup.
#[derive(Debug, Default)]
pub struct Accounts {
    plan: Plan,
    problems: Vec<Problem>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    /// The kind: `accounts` or `rights`.
    of: &'static str,
    what: String,
    /// The server's error number. Problems with the same number are reported together.
    code: u32,
    why: String,
}

/// The reason why a statement failed: the server's number and words.
type Mistake = (u32, String);

impl Accounts {
    /// Finds what the target lacks. `ours` are accounts that an earlier try of this restore began to make. A backup whose login may not
    /// read accounts has none.
    pub async fn look(
        tools: &Tools,
        version: &str,
        fetched: &Fetched,
        ours: &BTreeSet<Who>,
        only: Option<&[Only<'_>]>,
    ) -> Result<Self, Error> {
        if fetched.path(USERS).is_none() {
            return Ok(Self::default());
        }
        let file = fetched.text(USERS)?;
        let mut accounts = match target(tools, version).await? {
            Ok(target) => Self { plan: Plan::new(&file, &target, ours, only), problems: Vec::new() },
            Err(failure) => {
                let empty = super::plan::Target {
                    present: BTreeSet::new(),
                    me: super::me(tools).await?,
                    partial_revokes: false,
                };
                let all = Plan::new(&file, &empty, ours, only).make;
                let why = format!("this login {NEEDS} ({failure})");
                Self {
                    plan: Plan::default(),
                    problems: all.iter().map(|it| Problem::new(it, (0, why.clone()))).collect(),
                }
            }
        };
        let why = "the target has no partial_revokes, and the account may not all on the server";
        accounts.problems.extend(accounts.plan.held.iter().map(|it| Problem::new(it, (1, why.into()))));
        if accounts.plan.strange > 0 {
            tracing::warn!(count = accounts.plan.strange, "statements about accounts are not understood, and left out");
        }
        Ok(accounts)
    }

    /// The accounts that are made or get rights.
    pub fn fresh(&self) -> BTreeSet<Who> {
        self.plan.fresh()
    }

    /// The accounts that are made, and those that stay as they are, in words for people.
    pub fn outlook(&self) -> (Vec<String>, Vec<String>) {
        let make = self.plan.make.iter().map(|statement| statement.who().to_string()).collect();
        (make, self.plan.keep.iter().map(ToString::to_string).collect())
    }

    /// Makes the accounts that are missing.
    pub async fn make(&mut self, tools: &Tools, work: &Path) -> Result<(), Error> {
        let failed = self.carry_out(tools, work, &self.plan.make.clone()).await?;
        self.plan.drop_failed(&failed);
        Ok(())
    }

    /// Gives them the rights that need no tables. MariaDB makes no view that calls a function unless its definer may execute that.
    /// A statement that fails here is run again with the others.
    pub async fn give_first(&self, tools: &Tools, work: &Path) -> Result<(), Error> {
        let needs_nothing = |statement: &&Statement| {
            !matches!(statement, Statement::Grant { level: Level::Object { .. } | Level::Proxy(_), .. })
        };
        let first: Vec<Statement> = self.plan.give.iter().filter(needs_nothing).cloned().collect();
        Self { plan: Plan::default(), problems: Vec::new() }.carry_out(tools, work, &first).await.map(drop)
    }

    /// Gives them their rights.
    pub async fn give(&mut self, tools: &Tools, work: &Path) -> Result<(), Error> {
        self.carry_out(tools, work, &self.plan.give.clone()).await.map(drop)
    }

    /// Returns what was left out, in a sentence.
    pub fn note(&self) -> Option<String> {
        note(&self.problems)
    }

    /// Runs all statements, also after one that fails. Returns the accounts of the statements that failed.
    async fn carry_out(
        &mut self,
        tools: &Tools,
        work: &Path,
        statements: &[Statement],
    ) -> Result<BTreeSet<Who>, Error> {
        if statements.is_empty() {
            return Ok(BTreeSet::new());
        }
        let (printed, end) = tools.script(work, &script(statements), &["--skip-column-names", "--force"]).await?;
        let Some(mistakes) = mistakes(&printed, statements.len()) else {
            // The client also prints the statement that failed, which may hold a password's hash: only errors are kept.
            let stderr = end.err().map(|failure| failure.to_string()).unwrap_or_default();
            let stderr =
                stderr.split("; ").filter(|line| line.contains("ERROR ")).last().unwrap_or_default().to_owned();
            return Err(tools.account.side.failed(&super::Failure::Ended(tools.client, stderr)));
        };
        let mut failed = BTreeSet::new();
        for (statement, mistake) in statements.iter().zip(mistakes) {
            let Some(mistake) = mistake else { continue };
            let problem = Problem::new(statement, mistake);
            tracing::warn!(of = problem.of, what = problem.what, why = problem.why, "left out");
            failed.insert(statement.who().clone());
            self.problems.push(problem);
        }
        Ok(failed)
    }
}

impl Problem {
    fn new(statement: &Statement, (code, why): Mistake) -> Self {
        let who = statement.who();
        let roles = |roles: &[Who]| roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (of, what) = match statement {
            Statement::Make { .. } => ("accounts", who.to_string()),
            Statement::Grant { level: Level::Proxy(other), .. } => ("rights", format!("PROXY on {other} of {who}")),
            Statement::Grant { level, .. } => ("rights", format!("{level} of {who}")),
            Statement::Member { roles: all, .. } | Statement::Default { roles: all, .. } => {
                ("rights", format!("{} of {who}", roles(all)))
            }
        };
        Self { of, what, code, why }
    }
}

/// The statements, each followed by queries that print whether it failed, and its end.
fn script(statements: &[Statement]) -> String {
    let mut script = super::plan::HEADER.to_owned();
    for statement in statements {
        // Writing into a text cannot fail.
        writeln!(
            script,
            "{statement};\nSHOW ERRORS LIMIT 1;\nSELECT '{END}' FROM information_schema.schemata WHERE schema_name = \
             'information_schema';"
        )
        .ok();
    }
    script
}

/// The error of each of `count` statements, from what the client printed; none if the client did not reach their end.
fn mistakes(printed: &str, count: usize) -> Option<Vec<Option<Mistake>>> {
    let (mut all, mut mistake) = (Vec::new(), None);
    for line in printed.lines() {
        if line == END {
            all.push(mistake.take());
        } else if let Some((code, why)) = line.strip_prefix("Error\t").and_then(|rest| rest.split_once('\t')) {
            mistake = code.parse().ok().map(|code| (code, why.to_owned()));
        }
    }
    (all.len() == count).then_some(all)
}

/// All problems in a sentence, grouped by reason.
fn note(problems: &[Problem]) -> Option<String> {
    let mut groups: Vec<(&Problem, Vec<&str>)> = Vec::new();
    for problem in problems {
        match groups.iter_mut().find(|(first, _)| first.of == problem.of && first.code == problem.code) {
            Some((_, names)) => names.push(&problem.what),
            None => groups.push((problem, vec![&problem.what])),
        }
    }
    let sentence = |(first, names): (&Problem, Vec<&str>)| {
        let mut length = 0;
        let fits = |name: &&&str| {
            length += name.chars().count() + 2;
            length <= NAMES
        };
        let some: Vec<&str> = names.iter().take_while(fits).copied().collect();
        let more = names.len() - some.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let why: String = first.why.chars().take(REASON).collect();
        format!("{} left out: {}{more} ({why})", first.of, some.join(", "))
    };
    let sentences: Vec<String> = groups.into_iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(of: &'static str, what: &str, code: u32, why: &str) -> Problem {
        Problem { of, what: what.into(), code, why: why.into() }
    }

    #[test]
    fn what_was_left_out_is_told_with_its_reason() {
        assert_eq!(note(&[]), None);
        let problems = [
            problem("accounts", "app@%", 1227, "Access denied; you need CREATE USER"),
            problem("rights", "`shop`.* of b@%", 1044, "Access denied for user 'x' to database 'shop'"),
            problem("accounts", "staff", 1227, "Access denied; you need CREATE USER"),
        ];
        let expected = "accounts left out: app@%, staff (Access denied; you need CREATE USER); rights left out: `shop`.* of \
                        b@% (Access denied for user 'x' to database 'shop')";
        assert_eq!(note(&problems).as_deref(), Some(expected));
        let many: Vec<Problem> = (0..99).map(|at| problem("accounts", &format!("user-{at:04}@%"), 1, "no")).collect();
        let note = note(&many).unwrap();
        assert!(note.chars().count() < 400 && note.ends_with("@% and 76 more (no)"), "{note}");
    }

    #[test]
    fn each_statement_has_its_own_end() {
        let printed =
            "causeway-end\nError\t1396\tOperation CREATE USER failed for 'a'@'%'\ncauseway-end\ncauseway-end\n";
        let expected = vec![None, Some((1396, "Operation CREATE USER failed for 'a'@'%'".into())), None];
        assert_eq!(mistakes(printed, 3), Some(expected));
        assert_eq!(mistakes(printed, 4), None, "the connection broke");
    }
}
