//! What the operator's account may do in Kubernetes (`deploy/base`), and whether it is what operators do: operators of tests have
//! these rights and no others, and the API server writes down what they ask for.

mod audit;
mod roles;
mod verdict;

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cluster::{Cluster, OPERATOR_OUTSIDE};
use crate::progress::Step;

pub use audit::Log;
pub use verdict::Verdict;

/// The variable that names tests the kubeconfig of their operators.
pub const VARIABLE: &str = "CAUSEWAY_OPERATOR_KUBECONFIG";

/// Gives operators that run outside of pods the rights of `deploy/base`. Those of the operator's own namespace they have in all:
/// each test has a namespace of its own, and the verdict tells the two apart.
pub fn give(cluster: &Cluster, log: &Path, step: &Step) -> Result<()> {
    step.note("giving operators of tests the rights of deploy/base");
    let items: Vec<Value> = roles::of_operator()?.iter().flat_map(in_the_whole_cluster).collect();
    let file = log.with_extension("json");
    std::fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())?;
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "--filename"]).arg(&file);
    step.run(&mut apply, log)
}

fn in_the_whole_cluster(role: &roles::Role) -> [Value; 2] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    // An installed operator has roles of the plain names.
    let name = format!("tests-{}", role.name);
    let object =
        |kind: &str| json!({ "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": { "name": name } });
    let (mut bound, mut binding) = (object("ClusterRole"), object("ClusterRoleBinding"));
    bound["rules"] = json!(role.rules);
    binding["roleRef"] = json!({ "apiGroup": GROUP, "kind": "ClusterRole", "name": name });
    binding["subjects"] = json!([{ "apiGroup": GROUP, "kind": "User", "name": OPERATOR_OUTSIDE }]);
    [bound, binding]
}
