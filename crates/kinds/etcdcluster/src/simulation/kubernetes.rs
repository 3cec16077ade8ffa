//! Kubernetes: children, the controller of `StatefulSet`s, and a kubelet for all pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway_api::EtcdCluster;
use causeway_databases::ChildAction;
use causeway_databases::simulation::{self, Birth, Objects};
use causeway_runtime::Class;

use super::raft::{Data, Raft};
use super::secrets::Secrets;
use crate::facts::{Backup, Child, Node, Observed, Pod, Skip};
use crate::names;
use crate::settings::{ADVERTISED_SCHEME, Start, minor_of};
use crate::tls::{Channel, Mode, Side, Transport};

/// How long a container that ended waits before it is started again.
pub const BACK_OFF: u8 = 3;
/// The same for one that was killed again and again.
pub const LONG_BACK_OFF: u8 = 60;
/// The log message of a member whose volume is full.
const NO_SPACE: &str = "{\"level\":\"fatal\",\"msg\":\"wal: no space left on device\"}";
/// How long a kubelet may still have the previous `ConfigMap`.
const MEMORY: u8 = 2;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct PodState {
    pub uid: String,
    pub revision: String,
    pub restarted: Option<String>,
    image: String,
    /// The version that its image holds; none where there is no such image.
    pub version: Option<String>,
    address: String,
    pub transport: Transport,
    /// The authorities that its member trusts among peers, and those that signed its certificate.
    pub trusts: BTreeSet<String>,
    pub shows: BTreeSet<String>,
    pub terminating: bool,
    /// A user took our label off.
    pub unlabelled: bool,
    /// How often its container was started again.
    restarts: i32,
    /// Its container was started.
    has_run: bool,
    /// Its node does not answer.
    pub lost: bool,
    /// It rebuilds the cluster whenever it starts.
    forced: bool,
    /// It is to skip revisions first.
    skips: bool,
    /// Its process was killed again and again, and waits long to be started.
    pub killed: bool,
    pub container: Container,
}

#[derive(Clone, Debug)]
pub enum Container {
    /// Not started, in the kubelet's word.
    Waiting(Option<&'static str>),
    Runs(u64),
    /// Gave up with this output, and is started again after that long.
    Ended(Option<String>, u8),
}

#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    /// Children, pods and volumes, and the data on them.
    pub set: Objects<PodState, Option<Data>>,
    pub secrets: Secrets,
    /// The `DatabaseBackup`; the operator has not looked for it unless a test says so.
    pub backup: Backup,
    /// A priority class that the apiserver refuses, with all pods that want it.
    pub forbidden: Option<String>,
    /// Kinds of children that the apiserver refuses, as a quota or a webhook makes it do.
    pub denied: BTreeSet<&'static str>,
    pub rigid: bool,
    /// No node takes the pod of that ordinal.
    pub homeless: Option<i32>,
    /// The `ConfigMap` as it was before its last change, and how long a kubelet may still have that.
    earlier: Option<(Child, u8)>,
    /// The kubelet reads the earlier settings.
    pub forgetful: bool,
    /// The volume of that ordinal is full as long as it has that size.
    pub full: Option<(i32, String)>,
}

/// The kind of the settings that a kubelet starts pods from.
const SETTINGS: &str = "ConfigMap";

impl Kubernetes {
    /// Returns the facts that a look at Kubernetes shows, without the members' answers.
    pub fn observe(&self, object: &EtcdCluster, raft: &Raft) -> Observed {
        Observed {
            set: self.set.observe(|ordinal, pod| pod.facts(object, ordinal, raft)),
            certificates: self.secrets.facts.clone(),
            credentials: self.secrets.facts.client.kept.as_ref().map(|_| Arc::default()),
            backup: self.backup.clone(),
            ..Observed::default()
        }
    }

    /// Carries out the action, if that is possible.
    pub fn act(&mut self, object: &EtcdCluster, action: &ChildAction) -> Result<(), Class> {
        let before = self.settings().cloned();
        self.set.act(object, action).map_err(|()| Class::Conflict)?;
        if matches!(action, ChildAction::Apply { child, .. } if child.kind() == SETTINGS) {
            self.earlier = before.map(|before| (before, MEMORY));
        }
        Ok(())
    }

    /// The settings as they are.
    fn settings(&self) -> Option<&Child> {
        self.set.children.iter().find(|((kind, _), _)| kind == SETTINGS).map(|(_, child)| child)
    }

    /// Deletes a pod, which stops its member at once.
    pub fn delete_pod(&mut self, ordinal: i32, raft: &mut Raft) {
        self.stop(ordinal, Container::Waiting(None), raft);
        if let Some(pod) = self.set.pods.get_mut(&ordinal) {
            pod.terminating = true;
        }
    }

    /// Puts a pod's container into another state; a member in it stops.
    pub fn stop(&mut self, ordinal: i32, then: Container, raft: &mut Raft) {
        let Some(pod) = self.set.pods.get_mut(&ordinal) else { return };
        if let Container::Runs(member) = pod.container {
            raft.stop(member);
        }
        pod.container = then;
    }

    /// Reports whether a pod may start as a new member by the settings that a kubelet has, or may still have.
    pub fn admits(&self, object: &EtcdCluster, ordinal: i32) -> bool {
        let name = names::pod(object, ordinal);
        let known = self.settings().into_iter().chain(self.earlier.as_ref().map(|(child, _)| child));
        known.filter_map(start_of).any(|start| start.begins || start.members.iter().any(|(member, _)| *member == name))
    }

    /// Reports whether a pod may start as a new member by the settings as they are.
    pub fn admits_now(&self, object: &EtcdCluster, ordinal: i32) -> bool {
        Self { earlier: None, ..self.clone() }.admits(object, ordinal)
    }

    /// A while passes.
    pub fn time_passes(&mut self, object: &EtcdCluster, raft: &mut Raft) {
        self.set.pods.retain(|_, pod| !pod.terminating || pod.lost);
        for spare in self.set.follow_set(object, PodState::new) {
            self.delete_pod(spare, raft);
        }
        // A claim stays while a pod uses it; a pod that waits for a node does not.
        let pods = &self.set.pods;
        let is_used = |ordinal: &i32| {
            pods.get(ordinal).is_some_and(|pod| !matches!(pod.container, Container::Waiting(Some("Unschedulable"))))
        };
        let gone: Vec<i32> = self
            .set
            .claims
            .iter()
            .filter(|(at, claim)| claim.facts.terminating && !is_used(at))
            .map(|(at, _)| *at)
            .collect();
        for ordinal in gone {
            self.drop_claim(ordinal, raft);
        }
        for ordinal in self.set.pods.keys().copied().collect::<Vec<_>>() {
            self.run(object, ordinal, raft);
        }
        // Members that run get renewed certificates.
        for pod in self.set.pods.values_mut().filter(|pod| pod.transport.peer.mode.has_files()) {
            pod.shows.clone_from(self.secrets.shown_authorities(Side::Peer));
        }
        self.forgetful = false;
        self.earlier = self.earlier.take().filter(|(_, left)| *left > 0).map(|(child, left)| (child, left - 1));
    }

    /// A claim and the data on its volume are gone.
    pub fn drop_claim(&mut self, ordinal: i32, raft: &mut Raft) {
        if let Some(data) = self.set.claims.remove(&ordinal).and_then(|claim| claim.volume) {
            raft.lose(data.member);
        }
    }

    /// Does the kubelet's work for one pod.
    fn run(&mut self, object: &EtcdCluster, ordinal: i32, raft: &mut Raft) {
        let Some(pod) = self.set.pods.get_mut(&ordinal).filter(|pod| !pod.lost && !pod.terminating) else { return };
        pod.restarts += i32::from(matches!(pod.container, Container::Ended(_, 0)));
        let next = match &pod.container {
            Container::Runs(member) if !raft.members.contains_key(member) => Container::Ended(None, BACK_OFF),
            Container::Runs(_) => return,
            Container::Ended(words, left) if *left > 0 => Container::Ended(words.clone(), left - 1),
            _ => self.start(object, ordinal, raft),
        };
        if let Some(pod) = self.set.pods.get_mut(&ordinal) {
            pod.killed &= matches!(next, Container::Ended(..));
            pod.has_run |= !matches!(next, Container::Waiting(_));
            pod.container = next;
        }
    }

    fn start(&mut self, object: &EtcdCluster, ordinal: i32, raft: &mut Raft) -> Container {
        let known = self.earlier.as_ref().map(|(child, _)| child).filter(|_| self.forgetful).or(self.settings());
        let by_tls = known.is_some_and(|map| map.value["data"][ADVERTISED_SCHEME] == "https");
        let settings = known.and_then(start_of);
        let Some(claim) = self.set.claims.get_mut(&ordinal).filter(|claim| !claim.facts.terminating) else {
            return Container::Waiting(Some("Unschedulable"));
        };
        if self.homeless == Some(ordinal) {
            return Container::Waiting(Some("Unschedulable"));
        }
        let Some(version) = self.set.pods[&ordinal].version.clone() else {
            return Container::Waiting(Some("ImagePullBackOff"));
        };
        let Some(settings) = settings else { return Container::Waiting(Some("CreateContainerConfigError")) };
        let (name, url) = (names::pod(object, ordinal), names::peer_url(object, ordinal, by_tls));
        let pod = self.set.pods.get_mut(&ordinal).unwrap();
        for side in Side::ALL {
            if pod.transport.side(side).mode.has_files() && self.secrets.facts.side(side).kept.is_none() {
                return Container::Waiting(Some("ContainerCreating"));
            }
        }
        if let Some(kept) = self.secrets.facts.peer.kept.as_ref().filter(|_| pod.transport.peer.mode.has_files()) {
            pod.trusts.clone_from(&kept.trust);
            pod.shows.clone_from(self.secrets.shown_authorities(Side::Peer));
        }
        if self.full.as_ref().is_some_and(|(at, size)| *at == ordinal && *size == claim.facts.size) {
            return Container::Ended(Some(NO_SPACE.into()), BACK_OFF);
        }
        if let Some(data) = claim.volume.as_mut().filter(|_| pod.forced) {
            let recovery = object.spec.recovery.as_ref().filter(|_| pod.skips);
            raft.force_new_cluster(data, &name, &url, recovery.map(|recovery| recovery.token.as_str()));
        }
        let minor = minor_of(&version).unwrap().into();
        match raft.start(&name, &url, &mut claim.volume, &settings, minor) {
            Ok(member) => Container::Runs(member),
            Err(words) => Container::Ended(words, BACK_OFF),
        }
    }
}

impl simulation::PodState for PodState {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn terminate(&mut self) {
        self.terminating = true;
    }

    fn unlabelled(&mut self) -> &mut bool {
        &mut self.unlabelled
    }
}

fn start_of(config_map: &Child) -> Option<Start> {
    Start::from_settings(&serde_json::from_value(config_map.value["data"].clone()).ok()?)
}

impl PodState {
    fn new(birth: &Birth<'_, Option<Data>>) -> Self {
        let channel = |side: Side| Channel {
            mode: Mode::from_label(birth.label(side.mode_label())),
            trust: birth.label(side.trust_label()).map(str::to_owned),
        };
        Self {
            uid: birth.uid.clone(),
            revision: birth.label(names::REVISION).unwrap().into(),
            restarted: birth.restarted(),
            image: birth.image().to_owned(),
            version: birth.image().split_once(":v").map(|(_, version)| version.to_owned()),
            address: birth.address.clone(),
            transport: Transport { peer: channel(Side::Peer), client: channel(Side::Client) },
            trusts: BTreeSet::new(),
            shows: BTreeSet::new(),
            terminating: false,
            unlabelled: false,
            restarts: 0,
            has_run: false,
            lost: false,
            forced: birth.label(names::FORCED).is_some(),
            skips: !birth.template["spec"]["initContainers"].is_null(),
            killed: false,
            // No node takes a pod whose claim is going away.
            container: Container::Waiting(birth.claim.facts.terminating.then_some("Unschedulable")),
        }
    }

    fn facts(&self, object: &EtcdCluster, ordinal: i32, raft: &Raft) -> Pod {
        let (trouble, last_words) = match &self.container {
            Container::Waiting(word) => (*word, None),
            Container::Runs(_) => (None, None),
            Container::Ended(words, _) => (Some("CrashLoopBackOff"), words.clone()),
        };
        Pod {
            name: names::pod(object, ordinal),
            uid: self.uid.clone(),
            revision: self.revision.clone(),
            restarted: self.restarted.clone(),
            address: Some(self.address.clone()),
            ready: self.member().is_some_and(|id| raft.leader.is_some() && raft.members.contains_key(&id)),
            terminating: self.terminating,
            unlabelled: self.unlabelled,
            exit_code: last_words.as_ref().map(|_| 2),
            restarts: self.restarts,
            has_run: self.has_run,
            lasts: self.member().is_some(),
            last_words,
            trouble: trouble.map(str::to_owned),
            revival: self.killed.then(|| "its process was killed".to_owned()),
            placed: true,
            lost_node: self.lost.then(|| format!("node-{ordinal}")),
            own: Node {
                image: Some(self.image.clone()),
                transport: self.transport.clone(),
                forced: self.forced,
                skip: if self.skips { self.skip() } else { Skip::NotAsked },
                memory_limit: None,
            },
            ..Pod::default()
        }
    }

    /// Reports whether revisions were skipped: known as soon as the member runs.
    fn skip(&self) -> Skip {
        match self.container {
            Container::Runs(_) => Skip::Done,
            _ => Skip::Pending,
        }
    }

    /// The member that it runs.
    pub fn member(&self) -> Option<u64> {
        match self.container {
            Container::Runs(member) if !self.lost && !self.terminating => Some(member),
            _ => None,
        }
    }

    /// Reports whether it answers at that URL.
    pub fn is_at(&self, url: &str) -> bool {
        let scheme = url.split("://").next().unwrap();
        self.transport.client.mode.serves(scheme)
            && url == format!("{scheme}://{}:{}", self.address, names::CLIENT_PORT)
    }

    /// Reports whether its member reaches another one there.
    pub fn reaches(&self, other: &Self, url: &str) -> bool {
        let by_tls = names::is_https(url);
        let trusted = || self.shows.is_subset(&other.trusts) && other.shows.is_subset(&self.trusts);
        other.transport.peer.mode.serves(if by_tls { "https" } else { "http" })
            && (!by_tls || self.transport.peer.mode.has_files() && trusted())
    }
}
