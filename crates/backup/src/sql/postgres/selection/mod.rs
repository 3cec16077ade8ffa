//! Selects what of a dump is restored: the schemas and tables of the spec, with all that belongs to them, and with what they
//! need and the target lacks. If the user is no superuser, what only a superuser can make is left out. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use causeway_api::databaserestore::{Excluded, Included};

use super::super::words::some_of;
use super::toc::{Entry, Toc};

/// The most names in a message.
const NAMED: usize = 5;
/// The objects that only a superuser may make.
/// <https://www.postgresql.org/docs/current/sql-createeventtrigger.html>
const OF_SUPERUSERS: &[&str] = &["EVENT TRIGGER", "FOREIGN DATA WRAPPER", "SUBSCRIPTION"];

/// The names of what the target has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    pub schemas: BTreeSet<String>,
    /// Tables, views and sequences: schema and name.
    pub relations: BTreeSet<(String, String)>,
    pub types: BTreeSet<(String, String)>,
    /// With the types of their arguments: `seven()`.
    pub functions: BTreeSet<(String, String)>,
    pub extensions: BTreeSet<String>,
    pub roles: BTreeSet<String>,
}

/// The selected parts of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Lines of the list, in their order.
    pub lines: Vec<String>,
    /// Tables, views and sequences among them: schema and name.
    pub relations: BTreeSet<(String, String)>,
    /// The parts that are left out although the spec includes them, with the reason.
    pub left_out: Vec<String>,
}

/// The selection that the spec and the user's rights allow.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub include: &'a Included,
    pub exclude: &'a Excluded,
    pub superuser: bool,
}

impl Wanted<'_> {
    /// Reports whether the spec restores only parts of a database.
    pub fn is_part(&self) -> bool {
        let Included { databases: _, schemas, tables } = self.include;
        !schemas.is_empty() || !tables.is_empty() || !self.exclude.is_nothing()
    }

    /// Returns the selection for a target; an error with the field of the spec if that is not possible.
    pub fn select(&self, toc: &Toc, present: &Present) -> Result<Selected, String> {
        let mut left_out = Vec::new();
        let mut chosen = self.chosen(toc, present, &mut left_out)?;
        if self.is_part() {
            needed(toc, present, &mut chosen)?;
        }
        if !self.superuser {
            without_superusers(toc, present, &mut chosen, &mut left_out);
        } else if self.is_part() {
            owned(toc, present, &chosen)?;
        }
        let entries = || toc.entries.iter().filter(|entry| chosen.contains(&entry.id));
        let relations = entries().filter(|it| it.is_relation()).map(|it| (it.schema.clone(), it.name.clone()));
        Ok(Selected { lines: entries().map(|it| it.line.clone()).collect(), relations: relations.collect(), left_out })
    }

    /// Returns the entries that the spec includes, with those that belong to them.
    fn chosen(&self, toc: &Toc, present: &Present, left_out: &mut Vec<String>) -> Result<BTreeSet<u32>, String> {
        let Included { databases: _, schemas, tables } = self.include;
        let mut chosen: BTreeSet<u32> = toc.entries.iter().map(|entry| entry.id).collect();
        if !schemas.is_empty() || !tables.is_empty() {
            chosen = roots(toc, "spec.include", schemas, tables)?;
            with_belongings(toc, &mut chosen);
        }
        if !self.exclude.is_nothing() {
            let mut gone = roots(toc, "spec.exclude", &self.exclude.schemas, &self.exclude.tables)?;
            with_belongings(toc, &mut gone);
            chosen.retain(|id| !gone.contains(id));
            // An entry that connects two objects is left out if either of them is.
            let halves =
                ["FK CONSTRAINT", "TABLE ATTACH", "INDEX ATTACH", "SEQUENCE OWNED BY", "DEFAULT", "PUBLICATION TABLE"];
            chosen.retain(|id| {
                let entry = toc.get(*id);
                !entry
                    .is_some_and(|it| halves.contains(&it.kind.as_str()) && it.needs.iter().any(|id| gone.contains(id)))
            });
        }
        // A foreign key needs a table that is restored or in the target.
        let dangling = |entry: &&Entry| {
            let missing = |id: &u32| toc.get(*id).is_some_and(|it| !has(present, it) && !chosen.contains(id));
            entry.kind == "FK CONSTRAINT" && chosen.contains(&entry.id) && entry.needs.iter().any(missing)
        };
        let dangling: Vec<&Entry> = toc.entries.iter().filter(dangling).collect();
        for entry in dangling {
            chosen.remove(&entry.id);
            left_out.push(format!("the foreign key {} (its table is not there)", entry.full_name()));
        }
        Ok(chosen)
    }
}

/// The entries with these names.
fn roots(toc: &Toc, field: &str, schemas: &[String], tables: &[String]) -> Result<BTreeSet<u32>, String> {
    let mut found = BTreeSet::new();
    for schema in schemas {
        let is_it = |it: &&Entry| it.schema == *schema || (it.kind == "SCHEMA" && it.name == *schema);
        let ids: Vec<u32> = toc.entries.iter().filter(is_it).map(|it| it.id).collect();
        if ids.is_empty() {
            return Err(format!("{field}.schemas: the backup has no schema {schema}"));
        }
        found.extend(ids);
    }
    for table in tables {
        let is_it = |it: &&Entry| it.is_relation() && it.full_name() == *table;
        let ids: Vec<u32> = toc.entries.iter().filter(is_it).map(|it| it.id).collect();
        if ids.is_empty() {
            return Err(format!("{field}.tables: the backup has no table, view or sequence {table}"));
        }
        found.extend(ids);
    }
    Ok(found)
}

/// Adds partitions, and all that belongs to the chosen entries.
fn with_belongings(toc: &Toc, chosen: &mut BTreeSet<u32>) {
    loop {
        let before = chosen.len();
        let children: Vec<u32> = chosen.iter().flat_map(|id| toc.children(*id)).collect();
        chosen.extend(children);
        for entry in &toc.entries {
            if !chosen.contains(&entry.id) && toc.belongs(entry, chosen) {
                chosen.insert(entry.id);
            }
        }
        if chosen.len() == before {
            return;
        }
    }
}

/// Adds what the chosen entries need and the target lacks. It is an error if that is a table or a view: these are restored only
/// if the spec includes them.
fn needed(toc: &Toc, present: &Present, chosen: &mut BTreeSet<u32>) -> Result<(), String> {
    let mut open: Vec<u32> = chosen.iter().copied().collect();
    while let Some(entry) = open.pop().and_then(|id| toc.get(id)) {
        for id in &entry.needs {
            let Some(needed) = toc.get(*id).filter(|it| !chosen.contains(&it.id) && !has(present, it)) else {
                continue;
            };
            if needed.is_relation() && needed.kind != "SEQUENCE" {
                let (who, whom) = (entry.full_name(), needed.full_name());
                return Err(format!(
                    "spec.include: {who} needs {whom}, which is neither restored nor in the target: include {whom}, or exclude {who}"
                ));
            }
            chosen.insert(*id);
            open.push(*id);
        }
    }
    Ok(())
}

/// Reports whether the target has something of that name.
fn has(present: &Present, entry: &Entry) -> bool {
    let name = (entry.schema.clone(), entry.name.clone());
    match entry.kind.as_str() {
        "SCHEMA" => present.schemas.contains(&entry.name),
        "TYPE" | "DOMAIN" | "SHELL TYPE" => present.types.contains(&name),
        "AGGREGATE" | "FUNCTION" | "PROCEDURE" => present.functions.contains(&name),
        "EXTENSION" => present.extensions.contains(&entry.name),
        _ if entry.is_relation() => present.relations.contains(&name),
        // A key that another table refers to.
        "CONSTRAINT" | "INDEX" => present.relations.iter().any(|(schema, table)| {
            *schema == entry.schema && (entry.kind == "INDEX" || entry.name.starts_with(&format!("{table} ")))
        }),
        _ => false,
    }
}

/// Checks that the target has the owners: a restore of a part makes no roles.
fn owned(toc: &Toc, present: &Present, chosen: &BTreeSet<u32>) -> Result<(), String> {
    let owners = toc.entries.iter().filter(|it| chosen.contains(&it.id) && !it.owner.is_empty() && it.owner != "-");
    owners.filter(|it| !present.roles.contains(&it.owner)).map(|it| (&it.owner, it.full_name())).next().map_or(
        Ok(()),
        |(owner, what)| {
            Err(format!(
                "spec.include: {what} belongs to role {owner}, which the target lacks: make the role, or log in as one that is no \
                 superuser and is to own what is restored"
            ))
        },
    )
}

/// Leaves out what only a superuser can make, with what needs it, and extensions that the target has, as these may belong to
/// somebody else.
fn without_superusers(toc: &Toc, present: &Present, chosen: &mut BTreeSet<u32>, left_out: &mut Vec<String>) {
    let theirs = |it: &&Entry| OF_SUPERUSERS.contains(&it.kind.as_str()) && chosen.contains(&it.id);
    let mut gone: BTreeSet<u32> = toc.entries.iter().filter(theirs).map(|it| it.id).collect();
    loop {
        let needs = |it: &&Entry| it.needs.iter().any(|id| gone.contains(id));
        let more: Vec<u32> = toc.entries.iter().filter(needs).map(|it| it.id).collect();
        let before = gone.len();
        gone.extend(more);
        if gone.len() == before {
            break;
        }
    }
    let titles = toc.entries.iter().filter(|it| gone.contains(&it.id) && chosen.contains(&it.id));
    let titles: Vec<String> = titles.map(|it| format!("{} {}", it.kind.to_lowercase(), it.full_name())).collect();
    if !titles.is_empty() {
        left_out.push(format!("{} (only a superuser makes them)", some_of(&titles, NAMED)));
    }
    // The extension stays as it is; a comment on it needs its owner.
    let is_there = |it: &&Entry| it.kind == "EXTENSION" && present.extensions.contains(&it.name);
    let there: BTreeSet<u32> = toc.entries.iter().filter(is_there).map(|it| it.id).collect();
    let is_said_of_one = |it: &&Entry| it.kind == "COMMENT" && it.needs.iter().any(|id| there.contains(id));
    gone.extend(toc.entries.iter().filter(is_said_of_one).map(|it| it.id));
    gone.extend(&there);
    chosen.retain(|id| !gone.contains(id));
}
