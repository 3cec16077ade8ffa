//! The environment of measurements: a namespace and an AWS account of their own, so that nothing else is counted.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::aws::Account;
use super::directory;
use super::kubernetes::{Event, Kubernetes, Watch};
use super::operator_process::Operator;
use crate::cluster::Cluster;

/// The part that all scenes share.
pub struct Bench<'a> {
    pub kubernetes: Kubernetes,
    pub binary: PathBuf,
    cluster: &'a Cluster,
    endpoint: &'a str,
    /// Distinguishes runs on the same cluster.
    run: u64,
}

impl<'a> Bench<'a> {
    /// Connects to the cluster. This process must be in its network.
    pub fn new(cluster: &'a Cluster, endpoint: &'a str, binary: PathBuf) -> Result<Self> {
        let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let kubernetes = Kubernetes::connect(cluster)?;
        // Endpoints are written by hand, so that no pod has to start. A policy must allow these addresses.
        let policy = json!({
            "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicy", "metadata": { "name": "bench" },
            "spec": { "namespaceSelector": {}, "targetAddresses": ["198.18.0.0/15"] },
        });
        kubernetes.apply("/apis/demo.rtfm.co.ua/v1/causewaypolicies/bench", &policy)?;
        Ok(Self { kubernetes, binary, cluster, endpoint, run })
    }

    /// The administrator's kubeconfig of the cluster.
    pub fn kubeconfig(&self) -> PathBuf {
        self.cluster.kubeconfig()
    }

    /// The kubeconfig for operators of tests.
    pub fn operators_kubeconfig(&self) -> PathBuf {
        self.cluster.operators_kubeconfig()
    }
    pub fn endpoint(&self) -> &str {
        self.endpoint
    }
    pub fn scene(&self, index: u64, load_balancers: usize) -> Result<Scene<'_>> {
        let namespace = format!("bench-{}-{index}", self.run);
        let path = format!("/api/v1/namespaces/{namespace}");
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        self.kubernetes.apply(&path, &object)?;
        // A number that distinguishes the accounts of all runs and of each.
        let number = format!("{:012}", self.run % 10_000_000_000 * 100 + index);
        Ok(Scene { bench: self, account: Account::seeded(self.endpoint, number, load_balancers)?, namespace })
    }
}

/// A namespace and an account.
pub struct Scene<'a> {
    bench: &'a Bench<'a>,
    pub account: Account,
    namespace: String,
}

impl Scene<'_> {
    /// Starts the operator for this namespace and this account, without a limit on its calls to AWS.
    pub fn operator(&self, sweep: &str) -> Result<Operator> {
        let kubeconfig = self.bench.cluster.kubeconfig().display().to_string();
        let variables = [
            ("KUBECONFIG", kubeconfig.as_str()),
            ("CLUSTER_NAME", "bench"),
            ("POD_NAMESPACE", &self.namespace),
            ("WATCH_NAMESPACE", &self.namespace),
            ("SWEEP_INTERVAL", sweep),
            ("AWS_RATE_SHARE", "0"),
            ("LOG_FORMAT", "text"),
            ("AWS_ENDPOINT_URL", self.bench.endpoint),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", &self.account.number),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        Operator::start(&self.bench.binary, &variables, &directory()?.join("operator.log"))
    }

    /// Applies a `MyIngress` with only these subnets.
    pub fn apply(&self, name: &str, subnets: [&str; 2]) -> Result<()> {
        self.apply_spec(name, &bare(subnets))
    }

    /// Applies a `MyIngress`.
    pub fn apply_spec(&self, name: &str, spec: &Value) -> Result<()> {
        self.apply_ingress(name, &json!({ "name": name }), spec)
    }

    /// Applies a `MyIngress` with this metadata.
    pub fn apply_ingress(&self, name: &str, metadata: &Value, spec: &Value) -> Result<()> {
        let object =
            json!({ "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress", "metadata": metadata, "spec": spec });
        self.bench.kubernetes.apply(&format!("{}/{name}", self.collection()), &object)
    }

    /// Applies an object of another kind; `api` is the path of its API up to the version.
    pub fn apply_other(&self, api: &str, plural: &str, object: &Value) -> Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.bench.kubernetes.apply(&format!("{api}/namespaces/{}/{plural}/{name}", self.namespace), object)
    }

    /// A manifest of one object, as JSON.
    pub fn manifest(&self, file: &Path) -> Result<Value> {
        let mut kubectl = self.bench.cluster.kubectl();
        let output = kubectl.args(["create", "--dry-run=client", "--output=json", "-f"]).arg(file).output()?;
        ensure!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Deletes every `MyIngress`.
    pub fn delete_all(&self) -> Result<()> {
        self.bench.kubernetes.delete(&self.collection())
    }

    /// A watch of every `MyIngress`.
    pub fn watch(&self) -> Result<Watch> {
        self.bench.kubernetes.watch(&self.collection())
    }

    /// Deletes the namespace. It must not contain objects with finalizers any more.
    pub fn end(self) -> Result<()> {
        self.bench.kubernetes.delete(&format!("/api/v1/namespaces/{}", self.namespace))
    }

    fn collection(&self) -> String {
        format!("/apis/demo.rtfm.co.ua/v1/namespaces/{}/myingresses", self.namespace)
    }
}

/// The spec of a `MyIngress` with only subnets.
pub fn bare(subnets: [&str; 2]) -> Value {
    json!({ "subnets": subnets, "scheme": "internet-facing" })
}

/// Reports whether the object shows its balancer's DNS name.
pub fn shows_dns(event: &Event) -> bool {
    event.object["status"]["alb"]["dns"].is_string()
}

/// Reports whether the object is ready in its present generation.
pub fn is_ready(event: &Event) -> bool {
    let Value::Array(conditions) = &event.object["status"]["conditions"] else { return false };
    event.object["status"]["observedGeneration"] == event.object["metadata"]["generation"]
        && conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
