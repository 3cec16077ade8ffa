//! Sends a request through a balancer to pods.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Local, install};
use crate::progress::Step;

/// Waits until the balancer of the web example answers.
pub fn wait_for_answer(local: &Local<'_>, step: &Step) -> Result<()> {
    install::targets_healthy(&local.kubectl, "web", step)?;
    // A new DNS name resolves only a moment after the balancer is created.
    step.wait_for("the balancer to answer by its DNS name", Duration::from_mins(3), || Ok(Some(ask(local)?)))?;
    Ok(())
}

/// Sends a request to the balancer of the web example by its DNS name, from within the cluster's network. Returns the
/// command and its output.
pub fn ask(local: &Local<'_>) -> Result<(String, String)> {
    let url = format!("http://{}/", install::dns_name(&local.kubectl, "web")?);
    let options = ["--silent", "--show-error", "--fail", "--include"];
    let output = local.cluster.in_room("curl").args(options).arg(&url).output()?;
    if !output.status.success() {
        bail!("{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok((format!("curl --include {url}"), String::from_utf8_lossy(&output.stdout).into_owned()))
}
