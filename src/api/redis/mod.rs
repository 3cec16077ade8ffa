//! `Redis`: a master, its replicas, and a failover that loses nothing it promised.

mod module;
mod status;
mod tls;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use module::Module;
pub use status::{Connection, Failover, LastFailover, NodeStatus, RedisStatus};
pub use tls::{ClientCertificates, Tls};

use super::access::{self, NetworkPolicyMode};
use super::common::DeletionPolicy;
use super::databaserestore::BackupChoice;
use super::pods::{ImagePullSecret, PodMetadata, ServiceTemplate};
use super::{Duration, placement, pods};

/// A master and its replicas.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Redis",
    plural = "redises",
    shortname = "rd",
    category = "causeway",
    namespaced,
    status = "RedisStatus",
    doc = "A Redis master and its replicas. Clients reach the master through the Service of its name at port 6379, and \
           replicas through <name>-replicas.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Master", type_ = "string", json_path = ".status.master"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version", priority = "1"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 46 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 46 lower case letters, digits and hyphens and begin with a letter: Services and pods are called after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.affinity) || self.spread != 'Required'", "spec.affinity takes the place of spec.spread: Required; say it in spec.affinity.podAntiAffinity"),
    validation = ("has(self.tls) == has(oldSelf.tls)", "spec.tls cannot be turned on or off in a Redis that exists: make another one with spec.tls as you want it and spec.restoreFrom, and lead clients there"),
    validation = ("!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)", "spec.restoreFrom can only be given when the object is created, and only be removed later: make another object, or a DatabaseRestore")
)]
pub struct RedisSpec {
    /// Number of replicas beside the one master, 0 to 20. Without a replica nothing can take over when the master fails.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 20))]
    pub replicas: i32,

    /// Version of Redis, 7.0 or later, such as 7.0.15: the tag of the image `redis`.
    #[serde(default = "default_version")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = (r"self.matches('^([7-9]|[1-9][0-9])[.][0-9]{1,3}([.][0-9]{1,3})?(-[a-z0-9.]{1,16})?$')", "spec.version must be a version of Redis from 7.0 on, such as 7.0.15: earlier ones cannot hand over without loss"))]
    pub version: String,

    /// Image to run in place of redis:<version>, such as valkey/valkey:8.1.4. It must speak as Redis 7.0 or later does and
    /// have sh and redis-server in its path; with flock, too, two processes never share a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// Modules that nodes load, in this order, such as `[{ path: /usr/local/lib/redis/modules/rejson.so }]`; none unless given.
    /// They must be in the image, also in that of a Redis whose backups are restored here. A change replaces the pods one by
    /// one. Remove a module only when no key is of its types: no node reads those without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
    pub modules: Vec<Module>,

    /// Where each node keeps its data.
    #[serde(default)]
    pub storage: Storage,

    /// Directives of redis.conf by name, such as `maxmemory: 1gb`. Those by which Causeway runs the nodes, such as
    /// `replicaof` or `dir`, are refused. Most take effect without a restart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 60, "additionalProperties" = { "type": "string", "maxLength": 512 }))]
    #[x_kube(
        validation = ("self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))", "spec.config keys must be directives of redis.conf in lower case, such as maxmemory-policy"),
        validation = (r"self.all(k, !self[k].matches('[\\r\\n]'))", "spec.config values must be of one line")
    )]
    pub config: BTreeMap<String, String>,

    /// How clients log in.
    #[serde(default)]
    pub auth: Auth,

    /// TLS at port 6379, for clients and among the nodes. It can only be turned on when the object is created, and not off:
    /// nodes with and without it cannot follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Who may connect to port 6379, and to 26379 with `sentinel`, as in the `from` of a `NetworkPolicy`, such as
    /// `[{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } } }]`. Left out, the pods of the
    /// namespace, and everybody where `service.type` or `replicaService.type` is not `ClusterIP`; `[]` stands for nobody. The operator, Jobs of
    /// backups and the nodes themselves are always let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "access::clients")]
    pub allowed_clients: Option<Vec<NetworkPolicyPeer>>,

    /// Whether there is a `NetworkPolicy` `<name>-access` that lets in `allowedClients` and nobody else: `Enabled` or
    /// `Disabled`. Left out, as the operator's option `NETWORK_POLICY` says: `Enabled` unless that is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicyMode>,

    /// CPU and memory of each node, such as `{ requests: { memory: 1Gi }, limits: { memory: 4Gi } }`. Left out, a node asks
    /// for 50m CPU and 64Mi, and takes 2Gi at most, or a third more than `config.maxmemory` if that is more. Unless
    /// `config.maxmemory` is given, it is three quarters of the memory limit: then writes are refused before the node is killed.
    /// Requests without limits, or `config.maxmemory: "0"`, leave memory unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Runs an exporter of Prometheus beside each node, at port 9121. Asking for it, or for another one, replaces the pods
    /// one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<Exporter>,

    /// Runs a program beside each node that answers clients as Redis Sentinel does, at port 26379, such as `{}`: for clients
    /// that find the master only that way. They ask at the Service `<name>-sentinel` for the master of this object's name.
    /// It fails nothing over: Causeway does. Asking for it, or no longer, replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Sentinel>,

    /// When a replica takes over, and when the master refuses writes because too few replicas follow.
    #[serde(default)]
    pub failover: FailoverPolicy,

    /// Moves the master, without losing a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switchover: Option<Switchover>,

    /// The backup that the nodes begin with. It can only be given when the object is created, which then owns a
    /// DatabaseRestore, and is ready once that succeeded. Where volumes of an earlier object of this name hold data,
    /// those stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<BackupChoice>,

    /// Labels of the nodes of Kubernetes that pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pods::tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Whether two pods may share a node of Kubernetes: `Preferred` keeps them apart where there are enough nodes,
    /// `Required` leaves a pod waiting rather than letting it share one.
    #[serde(default)]
    pub spread: Spread,

    /// Near whom and what pods may run, as in a pod. It takes the place of `spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::affinity")]
    pub affinity: Option<Affinity>,

    /// How pods are spread, as in a pod; a constraint without `labelSelector` counts the pods of this Redis. It takes the
    /// place of the default, by which they are spread over zones where there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::constraints")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Labels and annotations of the pods. A change replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<PodMetadata>,

    /// Secrets of the namespace with which images are pulled, as in a pod, such as `[{ name: registry }]`. A change replaces
    /// the pods one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,

    /// Service account of the pods, such as `redis`; that of the namespace, `default`, unless given. Its token is not
    /// mounted. A change replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self != 'causeway-backup'", "spec.serviceAccountName must not be causeway-backup: only Causeway's own image may get the role that writes backups"))]
    pub service_account_name: Option<String>,

    /// The Service that leads to the master, which has the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,

    /// The Service that leads to the replicas, which is called `<name>-replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_service: Option<ServiceTemplate>,

    /// What happens to the volumes when this object is deleted, `Retain` unless it is given: an object of the same name
    /// finds the data again.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,

    /// Stops everything but deletion: the nodes are left as they are, and nothing takes over when the master fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

impl RedisSpec {
    /// The image that nodes run.
    #[must_use]
    pub fn node_image(&self) -> String {
        self.image.clone().unwrap_or_else(|| format!("redis:{}", self.version))
    }
}

/// Where a node keeps its data.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.className) == has(oldSelf.className)", "spec.storage.className cannot change: volumes stay in the class they were made in"),
    validation = ("self.ephemeral == oldSelf.ephemeral", "spec.storage.ephemeral cannot change: make another object and move the data")
)]
pub struct Storage {
    /// Size of each node's volume. It may grow where the storage class allows that; it never shrinks.
    #[serde(default = "one_gibibyte")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = ("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))", "spec.storage.size must be a positive quantity such as 10Gi"),
        validation = ("!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0", "spec.storage.size cannot shrink: volumes only grow")
    )]
    pub size: String,

    /// Storage class of the volumes; the cluster's default where it is left out. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self == oldSelf", "spec.storage.className cannot change: volumes stay in the class they were made in"))]
    pub class_name: Option<String>,

    /// Keeps the data no longer than the pods live. When all pods are deleted at the same time, all data are gone.
    #[serde(default)]
    pub ephemeral: bool,
}

impl Default for Storage {
    fn default() -> Self {
        Self { size: one_gibibyte(), class_name: None, ephemeral: false }
    }
}

/// How clients log in.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.secretName) || self.enabled", "spec.auth.secretName needs spec.auth.enabled: true"))]
pub struct Auth {
    /// Clients must give a password, in key `password` of the Secret `<name>-auth`, which is made unless you name another.
    #[serde(default)]
    pub enabled: bool,

    /// Secret of yours with the password in key `password`. A changed password takes effect without a restart, and the
    /// earlier one stays good until the next change. Yours needs the label `causeway.example.com/usable-by: redis`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// An exporter of Prometheus.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    /// Image to run in place of `oliver006/redis_exporter:v1.88.0`: that exporter, v1.83.0 or later, or one that takes its
    /// environment variables. Earlier ones cannot close their endpoint `/scrape`, through which anybody who reaches port
    /// 9121 sends them anywhere. A pod whose exporter does not start is not ready, and nothing more is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = (r"!self.matches('\\s')", "spec.exporter.image must not contain white space: write it as registry/name:tag"),
        validation = ("!self.matches('redis_exporter:v?(0|1[.]([0-9]|[1-7][0-9]|8[0-2]))([.-]|$)')", "spec.exporter.image must be v1.83.0 or later: through /scrape of earlier ones anybody sends them anywhere")
    )]
    pub image: Option<String>,

    /// CPU and memory of each exporter. Left out, it asks for 10m CPU and 32Mi, and takes 128Mi at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,
}

impl Exporter {
    /// The image that it runs.
    #[must_use]
    pub fn running_image(&self) -> &str {
        self.image.as_deref().unwrap_or("oliver006/redis_exporter:v1.88.0")
    }
}

/// A program that answers as Redis Sentinel does.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sentinel {
    /// Image to run in place of the operator's own, such as `registry.example.com/causeway:0.1.0`: that of a Causeway that knows
    /// the command `sentinel`. A change replaces the pods one by one; another image of the operator itself does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.sentinel.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// CPU and memory of each of them. Left out, it asks for 10m CPU and 16Mi, and takes 64Mi at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,
}

/// When a replica takes over, and when the master refuses writes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailoverPolicy {
    /// How long a master may be silent, which the replicas must confirm, before it counts as hung: 1s to 300s, 2s unless
    /// given. A process that died is noticed at once.
    #[serde(default = "two_seconds")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('300s')", "spec.failover.hangTimeout must be 1s to 300s, such as 2s"))]
    pub hang_timeout: Duration,

    /// Replicas that must follow closely, or the master refuses writes: what bounds the loss when it is cut off. Left out,
    /// 1 from three replicas on, and 0 with fewer, where one that restarts would stop all writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 20))]
    pub min_replicas_to_write: Option<i32>,

    /// How long ago the master must have heard from a replica that follows closely: 2s to 300s, 10s unless given.
    #[serde(default = "ten_seconds")]
    #[x_kube(validation = ("duration(self) >= duration('2s') && duration(self) <= duration('300s')", "spec.failover.maxLag must be 2s to 300s, such as 10s"))]
    pub max_lag: Duration,

    /// How long to wait for the master to come back where no replica has all of its data: 5s to 24h, 60s unless given.
    /// Then the replica with the most data takes over, and writes that it lacks are lost.
    #[serde(default = "sixty_seconds")]
    #[x_kube(validation = ("duration(self) >= duration('5s') && duration(self) <= duration('24h')", "spec.failover.dataLossTimeout must be 5s to 24h, such as 60s"))]
    pub data_loss_timeout: Duration,
}

impl Default for FailoverPolicy {
    fn default() -> Self {
        Self {
            hang_timeout: two_seconds(),
            min_replicas_to_write: None,
            max_lag: ten_seconds(),
            data_loss_timeout: sixty_seconds(),
        }
    }
}

/// Where the master is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Switchover {
    /// Name of the pod that is to be the master, such as cache-1. It is done once for each value: a later failover stays
    /// where it went. To ask again, remove the field first.
    #[schemars(length(min = 1, max = 63))]
    pub master: String,
}

/// Whether two pods may share a node of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Spread {
    /// They are kept apart where there are enough.
    #[default]
    Preferred,
    /// A pod waits rather than sharing one.
    Required,
}

fn three() -> i32 {
    3
}

fn default_version() -> String {
    "7.0.15".into()
}

fn one_gibibyte() -> String {
    "1Gi".into()
}

fn two_seconds() -> Duration {
    Duration::from_seconds(2)
}

fn ten_seconds() -> Duration {
    Duration::from_seconds(10)
}

fn sixty_seconds() -> Duration {
    Duration::from_seconds(60)
}

fn retain() -> DeletionPolicy {
    DeletionPolicy::Retain
}
