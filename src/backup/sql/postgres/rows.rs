//! How the rows of a table are counted and hashed. Pure.

use super::super::tables::BY_NAME;

/// What a query calls a row.
const ROW: &str = "\"causeway's row\"";
/// Operators by their full names: some queries run with a search path, in which others may have put operators of their own.
const AT_LEAST: &str = "OPERATOR(pg_catalog.>=)";
const BELOW: &str = "OPERATOR(pg_catalog.<)";
/// The first version with hashes of 64 bits: PostgreSQL 11.
const LONG_HASHES: i64 = 110_000;

/// A table whose rows are hashed, as the server reports it.
pub struct HashedTable {
    /// Its name, as statements have it.
    pub name: String,
    /// How many blocks it has; 0 if it can only be read as a whole.
    pub blocks: u64,
    /// How many of these are read by one query.
    pub at_once: u64,
    /// Its columns, as statements name them, if their order may change, or if not all of them are hashed.
    pub columns: Option<Vec<String>>,
}

impl HashedTable {
    /// Queries that together read each row once, on a server of this version. Each gives a count and a sum of hashes.
    pub fn queries(&self, version: i64) -> Vec<String> {
        // The row is not cast to text: such a cast may be a function of the table's owner, which would run with our rights.
        // https://www.postgresql.org/docs/current/sql-createcast.html
        let text = format!("pg_catalog.textin(pg_catalog.record_out({}))", self.row());
        let hash = if version >= LONG_HASHES {
            format!("pg_catalog.hashtextextended({text}, 0)::numeric")
        } else {
            format!("pg_catalog.hashtext({text})::numeric")
        };
        let query = |piece: String| {
            format!(
                "SELECT pg_catalog.json_build_array(pg_catalog.count(*), coalesce(pg_catalog.sum({hash}), 0)::pg_catalog.text) FROM ONLY {} \
                 AS {ROW}{piece}",
                self.name
            )
        };
        pieces(self.blocks, self.at_once).into_iter().map(query).collect()
    }

    /// The sum as the backup has it.
    pub fn sum(&self, sum: i128) -> String {
        let mark = if self.columns.is_some() { BY_NAME } else { "" };
        format!("{mark}{sum}")
    }

    /// The row whose text is hashed. A dump does not keep the order of columns of a table that inherits from another one: when
    /// it is made again, the columns of the parent come first, also those that the parent got later. Such columns are sorted.
    /// <https://www.postgresql.org/docs/current/ddl-inherit.html>
    fn row(&self) -> String {
        let Some(columns) = &self.columns else { return ROW.to_owned() };
        let mut columns: Vec<String> = columns.iter().map(|column| format!("{ROW}.{column}")).collect();
        columns.sort_unstable();
        format!("ROW({})", columns.join(", "))
    }
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

    fn table(columns: Option<&[&str]>) -> HashedTable {
        let columns = columns.map(|columns| columns.iter().map(|column| (*column).to_owned()).collect());
        HashedTable { name: "public.capitals".into(), blocks: 0, at_once: 1, columns }
    }

    #[test]
    fn a_table_that_inherits_is_hashed_alike_whatever_the_order_of_its_columns_is() {
        let (before, after) =
            (table(Some(&["name", "\"the state\"", "area"])), table(Some(&["name", "area", "\"the state\""])));
        assert_eq!(before.queries(150_000), after.queries(150_000));
        let row = "record_out(ROW(\"causeway's row\".\"the state\", \"causeway's row\".area, \"causeway's row\".name))";
        assert!(before.queries(150_000)[0].contains(row), "{:?}", before.queries(150_000));
        assert_eq!(before.sum(-7), "n:-7");
    }

    #[test]
    fn other_tables_are_hashed_as_earlier_versions_did() {
        let text = "pg_catalog.textin(pg_catalog.record_out(\"causeway's row\"))";
        for (version, hash) in [
            (150_000, format!("hashtextextended({text}, 0)::numeric")),
            (100_000, format!("hashtext({text})::numeric")),
        ] {
            let expected = format!(
                "SELECT pg_catalog.json_build_array(pg_catalog.count(*), coalesce(pg_catalog.sum(pg_catalog.{hash}), 0)::pg_catalog.text) \
                 FROM ONLY public.capitals AS \"causeway's row\""
            );
            assert_eq!(table(None).queries(version), [expected]);
        }
        assert_eq!(table(None).sum(-7), "-7");
    }
}
