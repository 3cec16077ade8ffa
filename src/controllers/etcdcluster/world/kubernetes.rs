//! Kubernetes: children, the controller of `StatefulSet`s, and a kubelet for all pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::raft::{Data, Raft};
use super::secrets::Vault;
use crate::api::EtcdCluster;
use crate::controllers::etcdcluster::facts::{Backup, Child, Claim, Observed, Pod, Skip};
use crate::controllers::etcdcluster::names;
use crate::controllers::etcdcluster::settings::{ADVERTISED_SCHEME, Start, minor_of};
use crate::controllers::etcdcluster::tls::{Channel, Mode, Side, Transport};
use crate::controllers::pod_trouble::Evidence;
use crate::controllers::restore_from::Seen;
use crate::runtime::manifest::Manifest;

/// So long a container that ended waits before it is started again.
const BACK_OFF: u8 = 3;
/// The same of one that was killed again and again.
pub const LONG_BACK_OFF: u8 = 60;
/// So long a kubelet may still know a `ConfigMap` as it was.
const MEMORY: u8 = 2;

/// A pod.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct PodState {
    pub uid: String,
    pub revision: String,
    /// The version that its image holds; none where there is no such image.
    pub version: Option<String>,
    address: String,
    pub transport: Transport,
    /// Whom its member trusts among the peers, and whom its certificate comes from.
    pub trusts: BTreeSet<String>,
    pub shows: BTreeSet<String>,
    pub terminating: bool,
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// How often its container was started anew.
    restarts: i32,
    /// Its node does not answer.
    pub lost: bool,
    /// It begins the cluster anew whenever it starts.
    forced: bool,
    /// It is to skip revisions before.
    skips: bool,
    /// Its process was killed again and again, and waits long to be started.
    pub killed: bool,
    pub container: Container,
}

/// A pod's container.
#[derive(Clone, Debug)]
pub enum Container {
    /// Not started, in the kubelet's word.
    Waiting(Option<&'static str>),
    /// Runs that member.
    Runs(u64),
    /// Gave up with these words, and is started again after so long.
    Ended(Option<String>, u8),
}

/// A volume claim and its volume.
#[derive(Clone, Debug)]
pub struct ClaimState {
    pub facts: Claim,
    pub data: Option<Data>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    pub children: BTreeMap<(String, String), Child>,
    pub pods: BTreeMap<i32, PodState>,
    pub claims: BTreeMap<i32, ClaimState>,
    /// Claims of our names that are somebody else's: whose.
    pub others: BTreeMap<i32, &'static str>,
    pub vault: Vault,
    /// The `DatabaseBackup`; nobody knows anything of it unless a test says so.
    pub backup: Backup,
    /// The `DatabaseRestore`; nobody knows anything of it unless a test says so.
    pub restore: Seen,
    /// A priority class that the apiserver refuses, with all pods that want it.
    pub forbidden: Option<String>,
    /// The `ConfigMap` as it was before it changed last, and how long somebody may still know that.
    earlier: Option<(Child, u8)>,
    /// The kubelet reads what it knew earlier.
    pub forgetful: bool,
    born: u64,
}

/// What a kubelet starts pods from.
const SETTINGS: &str = "ConfigMap";

impl Kubernetes {
    /// What a look at it shows; members are asked by themselves.
    pub fn observe(&self, object: &EtcdCluster, raft: &Raft) -> Observed {
        Observed {
            children: self.children.clone(),
            pods: self.pods.iter().map(|(ordinal, pod)| (*ordinal, pod.facts(object, *ordinal, raft))).collect(),
            claims: self.claims.iter().map(|(ordinal, claim)| (*ordinal, claim.facts.clone())).collect(),
            foreign: self.others.iter().map(|(ordinal, whose)| (*ordinal, (*whose).to_owned())).collect(),
            certificates: self.vault.facts.clone(),
            credentials: self.vault.facts.client.kept.as_ref().map(|_| Arc::default()),
            backup: self.backup.clone(),
            restore: self.restore.clone(),
            ..Observed::default()
        }
    }

    /// Applies a child; false where the object of that name is another than was meant.
    pub fn apply(&mut self, child: &Manifest, uid: Option<&str>) -> bool {
        let key = (child.kind().to_owned(), child.name().to_owned());
        let live = self.children.get(&key).cloned();
        if uid.is_some_and(|uid| live.as_ref().is_none_or(|live| live.uid != uid)) {
            return false;
        }
        if let Some(live) = &live
            && key.0 == "StatefulSet"
        {
            let fixed = |set: &serde_json::Value| set["spec"]["volumeClaimTemplates"].clone();
            assert_eq!(fixed(&live.value), fixed(&child.value), "the apiserver refuses to change templates of volumes");
        }
        let uid = live.as_ref().map_or_else(|| self.next_uid(), |live| live.uid.clone());
        if key.0 == SETTINGS {
            self.earlier = live.map(|live| (live, MEMORY));
        }
        self.children.insert(key, Child { value: child.value.clone(), uid, ours: true });
        true
    }

    /// Deletes a pod, which stops its member at once.
    pub fn delete_pod(&mut self, ordinal: i32, raft: &mut Raft) {
        self.stop(ordinal, Container::Waiting(None), raft);
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.terminating = true;
        }
    }

    /// A pod's container goes over into another state.
    pub fn stop(&mut self, ordinal: i32, then: Container, raft: &mut Raft) {
        let Some(pod) = self.pods.get_mut(&ordinal) else { return };
        if let Container::Runs(member) = pod.container {
            raft.stop(member);
        }
        pod.container = then;
    }

    /// Whether a pod may start as a new member by what a kubelet knows, or may still know.
    pub fn admits(&self, object: &EtcdCluster, ordinal: i32) -> bool {
        let name = names::pod(object, ordinal);
        let live = self.children.iter().find(|((kind, _), _)| kind == SETTINGS).map(|(_, child)| child);
        let known = live.into_iter().chain(self.earlier.as_ref().map(|(child, _)| child));
        known.filter_map(start_of).any(|start| start.begins || start.members.iter().any(|(member, _)| *member == name))
    }

    /// Whether a pod may start as a new member by the settings as they are.
    pub fn admits_now(&self, object: &EtcdCluster, ordinal: i32) -> bool {
        Self { earlier: None, ..self.clone() }.admits(object, ordinal)
    }

    /// A while passes.
    pub fn time_passes(&mut self, object: &EtcdCluster, raft: &mut Raft) {
        self.pods.retain(|_, pod| !pod.terminating || pod.lost);
        self.follow_set(object, raft);
        // A claim stays while a pod holds on to it; one that waits for a node does not.
        let pods = &self.pods;
        let is_used = |ordinal: &i32| {
            pods.get(ordinal).is_some_and(|pod| !matches!(pod.container, Container::Waiting(Some("Unschedulable"))))
        };
        let gone: Vec<i32> = self
            .claims
            .iter()
            .filter(|(at, claim)| claim.facts.terminating && !is_used(at))
            .map(|(at, _)| *at)
            .collect();
        for ordinal in gone {
            self.drop_claim(ordinal, raft);
        }
        for ordinal in self.pods.keys().copied().collect::<Vec<_>>() {
            self.run(object, ordinal, raft);
        }
        // Files are renewed under members that run.
        for pod in self.pods.values_mut().filter(|pod| pod.transport.peer.mode.has_files()) {
            pod.shows.clone_from(self.vault.shown(Side::Peer));
        }
        self.forgetful = false;
        self.earlier = self.earlier.take().filter(|(_, left)| *left > 0).map(|(child, left)| (child, left - 1));
    }

    /// A claim and the data on its volume are gone.
    pub fn drop_claim(&mut self, ordinal: i32, raft: &mut Raft) {
        if let Some(data) = self.claims.remove(&ordinal).and_then(|claim| claim.data) {
            raft.lose(data.member);
        }
    }

    /// `StatefulSet`: pods and claims that are missing are made, pods beyond the last are deleted.
    fn follow_set(&mut self, object: &EtcdCluster, raft: &mut Raft) {
        let name = names::pod(object, 0).trim_end_matches("-0").to_owned();
        let Some(set) = self.children.get(&("StatefulSet".into(), name)).map(|set| set.value.clone()) else { return };
        let spec = &set["spec"];
        let count = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
        let first = i32::try_from(spec["ordinals"]["start"].as_i64().unwrap_or(0)).unwrap();
        let wanted = first..first + count;
        // It has let go of that pod, and cannot make another of its name: with that its turn ends.
        if self.pods.iter().any(|(ordinal, pod)| pod.unlabelled && wanted.contains(ordinal)) {
            return;
        }
        for ordinal in self.pods.keys().copied().filter(|ordinal| !wanted.contains(ordinal)).collect::<Vec<_>>() {
            self.delete_pod(ordinal, raft);
        }
        for ordinal in wanted {
            assert!(!self.others.contains_key(&ordinal), "a volume of {} is used", self.others[&ordinal]);
            if !self.claims.contains_key(&ordinal) {
                let template = &spec["volumeClaimTemplates"][0];
                let made_for = template["metadata"]["labels"][names::INCARNATION].as_str();
                let facts = Claim {
                    name: format!("{}-{}", names::VOLUME, names::pod(object, ordinal)),
                    uid: self.next_uid(),
                    ours: made_for == object.metadata.uid.as_deref(),
                    bound: true,
                    size: template["spec"]["resources"]["requests"]["storage"].as_str().unwrap().into(),
                    ..Claim::default()
                };
                self.claims.insert(ordinal, ClaimState { facts, data: None });
            }
            if !self.pods.contains_key(&ordinal) {
                // No node takes a pod whose claim is going away.
                let waits = self.claims[&ordinal].facts.terminating.then_some("Unschedulable");
                let template = &spec["template"];
                let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
                let uid = self.next_uid();
                let pod = PodState {
                    address: format!("10.0.0.{}", self.born),
                    uid,
                    revision: template["metadata"]["labels"][names::REVISION].as_str().unwrap().into(),
                    transport: transport_of(template),
                    trusts: BTreeSet::new(),
                    shows: BTreeSet::new(),
                    version: image.split_once(":v").map(|(_, version)| version.to_owned()),
                    terminating: false,
                    unlabelled: false,
                    restarts: 0,
                    lost: false,
                    forced: !template["metadata"]["labels"][names::FORCED].is_null(),
                    skips: !template["spec"]["initContainers"].is_null(),
                    killed: false,
                    container: Container::Waiting(waits),
                };
                self.pods.insert(ordinal, pod);
            }
        }
    }

    /// What the kubelet does for one pod.
    fn run(&mut self, object: &EtcdCluster, ordinal: i32, raft: &mut Raft) {
        let Some(pod) = self.pods.get_mut(&ordinal).filter(|pod| !pod.lost && !pod.terminating) else { return };
        pod.restarts += i32::from(matches!(pod.container, Container::Ended(_, 0)));
        let next = match &pod.container {
            Container::Runs(member) if !raft.members.contains_key(member) => Container::Ended(None, BACK_OFF),
            Container::Runs(_) => return,
            Container::Ended(words, left) if *left > 0 => Container::Ended(words.clone(), left - 1),
            _ => self.start(object, ordinal, raft),
        };
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.killed &= matches!(next, Container::Ended(..));
            pod.container = next;
        }
    }

    fn start(&mut self, object: &EtcdCluster, ordinal: i32, raft: &mut Raft) -> Container {
        let live = self.children.iter().find(|((kind, _), _)| kind == SETTINGS).map(|(_, child)| child);
        let known = self.earlier.as_ref().map(|(child, _)| child).filter(|_| self.forgetful).or(live);
        let settings = known.and_then(start_of);
        let Some(claim) = self.claims.get_mut(&ordinal).filter(|claim| !claim.facts.terminating) else {
            return Container::Waiting(Some("Unschedulable"));
        };
        let Some(version) = self.pods[&ordinal].version.clone() else {
            return Container::Waiting(Some("ImagePullBackOff"));
        };
        let Some(settings) = settings else { return Container::Waiting(Some("CreateContainerConfigError")) };
        let by_tls = known.is_some_and(|map| map.value["data"][ADVERTISED_SCHEME] == "https");
        let (name, url) = (names::pod(object, ordinal), names::peer_url(object, ordinal, by_tls));
        let pod = self.pods.get_mut(&ordinal).unwrap();
        for side in Side::ALL {
            if pod.transport.side(side).mode.has_files() && self.vault.facts.side(side).kept.is_none() {
                return Container::Waiting(Some("ContainerCreating"));
            }
        }
        if let Some(kept) = self.vault.facts.peer.kept.as_ref().filter(|_| pod.transport.peer.mode.has_files()) {
            pod.trusts.clone_from(&kept.trust);
            pod.shows.clone_from(self.vault.shown(Side::Peer));
        }
        if let Some(data) = claim.data.as_mut().filter(|_| pod.forced) {
            let recovery = object.spec.recovery.as_ref().filter(|_| pod.skips);
            raft.begin_anew(data, &name, &url, recovery.map(|recovery| recovery.token.as_str()));
        }
        let minor = minor_of(&version).unwrap().into();
        match raft.start(&name, &url, &mut claim.data, &settings, minor) {
            Ok(member) => Container::Runs(member),
            Err(words) => Container::Ended(words, BACK_OFF),
        }
    }

    fn next_uid(&mut self) -> String {
        self.born += 1;
        format!("uid-{}", self.born)
    }
}

fn transport_of(template: &serde_json::Value) -> Transport {
    let labels = &template["metadata"]["labels"];
    let channel = |side: Side| Channel {
        mode: Mode::of(labels[side.mode_label()].as_str()),
        trust: labels[side.trust_label()].as_str().map(str::to_owned),
    };
    Transport { peer: channel(Side::Peer), client: channel(Side::Client) }
}

fn start_of(config_map: &Child) -> Option<Start> {
    Start::of(&serde_json::from_value(config_map.value["data"].clone()).ok()?)
}

impl PodState {
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
            address: Some(self.address.clone()),
            ready: self.member().is_some_and(|id| raft.leader.is_some() && raft.members.contains_key(&id)),
            terminating: self.terminating,
            controlled: false,
            unlabelled: self.unlabelled,
            exit_code: last_words.as_ref().map(|_| 2),
            restarts: self.restarts,
            young: false,
            forced: self.forced,
            skip: if self.skips { self.skip() } else { Skip::NotAsked },
            transport: self.transport.clone(),
            last_words,
            trouble: trouble.map(str::to_owned),
            evidence: Evidence::default(),
            revival: self.killed.then(|| "its process was killed".to_owned()),
            placed: true,
            lost_node: self.lost.then(|| format!("node-{ordinal}")),
        }
    }

    /// What became of revisions: known as soon as it runs.
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

    /// Whether it answers at that URL.
    pub fn is_at(&self, url: &str) -> bool {
        let scheme = url.split("://").next().unwrap();
        self.transport.client.mode.serves(scheme)
            && url == format!("{scheme}://{}:{}", self.address, names::CLIENT_PORT)
    }

    /// Whether its member reaches another one there.
    pub fn reaches(&self, other: &Self, url: &str) -> bool {
        let by_tls = names::is_https(url);
        let trusted = || self.shows.is_subset(&other.trusts) && other.shows.is_subset(&self.trusts);
        other.transport.peer.mode.serves(if by_tls { "https" } else { "http" })
            && (!by_tls || self.transport.peer.mode.has_files() && trusted())
    }
}
