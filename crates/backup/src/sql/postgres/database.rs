//! Makes the database itself as it was, with its encoding and locale, and then sets its owner, rights and settings.
//!
//! PostgreSQL makes a database outside of any transaction. A try that dies after that leaves a database without owner, rights
//! and settings from the backup. A second try recognizes it by that, and goes on.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::{PROGRAM_SILENCE_TIMEOUT, Side};
use super::globals::identifier;
use super::program;
use super::session::Session;
use super::target::{Target, ownerless, run, write_list};
use crate::Error;

/// The statements of a dump about its database.
pub struct Database {
    /// All statements about it.
    script: String,
}

impl Database {
    /// Reads it from a dump. Owner and rights are left out unless the user is a superuser.
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

    /// The statement that makes it.
    fn create(&self) -> Result<&str, Error> {
        self.script.lines().find(|line| makes(line)).ok_or_else(|| {
            let message = "the name of a database goes over several lines: make it, and restore again";
            Error::Unsupported(message.into())
        })
    }

    /// Checks that the server can make it. The error names a locale that the server's operating system lacks.
    pub async fn check(&self, target: Target<'_>, name: &str) -> Result<(), Error> {
        if target.account.side == Side::Scratch {
            return Ok(());
        }
        for locale in locales(self.create()?) {
            if lacks(target, &locale).await? {
                let name = name.replace('"', "\"\"");
                return Err(Error::ServerUnfit(format!(
                    "database {name} has the locale {locale}, which {} lacks: install it there, or make the database with another one \
                     (CREATE DATABASE \"{name}\" TEMPLATE template0 LOCALE 'C'), then restore again",
                    target.account.host
                )));
            }
        }
        Ok(())
    }

    /// Makes it, without its owner, rights and settings. A throw-away server makes it with the locale C if it lacks the right one:
    /// what tables hold does not depend on that.
    pub async fn make(&self, target: Target<'_>) -> Result<(), Error> {
        let mut create = self.create()?.to_owned();
        for locale in locales(&create) {
            if target.account.side == Side::Scratch && lacks(target, &locale).await? {
                tracing::warn!(locale, "the image lacks this locale: the database is made with C");
                create = create.replace(&format!("= '{locale}'"), "= 'C'");
            }
        }
        Session::open(target.account, target.first).await?.tell(&create).await
    }

    /// Sets owner, rights and settings in one transaction.
    pub async fn apply_grants(&self, target: Target<'_>) -> Result<(), Error> {
        target.carry_out(&user_provided(&self.script)).await
    }
}

/// Reports whether an entry of a dump's table of contents is about the database itself, such as
/// `3369; 1262 16384 DATABASE - shop postgres`.
fn is_of_database(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        [number, _, _, "DATABASE", ..] => !number.starts_with(";;") && number.ends_with(';'),
        [number, _, _, _, "-", "DATABASE", ..] => number.ends_with(';'),
        _ => false,
    }
}

/// Reports whether a line is a whole statement that makes a database.
fn makes(line: &str) -> bool {
    let rest = line.strip_prefix("CREATE DATABASE ").map(|rest| &rest[identifier(rest).len()..]);
    rest.is_some_and(|rest| rest == ";" || (rest.starts_with(" WITH ") && rest.ends_with(';')))
}

/// The locales of the operating system that a statement names, other than those that each system has.
/// <https://www.postgresql.org/docs/current/sql-createdatabase.html>
fn locales(create: &str) -> BTreeSet<String> {
    // The name of a database may have anything in it.
    let rest = create.strip_prefix("CREATE DATABASE ").map_or("", |rest| &rest[identifier(rest).len()..]);
    let value = |key: &&str| Some(rest.split_once(&format!(" {key} = '"))?.1.split('\'').next()?.to_owned());
    let named = ["LOCALE", "LC_COLLATE", "LC_CTYPE"].iter().filter_map(value);
    named.filter(|locale| !matches!(locale.as_str(), "" | "C" | "POSIX")).collect()
}

/// Reports whether the server cannot use a locale. It is tried in a transaction that is rolled back. If the login may not try
/// it, the locale
/// is taken to be there.
async fn lacks(target: Target<'_>, locale: &str) -> Result<bool, Error> {
    let mut session = Session::open(target.account, target.first).await?;
    let attempt =
        format!("BEGIN; CREATE COLLATION pg_temp.causeway (LC_COLLATE = '{locale}', LC_CTYPE = '{locale}'); ROLLBACK");
    let tried = session.carry_out(&attempt, PROGRAM_SILENCE_TIMEOUT).await;
    Ok(tried.is_err_and(|failure| failure.api_message().contains("could not create locale")))
}

/// The script without the lines that make the database or connect to it, which would end the transaction. A quoted text may
/// span several lines, which are kept whatever they look like.
fn user_provided(script: &str) -> String {
    let mut quote = None;
    let mut kept = String::with_capacity(script.len());
    for line in script.split_inclusive('\n') {
        let begins = quote.is_none();
        // For a name with other characters than letters, digits, `_` and `.`, newer versions set the encoding before they
        // connect. <https://github.com/postgres/postgres/blob/REL_15_STABLE/src/fe_utils/string_utils.c>
        let connects = ["\\connect ", "\\encoding "].iter().any(|command| line.starts_with(command));
        if begins && (line.starts_with("--") || connects || makes(line.trim_end())) {
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
    fn the_locales_of_a_database_are_those_of_its_statement() {
        let of = |text: &str| locales(&format!("CREATE DATABASE {text};")).into_iter().collect::<Vec<_>>().join(" ");
        let template = "WITH TEMPLATE = template0 ENCODING = 'UTF8'";
        assert_eq!(of(&format!("shop {template} LOCALE = 'de_DE.UTF-8'")), "de_DE.UTF-8");
        assert_eq!(of(&format!("shop {template} LC_COLLATE = 'C' LC_CTYPE = 'fr_FR.utf8'")), "fr_FR.utf8");
        let icu = format!("shop {template} LOCALE_PROVIDER = icu LC_COLLATE = 'a' LC_CTYPE = 'b' ICU_LOCALE = 'und'");
        assert_eq!(of(&icu), "a b");
        assert_eq!(of(&format!("\" LOCALE = 'x'\" {template} LOCALE = 'POSIX'")), "");
        assert_eq!(of("shop"), "");
    }

    #[test]
    fn what_belongs_to_a_database_is_given_where_one_is() {
        let text = "COMMENT ON DATABASE shop IS 'as by\n\\connect shop\n-- it''s\nCREATE DATABASE shop;\n';\n";
        let script = format!(
            "SET lock_timeout = 0;\n-- it's\nCREATE DATABASE shop WITH TEMPLATE = template0;\n\
             ALTER DATABASE shop OWNER TO app;\n\\connect shop\n{text}\\encoding SQL_ASCII\n\
             \\connect -reuse-previous=on \"dbname='shop'\"\n\
             ALTER DATABASE shop SET work_mem TO '7MB';\n"
        );
        let expected = format!(
            "SET lock_timeout = 0;\nALTER DATABASE shop OWNER TO app;\n{text}\
             ALTER DATABASE shop SET work_mem TO '7MB';\n"
        );
        assert_eq!(user_provided(&script), expected);
    }
}
