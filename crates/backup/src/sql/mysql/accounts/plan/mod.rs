//! Which accounts a backup holds, and what a restore makes of them. Pure.
//!
//! The rule is that of PostgreSQL's roles. A backup holds all accounts except those of the server itself, and only missing
//! ones are made. Accounts that exist keep their passwords and rights, because the target's users, and we, log in with them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::statement::{Level, PUBLIC, Statement, Who};
use super::tokens::{render, statements};

/// The first lines of the file, for people who run it by hand. They set how quotes are read, and that GRANT creates no account.
pub const HEADER: &str =
    "SET NAMES utf8mb4;\nSET SESSION sql_mode = IF(VERSION() LIKE '%MariaDB%', 'NO_AUTO_CREATE_USER', '');\n";

/// Accounts of servers, packages, images and providers. A target that needs one of these already has it.
/// <https://dev.mysql.com/doc/refman/8.4/en/reserved-accounts.html>, <https://mariadb.com/kb/en/mysqlglobal_priv-table/>,
/// <https://mariadb.com/kb/en/using-healthcheck-sh/>
fn is_system(who: &Who) -> bool {
    let local = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "::1");
    let host = who.host.as_deref().unwrap_or_default();
    match who.user.as_str() {
        "root" | "mariadb.sys" | "debian-sys-maint" | "rdsadmin" => true,
        "healthcheck" | "mysql" => local(host),
        user => user.starts_with("mysql.") && local(host),
    }
}

/// Reports whether an account belongs to users: it is neither the server's own nor the one that is logged in.
pub fn is_theirs(who: &Who, me: &Who) -> bool {
    !is_system(who) && who != me
}

/// The file with all accounts, from the statements that the server printed for them, and how many statements could not be
/// read. Each statement comes after those that it needs.
pub fn file(printed: &[String], accounts: &[Who]) -> (String, usize) {
    let (mut all, mut strange) = (Vec::new(), 0);
    // Each one is read alone: MySQL does not escape quotes in some texts, and such a quote must not affect other statements.
    for (found, others) in printed.iter().map(|statement| read(statement)) {
        all.extend(found);
        strange += others;
    }
    // MariaDB prints no statement that makes a role. It also lists rights that a role has through its own roles.
    let roles = accounts.iter().filter(|who| who.host.is_none() && who.user != PUBLIC);
    all.extend(roles.map(|who| Statement::Make { who: who.clone(), how: Vec::new() }));
    all.retain(|statement| accounts.contains(statement.who()));
    all.sort_by_key(order);
    let mut text = HEADER.to_owned();
    let mut before = BTreeSet::new();
    for statement in all {
        let line = format!("{statement};\n");
        if before.insert(line.clone()) {
            text.push_str(&line);
        }
    }
    (text, strange)
}

/// The statements of a text that are about accounts, and how many others there are.
fn read(text: &str) -> (Vec<Statement>, usize) {
    let (mut all, mut strange) = (Vec::new(), 0);
    for tokens in statements(text) {
        match Statement::read(&tokens) {
            Some(found) => all.extend(found),
            // The header sets how the session reads what follows.
            None if render(&tokens[..1]) == "SET" => {}
            None => strange += 1,
        }
    }
    (all, strange)
}

/// The order of statements: roles before accounts, which may have them; then grants; then revokes, which take away from grants.
fn order(statement: &Statement) -> u8 {
    match statement {
        Statement::Make { who, .. } if who.host.is_none() => 0,
        Statement::Make { .. } => 1,
        Statement::Grant { revoke: false, .. } => 2,
        Statement::Grant { revoke: true, .. } => 3,
        Statement::Member { .. } => 4,
        Statement::Default { .. } => 5,
    }
}

/// A database that is restored, if not all are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only<'a> {
    /// Its name in the backup.
    pub from: &'a str,
    /// Its name in the target.
    pub into: &'a str,
}

/// The target, as far as it matters.
#[derive(Clone, Debug)]
pub struct Target {
    /// Accounts that are there.
    pub present: BTreeSet<Who>,
    /// The account that restores.
    pub me: Who,
    /// True if rights on all databases can be revoked for single databases. If so, names of databases are not patterns.
    /// <https://dev.mysql.com/doc/refman/8.4/en/partial-revokes.html>
    pub partial_revokes: bool,
}

/// The changes to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Accounts that are made.
    pub make: Vec<Statement>,
    /// Statements that give them rights.
    pub give: Vec<Statement>,
    /// Accounts that stay as they are.
    pub keep: BTreeSet<Who>,
    /// Rights that are left out because the target cannot revoke a part of them.
    pub held: Vec<Statement>,
    /// Statements that could not be read.
    pub strange: usize,
}

impl Plan {
    /// Finds what of the file the target lacks. `ours` are accounts that an earlier try of this restore began to make.
    pub fn new(file: &str, target: &Target, ours: &BTreeSet<Who>, only: Option<&[Only<'_>]>) -> Self {
        let (mut all, strange) = read(file);
        all.retain(|statement| is_theirs(statement.who(), &target.me));
        all.sort_by_key(order);
        let mut plan = Self { strange, ..Self::default() };
        let mut fresh = BTreeSet::new();
        let public = Who::public();
        if !target.present.contains(&public) || ours.contains(&public) {
            fresh.insert(public);
        }
        for statement in &all {
            let Statement::Make { who, .. } = statement else { continue };
            let is_there = target.present.contains(who);
            if is_there && !ours.contains(who) {
                plan.keep.insert(who.clone());
            } else if fresh.insert(who.clone()) && !is_there {
                plan.make.push(statement.clone());
            }
        }
        let curbed: BTreeSet<&Who> =
            all.iter().filter(|it| matches!(it, Statement::Grant { revoke: true, .. })).map(Statement::who).collect();
        for statement in all.iter().filter(|it| fresh.contains(it.who())) {
            for statement in grants_of(statement, target, only, &all) {
                if !target.partial_revokes && curbed.contains(statement.who()) && is_of_server(&statement) {
                    plan.held.push(statement);
                } else {
                    plan.give.push(statement);
                }
            }
        }
        plan
    }

    /// The accounts that are made or get something.
    pub fn fresh(&self) -> BTreeSet<Who> {
        self.make.iter().chain(&self.give).map(|statement| statement.who().clone()).collect()
    }

    /// Drops the rights of accounts that could not be made.
    pub fn drop_failed(&mut self, failed: &BTreeSet<Who>) {
        self.give.retain(|statement| !failed.contains(statement.who()));
    }
}

fn is_of_server(statement: &Statement) -> bool {
    matches!(statement, Statement::Grant { level: Level::All, .. } | Statement::Grant { revoke: true, .. })
}

/// Returns what an account gets by a statement of the backup. `all` are the statements of the backup.
fn grants_of(statement: &Statement, target: &Target, only: Option<&[Only<'_>]>, all: &[Statement]) -> Vec<Statement> {
    let Statement::Grant { who, rights, level, revoke, may_grant } = statement else {
        return if matches!(statement, Statement::Make { .. }) { vec![] } else { vec![statement.clone()] };
    };
    let levels = match (level, only) {
        // A right that is revoked on a database is revoked under its new name, too.
        (Level::Database(name), Some(some)) if *revoke => {
            let new = some.iter().filter(|it| it.from == name && it.into != name);
            new.map(|it| Level::Database(it.into.to_owned())).chain([level.clone()]).collect()
        }
        (level, _) if *revoke => vec![level.clone()],
        // A right of PUBLIC on all databases would also go to accounts that were there before.
        (Level::All, _) if who.user == PUBLIC => vec![],
        // Every account has USAGE without a grant.
        (Level::All, _) if render(rights).eq_ignore_ascii_case("USAGE") && !may_grant => vec![],
        (Level::Database(pattern), Some(some)) => {
            let its = some.iter().filter(|it| is_nearest(pattern, who, it.from, all));
            let exact = |it: &Only<'_>| if target.partial_revokes { it.into.to_owned() } else { escaped(it.into) };
            its.map(|it| Level::Database(exact(it))).collect()
        }
        (Level::Object { sort, database, name }, Some(some)) => {
            let its = some.iter().filter(|it| it.from == database);
            let object =
                |it: &Only<'_>| Level::Object { sort: sort.clone(), database: it.into.to_owned(), name: name.clone() };
            its.map(object).collect()
        }
        (level, _) => vec![level.clone()],
    };
    let grant = |level| Statement::Grant {
        who: who.clone(),
        rights: rights.clone(),
        level,
        revoke: *revoke,
        may_grant: *may_grant,
    };
    levels.into_iter().map(grant).collect()
}

/// Reports whether a right on a pattern applies to this database. If several patterns match, a server takes only the nearest
/// one. If two are equally near, neither is taken, because the server's choice is not known.
/// <https://dev.mysql.com/doc/refman/8.4/en/request-access.html>
fn is_nearest(pattern: &str, who: &Who, database: &str, all: &[Statement]) -> bool {
    let others = all.iter().filter_map(|it| match it {
        Statement::Grant { who: its, level: Level::Database(other), revoke: false, .. } if its == who => Some(other),
        _ => None,
    });
    let mut rivals = others.filter(|other| *other != pattern && matches(other, database));
    matches(pattern, database) && rivals.all(|other| nearness(other) < nearness(pattern))
}

/// How many characters of a pattern come before its first wildcard. A pattern without one is the nearest.
pub fn nearness(pattern: &str) -> usize {
    let (mut letters, mut read) = (pattern.chars(), 0);
    while let Some(letter) = letters.next() {
        match letter {
            '%' | '_' => return read,
            '\\' => {
                letters.next();
            }
            _ => {}
        }
        read += 1;
    }
    usize::MAX
}

/// Reports whether a pattern of a right matches a database: `_` and `%` are wildcards unless they are escaped.
/// <https://dev.mysql.com/doc/refman/8.4/en/grant.html#grant-database-privileges>
pub fn matches(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // `reached[n]`: whether the pattern read so far matches the first n characters of the name.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' {
            let first = reached.iter().position(|it| *it).unwrap_or(reached.len());
            reached[first..].fill(true);
            continue;
        }
        let exact = match letter {
            '_' => None,
            '\\' => Some(letters.next().unwrap_or(letter)),
            letter => Some(letter),
        };
        for at in (0..name.len()).rev() {
            reached[at + 1] = reached[at] && exact.is_none_or(|exact| exact == name[at]);
        }
        reached[0] = false;
    }
    reached[name.len()]
}

/// A pattern that matches only this database.
pub fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%")
}
