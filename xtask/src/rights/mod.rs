//! The rights of the operator's account in Kubernetes (`deploy/base`), and whether they match its requests. Operators
//! of tests have exactly these rights, and the API server logs their requests.

mod audit;
mod roles;
mod verdict;

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::chart::objects;
use crate::cluster::{Cluster, OPERATOR_OUTSIDE};
use crate::host;
use crate::progress::Step;

pub use audit::Log;
pub use verdict::Verdict;

/// The variable with the kubeconfig for operators of tests.
pub const VARIABLE: &str = "CAUSEWAY_OPERATOR_KUBECONFIG";

/// The account of an installed operator, as the policies of `deploy/base` name it.
const INSTALLED: &str = "system:serviceaccount:causeway-system:causeway";

/// Gives the rights of `deploy/base` to operators that run outside of pods, and applies its admission policies to them.
/// Rights in the operator's own namespace are given in all namespaces, because each test has its own; the verdict
/// distinguishes the two.
pub fn give(cluster: &Cluster, log: &Path, step: &Step) -> Result<()> {
    step.note("giving operators of tests the rights of deploy/base");
    let mut items: Vec<Value> = roles::of_operator()?.iter().flat_map(in_the_whole_cluster).collect();
    items.extend(admission_policies()?);
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

/// The admission policies of an installed operator, about the account of operators of tests.
fn admission_policies() -> Result<Vec<Value>> {
    let path = host::repo_root()?.join("deploy/base/admissionpolicy.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut policies: Vec<Value> = objects::parse(&text.replace(INSTALLED, OPERATOR_OUTSIDE))?.into_values().collect();
    for object in &mut policies {
        for field in ["/metadata/name", "/spec/policyName"] {
            if let Some(name) = object.pointer_mut(field) {
                *name = format!("tests-{}", name.as_str().unwrap_or_default()).into();
            }
        }
    }
    Ok(policies)
}
