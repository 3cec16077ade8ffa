//! Starts a cluster.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::state::{Phase, State};
use super::{Cluster, MARK, build, process, remove};
use crate::host::{self, Requirement};
use crate::progress::{Progress, Step};

/// Debian packages of the programs that the room uses.
const PACKAGES: &[&str] = &["containerd", "crun", "containernetworking-plugins", "nftables", "util-linux", "mount"];

/// Requirements of the machine.
const NEEDED: [Requirement; 3] = [Requirement::Linux, Requirement::Root, Requirement::Go];

/// A start has taken up to 20 s on two busy cores.
const START_TIMEOUT: Duration = Duration::from_mins(3);

/// Where a cluster keeps persistent volumes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Volumes {
    /// On disk, where they remain after its end.
    OnDisk,
    /// In memory, so that a busy disk delays nothing. This is for tests, for which the requests of operators are logged
    /// as well.
    InMemory,
}

/// When a cluster ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// When a task ends it.
    OnRequest,
    /// Also together with the thread that started it, however that ends.
    WithItsStarter,
}

pub fn up(name: &str, volumes: Volumes, steps: &mut Progress) -> Result<Cluster> {
    host::require(&NEEDED)?;
    steps.step("Install the cluster's Debian packages", |step| host::install_packages(step, PACKAGES))?;
    let program = steps.step("Build the cluster", build)?;
    steps.step(format!("Start the cluster {name}"), |step| start(name, &program, (volumes, Ends::OnRequest), step))
}

/// Like [`up`], but as part of one step, after another cluster was built and started.
pub fn another(name: &str, volumes: Volumes, ends: Ends, step: &Step) -> Result<Cluster> {
    step.note(format!("starting the cluster {name}"));
    start(name, &build(step)?, (volumes, ends), step)
}

fn start(name: &str, program: &Path, life: (Volumes, Ends), step: &Step) -> Result<Cluster> {
    let state = State::for_cluster(name)?;
    let _lock = state.lock(|| step.note("waiting for another run that is starting or ending it"))?;
    if let Some(cluster) = reusable(name, program, step)? {
        step.note("it is running already");
        return Ok(cluster);
    }
    remove(&state)?;
    launch(&state, program, life, step)
}

/// The running cluster, if it is healthy and runs this program.
fn reusable(name: &str, program: &Path, step: &Step) -> Result<Option<Cluster>> {
    let Some(cluster) = Cluster::find(name)? else {
        return Ok(None);
    };
    if cluster.room.program != program {
        step.note("replacing the running one: tests/cluster has changed since it was started");
        return Ok(None);
    }
    if !cluster.is_healthy() {
        step.note("replacing the running one: its API server does not answer");
        return Ok(None);
    }
    Ok(Some(cluster))
}

fn launch(state: &State, program: &Path, (volumes, ends): (Volumes, Ends), step: &Step) -> Result<Cluster> {
    fs::create_dir_all(state.logs()).with_context(|| format!("cannot make {}", state.logs().display()))?;
    let log = state.logs().join("room.log");
    let output = File::create(&log)?;
    // The kernel kills the room if its starter dies without a chance to do so.
    let with_its_starter = ["--pdeathsig", "KILL"].into_iter().filter(|_| ends == Ends::WithItsStarter);
    // A session of its own, so that it does not get an interrupt or the end of the terminal.
    let mut room = Command::new("setpriv")
        .args(with_its_starter)
        .args(["setsid", "unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"])
        .arg(program)
        .args(["room", "--state"])
        .arg(state.path())
        .args(["--name", state.name(), "--cgroup", &state.cgroup()])
        .arg("--keep")
        .arg(host::cache_dir()?)
        .arg("--keep")
        .arg(host::repo_root()?)
        .args((volumes == Volumes::InMemory).then_some(["--volumes-in-memory", "--audit"]).into_iter().flatten())
        .env(MARK, state.path())
        // Half as many garbage collections, because a cluster on one machine has little processor time.
        .env("GOGC", "200")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("cannot start the cluster's room")?;
    let mut answer = String::new();
    step.wait_for(format!("the cluster (its log: {})", log.display()), START_TIMEOUT, || {
        let ended = room.try_wait()?;
        let status = state.status();
        match &status {
            Some(status) if status.phase == Phase::Ready => {
                if let Some(room) = process::find(state.path())? {
                    return Ok(Some(Ok(Cluster { state: State::for_cluster(state.name())?, room })));
                }
            }
            Some(status) if status.phase == Phase::Starting && status.detail != answer => {
                answer.clone_from(&status.detail);
                step.note(format!("waiting for {answer}"));
            }
            _ => {}
        }
        // `wait_for` retries after an error, so the end of the room is returned as a value.
        Ok(ended.map(|code| {
            Err(why(status.map(|status| status.detail), &log).context(format!("the room ended with {code}")))
        }))
    })?
}

fn why(answer: Option<String>, log: &Path) -> anyhow::Error {
    match answer {
        Some(reason) if !reason.is_empty() => anyhow::anyhow!("{reason}"),
        _ => anyhow::anyhow!("{}", fs::read_to_string(log).unwrap_or_default().trim_end()),
    }
}
