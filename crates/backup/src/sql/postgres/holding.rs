//! Keeps tables as they are while they are dumped, and finds who prevents that.

use std::collections::BTreeSet;

use super::super::child::Failure;
use super::super::{Account, PROGRAM_SILENCE_TIMEOUT};
use super::connection::SERVER;
use super::session::{OURS, RELATIONS, Session};
use crate::Error;

/// Seconds to wait for a lock. Meanwhile, others that need the same table may queue behind us.
pub const LOCK_SECONDS: u32 = 60;
/// Tables that are locked by one statement.
const LOCKED_AT_ONCE: usize = 100;
/// How many times it is tried to lock all tables.
const HOLDS: u32 = 3;
/// Part of the error of a server if a lock did not come in time.
const TIMEOUT: &str = "lock timeout";

impl Session {
    /// Tables whose rows a dump has: those that users made, and those of extensions that hold users' data.
    async fn dumped(&mut self) -> Result<BTreeSet<String>, Error> {
        let query = format!(
            "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM {RELATIONS} WHERE \
             c.relkind IN ('r', 'p') AND (({OURS}) OR EXISTS (SELECT 1 FROM pg_catalog.pg_extension x WHERE c.oid = ANY \
             (x.extconfig)))"
        );
        Ok(self.ask::<(String,)>(&query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// Begins a transaction that sees these tables as they are now. Until the connection ends, nobody can truncate, rewrite or
    /// drop one of them. Returns the name of the snapshot, with which others see the same.
    ///
    /// The locks come before the first query, because that fixes the snapshot, and a table that is truncated between the
    /// snapshot and its lock would look empty: <https://www.postgresql.org/docs/current/sql-lock.html>,
    /// <https://www.postgresql.org/docs/current/mvcc-caveats.html>.
    async fn hold(&mut self, tables: &BTreeSet<String>) -> Result<String, Failure> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL lock_timeout";
        self.carry_out(&format!("{begin} = '{LOCK_SECONDS}s'"), PROGRAM_SILENCE_TIMEOUT).await?;
        let names: Vec<String> = tables.iter().map(|table| format!("ONLY {table}")).collect();
        for names in names.chunks(LOCKED_AT_ONCE) {
            let lock = format!("LOCK TABLE {} IN ACCESS SHARE MODE", names.join(", "));
            self.carry_out(&lock, PROGRAM_SILENCE_TIMEOUT).await?;
        }
        let snapshot = self.answer("SELECT pg_catalog.pg_export_snapshot()").await?;
        let snapshot = snapshot.into_iter().next().map(|(name,): (String,)| name);
        snapshot.ok_or_else(|| Failure::Ended(SERVER, "the server gave no snapshot".into()))
    }

    /// A connection that holds all tables of a database as they are in one instant, and the name of that snapshot. It tries
    /// again if tables were made or dropped meanwhile, or if somebody else has locked one.
    pub async fn holding(account: &Account, database: &str) -> Result<(Self, String), Error> {
        let mut tried = 0;
        loop {
            tried += 1;
            let mut session = Self::open(account, database).await?;
            let tables = session.dumped().await?;
            match session.hold(&tables).await {
                Ok(snapshot) if tried == HOLDS || session.dumped().await? == tables => return Ok((session, snapshot)),
                Ok(_) => tracing::info!(database, "tables came or went while they were locked: once more"),
                Err(failure) if tried == HOLDS => {
                    return Err(not_locked(&failure, account, database).await);
                }
                Err(failure) => tracing::info!(database, %failure, "not all tables could be locked: once more"),
            }
        }
    }
}

/// A transaction that keeps others from reading a table, or waits to do so.
#[derive(Debug)]
struct Holder {
    table: String,
    process: i32,
    user: String,
    program: String,
    /// Seconds since its transaction began.
    seconds: i64,
    /// The process for which it waits, if it has no lock itself.
    waits_for: Option<i32>,
}

/// The error of a dump that got no lock in time, with the table and the session that has it.
pub async fn not_locked(failure: &Failure, account: &Account, database: &str) -> Error {
    if !failure.api_message().contains(TIMEOUT) {
        return account.side.failed(failure);
    }
    // What blocked may be over by now. Then the program's own words have to do.
    let holder = async { Session::open(account, database).await?.holder().await };
    let message = match holder.await {
        Ok(Some(holder)) => holder.describe(database),
        Ok(None) | Err(_) => format!(
            "a table of database {database} could not be read for {LOCK_SECONDS} s, because a transaction had locked it: take \
             another backup ({failure})"
        ),
    };
    account.side.failed(&Failure::Ended(SERVER, message))
}

impl Session {
    /// Who has locked a table so that it cannot be read, or else waits for that.
    async fn holder(&mut self) -> Result<Option<Holder>, Error> {
        type Row = (String, i32, String, String, i64, Option<i32>);
        let query = format!(
            "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), l.pid, coalesce(a.usename::text, \
             ''), coalesce(a.application_name, ''), coalesce(extract(epoch FROM pg_catalog.now() - a.xact_start), 0)::bigint, CASE \
             WHEN NOT l.granted THEN (pg_catalog.pg_blocking_pids(l.pid))[1] END FROM pg_catalog.pg_locks l JOIN {RELATIONS} ON \
             c.oid = l.relation LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'relation' AND l.mode = \
             'AccessExclusiveLock' AND l.pid <> pg_catalog.pg_backend_pid() AND l.database = (SELECT d.oid FROM \
             pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) AND {OURS} ORDER BY l.granted DESC, a.xact_start \
             LIMIT 1"
        );
        let found = self.ask::<Row>(&query).await?.into_iter().next();
        let holder = |(table, process, user, program, seconds, waits_for)| Holder {
            table,
            process,
            user,
            program,
            seconds,
            waits_for,
        };
        Ok(found.map(holder))
    }
}

impl Holder {
    fn describe(&self, database: &str) -> String {
        let Self { table, process, user, program, seconds, .. } = self;
        let waits = self.waits_for.map_or_else(String::new, |other| format!(", which waits for process {other}"));
        format!(
            "{table} of database {database} could not be read for {LOCK_SECONDS} s: process {process} (user {user}, application \
             {program}) has had it, or asked for it, alone for {seconds} s{waits}. Let its transaction end, then take another backup; SELECT \
             query FROM pg_stat_activity WHERE pid = {process} shows what it does"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_told_with_its_table_and_holder() {
        let holder = Holder {
            table: "public.orders".into(),
            process: 4711,
            user: "app".into(),
            program: "migrate".into(),
            seconds: 300,
            waits_for: Some(12),
        };
        let text = holder.describe("shop");
        assert!(text.starts_with("public.orders of database shop could not be read"), "{text}");
        for part in
            ["process 4711 (user app, application migrate)", "for 300 s, which waits for process 12", "pid = 4711"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(!Holder { waits_for: None, ..holder }.describe("shop").contains("waits"));
    }
}
