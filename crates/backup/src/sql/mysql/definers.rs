//! Accounts for which views and programs run, and that a target lacks. A server makes most of what they define all the same.
//! But it makes no view that uses a view or a function of an account that is not there, or that may not use it: so that is
//! found before anything is written.
//! <https://mariadb.com/kb/en/create-view/>, <https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html>

use std::collections::{BTreeMap, BTreeSet};

use super::super::Side;
use super::super::words::some_of;
use super::accounts::{Accounts, Who, all, escaped, me, shown};
use super::demands::Demands;
use super::restore::Work;
use super::{quoted, rights};
use crate::Error;

/// The most names in a message.
const NAMED: usize = 3;

/// A view or a function that runs with the rights of the account that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub is_view: bool,
    /// The database that it is in; empty if the dump does not say it.
    pub database: String,
    pub name: String,
    pub definer: String,
    /// True if it runs with the rights of its user.
    pub is_invokers: bool,
    /// The query of a view; empty for a function.
    pub body: String,
}

/// A view, and what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use<'a> {
    view: &'a Program,
    used: &'a Program,
}

impl Program {
    /// Reports whether a view uses another one, or a function.
    fn uses(&self, other: &Self) -> bool {
        let name = quoted(&other.name);
        let database = format!("{}.", quoted(&other.database));
        let is_of_this = |before: &str| {
            before.strip_suffix(database.as_str()).filter(|_| !other.database.is_empty()).unwrap_or(before).to_owned()
        };
        let is_other = (&self.database, &self.name) != (&other.database, &other.name) || !other.is_view;
        is_other
            && self.body.match_indices(&name).any(|(at, _)| {
                let (before, after) = (is_of_this(&self.body[..at]), &self.body[at + name.len()..]);
                if other.is_view {
                    // A column has its table before it.
                    ["from ", "join ", "("].iter().any(|word| before.ends_with(word))
                } else {
                    after.starts_with('(') && !before.ends_with('.')
                }
            })
    }
}

/// Which views use views and functions that run with the rights of an account.
fn uses(programs: &[Program]) -> Vec<Use<'_>> {
    let bound: Vec<&Program> = programs.iter().filter(|it| !it.is_invokers).collect();
    let views = programs.iter().filter(|it| it.is_view);
    views
        .flat_map(|view| bound.iter().copied().filter(move |used| view.uses(used)).map(move |used| Use { view, used }))
        .collect()
}

/// Checks that the target has the accounts without which a view cannot be made. Returns a note about others that it lacks.
pub async fn check(
    work: &Work<'_>,
    demands: &Demands,
    accounts: &Accounts,
    version: &str,
) -> Result<Option<String>, Error> {
    let tools = work.tools;
    if tools.account.side == Side::Scratch || demands.definers.is_empty() {
        return Ok(None);
    }
    // A login that may not read accounts cannot know.
    let Ok(present) = all(tools, version).await? else { return Ok(None) };
    let quoted_all = |all: &BTreeSet<Who>| all.iter().map(Who::quoted).collect::<BTreeSet<String>>();
    let fresh = if rights::may_make_accounts(tools, version).await? { accounts.fresh() } else { BTreeSet::new() };
    let (present, fresh) = (quoted_all(&present), quoted_all(&fresh));
    let missing: Vec<&String> =
        demands.definers.iter().filter(|who| !present.contains(*who) && !fresh.contains(*who)).collect();
    let used = uses(&demands.programs_of_accounts);
    if let Some(found) = used.iter().find(|it| missing.contains(&&it.used.definer)) {
        return Err(absent(*found));
    }
    let me = me(tools).await?.quoted();
    let mut known = BTreeMap::new();
    for found in used {
        let used = found.used;
        if used.definer == me || fresh.contains(&used.definer) {
            continue;
        }
        let database = if work.alone || used.database.is_empty() { &work.databases[0] } else { &used.database };
        let right = if used.is_view { "SELECT" } else { "EXECUTE" };
        let asked = (used.definer.clone(), database.clone(), right);
        if !known.contains_key(&asked) {
            let granted = shown(tools, &used.definer).await?;
            let reaches = granted.is_none_or(|lines| rights::reaches(&lines, version, work.folded, database, right));
            known.insert(asked.clone(), reaches);
        }
        if known.get(&asked) == Some(&false) {
            return Err(powerless(found, database, right));
        }
    }
    Ok(lacking(&missing))
}

/// The error if the account of something that a view uses is missing.
fn absent(found: Use<'_>) -> Error {
    let Use { view, used } = found;
    let kind = if used.is_view { "view" } else { "function" };
    Error::ServerUnfit(format!(
        "the target lacks the account {who}, for which {kind} {} of the backup runs, and makes no view that uses it (1449), such as \
         {}: CREATE USER {who}, with the rights that it needs, then restore again",
        used.name,
        view.name,
        who = used.definer,
    ))
}

/// The error if the account may not use it.
fn powerless(found: Use<'_>, database: &str, right: &str) -> Error {
    let Use { view, used } = found;
    let (kind, code) = if used.is_view { ("view", 1356) } else { ("function", 1370) };
    Error::ServerUnfit(format!(
        "{who}, for which {kind} {} of the backup runs, has no {right} on database {database} of the target, which makes no view that \
         uses it ({code}), such as {}: GRANT {right} ON {}.* TO {who}, then restore again",
        used.name,
        view.name,
        quoted(&escaped(database)),
        who = used.definer,
    ))
}

/// The sentence about accounts that are missing; none if there are none.
fn lacking(missing: &[&String]) -> Option<String> {
    (!missing.is_empty()).then(|| {
        format!(
            "the target lacks accounts for which views, triggers, routines or events run, and these fail (1449) until it has them: {}",
            some_of(missing, NAMED)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, body: &str) -> Program {
        let (database, definer) = ("shop".to_owned(), "`app`@`%`".to_owned());
        Program { is_view: true, database, name: name.into(), definer, is_invokers: false, body: body.into() }
    }

    #[test]
    fn uses_of_a_view_differ_from_columns() {
        let (v, it) = (view("v", ""), |body: &str| view("w", body));
        for body in [
            "select `v`.`i` + 1 AS `j` from `v`",
            "select 1 AS `1` from (`t` join `v` on(`t`.`i` = `v`.`i`))",
            "select `x`.`i` AS `i` from (`shop`.`v` `x` join `t`)",
        ] {
            assert!(it(body).uses(&v), "{body}");
        }
        for body in ["select `t`.`v` AS `v` from `t`", "select 1 AS `1` from `bank`.`v`", "select 'from v' AS `v`"] {
            assert!(!it(body).uses(&v), "{body}");
        }
        assert!(!view("v", "select 1 from `v`").uses(&v), "not itself");
        let f = Program { is_view: false, ..view("f", "") };
        for (body, does) in [
            ("select `f`() AS `k`", true),
            ("select `shop`.`f`(1) AS `k`", true),
            ("select `t`.`f` AS `f` from `t`", false),
        ] {
            assert_eq!(it(body).uses(&f), does, "{body}");
        }
    }

    #[test]
    fn programs_with_invoker_rights_need_no_account() {
        let invokers = Program { is_invokers: true, ..view("v", "select 1 AS `1`") };
        let programs = [invokers, view("w", "select `v`.`1` AS `1` from `v`"), view("x", "select 1 from `w`")];
        let found = uses(&programs);
        assert_eq!(found, [Use { view: &programs[2], used: &programs[1] }]);
        let error = powerless(found[0], "other", "SELECT").to_string();
        assert!(error.contains("GRANT SELECT ON `other`.* TO `app`@`%`") && error.contains("such as x:"), "{error}");
        assert!(absent(found[0]).to_string().contains("CREATE USER `app`@`%`"));
    }

    #[test]
    fn accounts_that_nothing_waits_for_are_only_told() {
        assert_eq!(lacking(&[]), None);
        assert!(lacking(&[&"`a`@`%`".to_owned()]).is_some_and(|note| note.ends_with("until it has them: `a`@`%`")));
    }
}
