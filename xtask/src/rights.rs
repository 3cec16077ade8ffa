//! The rights of the operator's account in Kubernetes (`deploy/base`), and whether they match its requests. Operators
//! of tests have exactly these rights, and the API server logs their requests.

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

/// The variable with the kubeconfig for operators of tests.
pub const VARIABLE: &str = "CAUSEWAY_OPERATOR_KUBECONFIG";

/// Gives the rights of `deploy/base` to operators that run outside of pods. Rights in the operator's own namespace are
/// given in all namespaces, because each test has its own; the verdict distinguishes the two.
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
    // The plain names belong to the roles of an installed operator.
    let name = format!("tests-{}", role.name);
    let object =
        |kind: &str| json!({ "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": { "name": name } });
    let (mut bound, mut binding) = (object("ClusterRole"), object("ClusterRoleBinding"));
    bound["rules"] = json!(role.rules);
    binding["roleRef"] = json!({ "apiGroup": GROUP, "kind": "ClusterRole", "name": name });
    binding["subjects"] = json!([{ "apiGroup": GROUP, "kind": "User", "name": OPERATOR_OUTSIDE }]);
    [bound, binding]
}
