//! The statements about accounts in a backup. There are four kinds: they make an account, give it rights, make it a member of
//! roles, or set its default roles. Pure.
//!
//! Their form is that of `SHOW CREATE USER` and `SHOW GRANTS`:
//! <https://dev.mysql.com/doc/refman/8.4/en/show-create-user.html>, <https://dev.mysql.com/doc/refman/8.4/en/show-grants.html>,
//! <https://mariadb.com/kb/en/show-create-user/>, <https://mariadb.com/kb/en/show-grants/>

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::quoted;
use super::tokens::{Kind, Token, render};

/// MariaDB's name for all accounts: <https://mariadb.com/kb/en/grant/#to-public>.
pub const PUBLIC: &str = "PUBLIC";

/// An account. A role of MariaDB has no host; one of MySQL is an account like others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Who {
    pub user: String,
    pub host: Option<String>,
}

/// The scope of a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Level {
    All,
    /// The databases that match a pattern.
    Database(String),
    /// A table, or a routine of that sort.
    Object {
        sort: String,
        database: String,
        name: String,
    },
    /// The right to act as another account.
    Proxy(Who),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Makes an account; `how` is all that follows its name.
    Make { who: Who, how: Vec<Token> },
    /// Gives rights, or revokes for a part of the databases what was given on more of them.
    Grant { who: Who, rights: Vec<Token>, level: Level, revoke: bool, may_grant: bool },
    /// Makes it a member of roles.
    Member { who: Who, roles: Vec<Who>, may_grant: bool },
    /// Sets the roles that it has when it logs in.
    Default { who: Who, roles: Vec<Who> },
}

impl Who {
    pub fn public() -> Self {
        Self { user: PUBLIC.into(), host: None }
    }

    /// Its name in the form for statements.
    pub fn quoted(&self) -> String {
        match &self.host {
            None if self.user == PUBLIC => PUBLIC.into(),
            None => quoted(&self.user),
            Some(host) => format!("{}@{}", quoted(&self.user), quoted(host)),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => formatter.write_str(&self.user),
            Some(host) => write!(formatter, "{}@{host}", self.user),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("*.*"),
            Self::Database(pattern) => write!(formatter, "{}.*", quoted(pattern)),
            Self::Object { sort, database, name } if sort.is_empty() => {
                write!(formatter, "{}.{}", quoted(database), quoted(name))
            }
            Self::Object { sort, database, name } => write!(formatter, "{sort} {}.{}", quoted(database), quoted(name)),
            Self::Proxy(who) => formatter.write_str(&who.quoted()),
        }
    }
}

impl fmt::Display for Statement {
    /// As SQL, without a semicolon.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make { who, .. } if who.host.is_none() => write!(formatter, "CREATE ROLE {}", who.quoted()),
            Self::Make { who, how } => {
                let how = render(how);
                write!(formatter, "CREATE USER {}{}{how}", who.quoted(), if how.is_empty() { "" } else { " " })
            }
            Self::Grant { who, rights, level, revoke, may_grant } => {
                let (verb, to) = if *revoke { ("REVOKE", "FROM") } else { ("GRANT", "TO") };
                let option = if *may_grant { " WITH GRANT OPTION" } else { "" };
                write!(formatter, "{verb} {} ON {level} {to} {}{option}", render(rights), who.quoted())
            }
            Self::Member { who, roles, may_grant } => {
                let option = if *may_grant { " WITH ADMIN OPTION" } else { "" };
                write!(formatter, "GRANT {} TO {}{option}", all(roles), who.quoted())
            }
            // MariaDB's roles have no host.
            Self::Default { who, roles } if roles.iter().all(|role| role.host.is_none()) => {
                write!(formatter, "SET DEFAULT ROLE {} FOR {}", all(roles), who.quoted())
            }
            Self::Default { who, roles } => {
                write!(formatter, "ALTER USER {} DEFAULT ROLE {}", who.quoted(), all(roles))
            }
        }
    }
}

fn all(roles: &[Who]) -> String {
    roles.iter().map(Who::quoted).collect::<Vec<_>>().join(", ")
}

impl Statement {
    /// The account that it is about.
    pub fn who(&self) -> &Who {
        match self {
            Self::Make { who, .. } | Self::Grant { who, .. } | Self::Member { who, .. } | Self::Default { who, .. } => {
                who
            }
        }
    }

    /// Reads a statement into one or two of ours; none if it is of no kind that a backup has.
    pub fn read(tokens: &[Token]) -> Option<Vec<Self>> {
        let mut rest = Rest(tokens);
        let read = if rest.words(&["CREATE", "ROLE"]) {
            vec![Self::Make { who: rest.who()?, how: Vec::new() }]
        } else if rest.words(&["CREATE", "USER"]) {
            return read_created(rest);
        } else if rest.words(&["SET", "DEFAULT", "ROLE"]) {
            let roles = rest.everyone()?;
            rest.words(&["FOR"]).then_some(())?;
            vec![Self::Default { who: rest.who()?, roles }]
        } else if rest.words(&["ALTER", "USER"]) {
            let who = rest.who()?;
            rest.words(&["DEFAULT", "ROLE"]).then_some(())?;
            vec![Self::Default { who, roles: rest.everyone()? }]
        } else if rest.words(&["GRANT"]) {
            return granted(rest, false).map(|statement| vec![statement]);
        } else if rest.words(&["REVOKE"]) {
            return granted(rest, true).map(|statement| vec![statement]);
        } else {
            return None;
        };
        rest.0.is_empty().then_some(read)
    }
}

/// Reads what follows `CREATE USER`. The statement may make only one account.
fn read_created(mut rest: Rest<'_>) -> Option<Vec<Statement>> {
    let who = rest.who().filter(|who| who.host.is_some())?;
    let (mut how, mut roles) = (Vec::new(), Vec::new());
    while let Some(token) = rest.0.first() {
        if rest.words(&["DEFAULT", "ROLE"]) {
            roles = rest.everyone()?;
            continue;
        }
        // A point may be a part of a number.
        if matches!(token.kind, Kind::Sign(sign) if sign != '.') {
            return None;
        }
        how.push(token.clone());
        rest.0 = &rest.0[1..];
    }
    let default = (!roles.is_empty()).then(|| Statement::Default { who: who.clone(), roles });
    Some([Statement::Make { who, how }].into_iter().chain(default).collect())
}

/// Reads what follows `GRANT` or `REVOKE`. MariaDB repeats there how the account logs in, which is left out.
fn granted(mut rest: Rest<'_>, revoke: bool) -> Option<Statement> {
    let to = if revoke { "FROM" } else { "TO" };
    let mut ahead = Rest(rest.0);
    if let Some(roles) = ahead.everyone().filter(|_| !revoke && ahead.words(&[to])) {
        let who = ahead.who()?;
        let may_grant = ahead.words(&["WITH", "ADMIN", "OPTION"]);
        return ahead.0.is_empty().then_some(Statement::Member { who, roles, may_grant });
    }
    let on = rest.0.iter().position(|it| is(it, "ON"))?;
    let rights = &rest.0[..on];
    let known = |it: &Token| matches!(it.kind, Kind::Word(_) | Kind::Name(_) | Kind::Sign(',' | '(' | ')'));
    if rights.is_empty() || !rights.iter().all(known) {
        return None;
    }
    rest.0 = &rest.0[on + 1..];
    let level = if rights.len() == 1 && is(&rights[0], "PROXY") { Level::Proxy(rest.who()?) } else { rest.level()? };
    rest.words(&[to]).then_some(())?;
    let who = rest.who()?;
    if rest.0.iter().any(|it| matches!(it.kind, Kind::Sign(sign) if sign != '.')) {
        return None;
    }
    let may_grant = rest.0.windows(2).any(|pair| is(&pair[0], "GRANT") && is(&pair[1], "OPTION"));
    Some(Statement::Grant { who, rights: rights.to_vec(), level, revoke, may_grant })
}

fn is(token: &Token, word: &str) -> bool {
    matches!(&token.kind, Kind::Word(it) if it.eq_ignore_ascii_case(word))
}

/// The unread rest of a statement.
struct Rest<'a>(&'a [Token]);

impl Rest<'_> {
    /// Takes these words, if they come next.
    fn words(&mut self, words: &[&str]) -> bool {
        let found = self.0.len() >= words.len() && self.0.iter().zip(words).all(|(token, word)| is(token, word));
        if found {
            self.0 = &self.0[words.len()..];
        }
        found
    }

    fn sign(&mut self, sign: char) -> bool {
        let found = self.0.first().is_some_and(|token| token.kind == Kind::Sign(sign));
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// A name. Older servers print names of accounts as texts in quotes.
    fn name(&mut self) -> Option<String> {
        let (Kind::Name(name) | Kind::Text(name)) = &self.0.first()?.kind else { return None };
        self.0 = &self.0[1..];
        Some(name.clone())
    }

    fn who(&mut self) -> Option<Who> {
        if self.words(&[PUBLIC]) {
            return Some(Who::public());
        }
        let user = self.name()?;
        let host = if self.sign('@') { Some(self.name()?) } else { None };
        Some(Who { user, host })
    }

    fn everyone(&mut self) -> Option<Vec<Who>> {
        let mut all = vec![self.who()?];
        while self.sign(',') {
            all.push(self.who()?);
        }
        Some(all)
    }

    fn level(&mut self) -> Option<Level> {
        if self.sign('*') {
            return (self.sign('.') && self.sign('*')).then_some(Level::All);
        }
        let sorts = ["TABLE", "FUNCTION", "PROCEDURE", "PACKAGE BODY", "PACKAGE"];
        let sort = sorts.into_iter().find(|sort| self.words(&sort.split(' ').collect::<Vec<_>>()));
        let database = self.name()?;
        self.sign('.').then_some(())?;
        if sort.is_none() && self.sign('*') {
            return Some(Level::Database(database));
        }
        Some(Level::Object { sort: sort.unwrap_or_default().to_owned(), database, name: self.name()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::statements;
    use super::*;

    fn read(text: &str) -> Option<Vec<String>> {
        let all = statements(text);
        assert_eq!(all.len(), 1, "{text}");
        Some(Statement::read(&all[0])?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_servers_print_is_read_and_written() {
        for text in [
            "CREATE ROLE `bo``s\"'s`",
            "CREATE USER `o'dd \"``\\u`@`10.0.%` IDENTIFIED BY PASSWORD '*F2' REQUIRE ISSUER '/CN=i' SUBJECT '/CN=o''d' CIPHER 'A' ACCOUNT LOCK PASSWORD EXPIRE",
            "CREATE USER `two`@`localhost` IDENTIFIED VIA unix_socket OR mysql_native_password USING '*3F' PASSWORD EXPIRE INTERVAL 12 DAY",
            "CREATE USER `app`@`%` IDENTIFIED BY PASSWORD '*0C' REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 10 MAX_STATEMENT_TIME 2.500000",
            "CREATE USER `d`@`%` IDENTIFIED WITH 'caching_sha2_password' AS 0x2441 REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK",
            "CREATE USER ``@`localhost`",
            "GRANT SELECT, UPDATE (`s`, `ON`) ON `shop`.`t` TO `staff`",
            "GRANT ALL PRIVILEGES ON `a\\_b`.* TO `app`@`%` WITH GRANT OPTION",
            "GRANT BACKUP_ADMIN,ROLE_ADMIN ON *.* TO `app`@`%` WITH GRANT OPTION",
            "GRANT EXECUTE ON FUNCTION `shop`.`f` TO `reader`@`%`",
            "GRANT EXECUTE ON PACKAGE BODY `shop`.`p` TO `reader`@`%`",
            "GRANT PROXY ON ``@`%` TO `root`@`::1` WITH GRANT OPTION",
            "GRANT SELECT ON `shop`.* TO PUBLIC",
            "GRANT `staff` TO `app`@`%` WITH ADMIN OPTION",
            "GRANT `bo``s`@`%`, `staff`@`%` TO `app`@`%`",
            "REVOKE SELECT ON `mysql`.* FROM `part`@`%`",
            "SET DEFAULT ROLE `staff` FOR `app`@`%`",
            "ALTER USER `app`@`%` DEFAULT ROLE `bo``s`@`%`, `staff`@`%`",
        ] {
            assert_eq!(read(text), Some(vec![text.to_owned()]));
        }
    }

    #[test]
    fn what_a_grant_repeats_of_a_login_is_left_out() {
        let text = "GRANT FILE, SUPER ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*0C' REQUIRE SSL WITH GRANT OPTION \
                    MAX_QUERIES_PER_HOUR 10 MAX_STATEMENT_TIME 2.500000";
        assert_eq!(read(text), Some(vec!["GRANT FILE, SUPER ON *.* TO `a`@`%` WITH GRANT OPTION".into()]));
        let text = "GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD 'GRANT OPTION'";
        assert_eq!(read(text), Some(vec!["GRANT USAGE ON *.* TO `a`@`%`".into()]));
    }

    #[test]
    fn default_roles_are_set_after_they_exist() {
        let text = "CREATE USER `a`@`%` IDENTIFIED WITH 'x' AS 0x24 DEFAULT ROLE `b`@`%`,`c`@`%` REQUIRE NONE PASSWORD EXPIRE DEFAULT";
        let expected = [
            "CREATE USER `a`@`%` IDENTIFIED WITH 'x' AS 0x24 REQUIRE NONE PASSWORD EXPIRE DEFAULT",
            "ALTER USER `a`@`%` DEFAULT ROLE `b`@`%`, `c`@`%`",
        ];
        assert_eq!(read(text), Some(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn nothing_else_is_taken_for_a_statement_about_one_account() {
        for text in [
            "DROP USER `a`@`%`",
            "SET PASSWORD FOR `a`@`%` = 'x'",
            "ALTER USER `a`@`%` IDENTIFIED BY 'x'",
            "CREATE USER `a`@`%`, `root`@`%` IDENTIFIED BY 'x'",
            "CREATE USER IF NOT EXISTS `a`@`%`",
            "CREATE USER `a`",
            "CREATE USER `a`@`%` IDENTIFIED BY 'x' /* y */",
            "CREATE ROLE `a` WITH ADMIN `b`@`%`",
            "GRANT SELECT ON `shop`.* TO `a`@`%`, `b`@`%`",
            "GRANT `staff` TO `a`@`%`, `b`@`%`",
            "GRANT SELECT ON `shop` TO `a`@`%`",
            "GRANT ON *.* TO `a`@`%`",
            "CREATE USER `a; DROP TABLE b",
            "SELECT 1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
