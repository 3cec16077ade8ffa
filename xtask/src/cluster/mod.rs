//! A real Kubernetes cluster in Linux namespaces of its own ("the room"). See tests/cluster/README.md.

mod build;
mod cgroup;
mod command;
mod node;
mod process;
mod start;
mod state;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::progress::{Progress, Step};
use process::Room;
use start::{Ends, Volumes};
use state::{Phase, State};

pub use build::build;
pub use command::{Action, Kubectl, kubectl, run};

/// The node's address, the same in every cluster. The API server, the registry and LocalStack listen on it.
pub const NODE_ADDRESS: &str = "198.18.0.10";

/// The API server's name for the account of operators that run outside of pods.
pub const OPERATOR_OUTSIDE: &str = "system:serviceaccount:causeway-tests:causeway";

/// How many steps [`Cluster::up`] takes.
pub const STEPS: usize = 3;

/// The variable with the cluster's state directory, in the environment of every process that is started for it.
const MARK: &str = "CAUSEWAY_CLUSTER";

/// A cluster that is running and ready.
pub struct Cluster {
    state: State,
    room: Room,
}

impl Cluster {
    /// Starts the cluster. A running and healthy cluster is used as it is; a broken one is replaced.
    pub fn up(name: &str, steps: &mut Progress) -> Result<Self> {
        start::up(name, Volumes::OnDisk, steps)
    }

    /// Like [`Self::up`], with persistent volumes in memory.
    pub fn up_in_memory(name: &str, steps: &mut Progress) -> Result<Self> {
        start::up(name, Volumes::InMemory, steps)
    }

    /// Like [`Self::up_in_memory`], but as part of a step, after another cluster was started. Unless it is `kept`, the
    /// cluster ends with the thread that calls this, however that thread ends.
    pub fn another_in_memory(name: &str, kept: bool, step: &Step) -> Result<Self> {
        start::another(name, Volumes::InMemory, if kept { Ends::OnRequest } else { Ends::WithItsStarter }, step)
    }

    /// The cluster of this name, if it is running and ready.
    pub fn find(name: &str) -> Result<Option<Self>> {
        let state = State::for_cluster(name)?;
        let Some(room) = process::find(state.path())? else {
            return Ok(None);
        };
        let ready = state.status().is_some_and(|status| status.phase == Phase::Ready);
        Ok(ready.then_some(Self { state, room }))
    }

    /// Ends the cluster and removes all of it: processes with their namespaces, control groups and files.
    pub fn down(name: &str) -> Result<()> {
        let state = State::for_cluster(name)?;
        let lock = state.lock(|| ())?;
        remove(&state)?;
        lock.remove()
    }

    /// The administrator's kubeconfig. Its server is reachable only from the cluster's network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// The kubeconfig of operators that run outside of pods. They have only the rights that they are given.
    pub fn operators_kubeconfig(&self) -> PathBuf {
        self.state.path().join("operator.kubeconfig")
    }

    /// The API server's log of operators' requests. Only clusters with volumes in memory have it.
    pub fn audit_log(&self) -> PathBuf {
        self.state.path().join("audit/audit.log")
    }

    /// The directory with the cluster's logs, credentials and data. It is removed with the cluster.
    pub fn state_dir(&self) -> &Path {
        self.state.path()
    }

    /// Additional names for the cluster's DNS, in the format of `/etc/hosts`. They may be changed at any time.
    pub fn names(&self) -> PathBuf {
        self.state.path().join("config/names")
    }

    /// The program that contains every part of Kubernetes, and the command `image`, which fills the registry.
    pub fn tool(&self) -> PathBuf {
        self.room.program.clone()
    }

    /// The `/proc` directory of the cluster's first process.
    pub fn process(&self) -> PathBuf {
        Path::new("/proc").join(self.room.pid.to_string())
    }

    /// The processor time of the whole cluster so far, and of its containers alone.
    pub fn processors(&self) -> (Duration, Duration) {
        let group = self.state.cgroup();
        // Each node's kubelet has a control group for its pods.
        let nodes = ["", "/node-2", "/node-3"].into_iter();
        let containers = nodes.map(|node| cgroup::processors(&format!("{group}{node}/kubepods"))).sum();
        (cgroup::processors(&group), containers)
    }

    /// The root directory of the first node, with the volumes, as seen by processes outside.
    pub fn root(&self) -> PathBuf {
        self.process().join("root")
    }

    /// A program in the cluster's network. Its files and processes are those of the host.
    pub fn in_network(&self, program: impl AsRef<OsStr>) -> Command {
        self.enter(&["--net"], program.as_ref())
    }

    /// A program inside the cluster's room. It sees the room's files and processes, and ends with the room.
    pub fn in_room(&self, program: impl AsRef<OsStr>) -> Command {
        self.enter(&["--net", "--mount", "--pid", "--uts"], program.as_ref())
    }

    /// kubectl, as the cluster's administrator.
    pub fn kubectl(&self) -> Command {
        let mut command = self.in_network(self.tool());
        command.arg("kubectl").arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    fn enter(&self, namespaces: &[&str], program: &OsStr) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.room.pid.to_string()).args(namespaces).arg("--").arg(program);
        command.env(MARK, self.state.path());
        // No proxy can be reached from inside.
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(variable).env_remove(variable.to_lowercase());
        }
        command
    }

    /// Asks the API server whether it is ready.
    fn is_healthy(&self) -> bool {
        let asked = self.kubectl().args(["get", "--raw", "/readyz", "--request-timeout=5s"]).output();
        asked.is_ok_and(|output| output.status.success())
    }
}

/// Removes everything of a cluster, even if it was only partly created.
fn remove(state: &State) -> Result<()> {
    let limit = Duration::from_mins(3);
    let begun = Instant::now();
    loop {
        let left = process::kill_all(state.path())?;
        let groups = cgroup::remove(&state.cgroup())?;
        if left == 0 && groups.is_empty() {
            break;
        }
        if begun.elapsed() > limit {
            bail!(
                "the cluster {} did not end within {} s: {left} processes are left, and the groups {groups:?}",
                state.name(),
                limit.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(20));
    }
    match fs::remove_dir_all(state.path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", state.path().display()))
        }
        _ => Ok(()),
    }
}
