//! How the rows of a table are counted and hashed. Pure.

use super::super::tables::BY_NAME;

/// The name of a row in queries.
const ROW: &str = "\"causeway's row\"";
/// Operators by their full names: some queries run with a search path, in which others may have put operators of their own.
const AT_LEAST: &str = "OPERATOR(pg_catalog.>=)";
const BELOW: &str = "OPERATOR(pg_catalog.<)";
/// Bytes of a value of which only the hash is put into the text of its row.
const LARGE: u32 = 8 << 20;
/// OIDs of the types whose values have a size that is known without reading them.
/// <https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat>
const BYTEA: u32 = 17;
const TEXT: u32 = 25;
const VARCHAR: u32 = 1043;
/// The first version with hashes of 64 bits, and with SHA-256: PostgreSQL 11.
const LONG_HASHES: i64 = 110_000;

/// A table whose rows are hashed, as the server reports it.
pub struct HashedTable {
    /// Its name, as statements have it.
    pub name: String,
    /// How many blocks it has; 0 if it can only be read as a whole.
    pub blocks: u64,
    /// How many of these are read by one query.
    pub at_once: u64,
    /// Its columns as statements name them, in their order, each with the OID of its type. Those that are computed when they are
    /// read are left out.
    pub columns: Vec<(String, u32)>,
    /// True if the order of its columns may change, or not all of them are hashed.
    pub by_name: bool,
}

impl HashedTable {
    /// Queries that together read each row once, on a server of this version. Each gives a count and a sum of hashes.
    pub fn queries(&self, version: i64) -> Vec<String> {
        // The row is not cast to text: such a cast may be a function of the table's owner, which would run with our rights.
        // https://www.postgresql.org/docs/current/sql-createcast.html
        let text = format!("pg_catalog.textin(pg_catalog.record_out({}))", self.row(version));
        let hash = if version >= LONG_HASHES {
            format!("pg_catalog.hashtextextended({text}, 0)::numeric")
        } else {
            format!("pg_catalog.hashtext({text})::numeric")
        };
        let query = |piece: String| {
            format!(
                "SELECT pg_catalog.count(*), coalesce(pg_catalog.sum({hash}), 0)::pg_catalog.text FROM ONLY {} \
                 AS {ROW}{piece}",
                self.name
            )
        };
        pieces(self.blocks, self.at_once).into_iter().map(query).collect()
    }

    /// The sum as the backup has it.
    pub fn sum(&self, sum: i128) -> String {
        let mark = if self.by_name { BY_NAME } else { "" };
        format!("{mark}{sum}")
    }

    /// The row whose text is hashed. A dump does not keep the order of columns of a table that inherits from another one: when
    /// it is made again, the columns of the parent come first, also those that the parent got later. Such columns are sorted.
    /// <https://www.postgresql.org/docs/current/ddl-inherit.html>
    ///
    /// The text of a row is several times as large as the row. In place of a large value comes its hash, so that the server
    /// needs little more memory for it than `pg_dump` does.
    fn row(&self, version: i64) -> String {
        let hashes =
            version >= LONG_HASHES && self.columns.iter().any(|(_, kind)| [BYTEA, TEXT, VARCHAR].contains(kind));
        if !self.by_name && !hashes {
            return ROW.to_owned();
        }
        let mut columns: Vec<String> =
            self.columns.iter().map(|(column, kind)| value(column, if hashes { *kind } else { 0 })).collect();
        if self.by_name {
            columns.sort_unstable();
        }
        format!("ROW({})", columns.join(", "))
    }
}

/// The expression that stands for a column in the text of its row. <https://www.postgresql.org/docs/current/functions-binarystring.html>
fn value(column: &str, kind: u32) -> String {
    let column = format!("{ROW}.{column}");
    let hash = match kind {
        BYTEA => format!("pg_catalog.sha256({column})"),
        TEXT | VARCHAR => {
            let bytes = format!("pg_catalog.convert_to({column}, pg_catalog.getdatabaseencoding())");
            format!("pg_catalog.encode(pg_catalog.sha256({bytes}), 'hex')")
        }
        _ => return column,
    };
    format!("CASE WHEN pg_catalog.octet_length({column}) {AT_LEAST} {LARGE} THEN {hash} ELSE {column} END")
}

/// Conditions for queries that together read each row of a table with `blocks` blocks once, `at_once` blocks at a time. The
/// last one has no upper bound, because the table may have grown.
fn pieces(blocks: u64, at_once: u64) -> Vec<String> {
    let count = blocks.div_ceil(at_once.max(1)).max(1);
    let piece = |at: u64| match (at * at_once, (at + 1) * at_once) {
        (0, _) if count == 1 => String::new(),
        (from, _) if at + 1 == count => format!(" WHERE ctid {AT_LEAST} '({from},0)'::pg_catalog.tid"),
        (from, to) => {
            format!(" WHERE ctid {AT_LEAST} '({from},0)'::pg_catalog.tid AND ctid {BELOW} '({to},0)'::pg_catalog.tid")
        }
    };
    (0..count).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_a_large_table_is_read_by_one_query() {
        assert_eq!(pieces(0, 100), [""]);
        assert_eq!(pieces(100, 100), [""]);
        let [first, middle, last] = <[String; 3]>::try_from(pieces(201, 100)).unwrap();
        let plain = |text: String| text.replace(AT_LEAST, ">=").replace(BELOW, "<");
        assert_eq!(plain(first), " WHERE ctid >= '(0,0)'::pg_catalog.tid AND ctid < '(100,0)'::pg_catalog.tid");
        assert_eq!(plain(middle), " WHERE ctid >= '(100,0)'::pg_catalog.tid AND ctid < '(200,0)'::pg_catalog.tid");
        assert_eq!(plain(last), " WHERE ctid >= '(200,0)'::pg_catalog.tid");
    }

    fn table(columns: &[(&str, u32)], by_name: bool) -> HashedTable {
        let columns = columns.iter().map(|(column, kind)| ((*column).to_owned(), *kind)).collect();
        HashedTable { name: "public.capitals".into(), blocks: 0, at_once: 1, columns, by_name }
    }

    #[test]
    fn a_table_that_inherits_is_hashed_alike_whatever_the_order_of_its_columns_is() {
        let (name, state, area) = (("name", 20), ("\"the state\"", 20), ("area", 20));
        let (before, after) = (table(&[name, state, area], true), table(&[name, area, state], true));
        assert_eq!(before.queries(150_000), after.queries(150_000));
        let row = "record_out(ROW(\"causeway's row\".\"the state\", \"causeway's row\".area, \"causeway's row\".name))";
        assert!(before.queries(150_000)[0].contains(row), "{:?}", before.queries(150_000));
        assert_eq!(before.sum(-7), "n:-7");
    }

    #[test]
    fn other_tables_are_hashed_row_by_row() {
        let text = "pg_catalog.textin(pg_catalog.record_out(\"causeway's row\"))";
        for (version, hash) in [
            (150_000, format!("hashtextextended({text}, 0)::numeric")),
            (100_000, format!("hashtext({text})::numeric")),
        ] {
            let expected = format!(
                "SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(pg_catalog.{hash}), 0)::pg_catalog.text \
                 FROM ONLY public.capitals AS \"causeway's row\""
            );
            assert_eq!(table(&[("id", 20)], false).queries(version), [expected]);
        }
        assert_eq!(table(&[], false).sum(-7), "-7");
    }

    #[test]
    fn a_large_value_is_hashed_before_its_row_becomes_a_text() {
        let table = table(&[("id", 20), ("t", TEXT), ("b", BYTEA)], false);
        let query = &table.queries(150_000)[0];
        for words in ["ROW(\"causeway's row\".id, CASE WHEN", "pg_catalog.sha256(\"causeway's row\".b)", "8388608"] {
            assert!(query.contains(words), "{query}");
        }
        assert!(!table.queries(100_000)[0].contains("CASE"));
    }
}
