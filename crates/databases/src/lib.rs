//! Databases whose nodes are the pods of one `StatefulSet`: the plumbing that [`EtcdCluster`](causeway_api::EtcdCluster) and
//! [`Redis`](causeway_api::Redis) share. Each kind decides by itself what a node is, who leads, and in which order pods are
//! replaced: those decisions only look alike.
//!
//! ```text
//! shared watches ──▶ Sets::look ──▶ Set ──▶ the kind decides ──▶ ChildAction ──▶ Sets::carry_out
//! ```
//!
//! A kind declares what is its own with [`Database`].

pub mod action;
mod apply;
pub mod asks;
pub mod builders;
pub mod child_fields;
pub mod error;
pub mod etcd;
pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod foreign;
pub mod last_worked;
pub mod listeners;
pub mod memory_risk;
pub mod names;
pub mod network;
pub mod node_failure;
pub mod password;
pub mod placement;
pub mod pod_refusal;
pub mod pod_trouble;
mod proof;
mod reading;
pub mod redis;
pub mod refusals;
pub mod restore_from;
pub mod revival;
pub mod rivals;
pub mod rules;
#[cfg(any(test, feature = "testing"))]
pub mod runbooks;
pub mod sets;
#[cfg(any(test, feature = "testing"))]
pub mod simulation;
pub mod step;
mod strays;
pub mod tls;
pub mod unlabelled;
pub mod wake;

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Affinity, Pod as CorePod, Toleration, TopologySpreadConstraint};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;

pub use action::ChildAction;
pub use error::Error;
pub use facts::{Child, Claim, Pod, Set};
pub use rules::Rules;
pub use sets::Sets;
pub use step::Step;

use causeway_api::DeletionPolicy;
use causeway_api::access::NetworkPolicyMode;
use causeway_api::databaserestore::{BackupChoice, Restorable, Restored};
use causeway_api::pods::{ImagePullSecret, PodMetadata};
use causeway_runtime::child_watch::Owner;
use causeway_runtime::guardrails::Ask;
use causeway_runtime::quantity::amount;

/// A kind of databases in `StatefulSet`s. The type that implements it stands for the kind and holds nothing.
pub trait Database {
    /// The custom resource that asks for such a database.
    type Object: Owner + Restorable;
    /// The facts about a pod that only this kind needs.
    type Node: Clone + Debug + Default + PartialEq + Send + Sync;

    /// Label of every child, with the object's name.
    const LABEL: &'static str;
    /// The program that runs: the name of its container, and the value of the label `app.kubernetes.io/name`.
    const APP: &'static str;
    /// The field with the size of volumes.
    const SIZE: &'static str;
    /// The fields that say who reaches its Services.
    const SERVICES: &'static str;
    /// The reason while the apiserver refuses the pods that the spec asks for.
    const PODS_REFUSED: &'static str;
    /// True if the settings that processes start with are in a `ConfigMap`.
    const SETTINGS_MAP: bool;
    /// Where its pods are reached.
    const PORTS: network::Ports;

    /// Reads the facts about a pod that only this kind needs, as far as Kubernetes knows it.
    fn node(pod: &CorePod) -> Self::Node;

    /// Names of the Services that it may have, and whether the spec asks for each.
    fn services(object: &Self::Object) -> Vec<(String, bool)>;

    /// One more than the highest ordinal that a pod may have, by what the object says and records, and by its volumes.
    fn ordinals(object: &Self::Object, claims: &BTreeMap<i32, Claim>) -> i32;

    /// Reports whether its nodes have had data.
    fn has_begun(object: &Self::Object) -> bool;

    /// The outcome of the restore that it begins with, as recorded.
    fn restored(object: &Self::Object) -> Option<&Restored>;

    /// Lists the requests of the spec that policies may be about.
    fn asks(object: &Self::Object) -> Vec<Ask>;

    /// The fields of its spec that every database has.
    fn set_spec(object: &Self::Object) -> SetSpec<'_>;
}

/// The fields of a spec that every database has.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a spec")]
pub struct SetSpec<'a> {
    /// The backup that it begins with.
    pub restore_from: Option<&'a BackupChoice>,
    /// Storage class of the volumes; the cluster's default where there is none.
    pub storage_class: Option<&'a String>,
    /// How large each volume is, as a quantity.
    pub storage_size: &'a str,
    /// There are no volumes: data are lost with the pod.
    pub ephemeral: bool,
    /// Decides whether volumes are deleted with the object.
    pub deletion_policy: DeletionPolicy,
    /// Labels of the nodes of Kubernetes that pods may run on.
    pub node_selector: &'a BTreeMap<String, String>,
    /// Taints that pods tolerate.
    pub tolerations: &'a [Toleration],
    /// Takes the place of the rule that keeps pods apart.
    pub affinity: Option<&'a Affinity>,
    /// Takes the place of the rule that spreads pods over zones.
    pub constraints: Option<&'a Vec<TopologySpreadConstraint>>,
    /// A pod waits rather than share a node of Kubernetes with another.
    pub alone: bool,
    /// Which pods give way to its own.
    pub priority_class: Option<&'a String>,
    /// Labels and annotations of the pods.
    pub pod_metadata: Option<&'a PodMetadata>,
    /// Secrets with which images are pulled.
    pub image_pull_secrets: &'a [ImagePullSecret],
    /// The pods' service account.
    pub service_account: Option<&'a String>,
    /// Clients must log in.
    pub auth: bool,
    /// The field to set, and how, so that no client connects without TLS; `None` if none can.
    pub lacks_tls: Option<&'static str>,
    /// Another port for clients.
    pub second_port: Option<u16>,
    /// The clients that may connect, where the spec names them.
    pub allowed_clients: Option<&'a Vec<NetworkPolicyPeer>>,
    /// The choice of a network policy, where the spec says so.
    pub network_policy: Option<NetworkPolicyMode>,
    /// A Service leads to it from outside of the Kubernetes cluster.
    pub published: bool,
}

/// Returns the storage that the volumes of that many nodes ask for, in thousandths of a byte. Ephemeral ones count,
/// too: they take the space of Kubernetes' nodes. A size that cannot be parsed counts as the maximum.
pub fn storage<D: Database>(object: &D::Object, nodes: i32) -> i128 {
    amount(D::set_spec(object).storage_size).unwrap_or(i128::MAX).saturating_mul(nodes.into())
}

/// A password that cannot be guessed.
pub fn random_password() -> Result<String, Error> {
    let mut bytes = [0; 24];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(hex::encode(bytes))
}
