//! Faults, and the edits of users meanwhile.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use causeway_api::Duration;
use causeway_api::etcdcluster::{ClientTls, ClientTlsMode, PeerTls, Tls};
use causeway_databases::etcd::Password;

use super::Simulation;
use super::kubernetes::{self, Container};
use super::raft::Data;
use crate::names;
use crate::tls::Side;

/// Something that happens without the operator.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A pod is deleted, as by a drain.
    DeletePod(Index),
    /// A container is killed.
    KillContainer(Index),
    /// A container is killed so often that it is in a long restart back-off.
    KillAgain(Index),
    /// A node stops answering.
    LoseNode(Index),
    NodesReturn,
    /// The leader steps down.
    LoseLeader,
    /// A volume is empty all of a sudden.
    EmptyVolume(Index),
    /// A volume is replaced by a fresh one.
    ReplaceVolume(Index),
    /// A volume's data cannot be read any more.
    DamageVolume(Index),
    /// A user takes the label off a pod, or off a claim.
    TakeLabel(Index, bool),
    /// A user adds a member that never starts; one that votes, or one that learns.
    AddStranger(bool),
    /// A user changes the peer URL of a member.
    SendAstray(Index),
    /// A user deletes a child.
    DeleteChild(Index),
    /// A user deletes a Secret: of the peers or not, of the authority or not.
    LoseSecret(bool, bool),
    /// A user scales the pods.
    ScalePods(i32),
    /// A user changes the settings.
    ChangeSettings,
    /// A kubelet does not know the last change of the settings yet.
    OldSettings,
    /// A user enables a downgrade to 3.5, or cancels one.
    Downgrade(bool),
    /// A user gives root another password.
    ChangeRoot(&'static str),
    /// A user turns authentication off.
    OpenGate,
    /// A user deletes the Secret with the password that root has, or is to have.
    LosePassword(bool),
}

/// How a reconcile goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Mishap {
    /// The operator dies after this many actions, before it writes the status.
    pub dies_after: Option<usize>,
    /// The answer to that action, counted from one, is lost: it was done, and the operator does not know.
    pub reply_lost: Option<usize>,
    /// The watches show what they showed last time.
    pub stale: bool,
    /// Something happens before that action.
    pub meanwhile: Option<(usize, Fault)>,
}

/// A wish of a user.
#[derive(Clone, Debug)]
pub enum Edit {
    Replicas(i32),
    Version(&'static str),
    Config(Option<&'static str>),
    Image(Option<&'static str>),
    Size(&'static str),
    /// TLS among the members, and with clients.
    Tls(bool, Option<ClientTlsMode>),
    /// Other authorities.
    Renewal(&'static str),
    /// Clients must log in, or need not any more.
    Auth(bool),
    /// Another password in the Secret.
    Password(&'static str),
    Mistake,
}

/// A fault or an edit.
#[derive(Clone, Debug)]
pub enum Event {
    Reconcile(Mishap),
    TimePasses,
    Fault(Fault),
    Edit(Edit),
}

fn fault() -> impl Strategy<Value = Fault> {
    let place = any::<Index>;
    prop_oneof![
        place().prop_map(Fault::DeletePod),
        place().prop_map(Fault::KillContainer),
        place().prop_map(Fault::KillAgain),
        place().prop_map(Fault::LoseNode),
        Just(Fault::NodesReturn),
        Just(Fault::LoseLeader),
        place().prop_map(Fault::EmptyVolume),
        place().prop_map(Fault::ReplaceVolume),
        place().prop_map(Fault::DamageVolume),
        (place(), any::<bool>()).prop_map(|(place, claim)| Fault::TakeLabel(place, claim)),
        any::<bool>().prop_map(Fault::AddStranger),
        place().prop_map(Fault::SendAstray),
        place().prop_map(Fault::DeleteChild),
        any::<(bool, bool)>().prop_map(|(peer, authority)| Fault::LoseSecret(peer, authority)),
        (0..6).prop_map(Fault::ScalePods),
        Just(Fault::ChangeSettings),
        Just(Fault::OldSettings),
        any::<bool>().prop_map(Fault::Downgrade),
        Just(Fault::ChangeRoot("by hand")),
        Just(Fault::OpenGate),
        any::<bool>().prop_map(Fault::LosePassword),
    ]
}

fn mishap() -> impl Strategy<Value = Mishap> {
    let some = || proptest::option::weighted(0.2, 0..5_usize);
    (some(), some(), proptest::bool::weighted(0.2), proptest::option::weighted(0.2, (0..4_usize, fault())))
        .prop_map(|(dies_after, reply_lost, stale, meanwhile)| Mishap { dies_after, reply_lost, stale, meanwhile })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => prop::sample::select(vec![1, 3, 5]).prop_map(Edit::Replicas),
        2 => prop::sample::select(vec!["3.5.9", "3.5.26", "3.5.30", "3.6.1"]).prop_map(Edit::Version),
        1 => prop::sample::select(vec![None, Some("5000"), Some("6000")]).prop_map(Edit::Config),
        1 => prop::sample::select(vec![None, Some("registry.example.com/nothing")]).prop_map(Edit::Image),
        1 => prop::sample::select(vec!["10Gi", "20Gi"]).prop_map(Edit::Size),
        2 => (any::<bool>(), prop::sample::select(vec![None, Some(ClientTlsMode::Allow), Some(ClientTlsMode::Require)]))
            .prop_map(|(peer, client)| Edit::Tls(peer, client)),
        1 => prop::sample::select(vec!["one", "another"]).prop_map(Edit::Renewal),
        2 => any::<bool>().prop_map(Edit::Auth),
        2 => prop::sample::select(vec!["a", "b", "c"]).prop_map(Edit::Password),
        1 => Just(Edit::Mistake),
    ]
}

/// Generates events in order.
pub fn story(length: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        5 => mishap().prop_map(Event::Reconcile),
        5 => Just(Event::TimePasses),
        2 => fault().prop_map(Event::Fault),
        1 => edit().prop_map(Event::Edit),
    ];
    proptest::collection::vec(event, 0..length)
}

impl Event {
    pub fn happens(&self, simulation: &mut Simulation) {
        match self {
            Self::Reconcile(mishap) => drop(simulation.reconcile(mishap)),
            Self::TimePasses => simulation.time_passes(),
            Self::Fault(fault) => fault.happens(simulation),
            Self::Edit(edit) => edit.happens(simulation),
        }
    }
}

impl Simulation {
    /// That pod is in a long restart back-off, because its process was killed again and again.
    pub fn kill_again(&mut self, ordinal: i32) {
        let ended = Container::Ended(None, kubernetes::LONG_BACK_OFF);
        self.kubernetes.stop(ordinal, ended, &mut self.raft);
        if let Some(pod) = self.kubernetes.set.pods.get_mut(&ordinal) {
            pod.killed = true;
        }
    }
}

impl Edit {
    pub fn happens(&self, simulation: &mut Simulation) {
        let spec = &mut simulation.object.spec;
        match self {
            Self::Replicas(replicas) => spec.replicas = *replicas,
            Self::Version(version) => spec.version = (*version).into(),
            Self::Config(Some(count)) => drop(spec.config.insert("snapshot-count".into(), (*count).into())),
            Self::Config(None) => spec.config.clear(),
            Self::Image(image) => spec.image = image.map(Into::into),
            // Volumes never shrink.
            Self::Size(size) if spec.volume_size() == "20Gi" || *size == "10Gi" => {}
            Self::Size(size) => spec.storage_size = Some((*size).into()),
            Self::Tls(peer, client) => spec.tls = Some(tls(*peer, *client)),
            Self::Renewal(token) => {
                if let Some(tls) = &mut spec.tls {
                    tls.renewal = Some((*token).into());
                }
            }
            Self::Auth(enabled) => spec.auth.enabled = *enabled,
            Self::Password(password) => simulation.gate.user_provided = Some(Password((*password).into())),
            Self::Mistake => drop(spec.config.insert("snapshot-count".into(), "many".into())),
        }
    }
}

/// TLS by certificates of our own.
pub fn tls(peer: bool, client: Option<ClientTlsMode>) -> Tls {
    Tls {
        peer: peer.then(PeerTls::default),
        client: client.map(|mode| ClientTls { mode, ..ClientTls::default() }),
        certificate_duration: Duration::from_hours(2160),
        authority_duration: Duration::from_hours(87_600),
        renewal: None,
    }
}

impl Fault {
    /// Lets it happen, if its object is there and it costs no more data than etcd can do without.
    pub fn happens(&self, simulation: &mut Simulation) {
        simulation.disturb();
        match self {
            Self::DeletePod(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
                }
            }
            Self::KillContainer(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.stop(ordinal, Container::Waiting(None), &mut simulation.raft);
                }
            }
            Self::KillAgain(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kill_again(ordinal);
                }
            }
            Self::LoseNode(place) => {
                if let Some(ordinal) = simulation.any_pod(*place) {
                    simulation.kubernetes.stop(ordinal, Container::Waiting(None), &mut simulation.raft);
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().lost = true;
                }
            }
            Self::NodesReturn => simulation.nodes_return(),
            Self::LoseLeader => simulation.raft.leader = None,
            Self::EmptyVolume(place) => {
                if let Some(ordinal) =
                    simulation.losable(*place).filter(|at| !simulation.kubernetes.admits(&simulation.object, *at))
                {
                    simulation.kubernetes.stop(ordinal, Container::Waiting(None), &mut simulation.raft);
                    let data = simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.take().unwrap();
                    simulation.raft.lose(data.member);
                }
            }
            Self::ReplaceVolume(place) => {
                if let Some(ordinal) =
                    simulation.losable(*place).filter(|at| !simulation.kubernetes.admits(&simulation.object, *at))
                {
                    simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
                    simulation.kubernetes.drop_claim(ordinal, &mut simulation.raft);
                }
            }
            Self::DamageVolume(place) => {
                if let Some(ordinal) = simulation.losable(*place) {
                    simulation.kubernetes.stop(ordinal, Container::Waiting(None), &mut simulation.raft);
                    let data = simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.as_mut().unwrap();
                    data.damaged = true;
                    simulation.raft.lose(data.member);
                }
            }
            Self::TakeLabel(place, of_claim) => {
                let Some(ordinal) = simulation.any_pod(*place) else { return };
                if !of_claim {
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().unlabelled = true;
                } else if let Some(claim) = simulation.kubernetes.set.claims.get_mut(&ordinal) {
                    claim.facts.unlabelled = true;
                }
            }
            Self::AddStranger(learns) => simulation.raft.add_stranger(*learns, false),
            Self::SendAstray(place) => {
                let pod = simulation.any_pod(*place).and_then(|ordinal| simulation.kubernetes.set.pods.get(&ordinal));
                let noted: Vec<u64> =
                    simulation.kubernetes.set.claims.values().filter_map(|claim| claim.facts.member).collect();
                // A user who does that has seen the member in the status, so its ID is noted already.
                if let Some(id) = pod.and_then(kubernetes::PodState::member).filter(|id| noted.contains(id)) {
                    simulation.raft.send_astray(id);
                }
            }
            Self::DeleteChild(place) => simulation.delete_child(*place),
            Self::LoseSecret(peer, authority) => simulation.lose_secret(*peer, *authority),
            Self::ScalePods(count) => {
                let key = ("StatefulSet".to_owned(), simulation.name());
                if let Some(set) = simulation.kubernetes.set.children.get_mut(&key) {
                    set.value["spec"]["replicas"] = json!(count);
                }
            }
            Self::ChangeSettings => {
                let key = ("ConfigMap".to_owned(), simulation.name());
                if let Some(settings) = simulation.kubernetes.set.children.get_mut(&key) {
                    settings.value["data"]["ETCD_SNAPSHOT_COUNT"] = json!("1");
                }
            }
            Self::OldSettings => simulation.kubernetes.forgetful = true,
            Self::Downgrade(enable) => simulation.raft.tamper(*enable),
            Self::ChangeRoot(password) => {
                if simulation.gate.root.is_some() {
                    simulation.gate.root = Some(Password((*password).into()));
                }
            }
            Self::OpenGate => simulation.gate.on = false,
            Self::LosePassword(user_provided) => {
                if *user_provided {
                    simulation.gate.user_provided = None;
                } else {
                    simulation.gate.kept = None;
                }
            }
        }
    }
}

impl Simulation {
    fn lose_secret(&mut self, peer: bool, authority: bool) {
        let side = if peer { Side::Peer } else { Side::Client };
        let pods = self.kubernetes.set.pods.values();
        let labels = pods.filter_map(|pod| pod.transport.side(side).trust.clone()).collect();
        self.kubernetes.secrets.lose(side, authority, &labels);
    }

    /// Every node is back.
    pub fn nodes_return(&mut self) {
        for pod in self.kubernetes.set.pods.values_mut().filter(|pod| pod.lost) {
            pod.lost = false;
            pod.container = Container::Waiting(None);
        }
    }

    /// The data of the learner are damaged, or gone.
    pub fn lose_volume_of_learner(&mut self, damaged: bool) {
        let learner = self.raft.members.values().find(|member| member.is_learner).unwrap();
        let ordinal = names::ordinal_at(&self.object, &learner.peer_urls).unwrap();
        self.kubernetes.stop(ordinal, Container::Waiting(None), &mut self.raft);
        let data = &mut self.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume;
        let member = data.as_ref().unwrap().member;
        *data = damaged.then_some(Data { member, damaged });
        self.raft.lose(member);
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// The ordinal of a member whose data can be lost.
    fn losable(&self, place: Index) -> Option<i32> {
        let ordinal = self.any_pod(place)?;
        let data = self.kubernetes.set.claims.get(&ordinal)?.volume.as_ref()?;
        let member = self.raft.members.get(&data.member)?;
        (!data.damaged && (member.is_learner || self.raft.can_lose(member.id))).then_some(ordinal)
    }

    /// Pods are deleted with their `StatefulSet`; volumes stay. No user deletes the settings while a cluster begins.
    fn delete_child(&mut self, place: Index) {
        let keys: Vec<(String, String)> = self.kubernetes.set.children.keys().cloned().collect();
        let Some(key) = (!keys.is_empty()).then(|| &keys[place.index(keys.len())]) else { return };
        if key.0 == "ConfigMap" && self.raft.leader.is_none() {
            return;
        }
        self.kubernetes.set.children.remove(key);
        if key.0 == "StatefulSet" {
            for ordinal in self.kubernetes.set.pods.keys().copied().collect::<Vec<_>>() {
                self.kubernetes.delete_pod(ordinal, &mut self.raft);
            }
        }
    }
}
