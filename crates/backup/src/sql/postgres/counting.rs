//! Counts and hashes the tables of a database: each is read once, and hashed by the server.
//!
//! The planner expands functions of indexes, also of those that a query does not use. A function in SQL may name others
//! without their schema, so that it fails without a search path. `pg_dump` copies tables without a plan, so a table that cannot be
//! hashed is dumped nevertheless. It is then counted as one that cannot be compared.
//! <https://www.postgresql.org/docs/current/xfunc-sql.html>

use super::super::child::Failure;
use super::super::tables::{Table, Tables};
use super::connection::SERVER;
use super::rows::HashedTable;
use super::session::{OURS, RELATIONS, Session};
use crate::Error;

/// Bytes of a table that are hashed by one query. A server that sends nothing for long is taken for hung, so a table of
/// terabytes must not be one query.
const PIECE: u64 = 256 << 20;
/// From this version, the rows of some blocks are read without a scan of the whole table.
/// <https://www.postgresql.org/docs/14/release-14.html>
const READS_RANGES: i64 = 140_000;
/// From this version, a server says to which table a partition belongs in the end.
/// <https://www.postgresql.org/docs/12/functions-info.html>
const KNOWS_ROOTS: i64 = 120_000;
/// From this version, columns may be computed when they are read, by functions of the table's owner.
/// <https://www.postgresql.org/docs/18/ddl-generated-columns.html>
const COMPUTES_COLUMNS: i64 = 180_000;
/// Tables that are hashed in one transaction.
const AT_ONCE: usize = 100;
/// Characters of the reason why a table cannot be compared.
const LONGEST: usize = 160;

/// A table as [`Session::sizes`] reports it: name, blocks, blocks of a piece, columns and their types, whether these are
/// hashed by name, and root.
type Size = (String, u64, u64, Vec<String>, Vec<u32>, bool, Option<String>);

/// The questions about a table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// The number of its rows and their hash.
    Sum,
    /// Its presence alone, as it cannot be compared for this reason.
    Named(String),
}

impl Asked {
    /// Returns the question that compares a table with the backup.
    fn as_before(before: Option<&Table>) -> Self {
        match before.map(Table::uncompared) {
            None => Self::Nothing,
            Some(None) => Self::Sum,
            Some(Some(why)) => Self::Named(why.to_owned()),
        }
    }
}

impl Session {
    /// Counts and hashes these tables, as far as they are there. A partitioned table is reported by its partitions. Tables that the
    /// backup could not count are not counted either.
    pub async fn tables(&mut self, among: &Tables) -> Result<Tables, Error> {
        self.hashed(None, |name| Asked::as_before(among.0.get(name))).await
    }

    /// Counts and hashes all tables as they were in the instant of a snapshot.
    pub async fn tables_in(&mut self, snapshot: &str) -> Result<Tables, Error> {
        self.hashed(Some(snapshot), |_| Asked::Sum).await
    }

    /// The encoding of the database.
    pub async fn encoding(&mut self) -> Result<String, Error> {
        let query = "SELECT pg_catalog.getdatabaseencoding()";
        Ok(self.one::<(String,)>(query).await?.0)
    }

    /// Reports whether the database has names, or texts about itself, with other characters than those of ASCII.
    pub async fn has_other_names(&mut self) -> Result<bool, Error> {
        let query = "SELECT EXISTS (SELECT 1 FROM (SELECT relname::text FROM pg_catalog.pg_class UNION ALL \
                     SELECT attname::text FROM pg_catalog.pg_attribute UNION ALL SELECT nspname::text FROM pg_catalog.pg_namespace \
                     UNION ALL SELECT typname::text FROM pg_catalog.pg_type UNION ALL SELECT proname::text FROM pg_catalog.pg_proc \
                     UNION ALL SELECT rolname::text FROM pg_catalog.pg_roles UNION ALL SELECT pg_catalog.shobj_description(d.oid, \
                     'pg_database') FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database() UNION ALL SELECT \
                     s.setconfig::text FROM pg_catalog.pg_db_role_setting s) AS all_names (name) WHERE name COLLATE pg_catalog.\"C\" ~ '[^ -~]')";
        Ok(self.one::<(bool,)>(query).await?.0)
    }

    /// Hashes tables as far as that is asked.
    ///
    /// Each query locks the indexes of its table, too. So the transaction ends after some tables, which frees the locks.
    async fn hashed(&mut self, snapshot: Option<&str>, asked: impl Fn(&str) -> Asked) -> Result<Tables, Error> {
        let begin = snapshot.map(|snapshot| {
            format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'")
        });
        if let Some(begin) = &begin {
            self.tell(begin).await?;
        }
        let sizes = self.sizes().await?;
        let mut tables = Tables::default();
        for (at, (name, blocks, at_once, columns, kinds, by_name, root)) in sizes.into_iter().enumerate() {
            let asked = asked(&name);
            if asked == Asked::Nothing {
                continue;
            }
            if let Some(begin) = begin.as_ref().filter(|_| at % AT_ONCE == AT_ONCE - 1) {
                self.tell(&format!("COMMIT; {begin}")).await?;
            }
            let columns = columns.into_iter().zip(kinds).collect();
            let table = HashedTable { name, blocks, at_once, columns, by_name };
            let held = match asked {
                Asked::Named(why) => Table::without_sum(&why),
                _ => self.held(&table, begin.as_deref()).await?,
            };
            tables.0.insert(table.name, Table { root, ..held });
        }
        Ok(tables)
    }

    /// Counts and hashes a table; or tells why that is not possible. It is tried first without a search path, and then with that
    /// of the login.
    async fn held(&mut self, table: &HashedTable, begin: Option<&str>) -> Result<Table, Error> {
        if let Ok(held) = self.tried(table, begin).await? {
            return Ok(held);
        }
        self.tell("RESET search_path").await?;
        let held = match self.tried(table, begin).await? {
            Ok(held) => held,
            Err(why) => Table::without_sum(&why),
        };
        self.tell("SET search_path = ''").await?;
        Ok(held)
    }

    /// Counts and hashes a table; or returns the server's refusal. After that the connection is a new one.
    async fn tried(&mut self, table: &HashedTable, begin: Option<&str>) -> Result<Result<Table, String>, Error> {
        let failure = match self.sum(table).await {
            Ok(held) => return Ok(Ok(held)),
            Err(failure) => failure,
        };
        let Some(why) = refusal(&failure) else { return Err(self.account.side.failed(&failure)) };
        tracing::warn!(table = table.name, why, "the server does not hash this table");
        self.reopen().await?;
        if let Some(begin) = begin {
            self.tell(begin).await?;
        }
        Ok(Err(why))
    }

    /// Counts and hashes the rows of a table.
    async fn sum(&mut self, table: &HashedTable) -> Result<Table, Failure> {
        let (mut rows, mut sum) = (0, 0_i128);
        for query in table.queries(self.number()) {
            let found: Vec<(u64, String)> = self.answer(&query).await?;
            for (more, some) in found {
                let strange = |error| Failure::Ended(SERVER, format!("{some} is no sum of hashes: {error}"));
                (rows, sum) = (rows + more, sum.wrapping_add(some.parse::<i128>().map_err(strange)?));
            }
        }
        Ok(Table { rows, sum: table.sum(sum), root: None })
    }
}

impl Session {
    /// Tables that hold rows, with what is needed to hash them.
    ///
    /// A dump does not keep the order of columns of a table that inherits. A restore may put rows of one partition into another,
    /// whose columns may be in another order. Columns of both are hashed by name.
    async fn sizes(&mut self) -> Result<Vec<Size>, Error> {
        let number = self.number();
        let blocks = if number >= READS_RANGES {
            "CASE a.amname WHEN 'heap' THEN coalesce(pg_catalog.pg_relation_size(c.oid), 0) / b.size ELSE 0 END"
        } else {
            "0::bigint"
        };
        let (computed, stored) = if number >= COMPUTES_COLUMNS {
            let computed =
                "EXISTS (SELECT 1 FROM pg_catalog.pg_attribute g WHERE g.attrelid = c.oid AND g.attgenerated = 'v')";
            (computed, "AND k.attgenerated <> 'v'")
        } else {
            ("false", "")
        };
        let columns = |what: &str| {
            format!(
                "ARRAY(SELECT {what} FROM pg_catalog.pg_attribute k WHERE k.attrelid = c.oid AND k.attnum > 0 AND NOT \
                 k.attisdropped {stored} ORDER BY k.attnum)"
            )
        };
        let (columns, kinds) = (columns("pg_catalog.quote_ident(k.attname)"), columns("k.atttypid"));
        let root = if number >= KNOWS_ROOTS {
            "(SELECT pg_catalog.format('%I.%I', rn.nspname, r.relname) FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace rn \
             ON rn.oid = r.relnamespace WHERE r.oid = pg_catalog.pg_partition_root(c.oid))"
        } else {
            "NULL::text"
        };
        let query = format!(
            "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), {blocks}, {PIECE} / b.size, \
             {columns}, {kinds}, {computed} OR EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid), {root} FROM (SELECT pg_catalog.current_setting('block_size')::bigint AS size) b, {RELATIONS} LEFT JOIN \
             pg_catalog.pg_am a ON a.oid = c.relam WHERE c.relkind = 'r' AND {OURS} ORDER BY n.nspname, c.relname"
        );
        self.ask(&query).await
    }
}

/// The words in which a server refuses to hash a table; none if it failed in another way, such as a broken connection, after
/// which another try may succeed.
fn refusal(failure: &Failure) -> Option<String> {
    let message = failure.api_message();
    let (_, words) = message.split_once("ERROR:")?;
    let is_final = !words.contains("canceling statement") && !message.contains("FATAL") && !words.contains("snapshot");
    let line: String = words.split(';').next().unwrap_or(words).trim().chars().take(LONGEST).collect();
    is_final.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_the_backup_could_not_count_is_only_named() {
        assert_eq!(Asked::as_before(None), Asked::Nothing);
        assert_eq!(Asked::as_before(Some(&Table::default())), Asked::Sum);
        assert_eq!(Asked::as_before(Some(&Table::without_sum("why"))), Asked::Named("why".into()));
    }

    #[test]
    fn only_a_refusal_of_the_server_leaves_a_table_uncompared() {
        let ended = |text: &str| Failure::Ended(SERVER, text.into());
        let inlined = "ERROR:  function helper(text) does not exist; HINT:  No function matches; CONTEXT:  SQL \"norm\" during inlining";
        assert_eq!(refusal(&ended(inlined)).as_deref(), Some("function helper(text) does not exist"));
        for text in [
            "server closed the connection unexpectedly",
            "FATAL:  terminating connection due to administrator command",
            "ERROR:  canceling statement due to conflict with recovery",
            "ERROR:  invalid snapshot identifier: \"00000003-1\"",
        ] {
            assert_eq!(refusal(&ended(text)), None, "{text}");
        }
        assert_eq!(refusal(&Failure::Silent(SERVER, std::time::Duration::from_secs(1))), None);
    }
}
