//! Locks: a transaction holds one for each object that it touches, and a server has a limited number for all its clients.
//! <https://www.postgresql.org/docs/current/runtime-config-locks.html>

use super::super::Account;
use super::session::{OURS, RELATIONS, Session};
use crate::Error;

/// A recommended setting is a multiple of this.
const STEP: u64 = 64;
/// Locks of a dump on catalogs, besides those on what it dumps.
const OF_ITSELF: u64 = 200;

/// The room for locks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `max_locks_per_transaction`.
    setting: u64,
    /// How many transactions there may be: those of clients, and of the server itself.
    transactions: u64,
}

impl Room {
    /// Asks a server.
    pub async fn ask(session: &mut Session) -> Result<Self, Error> {
        let query = "SELECT pg_catalog.current_setting('max_locks_per_transaction')::bigint, (1 + \
                     (SELECT pg_catalog.sum(setting::bigint) FROM pg_catalog.pg_settings WHERE name IN ('max_connections', \
                     'max_prepared_transactions', 'autovacuum_max_workers', 'max_worker_processes', 'max_wal_senders')))::bigint";
        let (setting, transactions) = session.ask(query).await?.into_iter().next().unwrap_or((STEP, 100));
        Ok(Self { setting, transactions })
    }

    /// How many locks there is room for.
    pub fn locks(self) -> u64 {
        self.setting * self.transactions
    }

    /// An error if there is no room for `needed` locks, with the setting that makes room.
    pub fn lacks(self, what: &str, needed: u64) -> Option<Error> {
        (needed > self.locks()).then(|| {
            let setting = setting_for(needed, self.transactions);
            Error::LocksTooFew(format!(
                "{what} takes about {needed} locks in one transaction, and the server has room for {}: set \
                 max_locks_per_transaction to {setting} or more (now {}), and start the server again",
                self.locks(),
                self.setting
            ))
        })
    }
}

/// The setting that makes room for `needed` locks, and half as many of others.
pub fn setting_for(needed: u64, transactions: u64) -> u64 {
    (needed + needed / 2).div_ceil(transactions.max(1)).next_multiple_of(STEP)
}

/// Checks that there is room for a dump of a database. A dump is of one instant only if it holds locks on all that it reads.
pub async fn check(session: &mut Session, account: &Account, database: &str) -> Result<(), Error> {
    let query = format!(
        "SELECT pg_catalog.count(*) FROM {RELATIONS} WHERE c.relkind IN ('r', 'p', 'S', 'v', \
         'm') AND {OURS}"
    );
    let relations: u64 = session.ask(&query).await?.into_iter().next().map_or(0, |(count,): (u64,)| count);
    let host = &account.host;
    let what = format!("a dump of database {database} of {host}, with {relations} tables, sequences and views,");
    Room::ask(session).await?.lacks(&what, relations + OF_ITSELF).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_too_little_room_is_told_the_numbers_and_the_setting() {
        let room = Room { setting: 64, transactions: 122 };
        assert!(room.lacks("a dump", 7808).is_none());
        let error = room.lacks("a dump of database shop", 20_200).expect("too little");
        assert_eq!(error.reason(), "LocksTooFew");
        assert_eq!(
            error.to_string(),
            "a dump of database shop takes about 20200 locks in one transaction, and the server has room for 7808: set \
             max_locks_per_transaction to 256 or more (now 64), and start the server again"
        );
        assert!(Room { setting: 256, transactions: 122 }.lacks("it", 20_200).is_none(), "the advice is good");
    }
}
