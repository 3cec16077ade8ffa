//! Adds nodes to a running cluster.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};

use super::state::{Phase, Status};
use super::{Cluster, process};
use crate::progress::Step;
use crate::{host, tools};

const START_TIMEOUT: Duration = Duration::from_mins(5);

impl Cluster {
    /// Starts the node of that number, from 2, unless it runs. A taint keeps away pods that do not tolerate it.
    pub fn add_node(&self, number: u8, taint: Option<&str>, step: &Step) -> Result<()> {
        let name = format!("node-{number}");
        let directory = self.node_dir(number);
        if self.is_node_ready(&name) {
            step.note(format!("{name} is there already"));
            return Ok(());
        }
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        // The last status of an earlier node, which was lost.
        fs::remove_file(directory.join("status.json")).ok();
        let log = directory.join("node.log");
        let output = File::create(&log)?;
        let mut node = self.in_room(self.tool());
        node.args(["node", "--state"]).arg(self.state_dir());
        node.args(["--name", self.state.name(), "--cgroup", &self.state.cgroup(), "--number", &number.to_string()]);
        node.args(taint.into_iter().flat_map(|taint| ["--taints", taint]));
        node.arg("--keep").arg(host::cache_dir()?).arg("--keep").arg(host::repo_root()?);
        // A process group of its own, so that it gets no interrupts.
        let mut node = node
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        step.wait_for(format!("{name} (its log: {})", log.display()), START_TIMEOUT, || {
            if let Some(code) = node.try_wait()? {
                let answer = fs::read_to_string(&log).unwrap_or_default();
                return Ok(Some(Err(anyhow::anyhow!("{name} ended with {code}: {}", answer.trim_end()))));
            }
            let status = fs::read(directory.join("status.json")).ok();
            let status: Option<Status> = status.and_then(|content| serde_json::from_slice(&content).ok());
            Ok(status.is_some_and(|status| status.phase == Phase::Ready).then_some(Ok(())))
        })?
    }

    /// Ends the node of that number, if it runs, and removes it from Kubernetes.
    pub fn end_node(&self, number: u8) -> Result<()> {
        process::kill_node(self.state.path(), number)?;
        let name = format!("node-{number}");
        let mut delete = self.kubectl();
        tools::output_of(delete.args(["delete", "node", &name, "--ignore-not-found", "--wait=false"])).map(drop)
    }

    fn node_dir(&self, number: u8) -> PathBuf {
        self.state_dir().join("nodes").join(format!("node-{number}"))
    }

    fn is_node_ready(&self, name: &str) -> bool {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        let asked = self.kubectl().args(["get", "node", name, "--output", path]).output();
        asked.is_ok_and(|output| output.stdout == b"True")
    }
}
