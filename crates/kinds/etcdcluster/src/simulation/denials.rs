//! A refusal of the apiserver, such as by a quota or a webhook, keeps no member from being helped.

use causeway_api::pods::{ServiceTemplate, ServiceType};
use causeway_databases::ChildAction;
use causeway_databases::refusals::refusal_of;
use causeway_databases::simulation::error_of;
use causeway_runtime::{Class, Health};

use super::Simulation;
use super::faults::{Edit, Mishap};
use super::kubernetes::Kubernetes;
use super::recovery;
use crate::action::Action;
use crate::database::EtcdDatabase;
use crate::facts::Backup;
use crate::fixtures::cluster;

impl Kubernetes {
    /// Reports whether the apiserver refuses that.
    pub fn denies(&self, action: &ChildAction) -> bool {
        match action {
            ChildAction::Apply { child, .. } => {
                let class = child.value["spec"]["template"]["spec"]["priorityClassName"].as_str();
                self.denied.contains(child.kind()) || (class.is_some() && class == self.forbidden.as_deref())
            }
            ChildAction::GrowClaim { .. } => self.rigid,
            _ => false,
        }
    }
}

impl Simulation {
    fn stalls(&self) -> (&'static str, &str) {
        let Some(Health::Stalled(cause)) = &self.health else { panic!("{:?}", self.health) };
        (cause.reason, &cause.message)
    }

    /// The apiserver refuses that. The operator remembers it, or fails.
    pub fn refuse(&mut self, action: &ChildAction) -> Class {
        let Some((child, refusal)) = refusal_of::<EtcdDatabase>(&self.object, action, &error_of(action)) else {
            return Class::Denied;
        };
        assert!(self.refused.insert(child, (self.object.spec.clone(), refusal)).is_none(), "tried again: {action:?}");
        Class::Conflict
    }

    /// The operator tries again.
    fn refusals_expire(&mut self) {
        self.refused.clear();
    }

    fn ask_for_load_balancer(&mut self) {
        self.kubernetes.denied.insert("Service");
        let service = ServiceTemplate { kind: ServiceType::LoadBalancer, ..ServiceTemplate::default() };
        self.object.spec.service = Some(service);
    }
}

#[test]
fn a_refused_service_is_reported_and_members_are_replaced() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.ask_for_load_balancer();
    simulation.works(5);
    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    simulation.kubernetes.drop_claim(1, &mut simulation.raft);
    simulation.works(60);
    assert_eq!(simulation.raft.healthy().len(), 3, "{:#?}", simulation.raft);
    let (reason, message) = simulation.stalls();
    assert_eq!(reason, "ApplyFailed");
    assert!(message.contains("Service prod-etcd") && message.contains("spec.service"), "{message}");
    assert!(message.contains("exceeded quota"), "{message}");
    simulation.kubernetes.denied.clear();
    simulation.refusals_expire();
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_refused_service_does_not_stop_a_recovery() {
    let mut simulation = recovery::lost_majority();
    simulation.ask_for_load_balancer();
    simulation.works(5);
    assert_eq!(simulation.stalls().0, "QuorumLost");
    let mut simulation = recovery::ask_for_recovery(simulation);
    simulation.works(120);
    assert_eq!(simulation.raft.healthy().len(), 3, "{:#?}", simulation.raft);
    assert_eq!(simulation.stalls().0, "ApplyFailed");
}

#[test]
fn volumes_that_cannot_grow_do_not_stop_backups() {
    let mut simulation = Simulation::settled(cluster(3));
    (simulation.kubernetes.rigid, simulation.kubernetes.backup) = (true, Backup::Absent);
    Edit::Size("20Gi").happens(&mut simulation);
    simulation.object.spec.backup_schedule = Some("0 3 * * *".into());
    simulation.settle();
    let (reason, message) = simulation.stalls();
    assert_eq!(reason, "VolumeCannotGrow");
    assert!(message.contains("allowVolumeExpansion"), "{message}");
    assert!(matches!(simulation.kubernetes.backup, Backup::Present(_)), "{:?}", simulation.kubernetes.backup);
    simulation.kubernetes.rigid = false;
    simulation.refusals_expire();
    simulation.settle();
    simulation.assert_settled();
}

/// Without its network policy, for example, a database would be open to all.
#[test]
fn a_refused_child_keeps_a_cluster_from_beginning() {
    for kind in ["Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet"] {
        let mut simulation = Simulation::new(cluster(3));
        simulation.kubernetes.denied.insert(kind);
        simulation.works(20);
        assert!(simulation.kubernetes.set.pods.is_empty(), "{kind}: {:#?}", simulation.kubernetes.set.pods);
        simulation.kubernetes.denied.clear();
        simulation.refusals_expire();
        simulation.settle();
        simulation.assert_settled();
    }
}

/// The settings say which members may start without data: until they are written, no member is changed.
#[test]
fn no_member_is_promoted_before_its_settings_are_accepted() {
    let mut simulation = Simulation::settled(cluster(1));
    Edit::Replicas(3).happens(&mut simulation);
    while !simulation.raft.members.values().any(|member| member.is_learner && !member.client_urls.is_empty()) {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    simulation.kubernetes.denied.insert("ConfigMap");
    simulation.works(20);
    assert!(!simulation.journal.iter().any(|action| matches!(action, Action::Promote { .. })));
    simulation.kubernetes.denied.clear();
    simulation.settle();
    simulation.assert_settled();
}
