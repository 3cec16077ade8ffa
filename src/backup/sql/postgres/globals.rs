//! Roles: only missing ones are made. Roles that exist keep their passwords and rights, because the target's users, and we,
//! log in with them. Pure.

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
        let member = line.strip_prefix("GRANT ").and_then(|it| it[identifier(it).len()..].strip_prefix(" TO "));
        rest.or(member).is_some_and(|rest| present.contains(identifier(rest)))
    };
    let kept: Vec<&str> = globals.lines().filter(|line| !changes(line)).collect();
    kept.join("\n") + "\n"
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
             GRANT postgres TO app WITH ADMIN OPTION GRANTED BY postgres;\n\
             GRANT SET ON PARAMETER work_mem TO app;\n",
            "a membership of a role that is there may have been revoked"
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
