//! Kubernetes in memory, as far as `StatefulSet`s are concerned: children, their controller, and volume claims. Kinds add
//! what runs in the pods.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::result_unit_err,
    reason = "support of tests"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::Status;
use serde_json::{Value, json};

use causeway_runtime::Health;
use causeway_runtime::manifest::{Manifest, hash_annotation};

use super::last_worked::{refused_template, revision_of, worked_template};
use super::names::{self, INCARNATION, RESTARTED, VOLUME};
use super::pod_trouble::Unmade;
use super::{Child, ChildAction, Claim, Error, Pod, Set};
use crate::restore_from::Seen;
use crate::restore_from::fixtures::happen;

/// A pod of a kind.
pub trait PodState {
    /// The uid of the pod.
    fn uid(&self) -> &str;
    /// Begins to terminate it.
    fn terminate(&mut self);
    /// True once a user took our label off.
    fn unlabelled(&mut self) -> &mut bool;
}

/// A volume claim, and what its volume has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState<V> {
    pub facts: Claim,
    pub volume: V,
}

/// The objects of one database.
#[derive(Clone, Debug)]
pub struct Objects<P, V> {
    pub children: BTreeMap<(String, String), Child>,
    pub pods: BTreeMap<i32, P>,
    pub claims: BTreeMap<i32, ClaimState<V>>,
    /// Claims of our names that belong to others, and to whom.
    pub others: BTreeMap<i32, &'static str>,
    /// The apiserver refuses pods with that in their template, as a webhook makes it do.
    pub banned: Option<&'static str>,
    /// The `DatabaseRestore`; unknown unless a test says otherwise.
    pub restore: Seen,
    born: u32,
}

/// The origin of a pod.
pub struct Birth<'a, V> {
    pub name: String,
    /// No other thing has it.
    pub uid: String,
    pub address: String,
    /// The pod template of the `StatefulSet`.
    pub template: &'a Value,
    pub claim: &'a ClaimState<V>,
}

impl<V> Birth<'_, V> {
    /// When a restart was asked for.
    pub fn restarted(&self) -> Option<String> {
        self.template["metadata"]["annotations"][RESTARTED].as_str().map(str::to_owned)
    }

    /// A label of the template.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.template["metadata"]["labels"][name].as_str()
    }

    /// The image of the first container.
    pub fn image(&self) -> &str {
        self.template["spec"]["containers"][0]["image"].as_str().unwrap()
    }
}

impl<P, V> Default for Objects<P, V> {
    fn default() -> Self {
        Self {
            children: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            others: BTreeMap::new(),
            banned: None,
            restore: Seen::Unknown,
            born: 0,
        }
    }
}

impl<P: PodState, V: Default> Objects<P, V> {
    /// Returns the facts that a look at them shows.
    pub fn observe<N>(&self, facts: impl Fn(i32, &P) -> Pod<N>) -> Set<N> {
        Set {
            required: causeway_runtime::guardrails::Required::default(),
            rules: Arc::default(),
            denied: None,
            children: self.children.clone(),
            pods: self.pods.iter().map(|(ordinal, pod)| (*ordinal, facts(*ordinal, pod))).collect(),
            rivals: Vec::new(),
            unmade: self.unmade(),
            makeable: None,
            acceptable: self.acceptable(),
            claims: self.claims.iter().map(|(ordinal, claim)| (*ordinal, claim.facts.clone())).collect(),
            foreign: self
                .others
                .iter()
                .map(|(ordinal, whose)| (*ordinal, format!("it is {whose}: kubectl get pvc")))
                .collect(),
            restore: self.restore.clone(),
        }
    }

    fn refuses(&self, template: &Value) -> bool {
        self.banned.is_some_and(|word| template.to_string().contains(word))
    }

    /// Returns the answer of a dry run for the first pod that is missing.
    fn unmade(&self) -> Option<Unmade> {
        let ((_, name), set) = self.children.iter().find(|((kind, _), _)| kind == "StatefulSet")?;
        self.banned.filter(|_| self.refuses(&set.value["spec"]["template"]))?;
        let ordinal = ordinals(&set.value).find(|ordinal| !self.pods.contains_key(ordinal))?;
        let worked_before = worked_template(&set.value).is_some_and(|worked| !self.refuses(&worked));
        Some(Unmade { name: format!("{name}-{ordinal}"), words: "exceeded quota: small".into(), worked_before })
    }

    /// Returns the answer of a dry run for a spec that was refused.
    fn acceptable(&self) -> Option<String> {
        let (_, set) = self.children.iter().find(|((kind, _), _)| kind == "StatefulSet")?;
        let refused = refused_template(&set.value)?;
        let is_whole = ordinals(&set.value).all(|ordinal| self.pods.contains_key(&ordinal));
        (is_whole && !self.refuses(&refused)).then(|| revision_of(&refused).to_owned())
    }

    /// A number that nothing else has.
    pub fn next_number(&mut self) -> u32 {
        self.born += 1;
        self.born
    }

    /// Carries out the action, if the object is the one that was meant.
    pub fn act(&mut self, object: &impl ResourceExt, action: &ChildAction) -> Result<(), ()> {
        match action {
            ChildAction::Apply { child, uid } => return self.apply(child, uid.as_deref()),
            ChildAction::DeletePod { name, uid, .. } | ChildAction::Revive { name, uid, .. } => {
                if self.pods.contains_key(&names::ordinal_of(object, name).unwrap()) {
                    self.pod(object, name, uid)?.terminate();
                }
            }
            ChildAction::TakeBack { kind, name, uid, owners, .. } => {
                let live = self.children.get_mut(&(kind.clone(), name.clone())).filter(|live| live.uid == *uid);
                taken_back(live.ok_or(())?, owners);
            }
            ChildAction::Hurry { .. } => {}
            ChildAction::DeleteClaim { name, uid, .. } => {
                if self.claims.contains_key(&names::ordinal_of(object, name).unwrap()) {
                    self.claim(object, name, uid)?.terminating = true;
                }
            }
            ChildAction::DeletePolicy { name, uid } => {
                let key = ("NetworkPolicy".to_owned(), name.clone());
                if self.children.get(&key).is_some_and(|policy| policy.uid == *uid) {
                    self.children.remove(&key);
                }
            }
            ChildAction::Abandon { name, uid } => {
                let key = ("Service".to_owned(), name.clone());
                if self.children.get(&key).is_some_and(|service| service.uid == *uid) {
                    self.children.remove(&key);
                }
            }
            ChildAction::LabelPod { name, uid } => *self.pod(object, name, uid)?.unlabelled() = false,
            ChildAction::LabelClaim { name, uid } => self.claim(object, name, uid)?.unlabelled = false,
            ChildAction::MarkClaim { name, uid, member } => {
                let claim = self.claim(object, name, uid)?;
                (claim.member, claim.adopted) = (Some(*member), true);
            }
            ChildAction::NoteEpoch { name, uid, epoch } => self.claim(object, name, uid)?.epoch = Some(*epoch),
            ChildAction::GrowClaim { name, uid, size } => self.claim(object, name, uid)?.size.clone_from(size),
            ChildAction::Orphan { name, uid } => {
                let key = ("StatefulSet".to_owned(), name.clone());
                if self.children.get(&key).is_some_and(|set| set.uid == *uid) {
                    self.children.remove(&key);
                }
            }
            ChildAction::Restore(step) => happen(&mut self.restore, step),
        }
        Ok(())
    }

    fn apply(&mut self, child: &Manifest, uid: Option<&str>) -> Result<(), ()> {
        let key = (child.kind().to_owned(), child.name().to_owned());
        let live = self.children.get(&key);
        if uid.is_some_and(|uid| live.is_none_or(|live| live.uid != uid)) {
            return Err(());
        }
        if let Some(live) = live.filter(|_| key.0 == "StatefulSet") {
            let fixed = |set: &Value| set["spec"]["volumeClaimTemplates"].clone();
            assert_eq!(fixed(&live.value), fixed(&child.value), "the apiserver refuses to change templates of volumes");
        }
        let mut value = child.value.clone();
        // The annotation of kubectl stays when we apply our fields.
        if let Some(asked) =
            live.and_then(|live| live.value["spec"]["template"]["metadata"]["annotations"].get(RESTARTED))
        {
            value["spec"]["template"]["metadata"]["annotations"][RESTARTED] = asked.clone();
        }
        let uid = match live {
            Some(live) => live.uid.clone(),
            None => format!("uid-{}", self.next_number()),
        };
        self.children.insert(key, Child { value, uid, ours: true });
        Ok(())
    }

    fn pod(&mut self, object: &impl ResourceExt, name: &str, uid: &str) -> Result<&mut P, ()> {
        let pod = self.pods.get_mut(&names::ordinal_of(object, name).unwrap());
        pod.filter(|pod| pod.uid() == uid).ok_or(())
    }

    fn claim(&mut self, object: &impl ResourceExt, name: &str, uid: &str) -> Result<&mut Claim, ()> {
        let claim = self.claims.get_mut(&names::ordinal_of(object, name).unwrap());
        claim.map(|claim| &mut claim.facts).filter(|claim| claim.uid == uid).ok_or(())
    }

    /// The controller of `StatefulSet`s: pods and claims that are missing are made; returns the pods beyond the last, which go.
    pub fn follow_set(&mut self, object: &impl ResourceExt, make: impl Fn(&Birth<'_, V>) -> P) -> Vec<i32> {
        let key = ("StatefulSet".to_owned(), names::pod(object, 0).trim_end_matches("-0").to_owned());
        let Some(set) = self.children.get(&key).map(|set| set.value.clone()) else { return Vec::new() };
        let spec = &set["spec"];
        let wanted = ordinals(&set);
        let is_refused = self.refuses(&spec["template"]);
        // The controller has released that pod, and cannot make another of its name: that ends its sync.
        if self.pods.iter_mut().any(|(ordinal, pod)| *pod.unlabelled() && wanted.contains(ordinal)) {
            return Vec::new();
        }
        let spare = self.pods.keys().copied().filter(|ordinal| !wanted.contains(ordinal)).collect();
        for ordinal in wanted {
            assert!(!self.others.contains_key(&ordinal), "a volume of {} is used", self.others[&ordinal]);
            if !self.claims.contains_key(&ordinal) {
                let template = &spec["volumeClaimTemplates"][0];
                let made_for = template["metadata"]["labels"][INCARNATION].as_str();
                let size = template["spec"]["resources"]["requests"]["storage"].as_str();
                let facts = Claim {
                    name: format!("{VOLUME}-{}", names::pod(object, ordinal)),
                    uid: format!("uid-{}", self.next_number()),
                    ours: template.is_null() || made_for == object.meta().uid.as_deref(),
                    bound: true,
                    size: size.unwrap_or_default().to_owned(),
                    ..Claim::default()
                };
                self.claims.insert(ordinal, ClaimState { facts, volume: V::default() });
            }
            if !self.pods.contains_key(&ordinal) && !is_refused {
                let number = self.next_number();
                let (uid, address) = (format!("uid-{number}"), format!("10.0.{}.{}", number / 256, number % 256));
                let (name, claim) = (names::pod(object, ordinal), &self.claims[&ordinal]);
                let birth = Birth { name, uid, address, template: &spec["template"], claim };
                let pod = make(&birth);
                self.pods.insert(ordinal, pod);
            }
        }
        spare
    }
}

/// The ordinals of the pods that a `StatefulSet` asks for.
fn ordinals(set: &Value) -> std::ops::Range<i32> {
    let spec = &set["spec"];
    let count = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
    let first = i32::try_from(spec["ordinals"]["start"].as_i64().unwrap_or(0)).unwrap();
    first..first + count
}

/// Reports whether a child is as it is wanted. The hash of a `StatefulSet` counts the last spec that worked, too.
pub fn is_as_wanted(child: &Manifest, live: &Child) -> bool {
    let mut child = child.clone();
    if child.kind() == "StatefulSet" {
        child.value["metadata"]["annotations"][hash_annotation()] = Value::Null;
    }
    child.is_met_by(&live.value)
}

/// Writes the annotation of `kubectl rollout restart`.
pub fn restart<P, V>(objects: &mut Objects<P, V>, at: &str) {
    let (_, set) = objects.children.iter_mut().find(|((kind, _), _)| kind == "StatefulSet").unwrap();
    set.value["spec"]["template"]["metadata"]["annotations"][RESTARTED] = at.into();
}

/// The object becomes the controller of a child.
pub fn taken_back(child: &mut Child, owners: &[OwnerReference]) {
    child.value["metadata"]["ownerReferences"] = serde_json::to_value(owners).unwrap();
    child.ours = true;
}

/// A child has no controller any more.
pub fn orphaned(child: &mut Child) {
    child.value["metadata"]["ownerReferences"] = Value::Null;
    child.ours = false;
}

/// Another object controls a child.
pub fn given_away(child: &mut Child) {
    let owner = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "x", "controller": true });
    child.value["metadata"]["ownerReferences"] = json!([owner]);
    child.ours = false;
}

/// Asserts that Stalled names a field, an object or a command by which a user lets the operator go on.
pub fn assert_helpful(health: &Health) {
    let Health::Stalled(cause) = health else { return };
    let helps = ["spec.", "metadata.name", "Secret ", "kubectl ", "etcdctl "];
    assert!(helps.iter().any(|help| cause.message.contains(help)), "it does not say what to do: {cause:?}");
}

/// A user deleted the object of these children with its volumes, and its pods still stop.
pub fn belongs_to_an_earlier_object<N>(set: &mut Set<N>) {
    set.children.values_mut().for_each(|child| child.ours = false);
    for pod in set.pods.values_mut() {
        (pod.controlled, pod.terminating) = (true, true);
    }
    for claim in set.claims.values_mut() {
        (claim.ours, claim.terminating) = (false, true);
    }
}

/// How the apiserver refuses that.
pub fn error_of(action: &ChildAction) -> Error {
    let source = |code: u16, message: &str| {
        kube::Error::Api(Box::new(Status { code, message: message.into(), ..Status::default() }))
    };
    match action {
        ChildAction::Apply { child, .. } => {
            let is_class = child.kind() == "StatefulSet"
                && !child.value["spec"]["template"]["spec"]["priorityClassName"].is_null();
            let source = if is_class {
                source(422, "spec.template.spec.priorityClassName: no such priority class")
            } else {
                source(403, "forbidden: exceeded quota: no-more")
            };
            Error::Apply { kind: child.kind().into(), name: child.name().into(), source }
        }
        ChildAction::GrowClaim { name, .. } => {
            Error::CannotGrow { name: name.clone(), field: "spec.storage.size", message: "forbidden".into() }
        }
        _ => panic!("the apiserver does not refuse {action:?}"),
    }
}
