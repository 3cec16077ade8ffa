//! Lets a restore go on that the rules of a dump stop, although nothing is wrong with its rows.
//!
//! A dump begins with a statement that empties the search path, so that no other schema can
//! shadow its names. Functions of an index, a check, a generated column or a view run under it as well, and fail if they name an object
//! without its schema. `SET search_path TO DEFAULT` gives them the path with which the application calls them.
//! <https://www.postgresql.org/about/news/postgresql-103-968-9512-9417-and-9322-released-1834/>
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
/// The words of `pg_restore` about a failed statement that fills a materialized view.
const REFRESH: &str = "Command was: REFRESH MATERIALIZED VIEW ";

/// Returns true if the error of a restore is about a name that was not found.
pub fn is_about_a_name(error: &str) -> bool {
    error.contains("does not exist")
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
