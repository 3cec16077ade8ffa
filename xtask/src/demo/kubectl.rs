//! Runs kubectl for the demo, against any cluster.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;

/// Starts kubectl with the credentials of one cluster.
pub struct Kubectl<'a> {
    command: Box<dyn Fn() -> Command + 'a>,
}

impl<'a> Kubectl<'a> {
    /// For a local cluster.
    pub fn local(cluster: &'a Cluster) -> Self {
        Self { command: Box::new(|| cluster.kubectl()) }
    }

    /// The user's own kubectl, for the cluster of a kubeconfig.
    pub fn existing(kubeconfig: &'a Path) -> Self {
        Self {
            command: Box::new(move || {
                let mut kubectl = Command::new("kubectl");
                kubectl.arg("--kubeconfig").arg(kubeconfig);
                kubectl
            }),
        }
    }

    /// The user's own kubectl, for a context of the user's kubeconfig.
    pub fn of_context(context: &'a str) -> Self {
        Self {
            command: Box::new(move || {
                let mut kubectl = Command::new("kubectl");
                kubectl.args(["--context", context]);
                kubectl
            }),
        }
    }

    /// A kubectl command that has not been started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut kubectl = (self.command)();
        kubectl.args(arguments);
        kubectl
    }

    /// Runs kubectl and returns its output. If it fails, the error contains what it printed.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        self.feed(arguments, "")
    }

    /// Like [`Self::run`], with `input` as its standard input.
    pub fn feed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.output(arguments, input)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The exit status and output of kubectl with `input` as its standard input.
    pub fn output(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl reads all of its input before it answers.
            stdin.write_all(input.as_bytes())?;
        }
        Ok(child.wait_with_output()?)
    }
}
