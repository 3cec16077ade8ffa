//! The one thing that is done next about a database, and the steps that every set of pods takes. Pure.

use std::time::Duration;

use super::{ChildAction, Pod, Set};
use crate::runtime::Health;
use crate::runtime::manifest::{Manifest, amount};
use crate::stateful::pod_trouble::Unmade;

/// Look again while something is on its way that may not tell.
pub const SOON: Duration = Duration::from_secs(1);
/// Look again while something is in trouble.
pub const SELDOM: Duration = Duration::from_secs(5);
/// Look again while all is well: changes wake us.
pub const LATER: Duration = Duration::from_mins(1);

/// A step, and how the object is meanwhile. `R` is what a kind records with it.
#[derive(Clone, Debug)]
pub struct Step<A, R = ()> {
    /// What is done.
    pub actions: Vec<A>,
    /// How the object is.
    pub health: Health,
    /// Look again after this.
    pub again: Duration,
    /// What is recorded.
    pub record: R,
}

impl<A, R: Default> Step<A, R> {
    /// Act, and say why.
    pub fn act(actions: Vec<A>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { actions, health: Health::progressing(reason, message), again: SOON, record: R::default() }
    }

    /// Nothing to do now but to wait.
    pub fn wait(reason: &'static str, message: impl Into<String>) -> Self {
        Self::act(Vec::new(), reason, message)
    }

    /// Trouble that somebody outside may have to end: whatever ends it wakes us.
    pub fn trouble(reason: &'static str, message: impl Into<String>) -> Self {
        Self { again: SELDOM, ..Self::wait(reason, message) }
    }

    /// Nothing can be done until somebody outside does something.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { health: Health::stalled(reason, message), again: LATER, ..Self::wait(reason, "") }
    }
}

impl<A: From<ChildAction>, R: Default> Step<A, R> {
    /// Change these children; nothing where there are none.
    pub fn children(
        actions: impl IntoIterator<Item = ChildAction>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Option<Self> {
        let actions: Vec<A> = actions.into_iter().map(A::from).collect();
        (!actions.is_empty()).then(|| Self::act(actions, reason, message))
    }
}

impl<N> Set<N> {
    /// A child of our names that is somebody else's: what to say of it.
    pub fn child_of_others(&self) -> Option<String> {
        let ((kind, name), _) = self.children.iter().find(|(_, child)| !child.ours)?;
        Some(name_taken(kind, name))
    }

    /// What makes the child as it should be; nothing where it is.
    pub fn unless_met(&self, child: Manifest) -> Option<ChildAction> {
        let live = self.child(child.kind(), child.name());
        if live.is_some_and(|live| child.is_met_by(&live.value)) {
            return None;
        }
        // Templates of volumes cannot be changed: the set is made again around its pods.
        if let Some(live) = live.filter(|live| child.needs_another(&live.value)) {
            return Some(ChildAction::Orphan { name: child.name().to_owned(), uid: live.uid.clone() });
        }
        Some(ChildAction::Apply { uid: live.map(|live| live.uid.clone()), child: Box::new(child) })
    }

    /// Somebody deleted the `StatefulSet`, and its pods go with it. A new one that meets their names waits for minutes.
    pub fn is_going(&self, name: &str) -> bool {
        self.child("StatefulSet", name).is_none() && self.pods.values().any(|pod| pod.controlled)
    }

    /// Pods and volume claims of ours whose label somebody took off: no Service leads to such a pod, and its `StatefulSet`
    /// lets go of it and cannot make another of its name.
    pub fn label<A: From<ChildAction>, R: Default>(&self) -> Option<Step<A, R>> {
        let pods = self.pods.values().filter(|pod| pod.unlabelled && !pod.terminating);
        let pods = pods.map(|pod| ChildAction::LabelPod { name: pod.name.clone(), uid: pod.uid.clone() });
        let claims = self.claims.values().filter(|claim| claim.unlabelled && !claim.terminating);
        let claims = claims.map(|claim| ChildAction::LabelClaim { name: claim.name.clone(), uid: claim.uid.clone() });
        Step::children(pods.chain(claims), "Applying", "putting the label back that somebody took off")
    }

    /// Pods that got a node before their claims were made again. Where volumes are provided for the node of the pod that wants
    /// one, nobody provides these: only a pod without a node asks for that.
    /// <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>
    pub fn stranded<A: From<ChildAction>, R: Default>(&self) -> Option<Step<A, R>> {
        let waits = |(ordinal, pod): &(&i32, &Pod<N>)| {
            let claim = self.claims.get(ordinal);
            pod.placed
                && !pod.ready
                && !pod.terminating
                && claim.is_some_and(|claim| !claim.bound && !claim.terminating)
        };
        let why = "its volume claim was made after it got its node";
        let actions = self.pods.iter().filter(waits).map(|(_, pod)| ChildAction::delete_pod(pod, why));
        Step::children(actions, "Replacing", "replacing pods whose volumes nobody provides")
    }

    /// Pods that would wait for minutes to be started again, for their processes were killed.
    pub fn killed<A: From<ChildAction>, R: Default>(&self, may: impl Fn(&Pod<N>) -> bool) -> Option<Step<A, R>> {
        let helped = |pod: &Pod<N>| {
            let why = pod.revival.clone().filter(|_| !pod.terminating && pod.lost_node.is_none() && may(pod))?;
            Some(ChildAction::Revive { name: pod.name.clone(), uid: pod.uid.clone(), why })
        };
        let actions = self.pods.values().filter_map(helped);
        Step::children(actions, "Replacing", "replacing pods whose processes were killed")
    }

    /// A larger volume, one after the other, for those that are to have one.
    pub fn grow<A: From<ChildAction>, R: Default>(
        &self,
        size: &str,
        whose: impl Fn(i32) -> bool,
    ) -> Option<Step<A, R>> {
        let wanted = amount(size)?;
        let (_, claim) = self.claims.iter().find(|(ordinal, claim)| {
            whose(**ordinal) && !claim.terminating && amount(&claim.size).is_some_and(|size| size < wanted)
        })?;
        let (name, uid) = (claim.name.clone(), claim.uid.clone());
        let action = ChildAction::GrowClaim { name, uid, size: size.to_owned() };
        Step::children([action], "GrowingVolumes", format!("volume claim {} grows", claim.name))
    }

    /// Trouble of a pod that does not pass by itself, in words that do not change at every try. `of` describes the kubelet's
    /// or scheduler's word for it.
    pub fn pod_trouble(
        &self,
        of: impl Fn(&Pod<N>, &str) -> Option<(&'static str, String)>,
    ) -> Option<(&'static str, String)> {
        let of_pod = |pod: &Pod<N>| {
            let Some(node) = &pod.lost_node else { return of(pod, pod.trouble.as_deref()?) };
            let message = format!(
                "pod {} is on node {node}, which does not answer: its volume cannot follow it before the node is back or \
                 deleted (kubectl delete node {node}, once it is surely off)",
                pod.name
            );
            Some(("NodeLost", message))
        };
        self.pods.values().find_map(of_pod).or_else(|| self.unmade.as_ref().map(Unmade::describe))
    }
}

/// What to say of somebody else's object of a child's name.
pub fn name_taken(kind: &str, name: &str) -> String {
    format!("{kind} {name} exists and does not belong to this object: delete it, or choose another metadata.name")
}

/// A version's numbers, which compare as versions do.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}
