//! The server into which databases are restored.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::super::child::Program;
use super::super::{Account, WHOLE_JOB};
use super::session::Session;
use crate::Error;

/// The server, for work that does not concern one of its databases only.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub account: &'a Account,
    /// A database that exists, to connect to when others are made.
    pub first: &'a str,
    /// Where files may be written.
    pub work: &'a Path,
}

impl Target<'_> {
    /// Runs all statements of a script in one transaction.
    pub async fn carry_out(&self, script: &str) -> Result<(), Error> {
        let mut session = Session::log_in(self.account, self.first).await?;
        for statements in ["BEGIN", &unrestricted(script), "COMMIT"] {
            let done = session.carry_out(statements, WHOLE_JOB).await;
            done.map_err(|failure| self.account.side.failed(&failure))?;
        }
        Ok(())
    }
}

/// Options that leave out owners and rights, for users that are no superusers: only a superuser may give objects to others.
pub fn ownerless(superuser: bool) -> &'static [&'static str] {
    if superuser { &[] } else { &["--no-owner", "--no-privileges"] }
}

/// Writes a file with entries of a dump, with which `pg_restore` restores only these.
pub fn write_list(work: &Path, name: &str, entries: &[impl AsRef<str>]) -> Result<PathBuf, Error> {
    let list = work.join(name);
    let lines: String = entries.iter().flat_map(|entry| [entry.as_ref(), "\n"]).collect();
    std::fs::write(&list, lines).map_err(|source| Error::Work { path: list.clone(), source })?;
    Ok(list)
}

/// Runs a program that works on the target to its end, and returns what it printed.
pub async fn run(account: &Account, program: Program) -> Result<String, Error> {
    program.run(Stdio::null(), WHOLE_JOB).await?.map_err(|failure| account.side.failed(&failure))
}

/// A script without its lines `\restrict` and `\unrestrict`. They are for `psql`, and this script goes to the server.
fn unrestricted(script: &str) -> String {
    let Some(key) = script.lines().find_map(|line| line.strip_prefix("\\restrict ")) else { return script.to_owned() };
    let is_ours = |line: &&str| {
        let rest =
            line.trim_end().strip_prefix("\\restrict ").or_else(|| line.trim_end().strip_prefix("\\unrestrict "));
        rest == Some(key)
    };
    script.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_with_the_key_of_a_dump_are_left_out() {
        let script =
            "--\n\\restrict k1\nCREATE ROLE a;\n\\restrict k2\n\\! id\n\\unrestrict k1\n\\connect a\n\\restrict k1\n";
        assert_eq!(unrestricted(script), "--\nCREATE ROLE a;\n\\restrict k2\n\\! id\n\\connect a\n");
        assert_eq!(unrestricted("CREATE ROLE a;\n"), "CREATE ROLE a;\n");
    }
}
