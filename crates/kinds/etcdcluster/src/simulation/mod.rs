//! A small Kubernetes and an etcd in memory, in which every decision must lead to the same end and cost no data.

mod absence;
mod alarms;
mod auth;
mod backup;
mod defrag;
mod denials;
mod downgrades;
mod faults;
mod idle;
mod kubernetes;
mod ownership;
mod properties;
mod raft;
mod readiness;
mod recovery;
mod restore;
mod rollouts;
mod secrets;
mod stuck;
mod transport;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;

use super::action::Action;
use super::auth::Access;
use super::decide::decide;
use super::facts::{Observed, Quorum};
use super::tls::{Channel, Mode, Side, Transport};
use super::{names, resources};
use auth::Gate;
use causeway_api::{EtcdCluster, EtcdClusterSpec};
use causeway_databases::ChildAction;
use causeway_databases::etcd::{Endpoint, Member, Status, Trouble};
use causeway_databases::refusals::{ChildKey, Refusal};
use causeway_runtime::{Class, Health, Plan};
use faults::Mishap;
use kubernetes::{BACK_OFF, Container, Kubernetes};
use raft::Raft;

/// Rounds that one reconcile has.
const ROUNDS: usize = 12;
/// A cluster that has not settled after this many reconciles never does.
const PASSES: usize = 300;

/// The object, what there is, and what the operator keeps in memory.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub object: EtcdCluster,
    pub kubernetes: Kubernetes,
    pub raft: Raft,
    pub gate: Gate,
    /// The time, as certificates count it.
    pub now: Timestamp,
    /// How the object was when it was last decided about.
    pub health: Option<Health>,
    /// The object as the operator saw it last.
    seen: EtcdCluster,
    /// The children as the operator saw them last; `None` after it restarted or changed something.
    watched: Option<Observed>,
    /// Something happened since the operator looked.
    disturbed: bool,
    /// Ordinals of voters that were well until we deleted their pods, and are not well again yet.
    away: BTreeSet<i32>,
    /// Children that were refused, each with the spec that asked for it.
    refused: BTreeMap<ChildKey, (EtcdClusterSpec, Refusal)>,
    /// The actions that were taken.
    pub journal: Vec<Action>,
}

impl Simulation {
    pub fn new(object: EtcdCluster) -> Self {
        Self {
            seen: object.clone(),
            object,
            kubernetes: Kubernetes::default(),
            raft: Raft::default(),
            gate: Gate::default(),
            now: Timestamp::UNIX_EPOCH,
            health: None,
            watched: None,
            disturbed: false,
            away: BTreeSet::new(),
            refused: BTreeMap::new(),
            journal: Vec::new(),
        }
    }

    /// A cluster that has come to rest.
    pub fn settled(object: EtcdCluster) -> Self {
        let mut simulation = Self::new(object);
        simulation.settle();
        simulation
    }

    /// Returns the facts that `observe` would find.
    fn observe(&mut self, object: &EtcdCluster, stale: bool) -> Observed {
        let live = || self.kubernetes.observe(object, &self.raft);
        let mut observed = self.watched.take().filter(|_| stale).unwrap_or_else(live);
        let kept = observed.clone();
        for ordinal in kept.set.pods.keys() {
            let status = observed.endpoint(*ordinal).and_then(|endpoint| self.status_at(&endpoint));
            observed.statuses.extend(status.map(|status| (*ordinal, status)));
        }
        self.refused.retain(|_, (spec, _)| *spec == object.spec);
        observed.refused = self.refused.iter().map(|(child, (_, refusal))| (child.clone(), refusal.clone())).collect();
        observed.statuses.retain(|ordinal, status| recovery::is_ours(object, &kept.set.pods[ordinal], status));
        observed.own_image = Some("causeway:1".into());
        let asked = observed.statuses.values().any(|status| status.leader != 0 && !status.is_learner);
        observed.auth = self.gate.facts(super::auth::concerns(object), asked);
        if matches!(observed.auth.access, Access::Refused | Access::Locked) {
            // Later releases report no status without a login.
            observed.reserved = std::mem::take(&mut observed.statuses).into_keys().collect();
        } else if asked {
            let members: Vec<Member> = self.raft.members.values().cloned().collect();
            let cluster_id = self.raft.cluster.unwrap();
            observed.quorum = Some(Quorum { cluster_id, members, alarms: Vec::new() });
        }
        if observed.quorum.is_none() && !observed.statuses.is_empty() {
            observed.remembered = self.raft.members.values().cloned().collect();
        }
        self.watched = Some(kept);
        self.disturbed = false;
        observed
    }

    /// Returns the status of the member that is reached there.
    fn status_at(&self, endpoint: &Endpoint) -> Option<Status> {
        let id = self.member_at(endpoint)?;
        let pod = self.kubernetes.set.pods.values().find(|pod| pod.member() == Some(id))?;
        let log = self.raft.logs.get(&id).copied()?;
        let later = self.raft.up.get(&id).is_some_and(|minor| *minor > 5);
        Some(Status {
            cluster_id: self.raft.cluster?,
            member_id: id,
            version: pod.version.clone()?,
            leader: self.raft.leader.unwrap_or(0),
            is_learner: self.raft.members.get(&id)?.is_learner,
            raft_index: log,
            applied_index: log,
            db_size: self.raft.sizes.get(&id).copied().unwrap_or(0),
            storage_minor: later
                .then(|| self.raft.storage.get(&id).copied())
                .flatten()
                .and_then(|it| it.try_into().ok()),
            downgrades: later && self.raft.downgrade.is_some(),
            ..Status::default()
        })
    }

    fn member_at(&self, endpoint: &Endpoint) -> Option<u64> {
        self.kubernetes.set.pods.values().find(|pod| pod.is_at(&endpoint.url))?.member()
    }

    /// One reconcile; true when it had nothing to do.
    pub fn reconcile(&mut self, mishap: &Mishap) -> bool {
        if !mishap.stale {
            self.seen = self.object.clone();
        }
        let mut object = self.seen.clone();
        let mut done = 0;
        for round in 0..ROUNDS {
            // The operator knows the status that it wrote last, whatever the watches show.
            object.status.clone_from(&self.object.status);
            let observed = self.observe(&object, mishap.stale);
            let Plan { actions, status, health, write_status_first, .. } = decide(&object, &observed, self.now);
            readiness::assert_true(&object, &observed, &health, &actions);
            self.health = Some(health);
            if mishap.dies_after == Some(done) {
                self.watched = None;
                return false;
            }
            if write_status_first {
                self.object.status = Some(status.clone());
            }
            if actions.is_empty() {
                let rests = self.object.status.as_ref() == Some(&status);
                self.object.status = Some(status);
                return round == 0 && rests;
            }
            for action in &actions {
                if mishap.dies_after == Some(done) {
                    self.watched = None;
                    return false;
                }
                if let Some((_, fault)) = mishap.meanwhile.as_ref().filter(|(at, _)| *at == done) {
                    fault.happens(self);
                }
                self.journal.push(action.clone());
                let outcome = self.act(action);
                self.raft.assert_kept();
                self.watched = None;
                done += 1;
                let outcome = if mishap.reply_lost == Some(done) { Err(Class::Transient) } else { outcome };
                match outcome {
                    Ok(()) => {}
                    Err(Class::Conflict) => break,
                    Err(_) => {
                        self.object.status = Some(status);
                        return false;
                    }
                }
            }
        }
        false
    }

    /// A while passes.
    pub fn time_passes(&mut self) {
        self.raft.time_passes();
        self.raft.assert_kept();
        self.kubernetes.time_passes(&self.object, &mut self.raft);
        self.assert_connected();
        self.note_who_is_back();
    }

    fn note_who_is_back(&mut self) {
        let well = self.raft.healthy();
        let pods = &self.kubernetes.set.pods;
        self.away
            .retain(|at| !pods.get(at).and_then(kubernetes::PodState::member).is_some_and(|id| well.contains(&id)));
        // One that is no member any more is not away.
        let known: BTreeSet<i32> = self.ordinals();
        self.away.retain(|ordinal| known.contains(ordinal));
    }

    /// Lets the operator work until nothing is left to do.
    pub fn settle(&mut self) {
        let mut still = 0;
        for _ in 0..PASSES {
            let rests = self.reconcile(&Mishap::default());
            self.time_passes();
            // The kubelet starts a process again that was killed, if late.
            let waits = |container: &Container| matches!(container, Container::Ended(_, left) if *left > BACK_OFF);
            let comes_back = self.kubernetes.set.pods.values().any(|pod| waits(&pod.container));
            let is_settled = matches!(self.health, Some(Health::Ready(_) | Health::Stalled(_)));
            still = if rests && is_settled && !comes_back { still + 1 } else { 0 };
            if still > 6 {
                return;
            }
        }
        let last = &self.journal[self.journal.len().saturating_sub(8)..];
        panic!("never settles: {:?}\n{last:#?}\n{:#?}\n{:#?}", self.health, self.raft, self.kubernetes.set.pods);
    }

    /// Ordinals of all members.
    pub fn ordinals(&self) -> BTreeSet<i32> {
        let at = |member: &Member| names::ordinal_at(&self.object, &member.peer_urls);
        self.raft.members.values().filter_map(at).collect()
    }

    /// Asserts that all is as the object says.
    pub fn assert_settled(&mut self) {
        assert!(matches!(self.health, Some(Health::Ready(_))), "{:?}", self.health);
        let wanted: BTreeSet<i32> = (0..self.object.spec.replicas).collect();
        assert_eq!(self.ordinals(), wanted, "{:#?}", self.raft);
        assert_eq!(self.raft.healthy().len(), wanted.len(), "{:#?}", self.raft);
        assert_eq!(self.kubernetes.set.pods.keys().copied().collect::<BTreeSet<_>>(), wanted);
        assert_eq!(self.kubernetes.set.claims.keys().copied().collect::<BTreeSet<_>>(), wanted);
        let side = |side: Side| {
            let (mode, kept) = (side.wanted_mode(&self.object), self.kubernetes.secrets.facts.side(side).kept.as_ref());
            Channel { mode, trust: kept.filter(|_| mode.has_files()).map(super::tls::facts::StoredCertificate::label) }
        };
        let transport = Transport { peer: side(Side::Peer), client: side(Side::Client) };
        let by_tls = transport.peer.mode == Mode::Secure;
        let urls = self.raft.members.values().flat_map(|member| &member.peer_urls);
        assert!(urls.clone().all(|url| names::is_https(url) == by_tls), "{:#?}", self.raft.members);
        let revision = resources::revision(&self.object, resources::Begin::Usual, &transport);
        for (ordinal, pod) in &self.kubernetes.set.pods {
            assert_eq!(pod.revision, revision, "pod {ordinal}");
            let claim = &self.kubernetes.set.claims[ordinal];
            assert_eq!(claim.facts.member, pod.member(), "claim {ordinal}");
            assert!(!claim.facts.terminating && claim.facts.size == self.object.spec.volume_size(), "{claim:?}");
            assert!(!self.kubernetes.admits(&self.object, *ordinal), "{ordinal} could start without data");
        }
        self.assert_gate();
        let object = self.object.clone();
        let observed = self.observe(&object, false);
        assert_eq!(decide(&object, &observed, self.now).actions, []);
    }

    /// Carries out the action, if that is possible. Asserts that it is none that must never be done.
    fn act(&mut self, action: &Action) -> Result<(), Class> {
        match action {
            Action::Child(action) if self.kubernetes.denies(action) => Err(self.refuse(action)),
            Action::Child(ChildAction::DeletePod { name, uid, .. } | ChildAction::Revive { name, uid, .. }) => {
                self.delete_pod(self.ordinal(name), uid)
            }
            Action::Child(action) => {
                if let ChildAction::DeleteClaim { name, .. } = action {
                    let claim = self.kubernetes.set.claims.get(&self.ordinal(name));
                    let data = claim.and_then(|claim| claim.volume.as_ref());
                    let data = data.filter(|data| self.raft.members.contains_key(&data.member));
                    assert!(data.is_none(), "data of a member are deleted: {name}");
                }
                self.kubernetes.act(&self.object, action)
            }
            Action::ApplyBackup { child, uid } => self.kubernetes.apply_backup(child, uid.as_deref()),
            Action::DeleteBackup { uid, .. } => self.kubernetes.delete_backup(uid),
            Action::AddLearner { peer_url, via, .. } => self.ask(via, |raft, _| raft.add_learner(peer_url)),
            Action::Promote { name, id, via } => {
                let admitted = self.kubernetes.admits_now(&self.object, self.ordinal(name));
                assert!(!admitted, "{name} is to vote, and could start again without its data");
                self.ask(via, |raft, _| raft.promote(*id))
            }
            Action::Remove { name, id, via, .. } => {
                let (voters, had) = (self.raft.voters().collect::<BTreeSet<_>>(), self.has_majority());
                self.ask(via, |raft, _| raft.remove(*id))?;
                // A removed member is not waited for any more, even if it is added again at once.
                self.note_who_is_back();
                assert!(self.disturbed || !had || self.has_voters(), "a majority is lost by removing {name}");
                assert!(voters.len() != 1 || !voters.contains(id), "the last member is removed");
                Ok(())
            }
            Action::MoveLeader { id, via, .. } => self.ask(via, |raft, asked| raft.move_leader(asked, *id)),
            Action::Certify(side, certify) => self.kubernetes.secrets.certify(&self.object, *side, certify, self.now),
            Action::UpdatePeer { id, peer_url, pods, via, .. } => {
                let uid = |(ordinal, pod): (&i32, &kubernetes::PodState)| {
                    (names::pod(&self.object, *ordinal), pod.uid.clone())
                };
                if self.kubernetes.set.pods.iter().map(uid).collect::<BTreeMap<_, _>>() != *pods {
                    return Err(Class::Conflict);
                }
                self.ask(via, |raft, _| raft.update_peer(*id, peer_url))
            }
            Action::EnableDowngrade { minor, via, .. } => {
                self.ask(via, |raft, _| match raft.enable_downgrade((*minor).into()) {
                    Err(Trouble::AlreadyThere) => Ok(()),
                    outcome => outcome,
                })
            }
            Action::CancelDowngrade { via, .. } => self.ask(via, |raft, _| raft.cancel_downgrade()),
            Action::Defragment { name, via, .. } => self.defragment(name, via),
            Action::Compact { .. } | Action::Disarm { .. } => Ok(()),
            _ => self.act_on_auth(action),
        }
    }

    fn delete_pod(&mut self, ordinal: i32, uid: &str) -> Result<(), Class> {
        let Some(pod) = self.kubernetes.set.pods.get(&ordinal) else { return Ok(()) };
        if pod.uid != uid {
            return Err(Class::Conflict);
        }
        let had = self.has_majority();
        let well = pod.member().is_some_and(|member| self.raft.healthy().contains(&member));
        self.kubernetes.delete_pod(ordinal, &mut self.raft);
        if well {
            self.note_who_is_back();
            let away = &self.away;
            assert!(away.is_empty(), "{ordinal} is deleted while {away:?} is away by our own hand");
            self.away.insert(ordinal);
            let single = self.raft.voters().count() == 1;
            assert!(self.disturbed || !had || single || self.has_voters(), "a majority is lost by deleting {ordinal}");
        }
        Ok(())
    }

    /// Asserts that running members reach each other, whatever is changed.
    fn assert_connected(&self) {
        for (one, pod) in &self.kubernetes.set.pods {
            for (other, reached) in &self.kubernetes.set.pods {
                let id = reached.member().filter(|_| one != other && pod.member().is_some());
                let Some(member) = id.and_then(|id| self.raft.members.get(&id)) else { continue };
                let url = &member.peer_urls[0];
                assert!(pod.reaches(reached, url), "{one} does not reach {other} at {url}:\n{pod:#?}\n{reached:#?}");
            }
        }
    }

    fn ordinal(&self, name: &str) -> i32 {
        names::ordinal_of(&self.object, name).unwrap()
    }

    fn has_majority(&self) -> bool {
        self.raft.healthy().len() >= self.raft.majority()
    }

    /// Reports whether enough voters run to have a leader.
    fn has_voters(&self) -> bool {
        self.raft.voters().filter(|id| self.raft.up.contains_key(id)).count() >= self.raft.majority()
    }

    fn ask(&mut self, via: &Endpoint, change: impl Fn(&mut Raft, u64) -> Result<(), Trouble>) -> Result<(), Class> {
        let asked = self.member_at(via).ok_or(Class::Transient)?;
        if !self.gate.admits(via) {
            return Err(Class::Conflict);
        }
        change(&mut self.raft, asked)
            .map_err(|trouble| causeway_databases::etcd::EtcdError::new("", trouble, String::new()).class())
    }

    /// The pod at some place.
    pub fn any_pod(&self, place: proptest::sample::Index) -> Option<i32> {
        let ordinals: Vec<i32> = self.kubernetes.set.pods.keys().copied().collect();
        (!ordinals.is_empty()).then(|| ordinals[place.index(ordinals.len())])
    }

    pub fn name(&self) -> String {
        self.object.name_any()
    }
}
