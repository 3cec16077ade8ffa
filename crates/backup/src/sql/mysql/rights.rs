//! Checks before a dump what the login may not read. The programs leave that out without an error: a table without
//! `SELECT`, a trigger without `TRIGGER`, a routine without a right on routines, a database without any right.

use std::collections::{BTreeMap, BTreeSet};

use super::super::words::some_of;
use super::accounts::{Kind, Level, Statement, Token, Who, escaped, matches, me, nearness, own, render, statements};
use super::{Tools, quoted};
use crate::Error;

/// Rights that a dump needs on a database. Those on single tables are not enough: the next table would have none.
/// <https://dev.mysql.com/doc/refman/8.4/en/mysqldump.html>, <https://mariadb.com/kb/en/mariadb-dump/>
const NEEDED: [&str; 4] = ["SELECT", "SHOW VIEW", "TRIGGER", "EVENT"];
/// Rights that show all routines of a database. If they show one without its text, the program fails.
/// <https://dev.mysql.com/doc/refman/8.4/en/show-create-procedure.html>,
/// <https://mariadb.com/kb/en/show-create-procedure/>
const ROUTINES: [&str; 4] = ["EXECUTE", "CREATE ROUTINE", "ALTER ROUTINE", "SHOW CREATE ROUTINE"];
const ALL: &str = "ALL PRIVILEGES";
/// How many databases are named.
const NAMED: usize = 3;

/// Checks that the login may read all of these databases. Returns whether it sees all databases. The error names what
/// it may not read, and the statements that permit it.
pub async fn check(tools: &Tools, version: &str, databases: &[String]) -> Result<bool, Error> {
    let printed = match own(tools, version).await? {
        Ok(printed) => printed,
        // Without its grant tables a server checks no rights.
        Err(failure) => {
            tracing::warn!(%failure, "the server does not say what this login may read: that is not checked");
            return Ok(true);
        }
    };
    let folds = tools.ask("SELECT @@lower_case_table_names").await?.first().is_some_and(|it| it != "0");
    let grants = Grants::read(&printed, version, folds);
    let Some(missing) = grants.missing(databases, &me(tools).await?.quoted()) else { return Ok(grants.sees_all()) };
    if grants.strange > 0 {
        tracing::warn!(missing, "the server printed grants that cannot be read, so that this may be wrong");
        return Ok(grants.sees_all());
    }
    let field = tools.account.side.field(tools.account.kind, "authSecretName");
    let user = tools.account.user();
    Err(Error::RightsMissing(format!("{field}: user {user} cannot read all that is to be backed up: {missing}")))
}

/// The rights on the server that the login has; none if the server does not say it.
pub async fn server_rights(tools: &Tools, version: &str) -> Result<Option<BTreeSet<String>>, Error> {
    let printed = match own(tools, version).await? {
        Ok(printed) => printed,
        Err(failure) => {
            tracing::warn!(%failure, "the server does not say what this login may do: that is not checked");
            return Ok(None);
        }
    };
    let grants = Grants::read(&printed, version, false);
    Ok((grants.strange == 0).then(|| grants.on_server()))
}

/// Reports whether the login may make accounts; also if the server does not say it.
/// <https://dev.mysql.com/doc/refman/8.4/en/create-user.html>
pub async fn may_make_accounts(tools: &Tools, version: &str) -> Result<bool, Error> {
    let Ok(printed) = own(tools, version).await? else { return Ok(true) };
    let grants = Grants::read(&printed, version, false);
    let may = has(&grants.on_server(), "CREATE USER") || has(&grants.rights_on("mysql"), "INSERT");
    Ok(may || grants.strange > 0)
}

/// Reports whether an account may have a right on a database, by the statements that the server prints for it: also if it has
/// that on a part of the database alone, or through a role.
pub fn reaches(printed: &[String], version: &str, folds: bool, database: &str, right: &str) -> bool {
    let grants = Grants::read(printed, version, folds);
    let is_near = |statement: &Statement| match statement {
        Statement::Member { .. } => true,
        Statement::Grant { level: Level::Object { database: its, .. }, revoke: false, .. } => {
            grants.is_about(its, database)
        }
        _ => false,
    };
    grants.strange > 0 || has(&grants.rights_on(database), right) || grants.statements.iter().any(is_near)
}

/// The rights of a login.
struct Grants {
    statements: Vec<Statement>,
    /// How many of the server's statements could not be read.
    strange: usize,
    /// True if the server keeps names of databases in lower case.
    folds: bool,
    routines: Routines,
}

/// The rights that permit reading all routines, by the server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routines {
    /// `SELECT` on the table that holds them: MariaDB, and MySQL before 8.
    /// <https://mariadb.com/kb/en/mysqlproc-table/>
    Proc,
    /// `SELECT` on all databases: MySQL 8 before 8.0.20.
    Global,
    /// A right of its own: later versions of MySQL.
    /// <https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html#priv_show-routine>
    ShowRoutine,
}

impl Routines {
    fn new(version: &str) -> Self {
        let mut numbers =
            version.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse::<u32>().unwrap_or_default());
        let mut next = || numbers.next().unwrap_or_default();
        let version = if version.contains("MariaDB") { (0, 0, 0) } else { (next(), next(), next()) };
        match version {
            (..8, ..) => Self::Proc,
            (8, 0, ..20) => Self::Global,
            _ => Self::ShowRoutine,
        }
    }

    /// The statement that permits it.
    fn grant(self, user: &str) -> String {
        let what = match self {
            Self::Proc => "SELECT ON mysql.proc",
            Self::Global => "SELECT ON *.*",
            Self::ShowRoutine => "SHOW_ROUTINE ON *.*",
        };
        format!("GRANT {what} TO {user}")
    }
}

impl Grants {
    /// From what the server printed.
    fn read(printed: &[String], version: &str, folds: bool) -> Self {
        let mut grants = Self { statements: Vec::new(), strange: 0, folds, routines: Routines::new(version) };
        // Each one is read alone, so that a quote in one does not affect the others.
        for tokens in printed.iter().flat_map(|line| statements(line)) {
            match Statement::read(&tokens) {
                Some(read) => grants.statements.extend(read),
                None => grants.strange += 1,
            }
        }
        grants
    }

    /// Returns what the login may not read of these databases, with the statements that permit it; none if it may read all.
    fn missing(&self, databases: &[String], user: &str) -> Option<String> {
        let lacks = databases.iter().filter_map(|name| {
            let held = self.rights_on(name);
            let rights: Vec<&str> = NEEDED.into_iter().filter(|right| !has(&held, right)).collect();
            let grant = format!("GRANT {} ON {}.* TO {user}", rights.join(", "), quoted(&escaped(name)));
            (!rights.is_empty()).then(|| format!("{} of database {name} ({grant})", rights.join(", ")))
        });
        let lacks: Vec<String> = lacks.collect();
        let hidden: Vec<&String> = databases.iter().filter(|name| !self.sees_routines(name)).collect();
        let routines = format!("routines of database {} ({})", some_of(&hidden, NAMED), self.routines.grant(user));
        let named = (!lacks.is_empty()).then(|| some_of(&lacks, NAMED));
        let all: Vec<String> = named.into_iter().chain((!hidden.is_empty()).then_some(routines)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Reports whether a list of databases has all of them: others than those on which the login has any right.
    /// <https://dev.mysql.com/doc/refman/8.4/en/show-databases.html>
    fn sees_all(&self) -> bool {
        let held = self.on_server();
        has(&held, "SHOW DATABASES") || has(&held, "SELECT")
    }

    fn sees_routines(&self, database: &str) -> bool {
        let (server, held) = (self.on_server(), self.rights_on(database));
        let reads = match self.routines {
            Routines::Proc => has(&self.rights_on("mysql"), "SELECT") || self.reads_proc(),
            Routines::Global => false,
            Routines::ShowRoutine => has(&server, "SHOW_ROUTINE"),
        };
        reads || has(&server, "SELECT") || ROUTINES.iter().any(|right| has(&held, right))
    }

    /// Reports whether the login may read the table `mysql.proc`.
    fn reads_proc(&self) -> bool {
        self.granted().any(|(_, rights, level)| match level {
            Level::Object { sort, database, name } => {
                matches!(sort.as_str(), "" | "TABLE") && database == "mysql" && name == "proc" && has(&rights, "SELECT")
            }
            _ => false,
        })
    }

    /// Rights on the server.
    fn on_server(&self) -> BTreeSet<String> {
        self.granted().filter(|(_, _, level)| **level == Level::All).flat_map(|(_, rights, _)| rights).collect()
    }

    /// Rights on all of a database. For each account and role, the server takes the pattern that matches most exactly.
    /// <https://dev.mysql.com/doc/refman/8.4/en/request-access.html>
    fn rights_on(&self, database: &str) -> BTreeSet<String> {
        let mut held = self.on_server();
        for (rights, level) in self.statements.iter().filter_map(|it| match it {
            Statement::Grant { rights, level, revoke: true, .. } => Some((names(rights), level)),
            _ => None,
        }) {
            if matches!(level, Level::Database(name) if self.is_about(name, database)) {
                held = split(held).difference(&split(rights)).cloned().collect();
            }
        }
        let mut nearest: BTreeMap<&Who, (usize, BTreeSet<String>)> = BTreeMap::new();
        for (who, rights, level) in self.granted() {
            let Level::Database(pattern) = level else { continue };
            if !self.is_about(pattern, database) {
                continue;
            }
            let (near, its) = nearest.entry(who).or_default();
            if nearness(pattern) > *near {
                (*near, *its) = (nearness(pattern), BTreeSet::new());
            }
            if nearness(pattern) == *near {
                its.extend(rights);
            }
        }
        held.extend(nearest.into_values().flat_map(|(_, rights)| rights));
        held
    }

    /// Reports whether a pattern matches a database. Where MySQL revokes rights on a part of the databases, a pattern is a
    /// plain name. <https://dev.mysql.com/doc/refman/8.4/en/partial-revokes.html>
    fn is_about(&self, pattern: &str, database: &str) -> bool {
        let fold = |name: &str| if self.folds { name.to_lowercase() } else { name.to_owned() };
        matches(&fold(pattern), &fold(database)) || fold(pattern) == fold(database)
    }

    /// Returns what accounts and roles were granted.
    fn granted(&self) -> impl Iterator<Item = (&Who, BTreeSet<String>, &Level)> {
        self.statements.iter().filter_map(|it| match it {
            Statement::Grant { who, rights, level, revoke: false, .. } => Some((who, names(rights), level)),
            _ => None,
        })
    }
}

/// The names of rights, in capitals.
fn names(rights: &[Token]) -> BTreeSet<String> {
    rights.split(|it| it.kind == Kind::Sign(',')).map(|words| render(words).to_ascii_uppercase()).collect()
}

/// Reports whether a right is among these.
pub fn has(held: &BTreeSet<String>, right: &str) -> bool {
    held.contains(right) || held.contains(ALL)
}

/// All rights one by one, as far as they matter here: a part of them may be revoked.
fn split(held: BTreeSet<String>) -> BTreeSet<String> {
    if held.contains(ALL) { NEEDED.into_iter().chain(ROUTINES).map(str::to_owned).collect() } else { held }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: &str = "10.11.6-MariaDB-1:10.11.6+maria~ubu2204";
    const USER: &str = "`backup`@`%`";

    fn grants(text: &str, version: &str) -> Grants {
        let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        let grants = Grants::read(&lines, version, false);
        assert_eq!(grants.strange, 0, "{text}");
        grants
    }

    /// Returns what is missing for a database.
    fn missing(text: &str, version: &str, database: &str) -> Option<String> {
        grants(text, version).missing(&[database.to_owned()], USER)
    }

    #[test]
    fn an_account_reaches_what_it_has_any_right_on() {
        let reaches = |text: &str, right| reaches(&[text.to_owned()], MARIADB, false, "shop", right);
        for (text, select, execute) in [
            ("GRANT USAGE ON *.* TO `a`@`%`", false, false),
            ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%`", true, true),
            ("GRANT SELECT ON `shop`.* TO `a`@`%`", true, false),
            ("GRANT EXECUTE ON `sh%`.* TO `a`@`%`", false, true),
            ("GRANT SELECT ON `bank`.* TO `a`@`%`", false, false),
            ("GRANT SELECT ON `shop`.`t` TO `a`@`%`", true, true),
            ("GRANT `readers` TO `a`@`%`", true, true),
        ] {
            assert_eq!((reaches(text, "SELECT"), reaches(text, "EXECUTE")), (select, execute), "{text}");
        }
    }

    #[test]
    fn a_login_that_may_read_all_lacks_nothing() {
        let own = "GRANT USAGE ON *.* TO `backup`@`%`";
        let needed = "SELECT, LOCK TABLES, SHOW VIEW, EVENT, TRIGGER";
        for (version, text) in [
            (
                MARIADB,
                "GRANT ALL PRIVILEGES ON *.* TO `backup`@`%` IDENTIFIED BY PASSWORD '*0C' WITH GRANT OPTION".to_owned(),
            ),
            (MARIADB, format!("GRANT {needed}, PROCESS ON *.* TO `backup`@`%` IDENTIFIED VIA ed25519 USING 'x'")),
            (MARIADB, format!("{own}\nGRANT ALL PRIVILEGES ON `a\\_b`.* TO `backup`@`%` WITH GRANT OPTION")),
            (
                MARIADB,
                format!(
                    "{own}\nGRANT {needed} ON `a%`.* TO `backup`@`%`\nGRANT SELECT ON `mysql`.`proc` TO `backup`@`%`"
                ),
            ),
            (
                MARIADB,
                format!("{own}\nGRANT {needed} ON `a_b`.* TO `backup`@`%`\nGRANT SELECT ON `mysql`.* TO `backup`@`%`"),
            ),
            (MARIADB, format!("{own}\nGRANT {needed}, EXECUTE ON `a_b`.* TO `backup`@`%`")),
            (
                MARIADB,
                format!(
                    "GRANT `readers` TO `backup`@`%`\n{own}\nGRANT `inner` TO `readers`\nGRANT USAGE ON *.* TO `readers`
                     GRANT {needed} ON `a\\_b`.* TO `readers`\nGRANT SHOW CREATE ROUTINE ON *.* TO `inner`
                     SET DEFAULT ROLE `readers` FOR `backup`@`%`"
                ),
            ),
            (
                MARIADB,
                format!(
                    "{own}\nGRANT SELECT, SHOW VIEW, EVENT, CREATE ROUTINE ON `a\\_b`.* TO `backup`@`%`\nGRANT TRIGGER ON `a\\_b`.* TO PUBLIC"
                ),
            ),
            (
                "8.0.36",
                format!(
                    "GRANT {needed}, PROCESS ON *.* TO `backup`@`%`\nGRANT BACKUP_ADMIN,SHOW_ROUTINE ON *.* TO `backup`@`%`"
                ),
            ),
            (
                "8.0.36",
                format!(
                    "{own}\nGRANT SHOW_ROUTINE ON *.* TO `backup`@`%`\nGRANT {needed} ON `a\\_b`.* TO `backup`@`%`\nGRANT `r`@`%` TO `backup`@`%`"
                ),
            ),
            (
                "5.7.44-log",
                format!("GRANT {needed} ON `a\\_b`.* TO 'backup'@'%'\nGRANT SELECT ON `mysql`.`proc` TO 'backup'@'%'"),
            ),
        ] {
            assert_eq!(missing(&text, version, "a_b"), None, "{text}");
        }
    }

    #[test]
    fn missing_rights_are_named_with_their_grant() {
        let own = "GRANT USAGE ON *.* TO `backup`@`%`\nGRANT SELECT ON `mysql`.`proc` TO `backup`@`%`";
        let trigger = "TRIGGER of database a_b (GRANT TRIGGER ON `a\\_b`.* TO `backup`@`%`)";
        let all = "SELECT, SHOW VIEW, TRIGGER, EVENT of database a_b (GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `a\\_b`.* TO \
                   `backup`@`%`)";
        for (text, expected) in [
            ("GRANT SELECT, SHOW VIEW, EVENT, LOCK TABLES ON `a\\_b`.* TO `backup`@`%`", trigger),
            // The nearest pattern alone counts.
            (
                "GRANT ALL PRIVILEGES ON `a%`.* TO `backup`@`%`\nGRANT SELECT, SHOW VIEW, EVENT ON `a\\_b`.* TO `backup`@`%`",
                trigger,
            ),
            ("GRANT ALL PRIVILEGES ON `a\\_c`.* TO `backup`@`%`", all),
            ("GRANT SELECT, SHOW VIEW, TRIGGER ON `a_b`.`t` TO `backup`@`%`", all),
            ("GRANT `readers` TO `backup`@`%`", all),
        ] {
            let text = format!("{own}\n{text}");
            assert_eq!(missing(&text, MARIADB, "a_b").as_deref(), Some(expected), "{text}");
        }
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let many = grants(own, MARIADB).missing(&names, USER).unwrap();
        assert!(many.contains("of database c (") && many.ends_with(" and 1 more"), "{many}");
    }

    #[test]
    fn routines_that_a_login_may_not_see_are_named_once() {
        let needed = "GRANT SELECT, SHOW VIEW, EVENT, TRIGGER ON `shop`.* TO `backup`@`%`
                      GRANT SELECT, SHOW VIEW, EVENT, TRIGGER ON `bank`.* TO `backup`@`%`
                      GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `backup`@`%`
                      GRANT SELECT (`name`) ON `mysql`.`proc` TO `backup`@`%`";
        let names = ["bank".to_owned(), "shop".to_owned()];
        for (version, grant) in [
            (MARIADB, "GRANT SELECT ON mysql.proc TO `backup`@`%`"),
            ("5.7.44-log", "GRANT SELECT ON mysql.proc TO `backup`@`%`"),
            ("8.0.19", "GRANT SELECT ON *.* TO `backup`@`%`"),
            ("8.0.20", "GRANT SHOW_ROUTINE ON *.* TO `backup`@`%`"),
            ("9.1.0", "GRANT SHOW_ROUTINE ON *.* TO `backup`@`%`"),
        ] {
            let expected = format!("routines of database bank, shop ({grant})");
            assert_eq!(grants(needed, version).missing(&names, USER), Some(expected), "{version}");
        }
    }

    #[test]
    fn what_mysql_revokes_on_one_database_is_missing_there_alone() {
        let text = "GRANT SELECT, SHOW VIEW, EVENT, TRIGGER ON *.* TO `backup`@`%`\nREVOKE TRIGGER ON `shop`.* FROM `backup`@`%`";
        assert!(missing(text, "8.4.0", "shop").unwrap().starts_with("TRIGGER of database shop"));
        assert_eq!(missing(text, "8.4.0", "bank"), None);
    }

    #[test]
    fn lower_case_servers_find_names_in_any_case() {
        let line = "GRANT ALL PRIVILEGES ON `shop`.* TO `backup`@`%`".to_owned();
        let missing = |folds| Grants::read(std::slice::from_ref(&line), MARIADB, folds).missing(&["Shop".into()], USER);
        assert_eq!((missing(true), missing(false).is_some()), (None, true));
    }

    #[test]
    fn only_a_right_on_all_databases_shows_all() {
        for (text, expected) in [
            ("GRANT ALL PRIVILEGES ON *.* TO `backup`@`%`", true),
            ("GRANT SHOW DATABASES ON *.* TO `backup`@`%`", true),
            ("GRANT SELECT ON *.* TO `backup`@`%`", true),
            ("GRANT PROCESS ON *.* TO `backup`@`%`\nGRANT ALL PRIVILEGES ON `shop`.* TO `backup`@`%`", false),
        ] {
            assert_eq!(grants(text, MARIADB).sees_all(), expected, "{text}");
        }
    }

    #[test]
    fn statements_that_cannot_be_read_are_counted() {
        let grants = Grants::read(&["DENY SELECT ON *.* TO `backup`@`%`".into()], MARIADB, false);
        assert_eq!(grants.strange, 1);
    }
}
