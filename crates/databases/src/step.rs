//! The next step for a database, and the steps that every set of pods takes. Pure.

use std::time::Duration;

use kube::{Resource, ResourceExt};

use causeway_runtime::Health;
use causeway_runtime::manifest::{Manifest, is_left_over, owners_of};
use causeway_runtime::quantity::amount;

use super::{Child, ChildAction, Claim, Pod, Set};
use crate::pod_trouble::Unmade;

/// The time until the next look while something is under way that no watch may report.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The time until the next look while something is in trouble.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The time until the next look while all is well: changes wake the controller.
pub const RESYNC_INTERVAL: Duration = Duration::from_mins(1);

/// A step, and the health of the object meanwhile. `R` is what a kind records with it.
#[derive(Clone, Debug)]
pub struct Step<A, R = ()> {
    /// The actions to take.
    pub actions: Vec<A>,
    /// The health of the object meanwhile.
    pub health: Health,
    /// Look again after this.
    pub again: Duration,
    /// The record to write.
    pub record: R,
}

impl<A, R: Default> Step<A, R> {
    /// Act, and say why.
    pub fn act(actions: Vec<A>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { actions, health: Health::progressing(reason, message), again: PROGRESS_INTERVAL, record: R::default() }
    }

    /// Nothing to do now but to wait.
    pub fn wait(reason: &'static str, message: impl Into<String>) -> Self {
        Self::act(Vec::new(), reason, message)
    }

    /// Trouble that a user may have to end: whatever ends it wakes the controller.
    pub fn trouble(reason: &'static str, message: impl Into<String>) -> Self {
        Self { again: RETRY_INTERVAL, ..Self::wait(reason, message) }
    }

    /// Nothing can be done until a user does something.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { health: Health::stalled(reason, message), again: RESYNC_INTERVAL, ..Self::wait(reason, "") }
    }
}

impl<A: From<ChildAction>, R: Default> Step<A, R> {
    /// Change these children; `None` if there are none.
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
    /// The action that makes the child as it should be; `None` if it is, or if it is not ours to change.
    pub fn unless_met(&self, child: Manifest) -> Option<ChildAction> {
        let live = self.child(child.kind(), child.name());
        if live.is_some_and(|live| !live.ours || child.is_met_by(&live.value)) {
            return None;
        }
        // Volume claim templates cannot be changed: the set is deleted without its pods, and made again.
        if let Some(live) = live.filter(|live| child.needs_another(&live.value)) {
            return Some(ChildAction::Orphan { name: child.name().to_owned(), uid: live.uid.clone() });
        }
        Some(ChildAction::Apply { uid: live.map(|live| live.uid.clone()), child: Box::new(child) })
    }

    /// Reports whether a user deleted the `StatefulSet`, and its pods are still being deleted with it. A new one would find
    /// pods with its names, and wait for minutes.
    pub fn is_going(&self, name: &str) -> bool {
        self.child("StatefulSet", name).is_none() && self.pods.values().any(|pod| pod.controlled)
    }

    /// Reports whether the pods go with a `StatefulSet` that a user deleted, or that an earlier object of our name left. They
    /// still answer for a while, but whatever they say holds no longer than they do.
    pub fn is_leaving(&self, object: &impl Resource<DynamicType = ()>) -> bool {
        let name = object.name_any();
        let is_earlier = |live: &Child| !live.ours && is_left_over(&owners_of(&live.value), object);
        self.child("StatefulSet", &name).is_some_and(is_earlier) || self.is_going(&name)
    }

    /// The message while pods of a `StatefulSet` that was deleted are waited for.
    pub fn describe_going(&self) -> String {
        let pods: Vec<String> = self.pods.values().filter(|pod| pod.controlled).map(Pod::place).collect();
        format!("waiting for the pods of a StatefulSet that was deleted to stop: {}", pods.join(", "))
    }

    /// Puts our label back on pods and volume claims. Without it, no Service leads to a pod, and its `StatefulSet` releases
    /// the pod and cannot make another of its name.
    pub fn label<A: From<ChildAction>, R: Default>(&self) -> Option<Step<A, R>> {
        let pods = self.pods.values().filter(|pod| pod.unlabelled && !pod.terminating);
        let pods = pods.map(|pod| ChildAction::LabelPod { name: pod.name.clone(), uid: pod.uid.clone() });
        let claims = self.claims.values().filter(|claim| claim.unlabelled && !claim.terminating);
        let claims = claims.map(|claim| ChildAction::LabelClaim { name: claim.name.clone(), uid: claim.uid.clone() });
        Step::children(pods.chain(claims), "Applying", "putting the label back that was taken off")
    }

    /// Replaces pods that got a node before their claims were made again. With `WaitForFirstConsumer`, no provisioner makes a
    /// volume for such a claim: only the scheduling of a pod triggers that.
    /// <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>
    pub fn replace_stranded<A: From<ChildAction>, R: Default>(&self) -> Option<Step<A, R>> {
        let waits = |(ordinal, pod): &(&i32, &Pod<N>)| {
            let claim = self.claims.get(ordinal);
            pod.placed
                && !pod.ready
                && !pod.terminating
                && claim.is_some_and(|claim| !claim.bound && !claim.terminating)
        };
        let why = "its volume claim was made after it got its node";
        let actions = self.pods.iter().filter(waits).map(|(_, pod)| ChildAction::delete_pod(pod, why));
        Step::children(actions, "Replacing", "replacing pods whose volumes are not provided")
    }

    /// Replaces pods that are in a long restart back-off although the cause is gone: see [`Pod::revival`].
    pub fn killed<A: From<ChildAction>, R: Default>(&self, may: impl Fn(&Pod<N>) -> bool) -> Option<Step<A, R>> {
        let helped = |pod: &Pod<N>| {
            let why = pod.revival.clone().filter(|_| !pod.terminating && pod.lost_node.is_none() && may(pod))?;
            Some(ChildAction::Revive { name: pod.name.clone(), uid: pod.uid.clone(), why })
        };
        let actions = self.pods.values().filter_map(helped);
        Step::children(actions, "Replacing", "replacing pods whose processes were killed")
    }

    /// Wakes the controller of a pod that the apiserver refused and takes now: it would wait in its back-off.
    pub fn hurry<A: From<ChildAction>, R: Default>(&self, name: &str) -> Option<Step<A, R>> {
        let pod = self.makeable.clone()?;
        let live = self.child("StatefulSet", name).filter(|live| live.ours)?;
        let version = live.value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let message = format!("pod {pod} is refused no longer, and is made now");
        let action = ChildAction::Hurry { name: name.to_owned(), uid: live.uid.clone(), version, pod };
        Step::children([action], "Applying", message)
    }

    /// Replaces pods that wait for a Secret or `ConfigMap` that was made after them. The kubelet looks for it in a back-off
    /// that grows to two minutes; for a pod that is made again it looks at once.
    /// <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go>
    pub fn belated<A: From<ChildAction>, R: Default>(&self) -> Option<Step<A, R>> {
        let late = |pod: &Pod<N>| {
            let waits = pod.placed && !pod.terminating && pod.lost_node.is_none();
            let made = pod.made.filter(|_| waits)?;
            let came_late = |(kind, name): &&(&'static str, String)| {
                self.child(kind, name).and_then(Child::creation_time).is_some_and(|arrived| arrived > made)
            };
            let (kind, name) = pod.reads.iter().find(came_late)?;
            Some(ChildAction::delete_pod(pod, format!("it waits for {kind} {name}, which came after it")))
        };
        let actions = self.pods.values().filter_map(late);
        Step::children(actions, "Replacing", "replacing pods whose missing Secret or ConfigMap now exists")
    }

    /// Grows volumes, one after the other, if `whose` says that they are to grow. A growth that failed is taken back: Kubernetes
    /// lets a claim ask for less again, but for more than its volume has.
    /// <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#recovering-from-failure-when-expanding-volumes>
    pub fn grow<A: From<ChildAction>, R: Default>(
        &self,
        size: &str,
        whose: impl Fn(i32) -> bool,
    ) -> Option<Step<A, R>> {
        let wanted = amount(size)?;
        let asks = |(ordinal, claim): (&i32, &Claim)| {
            let asked = amount(&claim.size).filter(|_| whose(*ordinal) && !claim.terminating)?;
            if asked < wanted {
                return Some((claim.clone(), size.to_owned()));
            }
            let has = amount(&claim.capacity).filter(|has| *has < asked)?;
            let least = if has < wanted { size.to_owned() } else { (has / 1000 + 1).to_string() };
            (amount(&least)? < asked).then(|| (claim.clone(), least))
        };
        let (claim, size) = self.claims.iter().find_map(asks)?;
        let message = format!("volume claim {} asks for {size}", claim.name);
        let action = ChildAction::GrowClaim { name: claim.name, uid: claim.uid, size };
        Step::children([action], "GrowingVolumes", message)
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
        // A pod that has never run waits for a person; one that has run is started again.
        let (waits, ran): (Vec<_>, Vec<_>) =
            self.pods.values().partition(|pod| pod.lost_node.is_some() || !pod.has_run);
        waits.into_iter().chain(ran).find_map(of_pod).or_else(|| self.unmade.as_ref().map(Unmade::describe))
    }
}

/// A version's numbers, which compare as versions do.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;
    use causeway_api::Redis;

    /// A pod that was made `made` seconds after its Secret and reads that first; what is done about it.
    fn next(made: i64, pod: Pod<()>) -> Vec<ChildAction> {
        let arrived: Timestamp = "2026-11-25T08:00:00Z".parse().unwrap();
        let secret = json!({ "metadata": { "creationTimestamp": arrived.to_string() } });
        let made = arrived.checked_add(SignedDuration::from_secs(made)).unwrap();
        let reads = BTreeSet::from([("Secret", "db-peer-tls".to_owned())]);
        let mut set = Set::default();
        let secret = Child { value: secret, uid: "1".into(), ours: true };
        set.children.insert(("Secret".into(), "db-peer-tls".into()), secret);
        set.pods.insert(0, Pod { name: "db-0".into(), made: Some(made), reads, ..pod });
        set.belated::<ChildAction, ()>().map(|step| step.actions).unwrap_or_default()
    }

    #[test]
    fn only_a_pod_older_than_its_secret_is_replaced() {
        let placed = Pod { placed: true, ..Pod::default() };
        let [ChildAction::DeletePod { name, why, .. }] = &next(-60, placed.clone())[..] else { panic!("not one") };
        assert!(name == "db-0" && why.contains("Secret db-peer-tls"), "{why}");
        assert_eq!(next(60, placed.clone()), [], "the Secret was there before");
        assert_eq!(next(-60, Pod::default()), [], "it has had no node for long");
        assert_eq!(next(-60, Pod { terminating: true, ..placed }), []);
    }

    #[test]
    fn pods_leave_with_a_deleted_or_earlier_set() {
        let metadata = json!({ "name": "db", "namespace": "shop", "uid": "now" });
        let object: Redis = serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap();
        let leaves = |set_of: Option<&str>, controlled: bool| {
            let mut set = Set::<()>::default();
            set.pods.insert(0, Pod { name: "db-0".into(), controlled, ..Pod::default() });
            if let Some(uid) = set_of {
                let owner = json!([{ "apiVersion": "example.com/v1", "kind": "Redis", "name": "db", "uid": uid, "controller": true }]);
                let live = json!({ "metadata": { "ownerReferences": owner } });
                let child = Child { value: live, uid: "1".into(), ours: uid == "now" };
                set.children.insert(("StatefulSet".into(), "db".into()), child);
            }
            set.is_leaving(&object)
        };
        assert!(leaves(Some("then"), true), "Kubernetes is about to delete the set");
        assert!(leaves(None, true), "the set is deleted, and its pods with it");
        assert!(!leaves(Some("now"), true), "our own pods run, even if the status is lost");
        assert!(!leaves(None, false), "a user deleted the set without its pods");
    }

    #[test]
    fn a_growth_that_failed_is_taken_back() {
        let asked = |asks: &str, has: &str, wanted: &str| {
            let mut set = Set::<()>::default();
            set.claims.insert(0, Claim { size: asks.into(), capacity: has.into(), ..Claim::default() });
            let step = set.grow::<ChildAction, ()>(wanted, |_| true)?;
            let [ChildAction::GrowClaim { size, .. }] = &step.actions[..] else { panic!("{step:?}") };
            Some(size.clone())
        };
        assert_eq!(asked("8Gi", "8Gi", "9Pi").as_deref(), Some("9Pi"));
        assert_eq!(asked("9Pi", "8Gi", "9Pi"), None, "it is on its way");
        assert_eq!(asked("9Pi", "8Gi", "10Gi").as_deref(), Some("10Gi"));
        let least = (8_i64 * 1024 * 1024 * 1024 + 1).to_string();
        assert_eq!(asked("9Pi", "8Gi", "8Gi"), Some(least.clone()), "Kubernetes takes no less");
        assert_eq!(asked(&least, "8Gi", "8Gi"), None);
        assert_eq!(asked("20Gi", "20Gi", "8Gi"), None, "volumes do not shrink");
        assert_eq!(asked("9Pi", "", "8Gi"), None, "there is no volume yet");
    }

    #[test]
    fn a_set_with_an_accepted_pod_is_looked_at() {
        let mut set = Set::<()>::default();
        let live = json!({ "metadata": { "resourceVersion": "7" } });
        set.children.insert(("StatefulSet".into(), "db".into()), Child { value: live, uid: "1".into(), ours: true });
        assert!(set.hurry::<ChildAction, ()>("db").is_none());
        set.makeable = Some("db-2".into());
        let step = set.hurry::<ChildAction, ()>("db").unwrap();
        let [ChildAction::Hurry { name, uid, version, pod }] = &step.actions[..] else { panic!("{step:?}") };
        assert_eq!([name, uid, version, pod], ["db", "1", "7", "db-2"]);
    }
}
