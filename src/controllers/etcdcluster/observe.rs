//! Reads the world: children from the watches, or from the apiserver after something was changed, and members from etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{self as core, ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::auth::{self, Access};
use super::backups::Backups;
use super::error::Error;
use super::facts::{Child, Claim, Observed, Pod, Quorum, Skip};
use super::memory::Memory;
use super::monitor::Monitor;
use super::names::{self, ADOPTED, FORCED, INCARNATION, MEMBER, REVISION};
use super::tls::secrets::Secrets;
use super::tls::{Channel, Mode, Side, Transport};
use crate::api::EtcdCluster;
use crate::controllers::pod_refusal::Refusals;
use crate::controllers::pod_trouble;
use crate::controllers::restore_from::Restores;
use crate::controllers::revival::{self, Revivals};
use crate::controllers::unlabelled::Set;
use crate::controllers::wake::Key;
use crate::external::etcd::{Endpoint, Etcd, EtcdError, Member, Password, Status, Trouble};
use crate::recovery::SKIPPED;
use crate::runtime::manifest::is_controlled_by;
use crate::runtime::{Children, lost_node};

/// A member that has been silent for so long is not waited for any more: its listener hears it when it speaks.
const SILENT: Duration = Duration::from_secs(2);
/// Whoever answered less long ago may answer again in a moment.
const MOMENT: Duration = Duration::from_secs(3);
/// Whoever seemed silent is given so long, for its listener may be wrong.
const BRIEFLY: Duration = Duration::from_millis(200);
/// Another member is asked beside one that does not answer at once.
const HEDGE: Duration = Duration::from_millis(300);
/// Nobody waits longer for a majority where the leader that others name does not answer: they are choosing another.
const LEADERLESS: Duration = Duration::from_secs(1);

/// A pod that was made or told to stop less long ago is on its way.
const YOUNG_SECONDS: i64 = 20;

/// Reads for all clusters.
pub struct Observer {
    pub client: Client,
    etcd: Etcd,
    own_image: Option<String>,
    pub watches: Children<EtcdCluster>,
    pub backups: Backups,
    pub restores: Restores,
    pub memory: Memory,
    pub monitor: Monitor,
    pub revivals: Revivals,
    refusals: Refusals,
}

impl Observer {
    /// Reads through these.
    pub fn new(client: Client, etcd: Etcd, own_image: Option<String>) -> Self {
        Self {
            restores: Restores::labelled(client.clone(), names::LABEL),
            refusals: Refusals::new(client.clone()),
            client,
            monitor: Monitor::new(etcd.clone()),
            etcd,
            own_image,
            watches: Children::labelled(names::LABEL),
            backups: Backups::default(),
            memory: Memory::default(),
            revivals: Revivals::default(),
        }
    }

    /// Reads all that matters to one object.
    pub async fn observe(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        let fresh = self.memory.take_change(object);
        let children = async { if fresh { self.read(object).await } else { self.watched(object).await } };
        let restored = object.status.as_ref().and_then(|status| status.restored.as_ref());
        let restore = self.restores.look(object, object.spec.restore_from.is_some(), restored);
        let (children, restore) = tokio::join!(children, restore);
        let mut observed = Observed { restore, ..children? };
        self.find_unlabelled(object, &mut observed).await?;
        let uid = object.uid().unwrap_or_default();
        for pod in observed.pods.values_mut() {
            pod.revival.take_if(|_| !self.revivals.may(&uid, &pod.name));
        }
        let there = observed.pods.keys().copied().collect();
        let set = observed.child("StatefulSet", &object.name_any()).filter(|set| set.ours);
        observed.unmade = self.refusals.look(set.map(|set| &set.value), &there).await;
        if object.spec.tls.is_some() || observed.pods.values().any(Pod::speaks_tls) {
            let secrets = Secrets::read(&self.client, object).await?;
            observed.children.extend(secrets.children());
            observed.certificates = secrets.facts(object, Timestamp::now());
            observed.credentials = secrets.credentials(object);
        }
        if auth::concerns(object) {
            observed.auth = auth::secrets::read(&self.client, object).await?;
        }
        self.ask_members(object, &mut observed).await;
        observed.unsure = self.doubt(object, &observed);
        if observed.quorum.as_ref().is_some_and(|quorum| quorum.alarms.is_empty()) {
            self.memory.forget_compaction(object);
        }
        observed.compacted = self.memory.compacted(object);
        observed.refused = self.memory.refusal(object);
        observed.own_image.clone_from(&self.own_image);
        Ok(observed)
    }

    async fn watched(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        let watches = &self.watches;
        watches.ready().await;
        let mut children = BTreeMap::new();
        for (name, child) in [
            (object.name_any(), child::<StatefulSet>(watches.statefulsets.get(object).as_deref(), object)),
            (object.name_any(), child::<PodDisruptionBudget>(watches.budgets.get(object).as_deref(), object)),
            (object.name_any(), child::<ConfigMap>(watches.config_maps.get(object).as_deref(), object)),
            (object.name_any(), child::<Service>(watches.services.get(object).as_deref(), object)),
            (
                names::peers(object),
                child::<Service>(watches.services.named(object, &names::peers(object)).as_deref(), object),
            ),
        ] {
            children.extend(child.map(|(kind, child)| ((kind, name), child)));
        }
        let pods = watches.pods.of(object);
        let claims = watches.claims.of(object);
        Ok(Observed {
            children,
            pods: pods_of(object, pods.iter().map(Arc::as_ref)),
            claims: claims_of(object, claims.iter().map(Arc::as_ref)),
            backup: self.backups.seen(object),
            ..Observed::default()
        })
    }

    async fn read(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        let (name, peers) = (object.name_any(), names::peers(object));
        let (set, budget, settings, clients, headless, pods, claims, backup) = tokio::try_join!(
            self.get::<StatefulSet>(object, &name),
            self.get::<PodDisruptionBudget>(object, &name),
            self.get::<ConfigMap>(object, &name),
            self.get::<Service>(object, &name),
            self.get::<Service>(object, &peers),
            self.list::<core::Pod>(object, "pods"),
            self.list::<PersistentVolumeClaim>(object, "volume claims"),
            self.backups.read(&self.client, object),
        )?;
        let mut children = BTreeMap::new();
        for (name, child) in [
            (&name, child(set.as_ref(), object)),
            (&name, child(budget.as_ref(), object)),
            (&name, child(settings.as_ref(), object)),
            (&name, child(clients.as_ref(), object)),
            (&peers, child(headless.as_ref(), object)),
        ] {
            children.extend(child.map(|(kind, child)| ((kind, name.clone()), child)));
        }
        Ok(Observed {
            children,
            pods: pods_of(object, &pods),
            claims: claims_of(object, &claims),
            backup,
            ..Observed::default()
        })
    }

    async fn get<K>(&self, object: &EtcdCluster, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        api.get_opt(name).await.map_err(|source| Error::Read { what: "children", source })
    }

    async fn list<K>(&self, object: &EtcdCluster, what: &'static str) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let selector = format!("{}={}", names::LABEL, object.name_any());
        let list = api.list(&ListParams::default().labels(&selector)).await;
        list.map(|list| list.items).map_err(|source| Error::Read { what, source })
    }

    /// Asks every member for itself, and one that has a leader for the others.
    async fn ask_members(&self, object: &EtcdCluster, observed: &mut Observed) {
        let passwords: Vec<Password> = observed.auth.kept.iter().flat_map(auth::Kept::passwords).cloned().collect();
        observed.auth.access = self.memory.last_access(object, &passwords);
        let followed: Vec<Endpoint> = observed.pods.keys().filter_map(|ordinal| observed.endpoint(*ordinal)).collect();
        self.monitor.follow(&key_of(object), &followed);
        self.ask_each(object, observed, |endpoint| async move { self.etcd.status(&endpoint).await }).await;
        observed.auth.access = self.enter(object, observed, passwords).await;
        match &observed.auth.access {
            Access::Refused | Access::Locked => return,
            Access::With(_) if !observed.reserved.is_empty() => {
                let log_in = |endpoint: Endpoint| async move {
                    self.etcd.login(&endpoint).await?;
                    self.etcd.status(&endpoint).await
                };
                self.ask_each(object, observed, log_in).await;
            }
            _ => {}
        }
        self.ask_majority(object, observed).await;
        if observed.quorum.is_none() {
            observed.remembered = self.ask_survivor(observed).await;
        }
    }

    /// Whom the member that is furthest knows as members: without a majority nobody knows more.
    async fn ask_survivor(&self, observed: &Observed) -> Vec<Member> {
        let furthest = observed.statuses.iter().max_by_key(|(_, status)| status.applied_index);
        let Some(endpoint) = furthest.and_then(|(ordinal, _)| observed.endpoint(*ordinal)) else { return Vec::new() };
        self.etcd.known_members(&endpoint).await.unwrap_or_default()
    }

    /// Asks each member that has told nothing yet for itself.
    async fn ask_each<F>(&self, object: &EtcdCluster, observed: &mut Observed, ask: impl Fn(Endpoint) -> F)
    where
        F: Future<Output = Result<Status, EtcdError>>,
    {
        let untold = observed.pods.keys().filter(|ordinal| !observed.statuses.contains_key(ordinal));
        let key = key_of(object);
        let asked = untold.filter_map(|ordinal| {
            let endpoint = observed.endpoint(*ordinal)?;
            let silence = self.monitor.silence(&key, &endpoint).unwrap_or_default();
            // A login takes its time, and is asked of those only that answer.
            let reserved = observed.reserved.contains(ordinal);
            let patience = if reserved { Duration::MAX } else { SILENT.saturating_sub(silence).max(BRIEFLY) };
            Some((*ordinal, patience, ask(endpoint)))
        });
        let answers = join_all(asked.map(|(ordinal, patience, answer)| async move {
            let late = |_| Err(EtcdError::new("Status", Trouble::Unanswered, "no answer".into()));
            let begun = Instant::now();
            let answer = timeout(patience, answer).await.unwrap_or_else(late);
            // Whoever is gone says so at once.
            (ordinal, answer, begun.elapsed() >= patience.min(SILENT) / 10 * 9)
        }))
        .await;
        let recorded = object.status.as_ref().and_then(|status| status.cluster_id.clone());
        for (ordinal, answer, late) in answers {
            let endpoint = observed.endpoint(ordinal);
            match answer {
                Ok(status) => {
                    observed.reserved.remove(&ordinal);
                    if let Some(endpoint) = &endpoint {
                        self.monitor.heard_of(&key, endpoint);
                    }
                    // Who begins the cluster anew gives it another ID.
                    let begins = observed.pods.get(&ordinal).is_some_and(|pod| pod.forced);
                    if begins || recorded.as_ref().is_none_or(|id| *id == format!("{:x}", status.cluster_id)) {
                        observed.statuses.insert(ordinal, status);
                    }
                }
                Err(error) if error.is_about_login() => drop(observed.reserved.insert(ordinal)),
                Err(_) => {
                    let silence = endpoint.and_then(|endpoint| self.monitor.silence(&key, &endpoint));
                    observed.unsure |= late && silence.is_some_and(|silence| silence < MOMENT);
                }
            }
        }
    }

    /// Whether what is not known may be known in a moment. Where somebody answers that it has no leader, enough is known.
    fn doubt(&self, object: &EtcdCluster, observed: &Observed) -> bool {
        if observed.quorum.is_some() {
            self.memory.note_quorum(object);
            return observed.unsure;
        }
        let missed = self.memory.without_quorum(object).is_some_and(|time| time < MOMENT);
        let statuses = || observed.statuses.values();
        let leads = statuses().any(|status| status.leader == status.member_id && status.leader != 0);
        missed && statuses().all(|status| status.leader != 0) && (observed.unsure || leads)
    }

    /// Asks one that has a leader for the others.
    async fn ask_majority(&self, object: &EtcdCluster, observed: &mut Observed) {
        let mut candidates: Vec<(i32, &Status)> =
            observed.statuses.iter().map(|(ordinal, status)| (*ordinal, status)).collect();
        candidates.retain(|(_, status)| status.leader != 0 && !status.is_learner);
        candidates.sort_by_key(|(_, status)| status.leader != status.member_id);
        // The leader first: it knows best, and a learner does not answer at all.
        candidates.truncate(2);
        let led = candidates.iter().any(|(_, status)| status.leader == status.member_id);
        let mut answers: FuturesUnordered<_> = candidates
            .into_iter()
            .filter_map(|(ordinal, status)| Some((observed.endpoint(ordinal)?, status.cluster_id)))
            .zip([Duration::ZERO, HEDGE])
            .map(|((endpoint, cluster_id), delay)| async move {
                sleep(delay).await;
                let asked = timeout(if led { Duration::MAX } else { LEADERLESS }, self.etcd.members(&endpoint)).await;
                (endpoint, cluster_id, asked)
            })
            .collect();
        let mut found = None;
        while let Some((endpoint, cluster_id, answer)) = answers.next().await {
            match answer {
                Ok(Ok(members)) => {
                    found = Some((endpoint, cluster_id, members));
                    break;
                }
                Ok(Err(error)) if error.is_about_login() => {
                    drop(answers);
                    self.memory.forget_access(object);
                    let knew_none = observed.auth.kept.is_none();
                    observed.auth.access = if knew_none { Access::Locked } else { Access::Unknown };
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        drop(answers);
        let Some((endpoint, cluster_id, members)) = found else { return };
        let complains = observed.statuses.values().any(|status| !status.errors.is_empty());
        let alarms = if complains { self.etcd.alarms(&endpoint).await.unwrap_or_default() } else { Vec::new() };
        if observed.auth.access == Access::Unknown && observed.auth.kept.is_none() {
            observed.auth.access = Access::Free;
        }
        observed.quorum = Some(Quorum { cluster_id, members, alarms });
    }

    /// How members let us in: those that have a leader are tried, then those that tell nothing of themselves. Not every
    /// look asks: see [`Memory::access`].
    async fn enter(&self, object: &EtcdCluster, observed: &Observed, passwords: Vec<Password>) -> Access {
        if passwords.is_empty() {
            return if observed.reserved.is_empty() { Access::Unknown } else { Access::Locked };
        }
        if let Some(access) = self.memory.access(object, &passwords) {
            return access;
        }
        for ordinal in entrances(observed).into_iter().take(2) {
            let Some(endpoint) = observed.endpoint(ordinal) else { continue };
            let access = self.try_passwords(&endpoint, &passwords).await;
            if access != Access::Unknown {
                self.memory.note_access(object, passwords, access.clone());
                return access;
            }
        }
        Access::Unknown
    }

    /// Tries the passwords that root may have.
    async fn try_passwords(&self, endpoint: &Endpoint, passwords: &[Password]) -> Access {
        for password in passwords {
            let with = Endpoint { login: Some(password.clone()), ..endpoint.clone() };
            match self.etcd.login(&with).await {
                Ok(()) => return Access::With(password.clone()),
                Err(error) if error.trouble == Trouble::AuthOff => return Access::Free,
                Err(error) if error.trouble == Trouble::LoginRefused => {}
                Err(_) => return Access::Unknown,
            }
        }
        Access::Refused
    }
}

fn key_of(object: &EtcdCluster) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The members that may let us in, the likeliest first: a leader, who follows one, and who tells nothing of itself.
fn entrances(observed: &Observed) -> Vec<i32> {
    let led = observed.statuses.iter().filter(|(_, status)| status.leader != 0 && !status.is_learner);
    let mut led: Vec<(bool, i32)> =
        led.map(|(ordinal, status)| (status.leader != status.member_id, *ordinal)).collect();
    led.sort_unstable();
    led.into_iter().map(|(_, ordinal)| ordinal).chain(observed.reserved.iter().copied()).collect()
}

fn child<K>(live: Option<&K>, object: &EtcdCluster) -> Option<(String, Child)>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let live = live?;
    let value = serde_json::to_value(live).unwrap_or_default();
    let uid = live.meta().uid.clone().unwrap_or_default();
    Some((K::kind(&()).into_owned(), Child { value, uid, ours: is_controlled_by(live, object) }))
}

fn pods_of<'a>(object: &EtcdCluster, pods: impl IntoIterator<Item = &'a core::Pod>) -> BTreeMap<i32, Pod> {
    let pods = pods.into_iter().filter(|pod| pod.labels().get(names::LABEL) == Some(&object.name_any()));
    pods.filter_map(|pod| Some((names::ordinal_of(object, &pod.name_any())?, facts_of(pod)))).collect()
}

pub fn facts_of(pod: &core::Pod) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let container = status.container_statuses.iter().flatten().find(|container| container.name == names::CONTAINER);
    let state = container.and_then(|container| container.state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()).or_else(|| {
        state?.waiting.as_ref()?;
        container?.last_state.as_ref()?.terminated.as_ref()
    });
    let (trouble, evidence) = pod_trouble::of(pod, names::CONTAINER);
    Pod {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        revision: pod.labels().get(REVISION).cloned().unwrap_or_default(),
        address: status.pod_ip.clone(),
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        controlled: pod.owner_references().iter().any(|owner| owner.controller == Some(true)),
        unlabelled: false,
        young: pod
            .metadata
            .deletion_timestamp
            .as_ref()
            .or(pod.metadata.creation_timestamp.as_ref())
            .is_some_and(is_recent),
        transport: transport_of(pod),
        forced: pod.labels().contains_key(FORCED),
        skip: skip_of(pod),
        last_words: ended.and_then(|ended| ended.message.clone()),
        exit_code: ended.map(|ended| ended.exit_code),
        restarts: container.map_or(0, |container| container.restart_count),
        trouble,
        evidence,
        placed: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            && !pod.metadata.creation_timestamp.as_ref().is_some_and(is_recent),
        lost_node: lost_node(pod),
        revival: revival::cause(pod, names::CONTAINER),
    }
}

fn skip_of(pod: &core::Pod) -> Skip {
    let mut asked = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    if asked.all(|container| container.name != names::SKIP) {
        return Skip::NotAsked;
    }
    let mut seen = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let ended = seen.find(|container| container.name == names::SKIP);
    match ended.and_then(|container| container.state.as_ref()?.terminated.as_ref()) {
        Some(ended) if ended.exit_code == 0 => match ended.message.as_deref().unwrap_or_default() {
            SKIPPED => Skip::Done,
            reason => Skip::Refused(reason.to_owned()),
        },
        _ => Skip::Pending,
    }
}

fn transport_of(pod: &core::Pod) -> Transport {
    let channel = |side: Side| Channel {
        mode: Mode::of(pod.labels().get(side.mode_label()).map(String::as_str)),
        trust: pod.labels().get(side.trust_label()).cloned(),
    };
    Transport { peer: channel(Side::Peer), client: channel(Side::Client) }
}

/// A deletion's time lies ahead by the grace period.
fn is_recent(time: &Time) -> bool {
    Timestamp::now().duration_since(time.0).as_secs() < YOUNG_SECONDS
}

fn claims_of<'a>(
    object: &EtcdCluster,
    claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
) -> BTreeMap<i32, Claim> {
    let (name, peers) = (object.name_any(), names::peers(object));
    let set = Set { label: names::LABEL, name: &name, peers: &peers, container: names::CONTAINER };
    let claims = claims.into_iter().filter(|claim| set.has(claim.labels()));
    let facts = claims.map(|claim| facts_of_claim(object, claim));
    facts.filter_map(|facts| Some((names::ordinal_of(object, &facts.name)?, facts))).collect()
}

pub fn facts_of_claim(object: &EtcdCluster, claim: &PersistentVolumeClaim) -> Claim {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    let size = requests.and_then(|requests| requests.get("storage").cloned());
    Claim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        ours: claim.labels().get(INCARNATION) == object.uid().as_ref(),
        adopted: object.uid().is_some() && claim.annotations().get(ADOPTED) == object.uid().as_ref(),
        unlabelled: false,
        member: claim.annotations().get(MEMBER).and_then(|id| u64::from_str_radix(id, 16).ok()),
        terminating: claim.metadata.deletion_timestamp.is_some(),
        bound: claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some()),
        size: size.map_or_else(String::new, |it| it.0),
    }
}
