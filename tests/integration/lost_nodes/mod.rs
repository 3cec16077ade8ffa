//! Nodes of Kubernetes that are cut off or lose their power, with all that runs on them.
//!
//! These tests need nodes of their own, on which nothing else runs. `cargo xtask test` adds two, whose taint keeps
//! other pods away. It runs these tests one after the other, beside all other tests; the last one takes a node's power
//! for good.

pub mod cut;
mod near;
mod power;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Scene, wait_for};

/// The taint of these nodes.
const TAINT: &str = "causeway.example.com/spare";
/// A node that is cut off and comes back.
pub const CUT: &str = "node-2";
/// A node that loses its power.
const POWERLESS: &str = "node-3";

/// The spec of pods that may run on these nodes, too.
fn everywhere(mut spec: Value) -> Value {
    spec["tolerations"] = json!([{ "key": TAINT, "operator": "Exists" }]);
    spec
}

/// Where the pods run: the names by node.
fn by_node(pods: &[Pod]) -> BTreeMap<String, Vec<String>> {
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        nodes.entry(node).or_default().push(pod.name_any());
    }
    nodes
}

/// Waits until Kubernetes takes the node for ready and puts pods on it again, or takes it for lost.
pub async fn becomes(scene: &Scene, node: &str, well: bool) {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let look = || async { nodes.get(node).await.expect("the node") };
    let is_ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
    };
    // The taints of a lost node stay for a while after it is ready.
    let takes_pods = |node: &Node| {
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.all(|taint| taint.key == TAINT)
    };
    let good = |node: &Node| if well { is_ready(node) && takes_pods(node) } else { !is_ready(node) };
    wait_for(&format!("{node} to be ready: {well}"), look, good).await;
}

/// Cuts the cable of a node until this is dropped: what runs there goes on, but nothing can reach it.
pub struct Cut(&'static str);

impl Cut {
    pub fn new(node: &'static str) -> Self {
        assert!(cable(node, "down"), "the cable of {node} is cut");
        Self(node)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        cable(self.0, "up");
    }
}

/// The tests run in the network of the first node, where the cables begin.
fn cable(node: &str, state: &str) -> bool {
    Command::new("ip").args(["link", "set", node, state]).status().is_ok_and(|status| status.success())
}

/// Ends everything on a node at once.
fn take_power(node: &str) {
    let number = node.rsplit('-').next().expect("a number");
    let state = std::env::var("KUBECONFIG").expect("a cluster");
    let state = std::path::Path::new(&state).parent().expect("a directory").display().to_string();
    let is_first = |words: &[String]| {
        let has = |word: &str| words.iter().any(|it| it == word);
        has("node") && has("--inside") && has(number) && words.iter().any(|it| it.starts_with(&state))
    };
    let first = fs::read_dir("/proc").expect("/proc").find_map(|entry| {
        let process = entry.ok()?.file_name().into_string().ok()?;
        let line = fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
        is_first(&line.split('\0').map(str::to_owned).collect::<Vec<_>>()).then_some(process)
    });
    let first = first.unwrap_or_else(|| panic!("no first process of {node} runs"));
    let killed = Command::new("kill").args(["-KILL", &first]).status().expect("kill runs");
    assert!(killed.success(), "kill {first}");
}

/// Panics with advice if the nodes are missing, and waits until they take pods: a test before this one may have cut
/// them off.
async fn nodes_are_there(scene: &Scene, wanted: &[&str]) {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let names: Vec<String> =
        nodes.list(&ListParams::default()).await.expect("nodes").iter().map(ResourceExt::name_any).collect();
    for node in wanted {
        assert!(
            names.iter().any(|name| name == node),
            "{node} is missing: these tests run by `cargo xtask test lost_nodes`"
        );
        becomes(scene, node, true).await;
    }
}
