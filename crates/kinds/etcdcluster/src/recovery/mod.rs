//! `causeway skip-revisions`: raises the revision of a member whose cluster is to be restarted from its data.
//!
//! When a majority is lost, the newest writes may be lost with it, although clients have seen their revisions. If etcd
//! gave these revisions to other writes, a client that watches from such a revision, or caches by it, would miss
//! changes. So the new data start at a far higher revision, and all earlier revisions count as compacted: a client that
//! asks for one gets an error, and has to start again as well.
//!
//! ```text
//! log and database ──etcd, alone──▶ database with the whole log ──etcdutl──▶ new data ──rename──▶ the member's data
//! ```
//!
//! It runs before the member, in the member's pod, and may be killed at any time. If the revision cannot be raised, the
//! member goes on with its data as they are, and the reason is reported. On an empty volume nothing is begun: the cluster
//! would be an empty one, and would take the place of the data that other members have.

mod place;
mod programs;

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use causeway_runtime::TERMINATION_LOG;
use causeway_runtime::telemetry::{self, LogFormat};
use place::Place;
use programs::{Programs, Refusal};

/// The report of a success.
pub const SKIPPED: &str = "skipped";
/// The number of revisions that are skipped: etcd's documentation recommends it for a week of 1500 writes a second.
/// <https://etcd.io/docs/v3.6/op-guide/recovery/#restoring-with-revision-bump>
pub const REVISIONS: u64 = 1_000_000_000;
/// The exit code after a signal.
const STOPPED: u8 = 1;

/// Options of `causeway skip-revisions`. Those of the member are its own variables.
#[derive(Args, Clone, Debug)]
pub struct SkipOptions {
    /// Names this recovery, which is done once; the other members learn by it that the cluster is another one
    #[arg(long, env = "CAUSEWAY_RECOVERY")]
    pub recovery: String,

    /// The release that the member runs
    #[arg(long, env = "CAUSEWAY_ETCD_VERSION")]
    pub version: String,

    /// Name of the member
    #[arg(long, env = "ETCD_NAME")]
    pub name: String,

    /// URL at which its peers will reach it
    #[arg(long, env = "ETCD_INITIAL_ADVERTISE_PEER_URLS")]
    pub peer_url: String,

    /// Directory of its data
    #[arg(long, env = "ETCD_DATA_DIR")]
    pub data: PathBuf,

    /// Directory with etcd and etcdutl
    #[arg(long, default_value = programs::DIRECTORY)]
    pub programs: PathBuf,

    /// File for the outcome: Kubernetes keeps it with the pod
    #[arg(long, env = "CAUSEWAY_TERMINATION_LOG", default_value = TERMINATION_LOG)]
    pub termination_log: PathBuf,

    /// Format of the log
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
}

/// A failure after which it is not known whether the data were changed. A retry finds out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logging could not be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// Signals cannot be listened to.
    #[error("signals: {0}")]
    Signals(io::Error),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operation.
        source: io::Error,
    },
}

/// Skips revisions if possible. Returns the exit code.
pub async fn skip(options: SkipOptions) -> Result<u8, Error> {
    telemetry::init(options.log_format, "info", std::env::var("RUST_LOG").ok().as_deref())?;
    let mut stopped = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let message = tokio::select! {
        done = begin_above(&options) => match done? {
            Ok(()) => SKIPPED.to_owned(),
            Err(refusal) => refusal.to_string(),
        },
        _ = stopped.recv() => return Ok(STOPPED),
    };
    tracing::info!(message, data = %options.data.display(), "the member may start");
    let failed = |source| Error::File { path: options.termination_log.clone(), source };
    fs::write(&options.termination_log, message).map_err(failed)?;
    Ok(0)
}

/// Raises the revision, or explains why the data stay as they are.
async fn begin_above(options: &SkipOptions) -> Result<Result<(), Refusal>, Error> {
    let place = Place::new(&options.data, &options.recovery);
    place.finish()?;
    if place.is_done()? {
        return Ok(Ok(()));
    }
    if !place.has_log()? {
        return Ok(Err(Refusal::Empty));
    }
    place.clear()?;
    let programs = Programs { directory: &options.programs, options };
    let made = async {
        programs.can_skip(&options.version).await?;
        programs.apply_log().await?;
        programs.restore(&place.new_data()).await
    };
    let made = made.await;
    match &made {
        Ok(()) => {
            place.complete()?;
            place.finish()?;
        }
        // Free the disk space, which the member may need.
        Err(_) => place.clear()?,
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// etcd that does not find its name in the list of members has made its database before, but no log.
    #[tokio::test]
    async fn no_cluster_begins_on_a_volume_without_a_log() {
        let directory = std::env::temp_dir().join(format!("causeway-empty-{}", std::process::id()));
        let data = directory.join("data");
        fs::create_dir_all(data.join("member/snap")).unwrap();
        fs::write(data.join("member/snap/db"), "").unwrap();
        let options = SkipOptions {
            recovery: "one".into(),
            version: "3.5.9".into(),
            name: "db-0".into(),
            peer_url: "http://db-0:2380".into(),
            data: data.clone(),
            programs: directory.join("programs"),
            termination_log: directory.join("log"),
            log_format: LogFormat::Json,
        };
        let refusal = async || begin_above(&options).await.unwrap().unwrap_err();
        assert!(matches!(refusal().await, Refusal::Empty));
        fs::create_dir(data.join("member/wal")).unwrap();
        fs::write(data.join("member/wal/0.tmp"), "").unwrap();
        assert!(matches!(refusal().await, Refusal::Empty), "etcd counts no other files");
        fs::write(data.join("member/wal/0000000000000000-0000000000000000.wal"), "").unwrap();
        assert!(matches!(refusal().await, Refusal::Start { program: "etcd", .. }), "only its programs are missing");
        fs::remove_dir_all(&directory).unwrap();
    }
}
