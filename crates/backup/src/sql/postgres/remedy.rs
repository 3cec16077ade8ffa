//! Lets a restore go on that the rules of a dump stop, although nothing is wrong with its rows.
//!
//! A dump begins with a statement that empties the search path, so that no other schema can
//! shadow its names. Functions of an index, a check, a generated column or a view run under it as well, and fail if they name an object
//! without its schema. `SET search_path TO DEFAULT` gives them the path with which the application calls them.
//! <https://www.postgresql.org/about/news/postgresql-103-968-9512-9417-and-9322-released-1834/>
//!
//! `pg_restore` grants rights after all else has been made. An index is built with the rights of its table's owner, and its functions
//! may need such a right: then each is granted as soon as its object is made.
//!
//! A materialized view may read what is not there during a restore, such as a foreign server. It stays empty then.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The statement as `pg_dump` writes it. It is one of the first entries in the file.
const EMPTY: &[u8] = b"SELECT pg_catalog.set_config('search_path', '', false);\n";
/// The statement in its place. The file stores its length, which must not change.
const DEFAULT: &[u8] = b"SET search_path TO DEFAULT;";
/// Bytes at the beginning of a dump in which the statement is looked for.
const SEARCHED: u64 = 1024 * 1024;
/// The sort of an entry with rights, between its name and its section, as the table of contents of a dump has it.
const RIGHTS: &[u8] = b"\0\x03\0\0\0ACL\0\x01\0\0\0";
/// The same of a sort that `pg_restore` does not know, and so restores where it finds it.
const IN_PLACE: &[u8] = b"\0\x03\0\0\0acl\0\x01\0\0\0";
/// Bytes at the beginning of a dump in which the table of contents is looked for.
const CONTENTS: u64 = 256 * 1024 * 1024;
/// The words of `pg_restore` about a failed statement that fills a materialized view.
const REFRESH: &str = "Command was: REFRESH MATERIALIZED VIEW ";

/// Returns true if the error of a restore is about a name that was not found.
pub fn is_about_a_name(error: &str) -> bool {
    error.contains("does not exist")
}

/// Returns true if the error of a restore may be about a right that is granted later. Names in a schema that a user may not use are
/// not found.
pub fn is_about_a_right(error: &str) -> bool {
    is_about_a_name(error) || error.contains("permission denied for ")
}

/// Lets `pg_restore` grant each right where the dump has it, behind its object; returns false if the dump grants none so late.
pub fn grant_in_place(dump: &Path) -> io::Result<bool> {
    let mut file = OpenOptions::new().read(true).write(true).open(dump)?;
    let (mut places, mut window, mut begin) = (Vec::new(), Vec::new(), 0);
    let mut chunk = vec![0; usize::try_from(SEARCHED).unwrap_or(usize::MAX)];
    while begin < CONTENTS {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        window.extend_from_slice(&chunk[..length]);
        let found = window.windows(RIGHTS.len()).enumerate().filter(|(_, part)| *part == RIGHTS);
        places.extend(found.map(|(at, _)| begin + at as u64));
        // An entry may go on in the next chunk.
        let passed = window.len().saturating_sub(RIGHTS.len() - 1);
        window.drain(..passed);
        begin += passed as u64;
    }
    for place in &places {
        file.seek(SeekFrom::Start(*place))?;
        file.write_all(IN_PLACE)?;
    }
    file.sync_all()?;
    Ok(!places.is_empty())
}

/// Gives a dump the default search path; returns false if it has none of its own.
pub fn set_default_path(dump: &Path) -> io::Result<bool> {
    let mut file = OpenOptions::new().read(true).write(true).open(dump)?;
    let mut begin = Vec::new();
    Read::by_ref(&mut file).take(SEARCHED).read_to_end(&mut begin)?;
    let Some(at) = begin.windows(EMPTY.len()).position(|part| part == EMPTY) else { return Ok(false) };
    let mut statement = [b' '; EMPTY.len()];
    statement[..DEFAULT.len()].copy_from_slice(DEFAULT);
    statement[EMPTY.len() - 1] = b'\n';
    file.seek(SeekFrom::Start(at as u64))?;
    file.write_all(&statement)?;
    file.sync_all()?;
    Ok(true)
}

/// The materialized view that could not be filled, as statements name it; `None` if the error is about something else.
pub fn unfilled(error: &str) -> Option<&str> {
    let (_, rest) = error.split_once(REFRESH)?;
    Some(rest.split(';').next()?.trim()).filter(|name| !name.is_empty())
}

/// The list of a dump without the entry that fills a view. A list quotes no names: only the owner may follow the view's.
pub fn without(list: &str, (schema, view): &(String, String)) -> Vec<String> {
    let entry = format!(" MATERIALIZED VIEW DATA {schema} {view} ");
    let fills = |line: &&str| line.split_once(&entry).is_some_and(|(_, owner)| !owner.contains(' '));
    list.lines().filter(|line| !fills(line)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_statement_changes_and_the_file_keeps_its_length() {
        let path = std::env::temp_dir().join(format!("causeway-path-{}", std::process::id()));
        let dump = [b"PGDMP\x00\x38".as_slice(), EMPTY, b"\x00rows ", EMPTY].concat();
        std::fs::write(&path, &dump).unwrap();
        assert!(set_default_path(&path).unwrap());
        let after = std::fs::read(&path).unwrap();
        assert_eq!(after.len(), dump.len());
        let text = String::from_utf8_lossy(&after[7..7 + EMPTY.len()]).into_owned();
        assert_eq!(text.trim(), "SET search_path TO DEFAULT;");
        assert!(text.ends_with('\n') && after.ends_with(EMPTY));
        assert!(set_default_path(&path).unwrap(), "the next one");
        assert!(!set_default_path(&path).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn rights_are_granted_where_the_dump_has_them() {
        let path = std::env::temp_dir().join(format!("causeway-rights-{}", std::process::id()));
        // Across the end of a chunk, too.
        let filled = vec![b'x'; usize::try_from(SEARCHED).unwrap() - RIGHTS.len() - 4];
        let dump = [b"SCHEMA lib".as_slice(), RIGHTS, &filled, RIGHTS, b"DEFAULT ACL"].concat();
        std::fs::write(&path, &dump).unwrap();
        assert!(grant_in_place(&path).unwrap());
        let expected = [b"SCHEMA lib".as_slice(), IN_PLACE, &filled, IN_PLACE, b"DEFAULT ACL"].concat();
        assert!(std::fs::read(&path).unwrap() == expected);
        assert!(!grant_in_place(&path).unwrap(), "there are no others");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_name_in_a_closed_schema_is_not_found() {
        for error in ["ERROR:  function inner1(text) does not exist", "ERROR:  permission denied for schema lib"] {
            assert!(is_about_a_right(error), "{error}");
        }
        assert!(!is_about_a_right("ERROR:  could not create unique index"));
    }

    #[test]
    fn a_view_that_was_not_filled_is_named_and_left_out_of_the_list() {
        let error = "pg_restore: error: could not execute query: ERROR:  could not connect to server \"far\"; Command was: REFRESH \
                     MATERIALIZED VIEW public.\"My view\";";
        assert_eq!(unfilled(error), Some("public.\"My view\""));
        assert_eq!(unfilled("ERROR:  relation \"t\" does not exist; Command was: CREATE INDEX i ON t (a);"), None);
        let list = "; Archive\n7; 0 7 MATERIALIZED VIEW public My view postgres\n8; 0 7 MATERIALIZED VIEW DATA public My view postgres\n\
                    9; 0 9 MATERIALIZED VIEW DATA public My view 2 postgres";
        let left = without(list, &("public".into(), "My view 2".into()));
        assert_eq!(left.len(), 3);
        assert!(left.iter().all(|line| !line.starts_with("9;")), "{left:?}");
        let left = without(list, &("public".into(), "My view".into()));
        assert_eq!(left.len(), 3);
        assert!(left.iter().all(|line| !line.starts_with("8;")), "{left:?}");
    }
}
