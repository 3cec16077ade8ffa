//! `causeway-backup restore` and `causeway-backup verify`: a throw-away server in the same pod holds the backup; what it has is copied
//! into the target, or compared with the manifest. PostgreSQL and MySQL have programs of their own for that.

mod etcd;
mod etcd_limits;
mod etcd_mark;
mod etcd_walk;
mod redis;
mod redis_copy;
mod redis_room;

use std::time::{Duration, Instant};

use super::manifest::Manifest;
use super::outlook::Outlook;
use super::plan::{BASE, RestorePlan, Server};
use super::restored::Restored;
use super::{Error, sql};

/// How long the throw-away server may take to load the backup.
const LOAD_TIMEOUT: Duration = Duration::from_mins(15);
/// How often it is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Key in the target while it is being restored; its value is the restore's name. It tells an unfinished restore of ours from
/// data of others.
const MARK: &str = "causeway.example.com/restore";

/// Copies the backup into the target, and compares both at the end.
pub async fn restore(plan: &RestorePlan, manifest: &Manifest, run: &str) -> Result<Restored, Error> {
    let Some(target) = &plan.target else {
        return Err(Error::Unsupported("the plan has no target".into()));
    };
    match (&target.server, manifest.kind.as_str()) {
        (Server::Etcd { .. }, "etcd") => Box::pin(etcd::restore(plan, target, run)).await.map(Restored::from),
        (Server::Redis { .. }, "redis") => {
            redis::restore(&plan.scratch, target, plan.force, run).await.map(Restored::from)
        }
        (Server::Postgresql(_), "postgresql") | (Server::Mysql(_), "mysql") => {
            Box::pin(sql::restore(plan, manifest, target, run)).await
        }
        (_, kind) => Err(Error::Unsupported(format!("{} is no {kind}, of which the backup is", target.title))),
    }
}

/// Removes the mark by which another try sees that the restore was done.
pub async fn forget(plan: &RestorePlan) -> Result<(), Error> {
    match &plan.target {
        Some(target) if matches!(target.server, Server::Redis { .. }) && !plan.dry_run => redis::forget(target).await,
        _ => Ok(()),
    }
}

/// Predicts what a restore would do to the target. Only reads the target.
pub async fn outlook(plan: &RestorePlan, manifest: &Manifest, run: &str) -> Result<Outlook, Error> {
    let Some(target) = &plan.target else {
        return Err(Error::Unsupported("the plan has no target".into()));
    };
    match (&target.server, manifest.kind.as_str()) {
        (Server::Etcd { .. }, "etcd") => Box::pin(etcd::outlook(plan, target, run)).await,
        (Server::Redis { .. }, "redis") => redis::outlook(&plan.scratch, target, plan.force, run).await,
        (Server::Postgresql(_), "postgresql") | (Server::Mysql(_), "mysql") => {
            Box::pin(sql::outlook(plan, manifest, target, run)).await
        }
        (_, kind) => Err(Error::Unsupported(format!("{} is no {kind}, of which the backup is", target.title))),
    }
}

/// Compares the throw-away server with the manifest. Returns the number of keys.
pub async fn verify(plan: &RestorePlan, manifest: &Manifest) -> Result<u64, Error> {
    match manifest.kind.as_str() {
        "etcd" => etcd::verify(plan, manifest).await,
        "redis" => redis::verify(&plan.scratch, manifest).await,
        "postgresql" | "mysql" => Box::pin(sql::verify(&plan.work, manifest)).await,
        BASE => Box::pin(sql::verify_base(&plan.work, manifest)).await,
        kind => Err(Error::Unsupported(format!("a backup of {kind} cannot be verified by this version of Causeway"))),
    }
}

/// Asks until the throw-away server is ready.
async fn ready<T>(address: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> Result<T, Error> {
    let begun = Instant::now();
    let mut text = String::new();
    loop {
        let message = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(message) => message,
        };
        if text != message {
            tracing::info!(address, problem = message, "waiting for the server that holds the backup");
            text.clone_from(&message);
        }
        if begun.elapsed() > LOAD_TIMEOUT {
            return Err(Error::ScratchNotReady {
                address: address.to_owned(),
                seconds: LOAD_TIMEOUT.as_secs(),
                message,
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
