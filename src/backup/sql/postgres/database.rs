//! A database itself: made as it was, with its encoding and locale, then given its owner, rights and settings.
//!
//! PostgreSQL makes a database by itself, outside of any transaction. Whatever dies behind that leaves one that nobody has
//! given anything yet: so a second try finds it bare, and goes on.

use std::path::Path;

use super::globals::identifier;
use super::program;
use super::session::{Session, literally};
use super::target::{Target, ownerless, run, write_list};
use crate::backup::Error;

/// What a dump says of its database.
pub struct Database {
    /// All statements about it.
    script: String,
}

impl Database {
    /// Reads it from a dump. Only who may do anything may give it to somebody.
    pub async fn read(target: Target<'_>, dump: &Path, superuser: bool) -> Result<Self, Error> {
        let Target { account, first, work } = target;
        let toc = program("pg_restore", account, first)?.args(["--list", "--create"]).args([dump]);
        let toc = run(account, toc).await?;
        let entries: Vec<&str> = toc.lines().filter(|line| is_of_database(line)).collect();
        let list = write_list(work, "database.list", &entries)?;
        let arguments = ["--create", "--no-tablespaces", "--file", "/dev/stdout"];
        let print = program("pg_restore", account, first)?.args(arguments).args(ownerless(superuser));
        let script = run(account, print.args(["--use-list".as_ref(), list.as_os_str(), dump.as_os_str()])).await?;
        Ok(Self { script })
    }

    /// Makes it, with nothing that belongs to it.
    pub async fn make(&self, target: Target<'_>) -> Result<(), Error> {
        let Some(create) = self.script.lines().find(|line| makes(line)) else {
            let message = "the name of a database goes over several lines: make it, and restore again";
            return Err(Error::Unsupported(message.into()));
        };
        Session::open(target.account, target.first).await?.tell(&literally(create)).await
    }

    /// Gives it all that the dump says of it, or nothing.
    pub async fn apply_grants(&self, target: Target<'_>) -> Result<(), Error> {
        target.carry_out("database.sql", &user_provided(&self.script)).await
    }
}

/// Whether an entry of a dump's table of contents is about the database itself, such as
/// `3369; 1262 16384 DATABASE - shop postgres`.
fn is_of_database(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        [number, _, _, "DATABASE", ..] => !number.starts_with(";;") && number.ends_with(';'),
        [number, _, _, _, "-", "DATABASE", ..] => number.ends_with(';'),
        _ => false,
    }
}

/// Whether a line is a whole statement that makes a database.
fn makes(line: &str) -> bool {
    let rest = line.strip_prefix("CREATE DATABASE ").map(|rest| &rest[identifier(rest).len()..]);
    rest.is_some_and(|rest| rest == ";" || (rest.starts_with(" WITH ") && rest.ends_with(';')))
}

/// What of a script does not make the database, nor go there: that would end the transaction. Texts may go over several
/// lines, which are nothing else whatever they look like.
fn user_provided(script: &str) -> String {
    let mut quote = None;
    let mut kept = String::with_capacity(script.len());
    for line in script.split_inclusive('\n') {
        let begins = quote.is_none();
        if begins && (line.starts_with("--") || line.starts_with("\\connect ") || makes(line.trim_end())) {
            continue;
        }
        kept.push_str(line);
        for letter in line.chars() {
            quote = match (quote, letter) {
                (None, '\'' | '"') => Some(letter),
                (Some(begun), letter) if begun == letter => None,
                (quote, _) => quote,
            };
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_the_database_itself_makes_it() {
        for line in [
            "3369; 1262 16384 DATABASE - shop postgres",
            "3370; 0 0 DATABASE PROPERTIES - shop postgres",
            "3371; 0 0 ACL - DATABASE shop postgres",
            "3371; 0 0 COMMENT - DATABASE shop postgres",
        ] {
            assert!(is_of_database(line), "{line}");
        }
        for line in [
            ";     dbname: shop",
            "215; 1259 16386 TABLE public DATABASE postgres",
            "3363; 0 16386 TABLE DATA public orders postgres",
            "3372; 0 0 COMMENT - SCHEMA public pg_database_owner",
        ] {
            assert!(!is_of_database(line), "{line}");
        }
    }

    #[test]
    fn a_database_is_made_by_a_whole_statement() {
        for line in
            ["CREATE DATABASE shop;", "CREATE DATABASE \"odd \"\"; one\" WITH TEMPLATE = template0 LOCALE = 'C';"]
        {
            assert!(makes(line), "{line}");
        }
        for line in
            ["CREATE DATABASE \"never ends;", "CREATE DATABASE shop; DROP TABLE a;", "ALTER DATABASE a OWNER TO b;"]
        {
            assert!(!makes(line), "{line}");
        }
    }

    #[test]
    fn what_belongs_to_a_database_is_given_where_one_is() {
        let text = "COMMENT ON DATABASE shop IS 'as by\n\\connect shop\n-- it''s\nCREATE DATABASE shop;\n';\n";
        let script = format!(
            "SET lock_timeout = 0;\n-- it's\nCREATE DATABASE shop WITH TEMPLATE = template0;\n\
             ALTER DATABASE shop OWNER TO app;\n\\connect shop\n{text}\\connect shop\n\
             ALTER DATABASE shop SET work_mem TO '7MB';\n"
        );
        let expected = format!(
            "SET lock_timeout = 0;\nALTER DATABASE shop OWNER TO app;\n{text}\
             ALTER DATABASE shop SET work_mem TO '7MB';\n"
        );
        assert_eq!(user_provided(&script), expected);
    }
}
