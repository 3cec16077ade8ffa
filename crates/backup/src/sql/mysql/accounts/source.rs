//! Reads the accounts of a server.

use super::super::super::child::Failure;
use super::super::Tools;
use super::plan::{file, is_theirs};
use super::statement::PUBLIC;
use super::{NEEDS, Who, all, me};
use crate::Error;

/// Accounts that one query asks for: the query must fit into an argument.
const AT_ONCE: usize = 50;
/// How many times it is tried to read all accounts: one may be dropped meanwhile.
const TRIES: u32 = 2;
/// Makes names and quotes independent of the server's settings. Hashes that are not text are printed as hexadecimal numbers.
/// <https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_print_identified_with_as_hex>
pub const SESSION: &str = "SET SESSION sql_mode = '', SESSION sql_quote_show_create = ON \
                           /*!80017 , SESSION print_identified_with_as_hex = ON */; ";

/// The text of the file with all accounts, and how many there are; or why they are left out.
pub async fn dumped(tools: &Tools, version: &str) -> Result<Result<(String, usize), String>, Error> {
    let me = me(tools).await?;
    let mut tried = 0;
    loop {
        tried += 1;
        let accounts: Vec<Who> = match all(tools, version).await? {
            Ok(all) => all.into_iter().filter(|who| is_theirs(who, &me)).collect(),
            Err(failure) => return Ok(Err(format!("{NEEDS} ({failure})"))),
        };
        match printed(tools, &accounts).await? {
            Ok(printed) => {
                let (text, strange) = file(&printed, &accounts);
                if strange > 0 {
                    tracing::warn!(strange, "the server printed statements about accounts that cannot be read again");
                }
                return Ok(Ok((text, accounts.len())));
            }
            Err(failure) if tried == TRIES => return Ok(Err(format!("{NEEDS} ({failure})"))),
            Err(failure) => tracing::info!(%failure, "not all accounts could be read: once more"),
        }
    }
}

/// The statements that the server prints for these accounts.
async fn printed(tools: &Tools, accounts: &[Who]) -> Result<Result<Vec<String>, Failure>, Error> {
    let mut all = Vec::new();
    for some in accounts.chunks(AT_ONCE) {
        let mut statements = SESSION.to_owned();
        for who in some {
            let name = who.quoted();
            let create = if who.host.is_some() { format!("SHOW CREATE USER {name}; ") } else { String::new() };
            statements.extend([create, format!("SHOW GRANTS FOR {name}; ")]);
        }
        match tools.answer(&statements).await? {
            Ok(lines) => all.extend(lines.iter().map(|line| unescaped(line))),
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(all))
}

/// The statements that the server prints for this login and for the roles of its sessions; or why it prints none.
///
/// MariaDB prints what the role of the session has; MySQL has to be given the roles. MariaDB does not print what `PUBLIC`
/// has, and does not let every login ask for it.
/// <https://dev.mysql.com/doc/refman/8.4/en/show-grants.html>, <https://mariadb.com/kb/en/show-grants/>
pub async fn own(tools: &Tools, version: &str) -> Result<Result<Vec<String>, Failure>, Error> {
    let is_maria = version.contains("MariaDB");
    // MySQL 5.7 has no roles, and no such function.
    let roles = if is_maria { Vec::new() } else { tools.answer("SELECT CURRENT_ROLE()").await?.unwrap_or_default() };
    let statement = show_own(roles.first().map(|roles| unescaped(roles)).as_deref());
    let mut lines = match tools.answer(&format!("{SESSION}{statement}")).await? {
        Ok(lines) => lines,
        Err(failure) => return Ok(Err(failure)),
    };
    if is_maria {
        lines.extend(tools.answer(&format!("{SESSION}SHOW GRANTS FOR {PUBLIC}")).await?.unwrap_or_default());
    }
    Ok(Ok(lines.iter().map(|line| unescaped(line)).collect()))
}

/// The statements that the server prints for an account, whose name is as in statements, and for `PUBLIC`; none if it does not
/// print them.
pub async fn shown(tools: &Tools, who: &str) -> Result<Option<Vec<String>>, Error> {
    let Ok(mut lines) = tools.answer(&format!("{SESSION}SHOW GRANTS FOR {who}")).await? else { return Ok(None) };
    lines.extend(tools.answer(&format!("{SESSION}SHOW GRANTS FOR {PUBLIC}")).await?.unwrap_or_default());
    Ok(Some(lines.iter().map(|line| unescaped(line)).collect()))
}

/// The statement that asks for the rights of this login, with those of the roles that `CURRENT_ROLE()` names.
fn show_own(roles: Option<&str>) -> String {
    match roles {
        None | Some("" | "NONE" | "NULL") => "SHOW GRANTS".into(),
        Some(roles) => format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}"),
    }
}

/// The value before the client escaped it: in batch mode it prints no line breaks within a value.
/// <https://dev.mysql.com/doc/refman/8.4/en/mysql-command-options.html#option_mysql_batch>
fn unescaped(line: &str) -> String {
    let mut value = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, if letter == '\\' { letters.next() } else { None }) {
            (_, Some('n')) => value.push('\n'),
            (_, Some('t')) => value.push('\t'),
            (_, Some('0')) => value.push('\0'),
            (_, Some(other)) => value.push(other),
            (letter, None) => value.push(letter),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_session_roles_are_asked_for() {
        for none in [None, Some("NONE"), Some("NULL")] {
            assert_eq!(show_own(none), "SHOW GRANTS");
        }
        let roles = Some("`a`@`%`,`b`@`%`");
        assert_eq!(show_own(roles), "SHOW GRANTS FOR CURRENT_USER() USING `a`@`%`,`b`@`%`");
    }

    #[test]
    fn what_the_client_escapes_is_what_it_was() {
        assert_eq!(unescaped(r"GRANT SELECT ON `a\\_b`.* TO `x\ny`@`%`"), "GRANT SELECT ON `a\\_b`.* TO `x\ny`@`%`");
        assert_eq!(unescaped(r"'a\\\\b\\n' \t\0"), "'a\\\\b\\n' \t\0");
    }
}
