//! Where figures are taken: a namespace and an AWS account of their own, so that nothing else is counted.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};

use super::aws::Account;
use super::directory;
use super::kubernetes::{Event, Kubernetes, Watch};
use super::operator_process::Operator;
use crate::cluster::Cluster;

/// What all scenes share.
pub struct Bench<'a> {
    /// The Kubernetes API.
    pub kubernetes: Kubernetes,
    /// The release binary.
    pub binary: PathBuf,
    cluster: &'a Cluster,
    endpoint: &'a str,
    /// Tells runs on the same cluster apart.
    run: u64,
}

impl<'a> Bench<'a> {
    /// Connects to the cluster whose network this process is in.
    pub fn new(cluster: &'a Cluster, endpoint: &'a str, binary: PathBuf) -> Result<Self> {
        let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(Self { kubernetes: Kubernetes::connect(cluster)?, binary, cluster, endpoint, run })
    }

    /// An account that nobody else has: `index` tells those of one run apart.
    pub fn account(&self, index: u64, load_balancers: usize) -> Result<Account> {
        Account::seeded(self.endpoint, format!("{:012}", self.run % 10_000_000_000 * 100 + index), load_balancers)
    }

    /// A new scene.
    pub fn scene(&self, index: u64, load_balancers: usize) -> Result<Scene<'_>> {
        let namespace = format!("bench-{}-{index}", self.run);
        let path = format!("/api/v1/namespaces/{namespace}");
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        self.kubernetes.apply(&path, &object)?;
        Ok(Scene { bench: self, account: self.account(index, load_balancers)?, namespace })
    }
}

/// A namespace and an account.
pub struct Scene<'a> {
    bench: &'a Bench<'a>,
    /// The account.
    pub account: Account,
    namespace: String,
}

impl Scene<'_> {
    /// Starts the operator for this namespace and this account.
    pub fn operator(&self, sweep: &str) -> Result<Operator> {
        let kubeconfig = self.bench.cluster.kubeconfig().display().to_string();
        let variables = [
            ("KUBECONFIG", kubeconfig.as_str()),
            ("CLUSTER_NAME", "bench"),
            ("POD_NAMESPACE", &self.namespace),
            ("WATCH_NAMESPACE", &self.namespace),
            ("SWEEP_INTERVAL", sweep),
            ("LOG_FORMAT", "text"),
            ("AWS_ENDPOINT_URL", self.bench.endpoint),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", &self.account.number),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        Operator::start(&self.bench.binary, &variables, &directory()?.join("operator.log"))
    }

    /// Applies a `MyIngress` in these subnets.
    pub fn apply(&self, name: &str, subnets: [&str; 2]) -> Result<()> {
        let object = json!({
            "apiVersion": "demo.rtfm.co.ua/v1",
            "kind": "MyIngress",
            "metadata": { "name": name },
            "spec": { "subnets": subnets, "scheme": "internet-facing" },
        });
        self.bench.kubernetes.apply(&format!("{}/{name}", self.collection()), &object)
    }

    /// Deletes every `MyIngress`.
    pub fn delete_all(&self) -> Result<()> {
        self.bench.kubernetes.delete(&self.collection())
    }

    /// Everything that happens to every `MyIngress`.
    pub fn watch(&self) -> Result<Watch> {
        self.bench.kubernetes.watch(&self.collection())
    }

    /// Removes the namespace; nothing with a finalizer is in it any more.
    pub fn end(self) -> Result<()> {
        self.bench.kubernetes.delete(&format!("/api/v1/namespaces/{}", self.namespace))
    }

    fn collection(&self) -> String {
        format!("/apis/demo.rtfm.co.ua/v1/namespaces/{}/myingresses", self.namespace)
    }
}

/// Whether the object shows its balancer's DNS name.
pub fn shows_dns(event: &Event) -> bool {
    event.object["status"]["alb"]["dns"].is_string()
}

/// Whether the object is ready as it is written now.
pub fn is_ready(event: &Event) -> bool {
    let Value::Array(conditions) = &event.object["status"]["conditions"] else { return false };
    event.object["status"]["observedGeneration"] == event.object["metadata"]["generation"]
        && conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
