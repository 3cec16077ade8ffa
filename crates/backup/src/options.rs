//! Options of `causeway backups`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;

/// An action of `causeway backups`.
#[derive(Subcommand, Clone, Debug)]
pub enum BackupsAction {
    /// List the backups in a bucket, whichever Causeway took them
    Ls(BackupsOptions),
    /// Fetch a base backup of a PostgreSQL and its log, from which a new server recovers to an instant
    Recover(RecoverOptions),
}

/// Options of `causeway backups ls`: a bucket, and whom to trust.
#[derive(Args, Clone, Debug)]
pub struct BackupsOptions {
    /// The bucket
    #[arg(long)]
    pub bucket: String,

    /// Prefix of the keys, such as shop or shop/nightly; all unless given
    #[arg(long)]
    pub prefix: Option<String>,

    /// Region of the bucket; unless given, that of the environment
    #[arg(long)]
    pub region: Option<String>,

    /// S3 endpoint other than AWS's, as a URL
    #[arg(long)]
    pub endpoint: Option<String>,

    /// Account that must own the bucket; unless given, that of your credentials
    #[arg(long)]
    pub owner: Option<String>,

    /// Public key that signed the backups, such as "ssh-ed25519 AAAA…": every manifest is read and checked; may be given
    /// several times
    #[arg(long = "trusted-key", value_name = "KEY")]
    pub trusted_keys: Vec<String>,
}

/// Options of `causeway backups recover`.
#[derive(Args, Clone, Debug)]
pub struct RecoverOptions {
    /// Where from.
    #[command(flatten)]
    pub from: BackupsOptions,

    /// Accept unverified backups, without --trusted-key: any client that could write to the bucket may have chosen the data
    #[arg(long)]
    pub unverified: bool,

    /// The instant to recover to, such as 2026-11-22T12:00:00Z; unless given, the end of the log
    #[arg(long)]
    pub until: Option<Timestamp>,

    /// The server, where the prefix has several: the source of its manifests, such as "PostgreSQL shop-db:5432"
    #[arg(long)]
    pub source: Option<String>,

    /// Directory with the file identity, of secret keys of age, where backups are encrypted
    #[arg(long)]
    pub identity: Option<PathBuf>,

    /// Empty directory for base.tar, the log and recover.sh; it is created if it is missing
    #[arg(long)]
    pub into: PathBuf,
}
