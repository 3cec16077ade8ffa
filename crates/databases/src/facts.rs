//! The facts about a database's children, pods and volumes, as Kubernetes has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use causeway_runtime::guardrails::{Denial, Required};
use causeway_runtime::manifest::is_controlled_by;
use causeway_runtime::quantity::amount;

use crate::pod_trouble::{Evidence, Unmade};
use crate::restore_from::Seen;
use crate::rivals::Rival;
use crate::{Database, Rules};

/// All that is known. `N` is what matters of a pod to one kind alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set<N> {
    /// The operator's options for all databases.
    pub rules: Arc<Rules>,
    /// The demands of the namespace.
    pub required: Required,
    /// The refusal of the spec by a policy.
    pub denied: Option<Denial>,
    /// Services, `ConfigMap`, disruption budget, network policy and `StatefulSet` of our names, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The pods, by ordinal.
    pub pods: BTreeMap<i32, Pod<N>>,
    /// Disruption budgets of others that select the pods.
    pub rivals: Vec<Rival>,
    /// A pod that is missing, and that the apiserver refuses.
    pub unmade: Option<Unmade>,
    /// A pod that is missing, and that the apiserver refused before and accepts now.
    pub makeable: Option<String>,
    /// The revision of a spec whose pods the apiserver refused before and accepts now.
    pub acceptable: Option<String>,
    /// The volume claims, by ordinal.
    pub claims: BTreeMap<i32, Claim>,
    /// Pods and claims of our names that belong to others, by ordinal, with the message about them.
    pub foreign: BTreeMap<i32, String>,
    /// The `DatabaseRestore` of our name.
    pub restore: Seen,
}

/// A child as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The object, as far as it was read.
    pub value: Value,
    /// The uid of the object.
    pub uid: String,
    /// True if our object controls it.
    pub ours: bool,
}

/// The facts about a pod that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct Pod<N> {
    /// The name of the pod.
    pub name: String,
    /// Its uid, so that an action cannot hit a successor of the same name.
    pub uid: String,
    /// The revision it was made from.
    pub revision: String,
    /// When the restart was asked for after which it was made, as `kubectl rollout restart` has it.
    pub restarted: Option<String>,
    /// The IP address at which it answers.
    pub address: Option<String>,
    /// Kubernetes considers it ready. It does not if the kubelet does not answer, or another container is not ready.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// A `StatefulSet` controls it.
    pub controlled: bool,
    /// A user took our label off.
    pub unlabelled: bool,
    /// It was created, or began to terminate, moments ago.
    pub young: bool,
    /// It has had a node for a while.
    pub placed: bool,
    /// When it was made.
    pub made: Option<Timestamp>,
    /// Until one of its containers has started: kinds and names of the objects that they read first.
    pub reads: BTreeSet<(&'static str, String)>,
    /// Its container runs, or ended a moment ago and does not wait for its next start yet. What is said of the pod's trouble
    /// is then about another container.
    pub runs: bool,
    /// Its container has been started.
    pub has_run: bool,
    /// Its container has run for a while.
    pub lasts: bool,
    /// Its container is in a long restart back-off.
    pub waits_long: bool,
    /// The last output of its process before it gave up; `None` while it runs well.
    pub last_words: Option<String>,
    /// The exit code of that process.
    pub exit_code: Option<i32>,
    /// How often it was started again.
    pub restarts: i32,
    /// The reason why it does not start, in the kubelet's or scheduler's word.
    pub trouble: Option<String>,
    /// Further words of Kubernetes about that.
    pub evidence: Evidence,
    /// How its process was killed, if its container is in a long restart back-off, and another pod may help.
    pub revival: Option<String>,
    /// Its node of Kubernetes, where that does not answer any more.
    pub lost_node: Option<String>,
    /// The facts that only one kind needs.
    pub own: N,
}

/// The facts about a volume claim that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a claim")]
pub struct Claim {
    /// The name of the claim.
    pub name: String,
    /// The uid of the claim, so that an action cannot hit a successor.
    pub uid: String,
    /// It was made for this very object, and not for an earlier one of its name.
    pub ours: bool,
    /// An earlier object of the name left it, and this one has used it since.
    pub adopted: bool,
    /// A user took our label off.
    pub unlabelled: bool,
    /// The member whose data it holds, where that was noted.
    pub member: Option<u64>,
    /// The last epoch in which its node was the master, where that was noted.
    pub epoch: Option<i64>,
    /// It is being deleted.
    pub terminating: bool,
    /// It has a volume.
    pub bound: bool,
    /// The size that it asks for, as a quantity.
    pub size: String,
    /// How large its volume is.
    pub capacity: String,
}

impl<N> Set<N> {
    /// Explains what the operator, or a policy, does not allow of a spec: a reason, and a sentence that names the field and the
    /// fix.
    pub fn complaint<D: Database>(&self, object: &D::Object) -> Option<Denial> {
        self.rules.complaint::<D>(object, &self.required).or_else(|| self.denied.clone())
    }

    /// The size of the largest volume.
    pub fn volume_size(&self) -> Option<String> {
        let sizes = self.claims.values().filter_map(|claim| Some((amount(&claim.capacity)?, &claim.capacity)));
        sizes.max_by_key(|(amount, _)| *amount).map(|(_, size)| size.clone())
    }

    /// A child of that kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&Child> {
        self.children.get(&(kind.to_owned(), name.to_owned()))
    }

    /// Adds a child that is there.
    pub fn add<K>(&mut self, live: Option<&K>, owner: &impl Resource)
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let Some(live) = live else { return };
        self.children.insert((K::kind(&()).into_owned(), live.name_any()), Child::read(live, owner));
    }

    /// Adds a child that exists only if the spec asks for it. If it does not, another owner's object of that name is ignored.
    pub fn add_optional<K>(&mut self, live: Option<&K>, wanted: bool, owner: &impl Resource)
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        self.add(live.filter(|live| wanted || is_controlled_by(*live, owner)), owner);
    }
}

impl Child {
    /// Reads a live object.
    pub fn read<K: Resource<DynamicType = ()> + Serialize>(live: &K, owner: &impl Resource) -> Self {
        Self {
            value: serde_json::to_value(live).unwrap_or_default(),
            uid: live.meta().uid.clone().unwrap_or_default(),
            ours: is_controlled_by(live, owner),
        }
    }

    /// The same of a Secret, without its content.
    pub fn bare(live: &impl Resource, ours: bool) -> Self {
        let meta = live.meta();
        let value = json!({ "metadata": {
            "creationTimestamp": meta.creation_timestamp,
            "resourceVersion": meta.resource_version,
            "labels": meta.labels,
            "ownerReferences": meta.owner_references,
        } });
        Self { value, uid: meta.uid.clone().unwrap_or_default(), ours }
    }

    /// When it was made.
    pub fn creation_time(&self) -> Option<Timestamp> {
        self.value["metadata"]["creationTimestamp"].as_str()?.parse().ok()
    }
}

impl<N> Pod<N> {
    /// Its address as URLs have it.
    pub fn host(&self) -> Option<String> {
        let address = self.address.as_ref()?;
        Some(if address.contains(':') { format!("[{address}]") } else { address.clone() })
    }

    /// Its name and its node, in words.
    pub fn place(&self) -> String {
        match &self.evidence.node {
            Some(node) => format!("{} on node {node}", self.name),
            None => format!("{} (no node yet)", self.name),
        }
    }

    /// Reports whether its process gave up because its volume is full.
    pub fn has_no_space(&self) -> bool {
        self.last_words.as_ref().is_some_and(|words| words.to_lowercase().contains("no space left on device"))
    }
}

impl Claim {
    /// Reports whether it is this object's to delete: made for it, or used by it since.
    pub fn is_deletable(&self) -> bool {
        self.ours || self.adopted
    }
}
