//! `cargo xtask cluster` and `cargo xtask kubectl`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::state::{Phase, State};
use super::{Cluster, STEPS, build, process as processes};
use crate::host;
use crate::progress::Progress;

/// The subcommands for a local cluster.
#[derive(Subcommand)]
pub enum Action {
    /// Start it, or use the running one if it is well
    Up(Size),
    /// End it and remove all of it
    Down(Name),
    /// Say whether and where it runs; exit code 1 if it does not
    Status(Name),
}

/// Which of this checkout's clusters.
#[derive(Args)]
pub struct Name {
    /// The cluster's name; several can run side by side
    #[arg(long, default_value = "demo")]
    name: String,
}

/// Which cluster, and how large.
#[derive(Args)]
pub struct Size {
    #[command(flatten)]
    name: Name,
    /// Nodes, each with a container runtime, a kubelet and addresses of its own; missing ones are added
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=15))]
    nodes: u8,
}

/// Arguments of `cargo xtask kubectl`.
#[derive(Args)]
pub struct Kubectl {
    /// The local cluster's name
    #[arg(long, default_value = "demo")]
    name: String,
    /// Talk to the cluster of this kubeconfig instead of a local one
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    kubeconfig: Option<PathBuf>,
    /// Arguments for kubectl, e.g. `get pods --all-namespaces`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs `cargo xtask cluster …`.
pub fn run(action: &Action) -> Result<()> {
    match action {
        Action::Up(Size { name: Name { name }, nodes }) => up(name, *nodes),
        Action::Down(Name { name }) => {
            host::require_root()?;
            Cluster::down(name)?;
            println!("The cluster {name} is gone.");
            Ok(())
        }
        Action::Status(Name { name }) => status(name),
    }
}

fn up(name: &str, nodes: u8) -> Result<()> {
    let mut steps = Progress::new(STEPS + usize::from(nodes > 1));
    let cluster = Cluster::up(name, &mut steps)?;
    if nodes > 1 {
        steps.step("Add nodes", |step| (2..=nodes).try_for_each(|number| cluster.add_node(number, None, step)))?;
    }
    let option = if name == "demo" { String::new() } else { format!(" --name {name}") };
    println!(
        "The cluster {name} is ready after {} s. How to go on:\n\
         cargo xtask kubectl{option} get nodes\n\
         cargo xtask cluster status{option}\n\
         cargo xtask cluster down{option}\n\
         Logs: {}",
        steps.elapsed().as_secs(),
        cluster.state.logs().display(),
    );
    Ok(())
}

fn status(name: &str) -> Result<()> {
    host::require_root()?;
    let state = State::for_cluster(name)?;
    let answer = state.status();
    let room = processes::find(state.path())?;
    let cluster = Cluster::find(name)?;
    let healthy = cluster.as_ref().is_some_and(Cluster::is_healthy);
    let condition = match (&room, &answer) {
        (None, Some(answer)) if answer.phase == Phase::Failed => {
            format!("no: {}", answer.detail.lines().next().unwrap_or_default())
        }
        (None, Some(_)) => "no: it was ended from outside".to_owned(),
        (None, None) => "no".to_owned(),
        (Some(_), Some(answer)) if answer.phase == Phase::Starting => {
            format!("starting: waiting for {}", answer.detail)
        }
        (Some(_), _) if healthy => "yes".to_owned(),
        (Some(_), _) => "broken: the API server does not answer".to_owned(),
    };
    row("name", name);
    row("running", &condition);
    if let (Some(room), Some(answer)) = (&room, &answer) {
        row("since", &state.age().map(ago).unwrap_or_default());
        row("API", &answer.server);
        row("node", &answer.node);
        row("process", &room.pid.to_string());
        row("kubeconfig", &state.kubeconfig().display().to_string());
    }
    if answer.is_some() {
        row("logs", &state.logs().display().to_string());
    }
    if !healthy {
        process::exit(1);
    }
    Ok(())
}

fn row(title: &str, value: &str) {
    println!("{title:<11}{value}");
}

fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        _ => format!("{} h ago", seconds / 3600),
    }
}

/// Replaces this process by kubectl.
pub fn kubectl(options: &Kubectl) -> Result<()> {
    let mut command = if let Some(kubeconfig) = &options.kubeconfig {
        let mut command = any_kubectl()?;
        command.arg("--kubeconfig").arg(kubeconfig);
        command
    } else {
        host::require_root()?;
        let name = &options.name;
        let hint = || format!("the cluster {name} is not running: cargo xtask cluster up --name {name}");
        Cluster::find(name)?.with_context(hint)?.kubectl()
    };
    Err(command.args(&options.arguments).exec()).context("cannot start kubectl")
}

/// The user's own kubectl if there is one, otherwise the cluster's program.
fn any_kubectl() -> Result<Command> {
    if host::on_path("kubectl") {
        return Ok(Command::new("kubectl"));
    }
    let program = Progress::new(1).step("Build kubectl", build)?;
    let mut command = Command::new(program);
    command.arg("kubectl");
    Ok(command)
}
