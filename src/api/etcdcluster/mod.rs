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
use super::{placement, pods};

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
    validation = ("self.metadata.name.size() <= 46 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')", "metadata.name must have at most 46 lower case letters, digits and hyphens and begin with a letter: Services and pods are called after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.storageSize) || !has(self.storage) || !has(self.storage.size)", "spec.storageSize and spec.storage.size are the same: give one of the two"),
    validation = ("quantity(has(self.storageSize) ? self.storageSize : has(self.storage) && has(self.storage.size) ? self.storage.size : '8Gi').compareTo(quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : has(oldSelf.storage) && has(oldSelf.storage.size) ? oldSelf.storage.size : '8Gi')) >= 0", "spec.storage.size (or spec.storageSize) cannot shrink: volumes only grow"),
    validation = ("(has(self.storage) && has(self.storage.className) ? self.storage.className : '') == (has(oldSelf.storage) && has(oldSelf.storage.className) ? oldSelf.storage.className : '')", "spec.storage.className cannot change: volumes stay in the class they were made in"),
    validation = ("!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && self.restoreFrom == oldSelf.restoreFrom)", "spec.restoreFrom can only be given when the object is created, and only be removed later: make another object, or a DatabaseRestore")
)]
pub struct EtcdClusterSpec {
    /// Version of etcd, such as 3.5.9. It may go up and back by one minor version at a time: from 3.5 to 3.6 and from 3.6 to
    /// 3.5 only with 3.5.26 or a later 3.5.
    #[schemars(length(max = 16))]
    #[x_kube(validation = ("self.matches('^3[.][56][.][0-9]{1,3}$')", "spec.version must be a release of etcd 3.5 or 3.6, such as 3.5.9"))]
    pub version: String,

    /// Number of members: 1, 3, 5, 7 or 9.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    #[x_kube(validation = ("self % 2 == 1", "spec.replicas must be odd (1, 3, 5, 7 or 9): an even member adds no tolerance of failures, only another one that can fail"))]
    pub replicas: i32,

    /// Where each member keeps its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,

    /// Short for `storage.size`, such as `10Gi`; only one of the two can be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = ("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))", "spec.storageSize must be a positive quantity such as 10Gi"))]
    pub storage_size: Option<String>,

    /// Image to run in place of quay.io/coreos/etcd:v<version>. It must hold the version that `version` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.image must not contain white space: write it as registry/name:tag"))]
    pub image: Option<String>,

    /// CPU and memory of each member, such as `{ requests: { memory: 2Gi }, limits: { memory: 4Gi } }`. Left out, a member
    /// asks for 50m CPU and 64Mi, and takes at most 2Gi and four times `config.quota-backend-bytes`, which is 2Gi unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods::resources")]
    pub resources: Option<ResourceRequirements>,

    /// Flags of etcd by their names without the leading hyphens, such as `quota-backend-bytes: "8589934592"`. Those by
    /// which Causeway runs the members, such as `name` or `initial-cluster`, are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    #[x_kube(validation = ("self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))", "spec.config keys must be flags of etcd without the leading hyphens, such as quota-backend-bytes"))]
    pub config: BTreeMap<String, String>,

    /// TLS among the members, and between them and their clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Whether clients must log in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auth: Auth,

    /// Who may connect to port 2379, as in the `from` of a `NetworkPolicy`, such as
    /// `[{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } } }]`. Left out, the pods of the
    /// namespace, and everybody where `service.type` is not `ClusterIP`; `[]` stands for nobody. The operator, Jobs of
    /// backups and the members themselves are always let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "access::clients")]
    pub allowed_clients: Option<Vec<NetworkPolicyPeer>>,

    /// Whether there is a `NetworkPolicy` `<name>-access` that lets in `allowedClients` and nobody else: `Enabled` or
    /// `Disabled`. Left out, as the operator's option `NETWORK_POLICY` says: `Enabled` unless that is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicyMode>,

    /// When snapshots are taken, as a cron schedule of five fields in UTC, such as `0 2 * * *`. The cluster then owns a
    /// DatabaseBackup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = (r"self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.matches('^[0-9*][0-9*,/-]* +[0-9*][0-9*,/-]* +[0-9*][0-9*,/-]* +[0-9A-Za-z*][0-9A-Za-z*,/-]* +[0-9A-Za-z*][0-9A-Za-z*,/-]*$')", "spec.backupSchedule must be a cron schedule of five fields, such as 0 2 * * *"))]
    pub backup_schedule: Option<String>,

    /// The backup that the cluster begins with. It can only be given when the object is created; the cluster then owns a
    /// DatabaseRestore, and is ready once that succeeded. Where volumes of an earlier object of this name hold data,
    /// those stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<BackupChoice>,

    /// When members give back space that they do not use; never unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defrag: Option<Defrag>,

    /// Labels of the nodes that members may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that members tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pods::tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Near whom and what members may run, as in a pod. It takes the place of the default, by which members keep to
    /// different nodes where there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::affinity")]
    pub affinity: Option<Affinity>,

    /// How members are spread, as in a pod; a constraint without `labelSelector` counts the members. It takes the place of
    /// the default, by which they are spread over zones where there are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "placement::constraints")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the members' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Labels and annotations of the members' pods. A change replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<PodMetadata>,

    /// Secrets of the namespace with which images are pulled, as in a pod, such as `[{ name: registry }]`. A change replaces
    /// the pods one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,

    /// Service account of the pods, such as `etcd`; that of the namespace, `default`, unless given. Its token is not
    /// mounted. A change replaces the pods one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self != 'causeway-backup'", "spec.serviceAccountName must not be causeway-backup: only Causeway's own image may get the role that writes backups"))]
    pub service_account_name: Option<String>,

    /// The Service for clients, which has the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,

    /// Begins the cluster anew from what one member has, after the majority was lost for good. Writes that only the lost
    /// members had are lost. Asked for while a majority answers, it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,

    /// Removes members that somebody else added to the cluster, also those that have run. Such that have never started are
    /// removed in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove_unknown_members: bool,

    /// What happens to the volumes when this object is deleted, `Retain` unless it is given: an object of the same name
    /// finds the data again.
    #[serde(default = "retain")]
    pub deletion_policy: DeletionPolicy,

    /// Stops everything but deletion: the members are left as they are.
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

/// A cluster begun anew from one member.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Name of the member whose data are kept, such as prod-etcd-1. The others are emptied and follow it.
    #[schemars(length(min = 1, max = 63))]
    pub from_member: String,

    /// Any text, such as today's date. Another text asks for another recovery; the same one is never done twice.
    #[schemars(length(min = 1, max = 63))]
    pub token: String,

    /// Image with the etcd and the etcdutl by which revisions are skipped, unless the members' own image is to do it: that
    /// of 3.5.9 cannot. It must hold a release of the same minor version, such as quay.io/coreos/etcd:v3.5.35.
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
