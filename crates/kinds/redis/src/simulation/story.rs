//! Faults, and the edits of users meanwhile.

use proptest::prelude::*;
use proptest::sample::Index;

use causeway_api::redis::Switchover;

use super::Simulation;
use super::kubernetes::Cut;
use super::nodes::Process;
use crate::names::{self, MASTER};

/// Something that happens without the operator.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A pod is deleted, as by a drain.
    DeletePod(Index),
    /// A process is killed.
    Kill(Index),
    /// A process is killed so often that the kubelet lets it wait.
    KillAgain(Index),
    /// All processes are killed at once.
    KillAll,
    Hang(Index),
    Resume,
    /// A process is killed, and its volume is empty.
    Empty(Index),
    /// A user deletes a child.
    DeleteChild(Index),
    /// A user takes the label off a pod.
    TakeLabel(Index),
    /// A user sends clients to a pod.
    Mislabel(Index),
    /// A user makes a master.
    Promote(Index),
    /// A disk takes nothing.
    Fill(Index),
    /// A user changes a setting in a running process, so that it refuses writes.
    Tamper(Index),
    /// A kubelet does not answer, or does again.
    Unready(Index),
    /// A user changes whom a Service leads to.
    Mislead(Index),
    /// The network drops packets between the operator and a pod.
    Drop(Index),
    /// The network rejects them.
    Reject(Index),
}

/// How a reconcile goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Mishap {
    /// The operator dies after so many actions, before it records anything more.
    pub dies_after: Option<usize>,
    /// The answer to that action is lost, counted from one: the action was done, but the operator does not know.
    pub reply_lost: Option<usize>,
}

/// A change of the spec by a user.
#[derive(Clone, Debug)]
pub enum Edit {
    Replicas(i32),
    Version(&'static str),
    Memory(Option<&'static str>),
    Switch(i32),
    Image(Option<&'static str>),
    Size(&'static str),
}

/// A fault or an edit.
#[derive(Clone, Debug)]
pub enum Event {
    Reconcile(Mishap),
    TimePasses,
    Write,
    Fault(Fault),
    Edit(Edit),
}

pub fn fault() -> impl Strategy<Value = Fault> {
    let place = any::<Index>;
    prop_oneof![
        3 => place().prop_map(Fault::DeletePod),
        3 => place().prop_map(Fault::Kill),
        1 => place().prop_map(Fault::KillAgain),
        1 => Just(Fault::KillAll),
        3 => place().prop_map(Fault::Hang),
        2 => Just(Fault::Resume),
        2 => place().prop_map(Fault::Empty),
        1 => place().prop_map(Fault::DeleteChild),
        1 => place().prop_map(Fault::TakeLabel),
        1 => place().prop_map(Fault::Mislabel),
        1 => place().prop_map(Fault::Promote),
        1 => place().prop_map(Fault::Fill),
        1 => place().prop_map(Fault::Tamper),
        1 => place().prop_map(Fault::Unready),
        1 => place().prop_map(Fault::Mislead),
        1 => place().prop_map(Fault::Drop),
        1 => place().prop_map(Fault::Reject),
    ]
}

fn mishap() -> impl Strategy<Value = Mishap> {
    let some = || proptest::option::weighted(0.3, 0..6_usize);
    (some(), some()).prop_map(|(dies_after, reply_lost)| Mishap { dies_after, reply_lost })
}

pub fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (0..5).prop_map(Edit::Replicas),
        2 => prop::sample::select(vec!["7.0.15", "7.2.5", "8.0.1"]).prop_map(Edit::Version),
        2 => prop::sample::select(vec![None, Some("1gb"), Some("2gb")]).prop_map(Edit::Memory),
        3 => (0..5).prop_map(Edit::Switch),
        1 => prop::sample::select(vec![None, Some("registry.example.com/nothing")]).prop_map(Edit::Image),
        1 => prop::sample::select(vec!["1Gi", "2Gi"]).prop_map(Edit::Size),
    ]
}

/// Generates events in order, with faults or without.
pub fn story(length: usize, with_faults: bool) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => mishap().prop_map(Event::Reconcile),
        5 => Just(Event::TimePasses),
        2 => Just(Event::Write),
        2 => fault().prop_map(move |fault| if with_faults { Event::Fault(fault) } else { Event::TimePasses }),
        1 => edit().prop_map(Event::Edit),
    ];
    proptest::collection::vec(event, 0..length)
}

impl Event {
    pub fn happens(&self, simulation: &mut Simulation) {
        match self {
            Self::Reconcile(mishap) => drop(simulation.reconcile(mishap)),
            Self::TimePasses => simulation.time_passes(),
            Self::Write => simulation.write(),
            Self::Fault(fault) => fault.happens(simulation),
            Self::Edit(edit) => edit.happens(simulation),
        }
    }
}

impl Edit {
    pub fn happens(&self, simulation: &mut Simulation) {
        let name = |ordinal: i32| names::pod(&simulation.object, ordinal);
        match self {
            Self::Switch(ordinal) => {
                let master = name(*ordinal);
                simulation.object.spec.switchover = Some(Switchover { master });
            }
            Self::Replicas(replicas) => simulation.object.spec.replicas = *replicas,
            Self::Version(version) => simulation.object.spec.version = (*version).into(),
            Self::Memory(Some(amount)) => {
                drop(simulation.object.spec.config.insert("maxmemory".into(), (*amount).into()));
            }
            Self::Memory(None) => simulation.object.spec.config.clear(),
            Self::Image(image) => simulation.object.spec.image = image.map(Into::into),
            // Volumes never shrink.
            Self::Size(size) if simulation.object.spec.storage.size == "2Gi" || *size == "1Gi" => {}
            Self::Size(size) => simulation.object.spec.storage.size = (*size).into(),
        }
    }
}

impl Fault {
    pub fn happens(&self, simulation: &mut Simulation) {
        match self {
            Self::DeletePod(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().terminating = true;
                }
            }
            Self::Kill(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.kill(ordinal);
                }
            }
            Self::KillAgain(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kill_again(ordinal);
                }
            }
            Self::KillAll => {
                for ordinal in simulation.kubernetes.set.pods.keys().copied().collect::<Vec<_>>() {
                    simulation.kubernetes.kill(ordinal);
                }
            }
            Self::Hang(place) => {
                let pod =
                    simulation.any_pod(*place).and_then(|ordinal| simulation.kubernetes.set.pods.get_mut(&ordinal));
                if let Some(process) = pod.and_then(|pod| pod.process.as_mut()) {
                    process.hangs.get_or_insert(0);
                }
            }
            Self::Resume => simulation.resume(),
            Self::Empty(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.kill(ordinal);
                    simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.writes.clear();
                }
            }
            Self::DeleteChild(place) => {
                let keys: Vec<(String, String)> = simulation.kubernetes.set.children.keys().cloned().collect();
                if let Some(key) = (!keys.is_empty()).then(|| &keys[place.index(keys.len())]) {
                    simulation.kubernetes.set.children.remove(key);
                    if key.0 == "StatefulSet" {
                        simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.terminating = true);
                    }
                }
            }
            Self::TakeLabel(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().unlabelled = true;
                }
            }
            Self::Mislabel(place) => {
                // To label a second master would be to ask for two masters, so only others are mislabelled.
                let pod =
                    simulation.any_pod(*place).and_then(|ordinal| simulation.kubernetes.set.pods.get_mut(&ordinal));
                if let Some(pod) = pod.filter(|pod| !pod.is_master()) {
                    pod.role = Some(MASTER.into());
                }
            }
            Self::Promote(place) => {
                let pod =
                    simulation.any_pod(*place).and_then(|ordinal| simulation.kubernetes.set.pods.get_mut(&ordinal));
                // A pod that is labelled as the master is left out: with the promotion as well, clients could find two
                // masters.
                let unseen = pod.filter(|pod| pod.role.as_deref() != Some(MASTER));
                if let Some(process) = unseen.and_then(|pod| pod.process.as_mut()) {
                    process.promote(0);
                }
            }
            Self::Fill(place) => {
                if let Some(process) = simulation.any_process(*place) {
                    process.full = true;
                }
            }
            Self::Tamper(place) => {
                if let Some(process) = simulation.any_process(*place) {
                    process.tampered = true;
                }
            }
            Self::Unready(place) => {
                let pod =
                    simulation.any_pod(*place).and_then(|ordinal| simulation.kubernetes.set.pods.get_mut(&ordinal));
                if let Some(pod) = pod {
                    pod.unready = !pod.unready;
                }
            }
            Self::Drop(place) => simulation.cut(*place, Cut::Dropped(0)),
            Self::Reject(place) => simulation.cut(*place, Cut::Rejected),
            Self::Mislead(place) => {
                let names: Vec<String> = simulation.kubernetes.slices.keys().cloned().collect();
                if !names.is_empty() {
                    simulation.kubernetes.slices.remove(&names[place.index(names.len())]);
                }
            }
        }
    }
}

impl Simulation {
    /// The process at some place.
    fn any_process(&mut self, place: Index) -> Option<&mut Process> {
        let ordinal = self.any_pod(place)?;
        self.kubernetes.set.pods.get_mut(&ordinal)?.process.as_mut()
    }

    fn cut(&mut self, place: Index, cut: Cut) {
        let pod = self.any_pod(place).and_then(|ordinal| self.kubernetes.set.pods.get_mut(&ordinal));
        if let Some(pod) = pod {
            pod.cut = Some(cut);
        }
    }

    /// The pod at some place.
    pub fn any_pod(&self, place: Index) -> Option<i32> {
        let ordinals: Vec<i32> = self.kubernetes.set.pods.keys().copied().collect();
        (!ordinals.is_empty()).then(|| ordinals[place.index(ordinals.len())])
    }

    /// Kills a process that was killed often before: the kubelet waits before it starts it again.
    pub fn kill_again(&mut self, ordinal: i32) {
        self.kubernetes.kill(ordinal);
        if let Some(pod) = self.kubernetes.set.pods.get_mut(&ordinal) {
            pod.waits = 60;
        }
    }

    /// Whatever hangs continues, disks have room, kubelets answer, and the operator reaches all pods.
    pub fn resume(&mut self) {
        self.kubernetes.severed.clear();
        self.kubernetes.dark = 0;
        for pod in self.kubernetes.set.pods.values_mut() {
            (pod.unready, pod.cut, pod.unreached, pod.away) = (false, None, false, 0);
            if let Some(process) = pod.process.as_mut() {
                process.hangs = None;
                process.full = false;
            }
        }
    }
}
