//! The bound groups, what they are bound to, and the objects to wake.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use causeway_aws::elbv2::TargetType;

use super::cluster::{Concerned, Key};
use super::group::Group;
use super::{Backend, Binding};
use crate::ownership::ObjectKey;

/// The bindings.
#[derive(Default)]
pub struct Registry {
    known: Mutex<Known>,
    subscribers: Mutex<Vec<UnboundedSender<ObjectKey>>>,
    /// Notified when there are groups without a task that keeps them.
    pub unkept: Notify,
}

#[derive(Default)]
struct Known {
    bindings: HashMap<ObjectKey, Vec<Binding>>,
    groups: HashMap<String, Arc<Group>>,
    unkept: Vec<Arc<Group>>,
    /// ARNs by Service.
    of_service: HashMap<Key, HashSet<String>>,
    /// ARNs of groups whose targets are nodes.
    of_nodes: HashSet<String>,
    /// Objects that wait for a change of a backend that has no group.
    waiting: HashMap<Key, BTreeMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

impl Registry {
    /// Replaces the bindings of `owner`.
    pub fn bind(&self, bindings: Vec<Binding>, owner: &ObjectKey) {
        let mut known = self.lock();
        if known.bindings.get(owner).map_or(&[][..], Vec::as_slice) == bindings {
            return;
        }
        let before = known.bindings.remove(owner).unwrap_or_default();
        let kept: HashSet<&String> = bindings.iter().filter_map(|binding| binding.group_arn.as_ref()).collect();
        for binding in before {
            match binding.group_arn {
                Some(arn) if kept.contains(&arn) => {}
                Some(arn) => known.release(&arn, owner),
                None => known.stop_waiting(&binding.backend, owner),
            }
        }
        for binding in &bindings {
            match &binding.group_arn {
                Some(arn) => known.hold(arn, binding, owner),
                None => known.wait(binding, owner),
            }
        }
        if !bindings.is_empty() {
            known.bindings.insert(owner.clone(), bindings);
        }
        let unkept = !known.unkept.is_empty();
        drop(known);
        if unkept {
            self.unkept.notify_one();
        }
    }

    /// A bound group.
    pub fn group(&self, arn: &str) -> Option<Arc<Group>> {
        self.lock().groups.get(arn).filter(|group| group.bound()).cloned()
    }

    /// Takes the groups without a task that keeps them.
    pub fn take_unkept(&self) -> Vec<Arc<Group>> {
        std::mem::take(&mut self.lock().unkept)
    }

    /// Forgets a group if no owner binds it any more. Returns whether that is so.
    pub fn retire(&self, group: &Group) -> bool {
        // The registry stays locked, so the group cannot be bound again in between.
        let mut known = self.lock();
        let retired = !group.bound();
        if retired {
            known.groups.remove(&group.arn);
            // No task reads the group any more. Dropping the senders ends the wait for a read, even if a task still
            // holds the group.
            drop(group.state().take_rechecks());
        }
        retired
    }

    /// The bound groups of a Service.
    pub fn groups_of(&self, service: &Key) -> Vec<Arc<Group>> {
        let known = self.lock();
        let arns = known.of_service.get(service).into_iter().flatten();
        arns.filter_map(|arn| known.groups.get(arn)).cloned().collect()
    }

    /// Notifies the groups that a change concerns, and wakes the objects that wait for one of these backends.
    pub fn changed(&self, concerned: &Concerned) {
        let known = self.lock();
        let mut woken = BTreeSet::new();
        for service in &concerned.services {
            for arn in known.of_service.get(service).into_iter().flatten() {
                known.groups.get(arn).inspect(|group| group.endpoints_changed());
            }
            woken.extend(known.waiting.get(service).into_iter().flat_map(BTreeMap::values).flatten().cloned());
        }
        for namespace in &concerned.left {
            let theirs = known.of_service.iter().filter(|((of, _), _)| of == namespace).flat_map(|(_, arns)| arns);
            let adrift = theirs.filter_map(|arn| known.groups.get(arn)).filter(|group| group.state().adrift);
            adrift.for_each(|group| group.changed.notify_one());
        }
        if concerned.nodes {
            for arn in &known.of_nodes {
                known.groups.get(arn).inspect(|group| group.endpoints_changed());
            }
            // Some of them may wait for a node.
            woken.extend(known.waiting.values().flat_map(BTreeMap::values).flatten().cloned());
        }
        drop(known);
        self.wake(woken);
    }

    /// Notifies all groups and wakes all waiting objects: a kind has been listed, or policies changed.
    pub fn all_changed(&self) {
        let known = self.lock();
        known.groups.values().for_each(|group| group.endpoints_changed());
        let woken = known.waiting.values().flat_map(BTreeMap::values).flatten().cloned().collect();
        drop(known);
        self.wake(woken);
    }

    /// The objects to wake, from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<ObjectKey> {
        let (sender, receiver) = unbounded();
        self.subscribers().push(sender);
        receiver
    }

    /// Wakes objects. A subscriber that hung up is removed.
    pub fn wake(&self, objects: BTreeSet<ObjectKey>) {
        let mut subscribers = self.subscribers();
        for key in objects {
            subscribers.retain(|subscriber| subscriber.unbounded_send(key.clone()).is_ok());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<UnboundedSender<ObjectKey>>> {
        self.subscribers.lock()
    }
}

fn service_of(backend: &Backend) -> Key {
    (backend.namespace.clone(), backend.service.clone())
}

impl Known {
    fn hold(&mut self, arn: &str, binding: &Binding, owner: &ObjectKey) {
        let group = if let Some(group) = self.groups.get(arn) {
            group.clone()
        } else {
            let group = Arc::new(Group::new(arn, binding));
            self.groups.insert(arn.to_owned(), group.clone());
            self.unkept.push(group.clone());
            group
        };
        for former in group.hold(binding, owner) {
            self.unlist(arn, &former);
        }
        for backend in binding.former.iter().chain([&binding.backend]) {
            self.of_service.entry(service_of(backend)).or_default().insert(arn.to_owned());
        }
        if binding.backend.target_type == TargetType::Instance {
            self.of_nodes.insert(arn.to_owned());
        }
    }

    fn release(&mut self, arn: &str, owner: &ObjectKey) {
        let Some(group) = self.groups.get(arn).cloned() else { return };
        for former in group.release(owner) {
            self.unlist(arn, &former);
        }
    }

    fn unlist(&mut self, arn: &str, backend: &Backend) {
        let service = service_of(backend);
        if let Some(arns) = self.of_service.get_mut(&service) {
            arns.remove(arn);
            // Pods wait at their readiness gates for every group of the Service: now for one less.
            arns.iter().filter_map(|other| self.groups.get(other)).for_each(|group| group.changed.notify_one());
            if arns.is_empty() {
                self.of_service.remove(&service);
            }
        }
        self.of_nodes.remove(arn);
    }

    fn wait(&mut self, binding: &Binding, owner: &ObjectKey) {
        let waiting = self.waiting.entry(service_of(&binding.backend)).or_default();
        waiting.entry(owner.clone()).or_default().extend(binding.owners.iter().cloned());
    }

    fn stop_waiting(&mut self, backend: &Backend, owner: &ObjectKey) {
        let service = service_of(backend);
        if let Some(waiting) = self.waiting.get_mut(&service) {
            waiting.remove(owner);
            if waiting.is_empty() {
                self.waiting.remove(&service);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;
    use crate::targets::PortName;

    fn owner() -> ObjectKey {
        ("shop".to_owned(), "shop".to_owned())
    }

    fn binding(arn: &str) -> Binding {
        let (namespace, service, port) = ("shop".into(), "cart".into(), PortName::Number(80));
        let (target_type, nodes) = (TargetType::Ip, BTreeMap::new());
        let backend = Backend { namespace, service, port, target_type, ipv6: false, nodes, check: None };
        let (group_arn, owners) = (Some(arn.into()), BTreeSet::from([owner()]));
        Binding { group_arn, vpc: None, backend, former: None, created: true, owners }
    }

    /// A registry with a bound group.
    fn bound() -> (Registry, Arc<Group>) {
        let registry = Registry::default();
        registry.bind(vec![binding("arn")], &owner());
        let group = registry.group("arn").expect("it is bound");
        (registry, group)
    }

    #[test]
    fn a_leaving_pod_concerns_groups_with_unknown_endpoints() {
        let (registry, group) = bound();
        let wakes = |namespace: &str| {
            registry.changed(&Concerned { left: BTreeSet::from([namespace.to_owned()]), ..Concerned::default() });
            group.changed.notified().now_or_never().is_some()
        };
        assert!(!wakes("shop"), "its slices say what it is to have");
        group.state().adrift = true;
        assert!(wakes("shop") && !wakes("bank"));
    }

    #[test]
    fn gates_are_decided_again_when_a_group_of_the_service_goes() {
        let (registry, group) = bound();
        registry.bind(vec![binding("arn"), binding("abandoned")], &owner());
        while group.changed.notified().now_or_never().is_some() {}
        registry.bind(vec![binding("arn")], &owner());
        assert!(group.changed.notified().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_recheck_of_a_group_that_is_released_ends() {
        let (registry, group) = bound();
        let (answer, answered) = oneshot::channel();
        group.recheck(answer);
        registry.bind(Vec::new(), &owner());
        assert!(registry.retire(&group) && registry.group("arn").is_none());
        let outcome = timeout(Duration::from_secs(10), answered).await.expect("an end of the waiting");
        assert!(outcome.is_err(), "no task looked");
    }
}
