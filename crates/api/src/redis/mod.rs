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
use super::{Duration, placement, pods, quantities};

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
    validation = ("self.metadata.name.size() <= 46 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 46 lower case letters, digits and hyphens and begin with a letter: Services and pods are named after it"),
    validation = ("!has(self.spec.storage) || !has(oldSelf.spec.storage) || !isQuantity(self.spec.storage.size) || !isQuantity(oldSelf.spec.storage.size) || quantity(self.spec.storage.size).compareTo(quantity(oldSelf.spec.storage.size)) >= 0 || (has(oldSelf.status) && has(oldSelf.status.volumeSize) && isQuantity(oldSelf.status.volumeSize) && quantity(self.spec.storage.size).compareTo(quantity(oldSelf.status.volumeSize)) >= 0)", "spec.storage.size cannot shrink: volumes only grow. A growth that failed can be taken back to what they have (status.volumeSize)")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.affinity) || self.spread != 'Required'", "spec.affinity replaces spec.spread: remove spec.spread: Required, and require it in spec.affinity.podAntiAffinity"),
    validation = ("has(self.tls) == has(oldSelf.tls)", "spec.tls cannot be turned on or off in an existing Redis: create another Redis with the spec.tls that you want and spec.restoreFrom, and move the clients to it"),
    validation = ("!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)", "spec.restoreFrom can only be given when the object is created, and only be removed later: make another object, or a DatabaseRestore")
)]
pub struct RedisSpec {
    /// Number of replicas, without the master: 0 to 20, 3 unless given. Without a replica nothing can take over when
    /// the master fails.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 20))]
    pub replicas: i32,

    /// Version of Redis, 7.0 or later, such as `7.0.15` (the default): the tag of the image `redis`.
    #[serde(default = "default_version")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = (r"self.matches('^([7-9]|[1-9][0-9])[.][0-9]{1,3}([.][0-9]{1,3})?(-[a-z0-9.]{1,16})?$')", "spec.version must be a version of Redis from 7.0 on, such as 7.0.15: earlier ones cannot hand over without loss"))]
    pub version: String,

    /// Image to run instead of `redis:<version>`, such as `valkey/valkey:8.1.4`. It must be compatible with Redis 7.0
    /// or later and have `sh` and `redis-server` in its `PATH`. If it also has `flock`, two processes never use the
    /// same volume at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// Modules that the nodes load, in this order, such as `[{ path: /usr/local/lib/redis/modules/rejson.so }]`. Left
    /// out, none. They must be in the image. A Redis that restores a backup must have the modules of the Redis that was
    /// backed up. A change replaces the pods one by one. Remove a module only when no key uses its data types: without
    /// the module no node can read such keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
    pub modules: Vec<Module>,

    /// The volume of each node, such as `{ size: 10Gi, className: gp3 }`. Left out, `1Gi` of the Kubernetes cluster's
    /// default storage class.
    #[serde(default)]
    pub storage: Storage,

    /// Directives of redis.conf by name, such as `maxmemory: 1gb`. Causeway refuses the directives that it sets itself
    /// to run the nodes, such as `replicaof` and `dir`. Most directives take effect without a restart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 60, "additionalProperties" = { "type": "string", "maxLength": 512 }))]
    #[x_kube(
        validation = ("self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))", "spec.config keys must be directives of redis.conf in lower case, such as maxmemory-policy"),
        validation = (r"self.all(k, !self[k].matches('[\\r\\n]'))", "spec.config values must not contain line breaks")
    )]
    pub config: BTreeMap<String, String>,

    /// Requires clients to give a password, such as `{ enabled: true }`. Left out, they need not.
    #[serde(default)]
    pub auth: Auth,

    /// TLS at port 6379, for clients and between the nodes, such as `{}`. Left out, no TLS. You can turn it on only
    /// when you create the object, and not off: nodes with and without TLS cannot replicate from each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Clients that may connect to port 6379, and to 26379 with `sentinel`, in the form of a `NetworkPolicy`'s `from`, such as
    /// `[{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } } }]`. Left out, all pods of the namespace
    /// may connect, or every client if `service.type` or `replicaService.type` is not `ClusterIP`. With `[]` no client may. The
    /// operator, Jobs of backups and the nodes themselves can always connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "access::clients")]
    pub allowed_clients: Option<Vec<NetworkPolicyPeer>>,

    /// Decides whether Causeway creates the `NetworkPolicy` `<name>-access`, which allows connections from `allowedClients`
    /// only: `Enabled` or `Disabled`. Left out, the operator's option `NETWORK_POLICY` decides, which is `Enabled` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicyMode>,

    /// CPU and memory of each node, such as `{ requests: { memory: 1Gi }, limits: { memory: 4Gi } }`. Left out, a node
    /// requests 50m CPU and 64Mi memory, and its memory limit is 2Gi, or a third more than `config.maxmemory` if that
    /// is more. Unless you give `config.maxmemory`, it is three quarters of the memory limit, so that Redis refuses
    /// writes before the kernel kills the node. Requests without limits, or `config.maxmemory: "0"`, leave memory
    /// unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Runs a Prometheus exporter beside each node, at port 9121, such as `{}`. Left out, none. Adding or changing it
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<Exporter>,

    /// Runs a program beside each node that answers clients as Redis Sentinel does, at port 26379, such as `{}`: for
    /// clients that find the master only through Sentinel. They ask the Service `<name>-sentinel` for the master with
    /// the name of this object. The program does not fail over: Causeway does. Left out, none. Adding or removing it
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Sentinel>,

    /// When a replica takes over, and when the master refuses writes because too few replicas follow it, such as
    /// `{ hangTimeout: 5s }`.
    #[serde(default)]
    pub failover: FailoverPolicy,

    /// Makes another pod the master, without losing a write, such as `{ master: cache-1 }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switchover: Option<Switchover>,

    /// The backup that the new nodes start with, such as `{ backup: nightly }`. You can give it only when you create
    /// the object. The Redis then owns a DatabaseRestore, and becomes ready when that has succeeded. If the volumes
    /// hold data of an earlier object of this name, the Redis keeps these data and restores nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<BackupChoice>,

    /// Labels that a Kubernetes node must have to run a pod, such as `{ disktype: ssd }`. Left out, any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the pods tolerate, as in a pod, such as `[{ key: dedicated, operator: Exists }]`. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pods::tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Decides whether two pods may share a Kubernetes node. `Preferred` (the default) places them on different nodes if there
    /// are enough. `Required` leaves a pod pending rather than letting it share a node.
    #[serde(default)]
    pub spread: Spread,

    /// Affinity of the pods, as in a pod. It replaces `spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::affinity")]
    pub affinity: Option<Affinity>,

    /// Topology spread constraints of the pods, as in a pod; `[]` means none. A constraint without `labelSelector`
    /// counts the pods of this Redis. They replace the default, which spreads the pods over zones if there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::constraints")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the pods, such as `databases`. Left out, the Kubernetes cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Labels and annotations of the pods, such as `{ labels: { team: shop } }`. A change replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<PodMetadata>,

    /// Secrets of the namespace that are used to pull images, as in a pod, such as `[{ name: registry }]`. A change
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,

    /// Service account of the pods, such as `redis`; `default` unless given. The annotation
    /// `causeway.example.com/service-accounts` of the Namespace must list it. Its token is not mounted. A change
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self != 'causeway-backup'", "spec.serviceAccountName must not be causeway-backup: only Causeway's own image may get the role that writes backups"))]
    pub service_account_name: Option<String>,

    /// The Service of the master, which has the name of this object, such as `{ type: NodePort }`. Left out,
    /// `ClusterIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,

    /// The Service of the replicas, `<name>-replicas`, such as `{ trafficDistribution: PreferClose }`. Left out,
    /// `ClusterIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_service: Option<ServiceTemplate>,

    /// Decides what happens to the volumes when this object is deleted: `Retain` (the default) or `Delete`. A new object of the
    /// same name uses the retained data.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,

    /// Stops all changes except deletion; `false` unless given. The nodes keep running as they are, and no replica
    /// takes over when the master fails.
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

/// The volume of a node.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.className) == has(oldSelf.className)", "spec.storage.className cannot change: volumes stay in the class they were made in"),
    validation = ("self.ephemeral == oldSelf.ephemeral", "spec.storage.ephemeral cannot change: make another object and move the data")
)]
pub struct Storage {
    /// Size of each node's volume, such as `10Gi`; `1Gi` unless given. It can grow if the storage class allows it. It
    /// cannot shrink below what the volumes have: `status.volumeSize`.
    #[serde(default = "one_gibibyte")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-validations" = quantities::size("spec.storage.size", false)))]
    pub size: String,

    /// Storage class of the volumes, such as `gp3`. Left out, the Kubernetes cluster's default. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self == oldSelf", "spec.storage.className cannot change: volumes stay in the class they were made in"))]
    pub class_name: Option<String>,

    /// Keeps the data only as long as the pods live; `false` unless given. If all pods are deleted at the same time,
    /// all data are lost. It cannot change.
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
    /// Requires clients to give a password; `false` unless given. The password is in key `password` of the Secret
    /// `<name>-auth`, which Causeway creates unless `secretName` names another.
    #[serde(default)]
    pub enabled: bool,

    /// Name of your own Secret with the password in key `password`, such as `cache-password`. It needs the label
    /// `causeway.example.com/usable-by: redis`. A changed password takes effect without a restart, and the previous one
    /// remains valid until the next change. Left out, Causeway creates the Secret `<name>-auth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// A Prometheus exporter.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    /// Image to run instead of `oliver006/redis_exporter:v1.88.0`: v1.83.0 or later of that exporter, or one that takes the
    /// same environment variables. Earlier versions cannot close their endpoint `/scrape`, with which every client that can
    /// reach port 9121 makes the exporter connect to any address. While an exporter does not start, its pod is not ready, and
    /// Causeway replaces no further pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = (r"!self.matches('\\s')", "spec.exporter.image must not contain white space: write it as registry/name:tag"),
        validation = ("!self.matches('redis_exporter:v?(0|1[.]([0-9]|[1-7][0-9]|8[0-2]))([.-]|$)')", "spec.exporter.image must be v1.83.0 or later: before it, the endpoint /scrape lets any client make the exporter connect to any address")
    )]
    pub image: Option<String>,

    /// CPU and memory of each exporter, such as `{ limits: { memory: 256Mi } }`. Left out, it requests 10m CPU and 32Mi
    /// memory, and its memory limit is 128Mi.
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
    /// Image to run instead of the operator's own, such as `registry.example.com/causeway:0.1.0`. It must be a version
    /// of Causeway that has the command `sentinel`. A change of this field replaces the pods one by one; an upgrade of
    /// the operator does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.sentinel.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// CPU and memory of each of these programs, such as `{ limits: { memory: 128Mi } }`. Left out, it requests 10m CPU
    /// and 16Mi memory, and its memory limit is 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,
}

/// When a replica takes over, and when the master refuses writes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailoverPolicy {
    /// How long a master may not answer, confirmed by the replicas, before it counts as hung, such as `5s`: 1s to 300s;
    /// 2s unless given. Causeway notices at once when the process of a master dies, whatever this says.
    #[serde(default = "two_seconds")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('300s')", "spec.failover.hangTimeout must be 1s to 300s, such as 2s"))]
    pub hang_timeout: Duration,

    /// Number of replicas that must follow closely, such as `1`: 0 to 20. With fewer, the master refuses writes, which
    /// limits how many writes are lost when the master is cut off. Left out, it is 1 with three or more replicas, and
    /// otherwise 0, because the restart of one replica would stop all writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 20))]
    pub min_replicas_to_write: Option<i32>,

    /// A replica follows closely only if the master has heard from it within this time, such as `5s`: 2s to 300s; 10s
    /// unless given.
    #[serde(default = "ten_seconds")]
    #[x_kube(validation = ("duration(self) >= duration('2s') && duration(self) <= duration('300s')", "spec.failover.maxLag must be 2s to 300s, such as 10s"))]
    pub max_lag: Duration,

    /// How long to wait for a failed master to return if no replica has all of its data, such as `5m`: 5s to 24h; 60s
    /// unless given. Then the replica with the most data takes over, and the writes that it lacks are lost.
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

/// Which pod becomes the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Switchover {
    /// Name of the pod that becomes the master, such as `cache-1`. Causeway switches over once for each value: it does
    /// not undo a later failover. To switch over to the same pod again, remove the field first.
    #[schemars(length(min = 1, max = 63))]
    pub master: String,
}

/// Decides whether two pods may share a Kubernetes node.
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
