//! A refusal of the apiserver, such as by a quota or a webhook, keeps nothing else from being done.

use causeway_api::pods::{ServiceTemplate, ServiceType};
use causeway_api::redis::Switchover;
use causeway_databases::ChildAction;
use causeway_databases::refusals::refusal_of;
use causeway_databases::simulation::error_of;
use causeway_databases::step::RETRY_INTERVAL;
use causeway_runtime::Health;

use super::Simulation;
use super::kubernetes::Kubernetes;
use super::looks::says;
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::database::RedisDatabase;
use crate::decide::decide;
use crate::fixtures::redis;
use crate::resources;

impl Kubernetes {
    /// Reports whether the apiserver refuses that.
    pub fn denies(&self, action: &ChildAction) -> bool {
        match action {
            ChildAction::Apply { child, .. } => self.denied.contains(child.kind()),
            ChildAction::GrowClaim { .. } => self.rigid,
            _ => false,
        }
    }
}

impl Simulation {
    /// The apiserver refuses that. The operator remembers it, or fails.
    pub fn refuse(&mut self, action: &ChildAction) {
        let Some((child, refusal)) = refusal_of::<RedisDatabase>(&self.object, action, &error_of(action)) else {
            return;
        };
        self.refused.retain(|_, (spec, _)| *spec == self.object.spec);
        let before = self.refused.insert(child, (self.object.spec.clone(), refusal));
        assert!(before.is_none(), "tried again: {action:?}");
    }

    /// The apiserver refuses nothing any more, and the operator tries again.
    fn allow(&mut self) {
        self.kubernetes.rigid = false;
        self.kubernetes.denied.clear();
        self.refused.clear();
    }

    fn works(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.reconcile(&Mishap::default());
            self.time_passes();
        }
    }

    fn stalls(&self) -> (&'static str, &str) {
        let Some(Health::Stalled(cause)) = &self.health else { panic!("{:?}", self.health) };
        (cause.reason, &cause.message)
    }

    fn deletes_pods(&self) -> bool {
        self.journal.iter().any(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. })))
    }
}

const OTHER: Edit = Edit::Image(Some("registry.example.com/redis"));

/// A settled set with two replicas, whose next Service the apiserver refuses.
fn refused_service() -> Simulation {
    let mut simulation = Simulation::settled(redis(2));
    simulation.kubernetes.denied.insert("Service");
    let service = ServiceTemplate { kind: ServiceType::LoadBalancer, ..ServiceTemplate::default() };
    simulation.object.spec.replica_service = Some(service);
    simulation
}

#[test]
fn a_refused_service_is_reported_and_pods_are_replaced() {
    let mut simulation = refused_service();
    OTHER.happens(&mut simulation);
    simulation.works(60);
    let revision = resources::revision(&simulation.object);
    let pods = &simulation.kubernetes.set.pods;
    assert!(pods.values().all(|pod| pod.revision == revision), "{pods:#?}");
    let (reason, message) = simulation.stalls();
    assert_eq!(reason, "ApplyFailed");
    for words in ["Service cache-replicas", "spec.replicaService", "exceeded quota"] {
        assert!(message.contains(words), "{words} is not in: {message}");
    }
    simulation.allow();
    simulation.settle();
    simulation.assert_settled();
}

/// Clients may still reach the earlier master, and readers do not come to it before they have left it.
#[test]
fn a_set_with_a_refused_child_is_retried_soon() {
    let mut simulation = refused_service();
    Edit::Switch(1).happens(&mut simulation);
    let mut looks = Vec::new();
    for _ in 0..20 {
        simulation.works(1);
        let plan = decide(&simulation.object, &simulation.observe(), simulation.now);
        let rests = plan.actions.is_empty() && matches!(plan.health, Health::Stalled(_));
        if rests && plan.status.last_failover.is_some_and(|last| !last.left.is_empty()) {
            looks.push(plan.requeue.unwrap());
        }
    }
    let status = simulation.object.status.as_ref().unwrap();
    assert_eq!(status.master.as_deref(), Some("cache-1"), "{status:#?}");
    assert!(!looks.is_empty() && looks.iter().all(|again| *again <= RETRY_INTERVAL), "{looks:?}");
}

/// Their successors would be like them.
#[test]
fn refused_pods_stop_the_rollout_but_no_failover() {
    let mut simulation = Simulation::settled(redis(2));
    simulation.kubernetes.denied.insert("StatefulSet");
    OTHER.happens(&mut simulation);
    simulation.works(20);
    assert_eq!(simulation.stalls().0, "ApplyFailed");
    simulation.kubernetes.kill(0);
    simulation.works(20);
    assert_ne!(simulation.object.status.as_ref().unwrap().master.as_deref(), Some("cache-0"));
    assert!(!simulation.deletes_pods());
    simulation.allow();
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_volume_that_cannot_grow_stops_no_switchover() {
    let mut simulation = Simulation::settled(redis(2));
    simulation.kubernetes.rigid = true;
    Edit::Size("2Gi").happens(&mut simulation);
    simulation.works(20);
    let (reason, message) = simulation.stalls();
    assert_eq!(reason, "VolumeCannotGrow");
    assert!(message.contains("allowVolumeExpansion"), "{message}");
    let mut observed = simulation.observe();
    says(&mut observed, 2, |info| info.log_fails = true);
    let mut object = simulation.object.clone();
    object.spec.switchover = Some(Switchover { master: "cache-1".into() });
    let plan = decide(&object, &observed, simulation.now);
    let target = plan.status.failover.map(|failover| failover.target);
    assert_eq!(target.as_deref(), Some("cache-1"), "{:?}", plan.actions);
    assert!(matches!(&plan.health, Health::Stalled(cause) if cause.reason == "VolumeCannotGrow"), "{:?}", plan.health);
    observed.refused.clear();
    let actions = decide(&object, &observed, simulation.now).actions;
    assert!(matches!(&actions[..], [Action::Child(ChildAction::GrowClaim { .. })]), "it is tried again: {actions:?}");
    simulation.allow();
    simulation.settle();
    simulation.assert_settled();
}

/// Without its network policy, for example, a database would be open to all.
#[test]
fn a_refused_child_keeps_a_set_from_beginning() {
    for kind in ["Service", "PodDisruptionBudget", "StatefulSet"] {
        let mut simulation = Simulation::new(redis(2));
        simulation.kubernetes.denied.insert(kind);
        simulation.works(20);
        assert!(simulation.kubernetes.set.pods.is_empty(), "{kind}: {:#?}", simulation.kubernetes.set.pods);
        simulation.allow();
        simulation.settle();
        simulation.assert_settled();
    }
}
