//! The nodes as they are, whatever the operator reports: each one is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::timeout;

use super::checker::open;
use super::{ROLE_LABEL, WAIT_TIMEOUT, pods};
use crate::support::Scene;
use crate::support::wait::wait_within;
use crate::support::wait_for;

const DEADLINE: Duration = Duration::from_secs(2);

/// The answers of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub address: String,
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// The replication ID.
    pub history: String,
    pub offset: u64,
    /// Of a replica: the address of its master, and whether it has all of the data and follows.
    pub master: String,
    pub linked: bool,
    pub keys: u64,
    /// The role by the pod's label.
    pub label: Option<String>,
}

/// Returns the answers of every pod's node, by pod; `None` where it does not answer.
pub async fn all(scene: &Scene, password: Option<&str>) -> BTreeMap<String, Option<Node>> {
    let asked = pods(scene).await.into_iter().map(|pod| async move {
        let node = timeout(DEADLINE, ask(&pod, password)).await.ok().flatten();
        (pod.name_any(), node)
    });
    join_all(asked).await.into_iter().collect()
}

/// Returns the answers of one node.
pub async fn one(scene: &Scene, name: &str) -> Option<Node> {
    all(scene, None).await.remove(name).flatten()
}

/// Returns the answers of every pod's node, once all of them answer: on a busy machine, a single call may time out.
pub async fn every(scene: &Scene) -> BTreeMap<String, Node> {
    let answered = |nodes: &BTreeMap<String, Option<Node>>| nodes.values().all(Option::is_some);
    let nodes = wait_for("all nodes to answer", || all(scene, None), answered).await;
    nodes.into_iter().filter_map(|(name, node)| Some((name, node?))).collect()
}

/// The fewest keys that any node has.
pub async fn fewest_keys(scene: &Scene) -> u64 {
    every(scene).await.values().map(|node| node.keys).min().expect("a node")
}

/// Waits until a node answers: on a busy machine, a single call may time out.
pub async fn answer(scene: &Scene, name: &str) -> Node {
    let answered = wait_for(&format!("{name} to answer"), || one(scene, name), Option::is_some).await;
    answered.expect("it was waited for")
}

/// Waits until exactly so many replicas follow one master that is labelled as such, all with the same data.
pub async fn complete(scene: &Scene, replicas: i32, password: Option<&str>) {
    let count = usize::try_from(replicas).expect("a number") + 1;
    let good = |nodes: &BTreeMap<String, Option<Node>>| {
        let known: Vec<&Node> = nodes.values().flatten().collect();
        let masters: Vec<&&Node> = known.iter().filter(|node| node.role == "master").collect();
        let [master] = masters[..] else { return false };
        let replica = |node: &&&Node| {
            node.role == "slave"
                && node.linked
                && node.master == master.address
                && node.history == master.history
                && node.label.as_deref() == Some("replica")
        };
        nodes.len() == count
            && known.len() == count
            && master.label.as_deref() == Some("master")
            && known.iter().filter(replica).count() == count - 1
    };
    let what = format!("a master and {replicas} replicas that say so themselves");
    wait_within(WAIT_TIMEOUT, &what, || all(scene, password), good).await;
}

async fn ask(pod: &Pod, password: Option<&str>) -> Option<Node> {
    let address = pod.status.as_ref()?.pod_ip.clone()?;
    let mut connection = open(&format!("{address}:6379"), password).await.ok()?;
    let keys = redis::cmd("DBSIZE").query_async(&mut connection).await.ok()?;
    let text: String = redis::cmd("INFO").query_async(&mut connection).await.ok()?;
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
    let is_master = field("role") == "master";
    Some(Node {
        address,
        version: field("redis_version"),
        role: field("role"),
        history: field("master_replid"),
        offset: field(if is_master { "master_repl_offset" } else { "slave_repl_offset" }).parse().ok()?,
        master: field("master_host"),
        linked: field("master_link_status") == "up",
        keys,
        label: pod.labels().get(ROLE_LABEL).cloned(),
    })
}

/// Sends a command to one node.
pub async fn tell(scene: &Scene, name: &str, words: &[&str]) {
    answers::<redis::Value>(scene, name, words).await.expect("the command is taken");
}

/// Returns one node's answer to a command.
pub async fn answers<T: redis::FromRedisValue>(scene: &Scene, name: &str, words: &[&str]) -> redis::RedisResult<T> {
    let pod = pods(scene).await.into_iter().find(|pod| pod.name_any() == name).expect("the pod");
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let mut connection = open(&format!("{address}:6379"), None).await?;
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query_async(&mut connection).await
}

/// Reports whether a node's last snapshot succeeded. Asks for another one if it did not.
pub async fn takes_a_snapshot(scene: &Scene, name: &str) -> bool {
    let pod = pods(scene).await.into_iter().find(|pod| pod.name_any() == name);
    let Some(address) = pod.and_then(|pod| pod.status?.pod_ip) else { return false };
    let Ok(Ok(mut connection)) = timeout(DEADLINE, open(&format!("{address}:6379"), None)).await else { return false };
    let text: String = redis::cmd("INFO").arg("persistence").query_async(&mut connection).await.unwrap_or_default();
    let taken = text.contains("rdb_bgsave_in_progress:0") && text.contains("rdb_last_bgsave_status:ok");
    if !taken {
        // Redis refuses this while a snapshot is being written.
        redis::cmd("BGSAVE").query_async::<redis::Value>(&mut connection).await.ok();
    }
    taken
}

/// A setting of a running node.
pub async fn setting(scene: &Scene, name: &str, setting: &str) -> String {
    let pod = pods(scene).await.into_iter().find(|pod| pod.name_any() == name).expect("the pod");
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let mut connection = open(&format!("{address}:6379"), None).await.expect("the node answers");
    let answer: Vec<String> =
        redis::cmd("CONFIG").arg("GET").arg(setting).query_async(&mut connection).await.expect("an answer");
    answer.into_iter().nth(1).unwrap_or_default()
}

/// The value of one field of a node's `INFO everything`.
pub async fn field(scene: &Scene, name: &str, field: &str) -> String {
    let pod = pods(scene).await.into_iter().find(|pod| pod.name_any() == name).expect("the pod");
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let mut connection = open(&format!("{address}:6379"), None).await.expect("the node answers");
    let text: String = redis::cmd("INFO").arg("everything").query_async(&mut connection).await.expect("an answer");
    let value = text.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().to_owned()
}

/// How many nodes have each role and label, once all nodes answer.
pub async fn roles(scene: &Scene) -> BTreeMap<String, usize> {
    let mut roles = BTreeMap::new();
    for node in every(scene).await.into_values() {
        let role = format!("{}, labelled {}", node.role, node.label.unwrap_or_default());
        *roles.entry(role).or_default() += 1;
    }
    roles
}
