//! `EtcdCluster`: an etcd that grows, heals and upgrades.

mod auth;
mod defrag;
mod downgrade;
mod status;
mod storage;
mod tls;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use auth::{Auth, AuthStatus};
pub use defrag::{Defrag, DefragStatus};
pub use downgrade::DowngradeStatus;
pub use status::{EtcdClusterStatus, MemberStatus, RecoveredRevisions, UnknownMember};
pub use storage::Storage;
pub use tls::{ClientTls, ClientTlsMode, PeerTls, Tls};

use super::access::{self, NetworkPolicyMode};
use super::common::DeletionPolicy;
use super::databaserestore::BackupChoice;
use super::pods::{ImagePullSecret, PodMetadata, ServiceTemplate};
use super::{placement, pods, quantities};

/// An etcd cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "mycompany.com",
    version = "v1alpha1",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    shortname = "etcd",
    category = "causeway",
    namespaced,
    status = "EtcdClusterStatus",
    doc = "An etcd cluster, reached by clients through the Service of its name at port 2379.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Quorate", type_ = "string", json_path = r#".status.conditions[?(@.type=="Quorate")].status"#),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.currentVersion"),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 46 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 46 lower case letters, digits and hyphens and begin with a letter: Services and pods are named after it"),
    validation = ("quantity(has(self.spec.storageSize) ? self.spec.storageSize : has(self.spec.storage) && has(self.spec.storage.size) ? self.spec.storage.size : '8Gi').compareTo(quantity(has(oldSelf.spec.storageSize) ? oldSelf.spec.storageSize : has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? oldSelf.spec.storage.size : '8Gi')) >= 0 || (has(oldSelf.status) && has(oldSelf.status.volumeSize) && isQuantity(oldSelf.status.volumeSize) && quantity(has(self.spec.storageSize) ? self.spec.storageSize : has(self.spec.storage) && has(self.spec.storage.size) ? self.spec.storage.size : '8Gi').compareTo(quantity(oldSelf.status.volumeSize)) >= 0)", "spec.storage.size (or spec.storageSize) cannot shrink: volumes only grow. A growth that failed can be taken back to what they have (status.volumeSize)")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.storageSize) || !has(self.storage) || !has(self.storage.size)", "spec.storageSize and spec.storage.size are the same: give one of the two"),
    validation = ("(has(self.storage) && has(self.storage.className) ? self.storage.className : '') == (has(oldSelf.storage) && has(oldSelf.storage.className) ? oldSelf.storage.className : '')", "spec.storage.className cannot change: volumes stay in the class they were made in"),
    validation = ("!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)", "spec.restoreFrom can only be given when the object is created, and only be removed later: make another object, or a DatabaseRestore")
)]
pub struct EtcdClusterSpec {
    /// Version of etcd, such as `3.5.9`. It can go up or down by one minor version at a time. The steps from 3.5 to 3.6
    /// and from 3.6 to 3.5 need 3.5.26 or a later 3.5.
    #[schemars(length(max = 16))]
    #[x_kube(validation = ("self.matches('^3[.][56][.][0-9]{1,3}$')", "spec.version must be a release of etcd 3.5 or 3.6, such as 3.5.9"))]
    pub version: String,

    /// Number of members: 1, 3, 5, 7 or 9; 3 unless given.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    #[x_kube(validation = ("self % 2 == 1", "spec.replicas must be odd (1, 3, 5, 7 or 9): an even number of members tolerates no more failures than one member less"))]
    pub replicas: i32,

    /// The volume of each member, such as `{ size: 10Gi, className: gp3 }`. Left out, `8Gi` of the Kubernetes cluster's
    /// default storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,

    /// Short for `storage.size`, such as `10Gi`. Give only one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-validations" = quantities::size("spec.storageSize", false)))]
    pub storage_size: Option<String>,

    /// Image to run instead of `quay.io/coreos/etcd:v<version>`, such as `registry.example.com/etcd:v3.5.9`. It must
    /// contain etcd of the given `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// CPU and memory of each member, such as `{ requests: { memory: 2Gi }, limits: { memory: 4Gi } }`. Left out, a
    /// member requests 50m CPU and 64Mi memory, and its memory limit is 2Gi plus four times
    /// `config.quota-backend-bytes` (2Gi unless given), so 10Gi by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Flags of etcd by name, without the leading hyphens, such as `quota-backend-bytes: "8589934592"`. Causeway
    /// refuses the flags that it sets itself to run the members, such as `name` and `initial-cluster`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    #[x_kube(validation = ("self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))", "spec.config keys must be flags of etcd without the leading hyphens, such as quota-backend-bytes"))]
    pub config: BTreeMap<String, String>,

    /// TLS between the members (`peer`) and between clients and members (`client`), such as `{ peer: {}, client: {} }`.
    /// Left out, no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Requires clients to log in, such as `{ enabled: true }`. Left out, they need not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auth: Auth,

    /// Clients that may connect to port 2379, in the form of a `NetworkPolicy`'s `from`, such as
    /// `[{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } } }]`. Left out, all pods of the namespace
    /// may connect, or every client if `service.type` is not `ClusterIP`. With `[]` no client may. The operator, Jobs of
    /// backups and the members themselves can always connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "access::clients")]
    pub allowed_clients: Option<Vec<NetworkPolicyPeer>>,

    /// Decides whether Causeway creates the `NetworkPolicy` `<name>-access`, which allows connections from `allowedClients`
    /// only: `Enabled` or `Disabled`. Left out, the operator's option `NETWORK_POLICY` decides, which is `Enabled` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicyMode>,

    /// When snapshots are taken: a cron schedule of five fields in UTC, such as `0 2 * * *`. The cluster then owns a
    /// DatabaseBackup. Left out, none are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = (r"self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.matches('^[0-9*][0-9*,/-]* +[0-9*][0-9*,/-]* +[0-9*][0-9*,/-]* +[0-9A-Za-z*][0-9A-Za-z*,/-]* +[0-9A-Za-z*][0-9A-Za-z*,/-]*$')", "spec.backupSchedule must be a cron schedule of five fields, such as 0 2 * * *"))]
    pub backup_schedule: Option<String>,

    /// The backup that the new cluster starts with, such as `{ backup: nightly }`. You can give it only when you create
    /// the object. The cluster then owns a DatabaseRestore, and becomes ready when that has succeeded. If the volumes
    /// hold data of an earlier object of this name, the cluster keeps these data and restores nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<BackupChoice>,

    /// Defragments the members on a schedule, to give unused space back to the volumes, such as
    /// `{ schedule: "0 3 * * *" }`. Left out, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defrag: Option<Defrag>,

    /// Labels that a Kubernetes node must have to run a member, such as `{ disktype: ssd }`. Left out, any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the members' pods tolerate, as in a pod, such as `[{ key: dedicated, operator: Exists }]`. Left out,
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pods::tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Affinity of the members' pods, as in a pod. It replaces the default, which places the members on different nodes
    /// if there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::affinity")]
    pub affinity: Option<Affinity>,

    /// Topology spread constraints of the members' pods, as in a pod, at most 10; `[]` means none. A constraint without
    /// `labelSelector` counts the members. They replace the default, which spreads the members over zones if there are
    /// enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::constraints")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the members' pods, such as `databases`. Left out, the Kubernetes cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Labels and annotations of the members' pods, such as `{ labels: { team: shop } }`. A change replaces the pods
    /// one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<PodMetadata>,

    /// Secrets of the namespace that are used to pull images, as in a pod, such as `[{ name: registry }]`. A change
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,

    /// Service account of the pods, such as `etcd`; `default` unless given. The annotation
    /// `causeway.example.com/service-accounts` of the Namespace must list it. Its token is not mounted. A change
    /// replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self != 'causeway-backup'", "spec.serviceAccountName must not be causeway-backup: only Causeway's own image may get the role that writes backups"))]
    pub service_account_name: Option<String>,

    /// The Service for clients, which has the name of this object, such as `{ type: NodePort }`. Left out, `ClusterIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,

    /// Rebuilds the cluster from the data of one member, after the majority was lost for good, such as
    /// `{ fromMember: prod-etcd-1, token: "2026-11-22" }`. Writes that only the lost members had are lost. While a
    /// majority answers, a recovery has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,

    /// Also removes members that others added and that have run; `false` unless given. Members that others added and that never
    /// started are always removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove_unknown_members: bool,

    /// Decides what happens to the volumes when this object is deleted: `Retain` (the default) or `Delete`. A new object of the
    /// same name uses the retained data.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,

    /// Stops all changes except deletion; `false` unless given. The members keep running as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

impl EtcdClusterSpec {
    /// The image that members run: that of etcd's makers unless another is given.
    #[must_use]
    pub fn member_image(&self) -> String {
        self.image.clone().unwrap_or_else(|| published_image(&self.version))
    }
}

/// The image of a version by etcd's makers.
#[must_use]
pub fn published_image(version: &str) -> String {
    format!("quay.io/coreos/etcd:v{version}")
}

/// Rebuilds a cluster from one member.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Name of the member whose data are kept, such as `prod-etcd-1`. The data of the other members are deleted, and
    /// they join it again.
    #[schemars(length(min = 1, max = 63))]
    pub from_member: String,

    /// Any text, such as today's date. Each new text starts another recovery; the same text never starts a second one.
    #[schemars(length(min = 1, max = 63))]
    pub token: String,

    /// Image with the etcd and etcdutl that skip revisions, such as `quay.io/coreos/etcd:v3.5.35`. It must contain a
    /// release of the same minor version. Left out, the members' own image is used; that of 3.5.9 cannot skip
    /// revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.recovery.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,
}

fn is_default(auth: &Auth) -> bool {
    *auth == Auth::default()
}

fn three() -> i32 {
    3
}

fn retain() -> DeletionPolicy {
    DeletionPolicy::Retain
}
