//! The subcommands that Jobs run: their options, their end by a signal, and the report that they leave.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use causeway_runtime::TERMINATION_LOG;
use causeway_runtime::telemetry::{self, LogFormat};

use super::outlook::Outlook;
use super::plan::{self, BackupPlan, RestorePlan, Server};
use super::report::{Outcome, Report};
use super::restored::Restored;
use super::{Error, backup_id, fetch, relay, restore, run, sql};

/// Options of all of them.
#[derive(Args, Clone, Debug)]
pub struct JobOptions {
    /// File with what is to be done
    #[arg(long, env = "CAUSEWAY_PLAN", default_value = plan::PATH)]
    pub plan: PathBuf,

    /// SHA-256 that the file must have, hexadecimal; without it any file is taken
    #[arg(long, env = plan::SHA256_VARIABLE)]
    pub plan_sha256: Option<String>,

    /// File for what came of it: Kubernetes keeps it with the pod
    #[arg(long, env = "CAUSEWAY_TERMINATION_LOG", default_value = TERMINATION_LOG)]
    pub termination_log: PathBuf,

    /// Format of the log
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Level of the log: error, warn, info, debug or trace; `RUST_LOG` overrides it
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Options of `causeway-backup backup`.
#[derive(Args, Clone, Debug)]
pub struct BackupOptions {
    /// Options of all Jobs.
    #[command(flatten)]
    pub job: JobOptions,

    /// When the backup was due: an instant, or an ID such as 20261122T000500Z
    #[arg(long, env = "CAUSEWAY_DUE")]
    pub due: Option<String>,

    /// Name of the Job; without --due it tells when the backup was due
    #[arg(long = "job", env = "CAUSEWAY_JOB")]
    pub name: Option<String>,

    /// Socket at which `causeway-backup dump` listens; without it this process dumps the databases itself
    #[arg(long, env = relay::SOCKET_VARIABLE)]
    pub dump_socket: Option<PathBuf>,
}

/// Options of `causeway-backup dump`.
#[derive(Args, Clone, Debug)]
pub struct DumpOptions {
    /// Options of all Jobs.
    #[command(flatten)]
    pub job: JobOptions,

    /// Socket to listen at for `causeway-backup backup`
    #[arg(long, env = relay::SOCKET_VARIABLE, default_value = relay::SOCKET)]
    pub dump_socket: PathBuf,
}

/// Options of `causeway-backup restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreOptions {
    /// Options of all Jobs.
    #[command(flatten)]
    pub job: JobOptions,

    /// Name of this restore: a second try of the same one goes on where the first ended
    #[arg(long, env = "CAUSEWAY_RUN")]
    pub run: Option<String>,
}

/// The reasons why a Job did not even begin.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Logging could not be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// Signals cannot be listened to.
    #[error("signals: {0}")]
    Signals(#[from] std::io::Error),
}

/// `causeway-backup backup`. Returns the exit code, as the other commands do.
pub async fn backup(options: BackupOptions) -> Result<u8, JobError> {
    let stop = begin(&options.job)?;
    let now = Timestamp::now();
    let done = async {
        let plan: BackupPlan = read(&options.job)?;
        let id = backup_id::id(options.due.as_deref(), options.name.as_deref(), now)?;
        tracing::info!(id, sources = plan.sources.len(), bucket = plan.destination.bucket, "backing up");
        Box::pin(run::run(&plan, &id, options.dump_socket.as_deref(), &stop)).await
    };
    match done.await {
        Ok((report, code)) => {
            report.leave(&options.job.termination_log);
            Ok(code)
        }
        Err(error) => Ok(give_up(&options.job, Outcome::default(), &error)),
    }
}

/// `causeway-backup dump`. Its client gets the result of each dump, so it leaves no report.
pub async fn dump(options: DumpOptions) -> Result<u8, JobError> {
    let stop = begin(&options.job)?;
    let done = async {
        let plan: BackupPlan = read(&options.job)?;
        relay::serve(&plan, &options.dump_socket, &stop).await
    };
    match done.await {
        Ok(()) => Ok(0),
        Err(error) => {
            tracing::error!(%error, reason = error.reason(), "failed");
            Ok(error.exit_code())
        }
    }
}

/// Runs `causeway-backup fetch`.
pub async fn fetch(options: JobOptions) -> Result<u8, JobError> {
    with_plan(&options, async |plan, stop| {
        let fetched = tokio::select! {
            fetched = fetch::run(&plan) => fetched?,
            () = stop.cancelled() => return Err(Error::Interrupted),
        };
        Ok(Done { stored_size: Some(fetched.stored_size), ..Done::new(&fetched.id) })
    })
    .await
}

/// Runs `causeway-backup recover`.
pub async fn recover(options: JobOptions) -> Result<u8, JobError> {
    with_plan(&options, async |plan, stop| {
        let manifest = fetch::fetched(&plan.work)?;
        let recovered = tokio::select! {
            recovered = Box::pin(sql::recover(&plan, &manifest)) => recovered?,
            () = stop.cancelled() => return Err(Error::Interrupted),
        };
        fetch::leave(&plan.work, &recovered)?;
        Ok(Done { keys: Some(recovered.contents.keys), ..Done::new(&manifest.id) })
    })
    .await
}

/// Runs `causeway-backup restore`.
pub async fn restore(options: RestoreOptions) -> Result<u8, JobError> {
    let code = with_plan(&options.job, async |plan, stop| {
        let manifest = fetch::fetched(&plan.work)?;
        let run = options.run.clone().filter(|run| !run.is_empty());
        let run = run.unwrap_or_else(|| format!("{}/{}", plan.folder, manifest.id));
        let done = async {
            if plan.dry_run {
                let outlook = Some(restore::outlook(&plan, &manifest, &run).await?);
                return Ok(Done { outlook, ..Done::new(&manifest.id) });
            }
            let Restored { keys, note } = restore::restore(&plan, &manifest, &run).await?;
            let reached = manifest.contents.facts.get(sql::REACHED).and_then(|it| it.parse().ok());
            Ok(Done { keys: Some(keys), note, reached, ..Done::new(&manifest.id) })
        };
        tokio::select! {
            done = Box::pin(done) => done,
            () = stop.cancelled() => Err(Error::Interrupted),
        }
    })
    .await?;
    // Only after the report is written: until then, another try has to see that the restore was done.
    if code == 0 {
        let plan: Result<RestorePlan, Error> = read(&options.job);
        if let Err(error) = async { restore::forget(&plan?).await }.await {
            tracing::warn!(%error, "the mark of the restore stays in the target for ten minutes");
        }
    }
    Ok(code)
}

/// Runs `causeway-backup verify`.
pub async fn verify(options: JobOptions) -> Result<u8, JobError> {
    with_plan(&options, async |plan, stop| {
        let manifest = fetch::fetched(&plan.work)?;
        let keys = tokio::select! {
            keys = Box::pin(restore::verify(&plan, &manifest)) => keys?,
            () = stop.cancelled() => return Err(Error::Interrupted),
        };
        Ok(Done { keys: Some(keys), ..Done::new(&manifest.id) })
    })
    .await
}

/// `causeway-backup drop-slot`: drops the replication slot of an object that is deleted. The server then keeps no log for it.
pub async fn drop_slot(options: JobOptions) -> Result<u8, JobError> {
    let stop = begin(&options)?;
    let work = async {
        let plan: BackupPlan = read(&options)?;
        let slot = plan.slot();
        for source in &plan.sources {
            if let Server::Postgresql(server) = &source.server {
                sql::release(server, &slot).await?;
            }
        }
        Ok(())
    };
    let done = tokio::select! {
        done = work => done,
        () = stop.cancelled() => Err(Error::Interrupted),
    };
    Ok(done.map_or_else(|error| give_up(&options, Outcome::default(), &error), |()| 0))
}

/// The result of a Job that works on one backup.
struct Done {
    id: String,
    stored_size: Option<u64>,
    keys: Option<u64>,
    note: Option<String>,
    outlook: Option<Outlook>,
    reached: Option<Timestamp>,
}

impl Done {
    /// Only the ID, without any result yet.
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), stored_size: None, keys: None, note: None, outlook: None, reached: None }
    }
}

async fn with_plan(
    options: &JobOptions,
    work: impl AsyncFnOnce(RestorePlan, CancellationToken) -> Result<Done, Error>,
) -> Result<u8, JobError> {
    let stop = begin(options)?;
    let begun = Instant::now();
    let plan: RestorePlan = match read(options) {
        Ok(plan) => plan,
        Err(error) => return Ok(give_up(options, Outcome::default(), &error)),
    };
    let (folder, id) = (plan.folder.clone(), plan.id.clone());
    match work(plan, stop).await {
        Ok(Done { id, stored_size, keys, note, outlook, reached }) => {
            let outcome =
                Outcome { stored_size, keys, note, outlook, reached, ..Outcome::new(&folder, &id, begun.elapsed()) };
            Report { results: vec![outcome], omitted: 0 }.leave(&options.termination_log);
            Ok(0)
        }
        Err(error) => Ok(give_up(options, Outcome::new(&folder, &id, begun.elapsed()), &error)),
    }
}

/// Sets up logging. The token is cancelled by SIGTERM or SIGINT.
fn begin(options: &JobOptions) -> Result<CancellationToken, JobError> {
    let rust_log = std::env::var("RUST_LOG").ok();
    telemetry::init(options.log_format, &options.log_level, rust_log.as_deref())?;
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signals, text) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            tracing::warn!("asked to end: cleaning up");
            text.cancel();
        });
    }
    Ok(stop)
}

fn give_up(options: &JobOptions, outcome: Outcome, error: &Error) -> u8 {
    tracing::error!(%error, reason = error.reason(), "failed");
    Report { results: vec![outcome.failed(error)], omitted: 0 }.leave(&options.termination_log);
    error.exit_code()
}

/// Reads the plan, and refuses any other text than the pod's template names.
fn read<T: DeserializeOwned>(options: &JobOptions) -> Result<T, Error> {
    let failed = |message: String| Error::Plan { path: options.plan.clone(), message };
    let bytes = fs::read(&options.plan).map_err(|error| failed(error.to_string()))?;
    let found = hex::encode(Sha256::digest(&bytes));
    if let Some(expected) = options.plan_sha256.clone().filter(|expected| *expected != found) {
        return Err(Error::PlanChanged { path: options.plan.clone(), expected });
    }
    serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"destination":{"bucket":"b","owner":"0","region":"r","prefix":"p"},"sources":[]}"#;

    /// Reads that text, where the pod's template names that sum.
    fn read_as(text: &str, plan_sha256: Option<String>) -> Result<BackupPlan, Error> {
        let plan = std::env::temp_dir().join(format!("causeway-plan-{}", std::process::id()));
        fs::write(&plan, text).unwrap();
        let (termination_log, log_format, log_level) = (PathBuf::new(), LogFormat::Json, "info".into());
        let taken = read(&JobOptions { plan: plan.clone(), plan_sha256, termination_log, log_format, log_level });
        fs::remove_file(plan).unwrap();
        taken
    }

    #[test]
    fn only_the_plan_that_the_template_names_is_taken() {
        let sha256 = hex::encode(Sha256::digest(PLAN));
        let named = |text: &str| read_as(text, Some(sha256.clone()));
        assert!(named(PLAN).unwrap().sources.is_empty());
        // Another address, the same with other spaces, nothing, and what is no plan at all.
        for text in [PLAN.replace("\"b\"", "\"c\""), format!("{PLAN}\n"), String::new(), "{".to_owned()] {
            let error = named(&text).unwrap_err();
            assert_eq!((error.reason(), error.is_final()), ("PlanChanged", true), "{text}");
            assert!(error.to_string().contains(&sha256), "{error}");
        }
        assert!(read_as(PLAN, None).is_ok(), "a person who runs it need not give the sum");
        let none = read_as(PLAN, Some(String::new())).unwrap_err();
        assert_eq!(none.reason(), "PlanChanged", "an empty sum allows nothing");
    }
}
