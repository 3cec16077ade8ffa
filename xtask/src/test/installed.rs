//! Tests the operator as users install it. It then serves every namespace, so beside other tests it needs a cluster of
//! its own.

use std::time::Instant;

use anyhow::Result;

use super::processors;
use super::report::{Outcome, Tests};
use super::rights;
use crate::cluster::Cluster;
use crate::localstack::LocalStack;
use crate::progress::Step;
use crate::rights::Log;
use crate::{demo, images, localstack};

/// The name of the step.
pub const STEP: &str = "The operator as users install it";

/// The name of the cluster for this step alone.
const NAME: &str = "installed";

/// Installs and tests it in a cluster where nothing else runs.
pub fn alone(cluster: &Cluster, localstack: &LocalStack, step: &Step) -> Result<Outcome> {
    let binary = images::operator::target_directory()?.join("debug/causeway");
    demo::install_and_try(cluster, localstack, &binary, step)?;
    Ok(Outcome::Passed)
}

/// The same beside other tests, in a cluster that is started for it. Unless `kept`, the cluster ends afterwards.
pub fn beside_others(kept: bool, step: &Step) -> Result<Outcome> {
    let tried = in_its_cluster(kept, step);
    let ended = if kept { Ok(()) } else { Cluster::down(NAME) };
    tried.and_then(|outcome| ended.map(|()| outcome))
}

fn in_its_cluster(kept: bool, step: &Step) -> Result<Outcome> {
    let begun = Instant::now();
    let cluster = Cluster::another_in_memory(NAME, kept, step)?;
    let localstack = localstack::start(&cluster, step)?;
    let started = begun.elapsed();
    let audited = Log::from_now(&cluster.audit_log());
    alone(&cluster, &localstack, step)?;
    audited.copy(&rights::of_installed()?)?;
    let used = processors::of_cluster(&cluster);
    let figure = format!(
        "» processors, the operator as users install it: {:.0} s by its cluster, whose start took {:.0} s of {:.0} s",
        used.as_secs_f64(),
        started.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
    );
    Ok(Outcome::Tests(Tests { figures: vec![figure], ..Tests::default() }))
}
