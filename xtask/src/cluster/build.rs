//! Builds the cluster's program, once for each version of its sources.

use std::path::PathBuf;

use anyhow::Result;

use crate::progress::Step;
use crate::{golang, host};

const PROGRAM: &str = "causeway-cluster";

/// The cluster's program; built unless the cache has it for these sources. With an empty build cache of Go this takes
/// several minutes.
pub fn build(step: &Step) -> Result<PathBuf> {
    let module = host::repo_root()?.join("tests/cluster");
    let built = host::cache_dir()?.join("cluster-bin").join(host::hash_of(&golang::sources(&module)?)?);
    host::made_once(&built, "the cluster", step, |new| {
        // Without a version, every part would report v0.0.0.
        let version = golang::required(&module, "k8s.io/kubernetes")?;
        let flags = format!("-X k8s.io/component-base/version.gitVersion={version}");
        golang::compile(&module, &[".", "./pause"], &flags, new, step)
    })?;
    Ok(built.join(PROGRAM))
}
