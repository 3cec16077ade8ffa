//! Redis Sentinel as its documentation sets it up: a master with two replicas, and three sentinels, in pods.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

use super::checker::{Entrance, open};
use super::{LABEL, NAME, nodes};
use crate::support::rollout_watch::is_ready;
use crate::support::{Scene, wait_for};

/// The name by which sentinels know the master.
const MASTER: &str = "cache";
const IMAGE: &str = "redis:7.0.15";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;

/// How sentinels and servers are set.
#[derive(Clone, Copy)]
pub struct Settings {
    /// The name for people.
    pub name: &'static str,
    /// A master that is silent for so long is down.
    pub down_after_ms: u32,
    /// A failover that takes longer is tried again.
    pub failover_timeout_ms: u32,
    /// A master without a replica that followed in the last 10 s takes no writes.
    pub bounded: bool,
}

/// The default settings of sentinels.
pub const SHIPPED: Settings =
    Settings { name: "sentinel, as shipped", down_after_ms: 30_000, failover_timeout_ms: 180_000, bounded: false };
/// The fastest that does not take every pause for a death.
pub const FASTEST: Settings =
    Settings { name: "sentinel, fastest", down_after_ms: 1_000, failover_timeout_ms: 5_000, bounded: false };
/// The same with the documentation's bound on lost writes.
pub const BOUNDED: Settings = Settings { name: "sentinel, fastest, bounded", bounded: true, ..FASTEST };

/// Servers and sentinels at work.
pub struct Sentinels<'a> {
    scene: &'a Scene,
    addresses: Vec<String>,
}

impl<'a> Sentinels<'a> {
    /// Starts them; all replicas follow when this returns, and the sentinels know of each other.
    pub async fn start(scene: &'a Scene, settings: Settings) -> Self {
        Self::start_on(scene, settings, &[]).await
    }

    /// The same with a server and a sentinel on each of these Kubernetes nodes: the master on the first, whose sentinel clients
    /// ask last.
    pub async fn start_on(scene: &'a Scene, settings: Settings, places: &[String]) -> Self {
        let bound = if settings.bounded { "min-replicas-to-write 1\\nmin-replicas-max-lag 10\\n" } else { "" };
        let mut first = String::new();
        for number in 0..SERVERS {
            let follows = if first.is_empty() { String::new() } else { format!("replicaof {first} 6379\\n") };
            let lines = format!("protected-mode no\\nappendonly yes\\ndir /data\\n{bound}{follows}");
            let address =
                pod(scene, &format!("server-{number}"), json!({ (LABEL): NAME }), &lines, "", places.get(number)).await;
            if number == 0 {
                first = address;
            }
        }
        let lines = format!(
            "port 26379\\ndir /tmp\\nprotected-mode no\\nsentinel monitor {MASTER} {first} 6379 2\\n\
             sentinel down-after-milliseconds {MASTER} {}\\nsentinel failover-timeout {MASTER} {}\\n\
             sentinel parallel-syncs {MASTER} 1\\n",
            settings.down_after_ms, settings.failover_timeout_ms
        );
        let mut addresses = Vec::new();
        for number in 0..SENTINELS {
            let place = places.get((number + 1) % SENTINELS);
            let address = pod(scene, &format!("sentinel-{number}"), json!({}), &lines, "--sentinel", place).await;
            addresses.push(format!("{address}:26379"));
        }
        let all = Self { scene, addresses };
        all.settled().await;
        all
    }

    /// How clients find the master: they ask one sentinel after the other.
    pub fn entrance(&self) -> Entrance {
        let addresses = self.addresses.clone();
        Entrance::new(move || find(addresses.clone()).boxed())
    }

    /// The pod that the sentinels name as the master.
    pub async fn master(&self) -> String {
        let look = || async {
            let address = find(self.addresses.clone()).await.ok()?;
            let nodes = nodes::all(self.scene, None).await;
            let is_it = |node: &nodes::Node| format!("{}:6379", node.address) == address;
            nodes.into_iter().find(|(_, node)| node.as_ref().is_some_and(is_it)).map(|(name, _)| name)
        };
        wait_for("the pod of the master that the sentinels name", look, Option::is_some).await.expect("just seen")
    }

    /// The address of the master that the sentinels name.
    pub async fn address(&self) -> String {
        find(self.addresses.clone()).await.expect("a master")
    }

    /// Waits until the sentinels name another master than the one at that address.
    pub async fn succeeded(&self, before: &str) {
        let look = || find(self.addresses.clone());
        let another = |now: &Result<String, String>| now.as_ref().is_ok_and(|now| now != before);
        wait_for("another master, by the sentinels", look, another).await.expect("just seen");
    }

    /// Asks for a failover, and waits until the sentinels name another master.
    pub async fn fail_over(&self) {
        let before = self.address().await;
        let look = || async {
            let now = find(self.addresses.clone()).await.ok()?;
            if now == before {
                let mut sentinel = open(&self.addresses[0], None).await.ok()?;
                // It refuses while a failover goes on (INPROG), and while it knows of no good replica (NOGOODSLAVE).
                let asked = redis::cmd("SENTINEL").arg("FAILOVER").arg(MASTER).clone();
                asked.query_async::<()>(&mut sentinel).await.ok();
                return None;
            }
            Some(now)
        };
        wait_for("another master, by the sentinels", look, Option::is_some).await.expect("just seen");
    }

    /// Waits until all replicas follow the node that all sentinels name as the master.
    pub async fn settled(&self) {
        wait_for("three sentinels that agree, and two replicas that follow", || self.is_settled(), |done| *done).await;
    }

    async fn is_settled(&self) -> bool {
        let mut masters = Vec::new();
        for address in &self.addresses {
            let Some(known) = knows(address).await else { return false };
            masters.push(known);
        }
        masters.dedup();
        let [master] = masters.as_slice() else { return false };
        let nodes = nodes::all(self.scene, None).await;
        let follows = |node: &&nodes::Node| node.role == "slave" && node.linked && node.master == *master;
        let leads = |node: &&nodes::Node| node.role == "master" && node.address == *master;
        let count = |good: &dyn Fn(&&nodes::Node) -> bool| nodes.values().flatten().filter(good).count();
        count(&leads) == 1 && count(&follows) == SERVERS - 1
    }
}

/// The master that a sentinel names, if it knows all replicas and other sentinels, and does not take the master for
/// dead.
async fn knows(address: &str) -> Option<String> {
    let mut sentinel = open(address, None).await.ok()?;
    let fields: std::collections::HashMap<String, String> =
        redis::cmd("SENTINEL").arg("MASTER").arg(MASTER).query_async(&mut sentinel).await.ok()?;
    let is = |field: &str, value: &str| fields.get(field).is_some_and(|it| it == value);
    let well = is("flags", "master") && is("num-slaves", "2") && is("num-other-sentinels", "2");
    well.then(|| fields.get("ip").cloned()).flatten()
}

async fn find(addresses: Vec<String>) -> Result<String, String> {
    for address in &addresses {
        let Ok(mut sentinel) = open(address, None).await else { continue };
        let asked = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER).clone();
        if let Ok((host, port)) = asked.query_async::<(String, u16)>(&mut sentinel).await {
            return Ok(format!("{host}:{port}"));
        }
    }
    Err("no sentinel answers".into())
}

/// Starts a server whose settings outlive its process, as sentinels change them; returns its address.
async fn pod(
    scene: &Scene,
    name: &str,
    labels: serde_json::Value,
    lines: &str,
    mode: &str,
    place: Option<&String>,
) -> String {
    let script = format!(
        "[ -f /data/server.conf ] || printf '{lines}' > /data/server.conf\nexec redis-server /data/server.conf {mode}"
    );
    let pod = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeName": place,
            "securityContext": { "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999 },
            "volumes": [{ "name": "data", "emptyDir": {} }],
            "containers": [{
                "name": "redis", "image": IMAGE, "command": ["sh", "-c", script],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
        },
    });
    let api = scene.api::<Pod>();
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let taken = api.create(&PostParams::default(), &pod).await.expect("the pod is taken");
    let name = taken.name_any();
    let look = || async { api.get(&name).await.expect("the pod") };
    let pod = wait_for(&format!("{name} to run"), look, is_ready).await;
    pod.status.and_then(|status| status.pod_ip).expect("an address")
}
