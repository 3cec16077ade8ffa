//! Reads a dump's table of contents: the number of locks that one transaction takes for all of it, and the parts into which
//! the restore is split if these are too many. Pure.

/// Tables whose rows are restored in one transaction.
const AT_ONCE: usize = 200;
/// Large objects in one entry of metadata: from version 17, `pg_dump` groups up to this many.
const GROUPED: u64 = 1000;
/// Entries that can be restored twice: `IF NOT EXISTS`, not at all, or by a statement that says how things shall be.
const REPEATABLE: [&str; 6] = ["EXTENSION ", "SCHEMA - public ", "COMMENT ", "ACL ", "DEFAULT ACL ", "SECURITY LABEL "];

/// Entries of a dump, as `pg_restore --list` prints them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries with the rows of a table.
    rows: Vec<String>,
    /// All other entries.
    others: Vec<String>,
}

impl Contents {
    /// Reads such a list.
    pub fn of(list: &str) -> Self {
        let entries = list.lines().filter(|line| what(line).is_some()).map(str::to_owned);
        let (rows, others) = entries.partition(|line| what(line).is_some_and(|it| it.starts_with("TABLE DATA ")));
        Self { rows, others }
    }

    /// Locks of a transaction that makes all tables, indexes, sequences and so on. They were counted on PostgreSQL 15: a
    /// table comes with its TOAST table and the index of that, and each takes a lock until the end of the transaction.
    pub fn locks_of_relations(&self) -> u64 {
        self.others.iter().filter_map(|line| what(line)).map(locks_of).sum()
    }

    /// Locks of a transaction that restores all of it.
    pub fn locks(&self) -> u64 {
        let large = self.others.iter().filter_map(|line| what(line)).map(|entry| match entry {
            entry if entry.starts_with("BLOB METADATA ") => GROUPED,
            entry if entry.starts_with("BLOB ") => 1,
            _ => 0,
        });
        self.locks_of_relations() + large.sum::<u64>()
    }

    /// Reports whether it makes something that cannot be made where it is already.
    pub fn makes_objects(&self) -> bool {
        let is_repeatable = |entry: &str| REPEATABLE.iter().any(|kind| entry.starts_with(kind));
        !self.rows.is_empty() || self.others.iter().filter_map(|line| what(line)).any(|entry| !is_repeatable(entry))
    }

    /// The extensions that it makes.
    pub fn extensions(&self) -> impl Iterator<Item = &str> {
        self.others.iter().filter_map(|line| what(line)?.strip_prefix("EXTENSION - ")?.split_whitespace().next())
    }

    /// Parts of tables whose rows are restored together.
    pub fn parts(&self) -> Vec<&[String]> {
        self.rows.chunks(AT_ONCE).collect()
    }

    /// All entries except those with rows of tables.
    pub fn others(&self) -> &[String] {
        &self.others
    }
}

/// The quoted names of the tables of a part; `tables` has schema, name and quoted name of all. None if one of them is
/// ambiguous: a list does not quote names, which may contain spaces.
pub fn tables_of<'a>(part: &[String], tables: &'a [(String, String, String)]) -> Option<Vec<&'a str>> {
    let table_of = |line: &String| {
        let entry = what(line)?.strip_prefix("TABLE DATA ")?;
        let is_it = |(schema, name, _): &&(String, String, String)| entry.starts_with(&format!("{schema} {name} "));
        let mut found = tables.iter().filter(is_it);
        found.next().filter(|_| found.next().is_none()).map(|(.., quoted)| quoted.as_str())
    };
    part.iter().map(table_of).collect()
}

/// The sort and name of an entry, such as `TABLE public orders postgres` of `215; 1259 16386 TABLE public orders postgres`.
fn what(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once("; ")?;
    number.parse::<u64>().ok()?;
    rest.splitn(3, ' ').nth(2)
}

fn locks_of(entry: &str) -> u64 {
    let is = |kinds: &[&str]| kinds.iter().any(|kind| entry.starts_with(kind));
    if is(&["TABLE ATTACH ", "INDEX ATTACH ", "INDEX ", "SEQUENCE ", "CONSTRAINT ", "FK CONSTRAINT ", "VIEW "]) {
        return if is(&["SEQUENCE SET "]) { 0 } else { 2 };
    }
    if is(&["TABLE ", "MATERIALIZED VIEW "]) && !is(&["MATERIALIZED VIEW DATA "]) {
        return 5;
    }
    u64::from(!is(&["BLOB", "ACL ", "DEFAULT ACL ", "COMMENT ", "MATERIALIZED VIEW DATA "]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "; Archive created at 2026-11-25\n;     TOC Entries: 9\n;\n\
                        215; 1259 16386 TABLE public orders postgres\n214; 1259 16385 SEQUENCE public orders_id_seq postgres\n\
                        3370; 2613 4711 BLOB - 4711 postgres\n3371; 2613 4712 BLOB METADATA - 4712..5711 postgres\n\
                        3363; 0 16386 TABLE DATA public orders postgres\n3380; 0 0 SEQUENCE SET public orders_id_seq postgres\n\
                        3364; 0 0 BLOBS - BLOBS \n3218; 2606 16393 CONSTRAINT public orders orders_pkey postgres\n\
                        3390; 0 0 ACL public TABLE orders postgres\n";

    #[test]
    fn locks_are_counted_by_what_a_dump_makes() {
        let contents = Contents::of(LIST);
        assert_eq!(contents.locks_of_relations(), 5 + 2 + 2, "table, sequence and constraint");
        assert_eq!(contents.locks(), 9 + 1 + 1000, "each large object takes one, and is alone up to version 16");
        assert_eq!((contents.parts().len(), contents.others().len()), (1, 8));
        assert_eq!(Contents::of("").parts().len(), 0);
    }

    #[test]
    fn extensions_comments_and_rights_are_no_objects_that_would_be_in_the_way() {
        let makes = |entry: &str| Contents::of(&format!("; Archive\n7; 0 7 {entry} postgres\n")).makes_objects();
        for entry in ["SCHEMA - pgbouncer", "FUNCTION pgbouncer get_auth(text)", "VIEW public v", "TABLE DATA public t"]
        {
            assert!(makes(entry), "{entry}");
        }
        for entry in ["EXTENSION - citext", "COMMENT - EXTENSION citext", "ACL - SCHEMA public", "SCHEMA - public"] {
            assert!(!makes(entry), "{entry}");
        }
        assert!(!Contents::of("; Archive\n").makes_objects());
    }

    #[test]
    fn the_extensions_of_a_dump_are_known_by_name() {
        let contents = Contents::of(
            "2; 3079 16390 EXTENSION - hstore \n3; 0 0 COMMENT - EXTENSION hstore \n4; 3079 16500 EXTENSION - uuid-ossp \n",
        );
        assert_eq!(contents.extensions().collect::<Vec<_>>(), ["hstore", "uuid-ossp"]);
        assert_eq!(Contents::of(LIST).extensions().count(), 0);
    }

    #[test]
    fn rows_are_restored_in_parts_of_some_tables() {
        let list: Vec<_> = (0..450).map(|i| format!("{i}; 0 {i} TABLE DATA public t{i} postgres")).collect();
        let contents = Contents::of(&list.join("\n"));
        assert_eq!(contents.parts().iter().map(|part| part.len()).collect::<Vec<_>>(), [200, 200, 50]);
    }

    #[test]
    fn the_table_of_an_entry_is_known_only_for_sure() {
        let table = |schema: &str, name: &str| (schema.to_owned(), name.to_owned(), format!("{schema}.{name}"));
        let tables = [table("public", "orders"), table("public", "orders old"), table("a b", "c"), table("a", "b c")];
        let tables_of = |entry: &str| tables_of(&[format!("1; 0 5 TABLE DATA {entry} postgres")], &tables);
        assert_eq!(tables_of("public orders"), Some(vec!["public.orders"]));
        assert_eq!(tables_of("public orders old"), None, "the owner may be called old postgres");
        assert_eq!(tables_of("a b c"), None);
        assert_eq!(tables_of("public lines"), None);
    }
}
