//! How a PostgreSQL is backed up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a PostgreSQL is backed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Method {
    /// Databases, by `pg_dump`.
    #[default]
    Dump,
    /// The files of the whole server, by `pg_basebackup`.
    BaseBackup,
    /// The write-ahead log since the backup before, by `pg_receivewal`.
    Wal,
}

impl Method {
    /// Reports whether databases are dumped.
    #[must_use]
    pub fn is_dump(&self) -> bool {
        *self == Self::Dump
    }
}
