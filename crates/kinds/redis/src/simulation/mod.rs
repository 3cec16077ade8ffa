//! Pods, volumes and processes of Redis in memory, in which every decision must lead to the same end and lose no
//! acknowledged write.

mod absence;
mod clients;
mod cuts;
mod denials;
mod doors;
mod evictions;
mod idle;
mod kubernetes;
mod limits;
mod looks;
mod nodes;
mod owners;
mod ownership;
mod partial;
mod passwords;
mod properties;
mod readiness;
mod refused_config;
mod remade;
mod restarts;
mod restore;
mod room;
mod sentinel;
mod service;
mod shrinking;
mod sidecars;
mod states;
mod story;
mod strangers;
mod tls;
mod unproven;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::action::{Action, SliceWrite};
use super::decide::decide;
use super::facts::{NodePod, Observed};
use super::names::MASTER;
use super::resources::{routes_of, service_of};
use causeway_api::{Redis, RedisSpec};
use causeway_databases::ChildAction;
use causeway_databases::refusals::{ChildKey, Refusal};
use causeway_runtime::{Health, Plan};
use kubernetes::Kubernetes;
use nodes::Write;
use states::States;
use story::Mishap;

/// The most rounds of one reconcile.
const ROUNDS: usize = 12;
/// Reconciles after which a set that has not come to rest is a failure.
const PASSES: usize = 300;

/// The object, what there is, and what clients know.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub object: Redis,
    pub kubernetes: Kubernetes,
    pub now: Timestamp,
    /// The health of the object at the last decision.
    pub health: Option<Health>,
    /// Writes that clients got an acknowledgement for.
    pub acknowledged: Vec<Write>,
    /// The actions that were taken.
    pub journal: Vec<Action>,
    /// The states that the failover was in.
    pub states: States,
    /// Children that were refused, each with the spec that asked for it.
    refused: BTreeMap<ChildKey, (RedisSpec, Refusal)>,
    next_write: Write,
}

impl Simulation {
    pub fn new(object: Redis) -> Self {
        Self {
            object,
            kubernetes: Kubernetes::default(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            health: None,
            acknowledged: Vec::new(),
            journal: Vec::new(),
            states: States::default(),
            refused: BTreeMap::new(),
            next_write: 1,
        }
    }

    /// One that has come to rest, and has data.
    pub fn settled(object: Redis) -> Self {
        let mut simulation = Self::new(object);
        simulation.settle();
        simulation.write();
        simulation.time_passes();
        simulation.settle();
        simulation
    }

    fn observe(&self) -> Observed {
        let mut observed = self.kubernetes.observe(&self.object);
        let refused = self.refused.iter().filter(|(_, (spec, _))| *spec == self.object.spec);
        observed.refused = refused.map(|(child, (_, refusal))| (child.clone(), refusal.clone())).collect();
        // The age of a pod matters only while the operator cannot reach it.
        let cut = self.kubernetes.set.pods.iter().filter(|(_, pod)| pod.cut.is_some());
        for (ordinal, pod) in cut {
            let made = self.now.checked_sub(SignedDuration::from_secs(pod.age)).unwrap();
            observed.set.pods.get_mut(ordinal).unwrap().made = Some(made);
        }
        observed
    }

    /// One reconcile; true when it had nothing to do.
    pub fn reconcile(&mut self, mishap: &Mishap) -> bool {
        let mut done = 0;
        for round in 0..ROUNDS {
            let observed = self.observe();
            let plan = decide(&self.object, &observed, self.now);
            self.states.follow(&self.object, &observed, self.now, &plan.status);
            let Plan { actions, status, health, write_status_first, .. } = plan;
            let serves =
                observed.set.pods.values().any(|pod| status.master.as_ref() == Some(&pod.name) && pod.info().is_some());
            assert!(serves || !matches!(health, Health::Ready(_)), "ready without a master that answers");
            readiness::assert_true(&self.object, &observed, &health, &actions);
            let is_ready = matches!(health, Health::Ready(_));
            assert!(!is_ready || self.kubernetes.serves(&self.object), "ready, and clients are not served");
            self.health = Some(health);
            if mishap.dies_after == Some(done) {
                return false;
            }
            if actions.is_empty() || write_status_first {
                let rests = round == 0 && self.object.status.as_ref() == Some(&status);
                self.object.status = Some(status);
                if actions.is_empty() {
                    return rests;
                }
            }
            for action in &actions {
                if mishap.dies_after == Some(done) {
                    return false;
                }
                self.assert_harmless(action);
                self.journal.push(action.clone());
                let outcome = match action {
                    Action::Certify(due) => {
                        tls::certify(&mut self.kubernetes.certificates, &self.object, due, self.now)
                    }
                    Action::Child(child) if self.kubernetes.denies(child) => {
                        self.refuse(child);
                        Err(())
                    }
                    action => self.kubernetes.act(&self.object, action),
                };
                self.assert_one_master();
                self.assert_trusted();
                if let Action::WriteSlice(slice_write) = action {
                    self.assert_led_to_the_recorded_master(slice_write);
                }
                done += 1;
                if outcome.is_err() {
                    break;
                }
                if mishap.reply_lost == Some(done) {
                    return false;
                }
            }
            // A client writes all the time.
            self.write();
        }
        false
    }

    /// A client writes through the Service.
    pub fn write(&mut self) {
        let write = self.next_write;
        if self.kubernetes.write(write, &self.object) {
            self.next_write += 1;
            self.acknowledged.push(write);
        }
    }

    /// A second passes.
    pub fn time_passes(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        self.kubernetes.time_passes(&self.object);
        self.assert_one_master();
    }

    /// Lets the operator work until nothing is left to do.
    pub fn settle(&mut self) {
        let mut still = 0;
        for _ in 0..PASSES {
            let rests = self.reconcile(&Mishap::default());
            self.delete_kept_volumes();
            self.time_passes();
            // Without a master, something happens after a while.
            let waits = self.object.status.as_ref().is_some_and(|status| status.masterless_since.is_some());
            let ends = matches!(self.health, Some(Health::Ready(_) | Health::Stalled(_))) && !waits;
            still = if rests && ends { still + 1 } else { 0 };
            if still > 6 {
                return;
            }
        }
        let last = &self.journal[self.journal.len().saturating_sub(8)..];
        panic!(
            "never settles: {:?}\n{last:#?}\n{:#?}\n{:#?}",
            self.health, self.object.status, self.kubernetes.set.pods
        );
    }

    /// The user deletes volumes that are kept for them, as the condition says.
    fn delete_kept_volumes(&mut self) {
        if matches!(&self.health, Some(Health::Progressing(cause)) if cause.reason == "VolumesKept") {
            let set = &mut self.kubernetes.set;
            set.claims.retain(|ordinal, _| *ordinal <= self.object.spec.replicas || set.pods.contains_key(ordinal));
        }
    }

    /// Asserts that all is as the object says.
    pub fn assert_settled(&self) {
        assert!(matches!(self.health, Some(Health::Ready(_))), "{:?} {:#?}", self.health, self.kubernetes.set.pods);
        let wanted: Vec<i32> = (0..=self.object.spec.replicas).collect();
        assert_eq!(self.kubernetes.set.pods.keys().copied().collect::<Vec<_>>(), wanted);
        let status = self.object.status.as_ref().unwrap();
        assert_eq!(status.ready_replicas, self.object.spec.replicas);
        assert_eq!(status.failover, None);
        let masters: Vec<&String> =
            self.kubernetes.set.pods.values().filter(|pod| pod.is_master()).map(|pod| &pod.name).collect();
        assert_eq!(masters, status.master.iter().collect::<Vec<_>>());
        let behind: Vec<&String> =
            self.kubernetes.behind(&self.object.name_any()).into_iter().map(|pod| &pod.name).collect();
        assert_eq!(behind, masters, "clients are led to the master alone");
        let replicas = self.kubernetes.behind(&super::names::replicas(&self.object));
        assert_eq!(replicas.len(), usize::try_from(self.object.spec.replicas).unwrap(), "{replicas:#?}");
        let revision = super::resources::revision(&self.object);
        assert!(self.kubernetes.set.pods.values().all(|pod| pod.revision == revision));
        let data: Vec<&Vec<Write>> =
            self.kubernetes.set.pods.values().map(|pod| &pod.process.as_ref().unwrap().writes).collect();
        assert!(data.iter().all(|writes| *writes == data[0]), "{data:?}");
        assert_eq!(decide(&self.object, &self.observe(), self.now).actions, []);
    }

    /// Returns the data of the master.
    pub fn data(&self) -> Vec<Write> {
        let master = self.kubernetes.set.pods.values().find(|pod| pod.is_master());
        master.map_or_else(Vec::new, |pod| pod.process.as_ref().unwrap().writes.clone())
    }

    /// Asserts that clients never find two masters, neither by the label nor behind the Service.
    fn assert_one_master(&self) {
        let found =
            self.kubernetes.set.pods.values().filter(|pod| pod.role.as_deref() == Some(MASTER) && pod.is_master());
        assert!(found.count() <= 1, "two pods are called the master: {:#?}", self.kubernetes.set.pods);
        let behind = self.kubernetes.behind(&self.object.name_any());
        // Two slices may name the same.
        let masters: BTreeSet<&String> = behind.iter().filter(|pod| pod.is_master()).map(|pod| &pod.uid).collect();
        assert!(masters.len() <= 1, "two masters behind the Service: {behind:#?}");
    }

    /// Asserts that a written slice leads clients to the node that the status names, and to no other.
    fn assert_led_to_the_recorded_master(&self, slice_write: &SliceWrite) {
        if service_of(&slice_write.slice.value) != Some(&self.object.name_any()) {
            return;
        }
        let status = self.object.status.as_ref().unwrap();
        let recorded: Vec<&String> = match &status.failover {
            Some(failover) => failover.from.iter().filter(|_| failover.planned).chain([&failover.target]).collect(),
            None => status.master.iter().collect(),
        };
        for route in routes_of(&slice_write.slice.value) {
            assert!(recorded.contains(&&route.pod), "{route:?}: {status:#?}");
        }
    }

    /// Asserts that an action does no harm.
    fn assert_harmless(&self, action: &Action) {
        match action {
            Action::Promote { node, .. } => {
                let process = |name: &str| {
                    let pod = self.kubernetes.set.pods.values().find(|pod| pod.name == name);
                    pod.and_then(|pod| pod.process.as_ref())
                };
                let data = |name: &str| process(name).map_or(0, |process| process.writes.len());
                let richest = self.kubernetes.set.pods.values().map(|pod| data(&pod.name)).max().unwrap_or(0);
                // An empty node may be promoted if it was in sync a moment ago, when there were no data: it lacks only
                // what came since, as replicas always may.
                let status = self.object.status.as_ref().unwrap();
                let was_in_sync = status.nodes.iter().any(|it| it.name == node.name && it.in_sync);
                let goes_on = process(&node.name).is_some_and(|it| status.history.as_ref() == Some(&it.history));
                let is_fit = data(&node.name) > 0 || richest == 0 || (was_in_sync && goes_on);
                assert!(is_fit, "{} is empty, others are not", node.name);
            }
            Action::Child(ChildAction::DeleteClaim { name, .. }) => {
                let ordinal = super::names::ordinal_of(&self.object, name).unwrap();
                let damaged = self.kubernetes.set.claims[&ordinal].volume.damaged && !self.data().is_empty();
                assert!(damaged || ordinal > self.object.spec.replicas, "{name} is wanted");
            }
            _ => {}
        }
    }
}
