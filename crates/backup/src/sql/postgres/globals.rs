//! Roles: only missing ones are made. Roles that exist keep their passwords and rights, because the target's users, and we,
//! log in with them. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The statements of `pg_dumpall --globals-only` without those that change existing roles. Memberships of existing roles are
/// left out, too, because they may have been revoked since the backup.
///
/// `pg_dumpall` writes one statement on a line. Only texts may span several lines, and statements of the kinds that are left
/// out never have such texts.
pub fn missing(globals: &str, present: &[String]) -> String {
    let present: BTreeSet<&str> = present.iter().map(String::as_str).collect();
    let changes = |line: &&str| {
        let rest = line.strip_prefix("CREATE ROLE ").or_else(|| line.strip_prefix("ALTER ROLE "));
        let member = membership(line).map(|(_, member, _)| member);
        rest.map(identifier).or(member).is_some_and(|name| present.contains(name))
    };
    let mut admins = BTreeSet::new();
    let kept: Vec<Cow<'_, str>> =
        globals.lines().filter(|line| !changes(line)).map(|line| granted(line, &mut admins)).collect();
    kept.join("\n") + "\n"
}

/// A membership without its grantor, unless an earlier line lets that role grant it. From version 16 on, a server takes no other
/// grantor than its own first superuser, who may have another name than that of the source: it is the grantor if none is named.
/// <https://www.postgresql.org/docs/16/sql-grant.html>
///
/// Collects in `admins` which roles may grant which role, as pairs of a role and its administrator.
fn granted<'a>(line: &'a str, admins: &mut BTreeSet<(&'a str, &'a str)>) -> Cow<'a, str> {
    let Some((role, member, options)) = membership(line) else { return line.into() };
    let by = options.split_once(" GRANTED BY ");
    let may = by.is_none_or(|(_, grantor)| admins.contains(&(role, identifier(grantor))));
    if options.starts_with(" WITH ADMIN OPTION") {
        admins.insert((role, member));
    }
    match by {
        Some((before, _)) if !may => format!("GRANT {role} TO {member}{before};").into(),
        _ => line.into(),
    }
}

/// The role and the member of a statement that grants a membership, and what follows.
fn membership(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix("GRANT ")?;
    let role = identifier(rest);
    let rest = rest[role.len()..].strip_prefix(" TO ")?;
    let member = identifier(rest);
    Some((role, member, &rest[member.len()..]))
}

/// The roles that these statements make, quoted as there.
pub fn made(globals: &str) -> Vec<&str> {
    globals.lines().filter_map(|line| line.strip_prefix("CREATE ROLE ")).map(identifier).collect()
}

/// The name that a text begins with, with its quotes.
pub fn identifier(text: &str) -> &str {
    if !text.starts_with('"') {
        return text.split([' ', ';']).next().unwrap_or_default();
    }
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', Some(b'"')) => at += 2,
            (b'"', _) => return &text[..=at],
            _ => at += 1,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_that_are_there_stay_as_they_are() {
        let globals = "SET default_transaction_read_only = off;\n\n\
                       CREATE ROLE app;\nALTER ROLE app WITH NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$x';\n\
                       CREATE ROLE \"odd \"\"one\";\nALTER ROLE \"odd \"\"one\" WITH LOGIN;\n\
                       CREATE ROLE postgres;\nALTER ROLE postgres WITH SUPERUSER PASSWORD 'md5';\n\
                       ALTER ROLE postgres SET work_mem TO '4MB';\n\
                       GRANT app TO \"odd \"\"one\" GRANTED BY postgres;\n\
                       GRANT postgres TO app WITH ADMIN OPTION GRANTED BY postgres;\n\
                       GRANT SET ON PARAMETER work_mem TO app;\n";
        let kept = missing(globals, &["postgres".into(), "\"odd \"\"one\"".into()]);
        assert_eq!(
            kept,
            "SET default_transaction_read_only = off;\n\n\
             CREATE ROLE app;\nALTER ROLE app WITH NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$x';\n\
             GRANT postgres TO app WITH ADMIN OPTION;\n\
             GRANT SET ON PARAMETER work_mem TO app;\n",
            "a membership of a role that is there may have been revoked"
        );
    }

    #[test]
    fn a_grantor_stays_only_where_an_earlier_line_lets_it_grant() {
        let globals = "GRANT staff TO boss WITH ADMIN OPTION, INHERIT TRUE GRANTED BY shop;\n\
                       GRANT staff TO alice WITH INHERIT TRUE GRANTED BY boss;\n\
                       GRANT other TO alice GRANTED BY boss;\n\
                       GRANT pg_monitor TO \"a GRANTED BY b\" WITH INHERIT TRUE GRANTED BY rdsadmin;\n";
        assert_eq!(
            missing(globals, &[]),
            "GRANT staff TO boss WITH ADMIN OPTION, INHERIT TRUE;\n\
             GRANT staff TO alice WITH INHERIT TRUE GRANTED BY boss;\n\
             GRANT other TO alice;\n\
             GRANT pg_monitor TO \"a GRANTED BY b\" WITH INHERIT TRUE;\n"
        );
        assert_eq!(
            missing(globals, &["boss".into()]),
            "GRANT staff TO alice WITH INHERIT TRUE;\n\
             GRANT other TO alice;\n\
             GRANT pg_monitor TO \"a GRANTED BY b\" WITH INHERIT TRUE;\n",
            "boss is there, and may administer nothing"
        );
    }

    #[test]
    fn a_name_ends_where_it_ends() {
        assert_eq!(identifier("app;"), "app");
        assert_eq!(identifier("app WITH LOGIN;"), "app");
        assert_eq!(identifier("\"a b\" WITH"), "\"a b\"");
        assert_eq!(identifier("\"a\"\"b\";"), "\"a\"\"b\"");
        assert_eq!(identifier("\"never ends"), "\"never ends");
    }
}
