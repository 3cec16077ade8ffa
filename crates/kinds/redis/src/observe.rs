//! Observes an object: its children from the watches, or from the apiserver after something was changed, and its nodes
//! from Redis.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};

use causeway_api::Redis as Object;
use causeway_databases::password::{Emptied, KEY};
use causeway_databases::redis::{Endpoint, Info, Redis, Trouble, Writes};
use causeway_databases::refusals::Refusals;
use causeway_databases::wake::Key;
use causeway_databases::{Rules, Sets};
use causeway_runtime::consent::REDIS;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::manifest::is_controlled_by;
use causeway_runtime::{Class, PerObject, class_of_kubernetes};

use super::database::RedisDatabase;
use super::drift::Drifts;
use super::error::Error;
use super::facts::{Child, NodePod, NodeState, Observed, Passwords, Pod, SecretString, Users};
use super::listened;
use super::memory;
use super::monitor::Monitor;
use super::names;
use super::secret_cache::SecretCache;
use super::settings::DATABASES;
use super::sightings::Sightings;
use super::slices::Slices;
use super::ways::{Way, as_client, to_master};
use super::zones::Zones;
use super::{resources, settings};

/// A node that has been silent for this long is not asked again: its listener notices when it answers.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(700);

/// Reads for all objects.
pub struct Observer {
    redis: Redis,
    own_image: Option<String>,
    pub sets: Sets<RedisDatabase>,
    pub monitor: Monitor,
    pub slices: Slices,
    pub refusals: Refusals,
    zones: Zones,
    drifts: Drifts,
    secrets: SecretCache,
    /// By object and uid of the pod: how the operator logs in to the process, where that differs from the spec.
    ways: PerObject<HashMap<String, Way>>,
    /// The users as their Secret had them last, by object: without them, the operator could not log in any more if the
    /// Secret is lost.
    users: PerObject<Users>,
    sightings: Sightings,
}

impl Observer {
    /// Creates an observer that reads through these clients.
    pub fn new(client: Client, redis: Redis, own_image: Option<String>, rules: Rules, guardrails: Guardrails) -> Self {
        Self {
            slices: Slices::new(client.clone()),
            refusals: Refusals::default(),
            zones: Zones::new(client.clone()),
            drifts: Drifts::default(),
            secrets: SecretCache::new(client.clone()),
            sets: Sets::new(client, rules, guardrails),
            monitor: Monitor::new(redis.clone()),
            redis,
            own_image,
            ways: PerObject::default(),
            users: PerObject::default(),
            sightings: Sightings::default(),
        }
    }

    /// Notes that the users of a process are those of the spec now: the operator logs in as it should, and new clients are
    /// asked for anew.
    pub fn note_users(&self, object: &Object, pod: &str, node: &Endpoint) {
        let uid = object.uid().unwrap_or_default();
        self.ways.with(&uid, |ways| ways.remove(pod));
        self.monitor.forget_admission(&key(object), node);
    }

    /// Notes what a process answers right after its settings were applied: that is Redis's own form of them.
    pub async fn note_applied(&self, object: &Object, pod: &str, run_id: &str, node: &Endpoint) {
        if let Ok(live) = self.redis.settings(node, asked_for(&settings::live(object))).await {
            self.drifts.note(&object.uid().unwrap_or_default(), pod, run_id, live, true);
        }
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        self.monitor.forget(uid);
        self.slices.forget(uid);
        self.refusals.forget(uid);
        self.sets.forget(uid);
        self.drifts.forget(uid);
        self.ways.forget(uid);
        self.users.forget(uid);
        self.sightings.forget(uid);
        self.secrets.forget(uid);
    }

    /// Reads everything that matters to one object.
    pub async fn observe(&self, object: &Object) -> Result<Observed, Error> {
        let fresh = self.sets.take_change(object);
        let (set, slices) = tokio::try_join!(self.sets.look(object, fresh), self.slices.look(object, fresh))?;
        let own_image = self.own_image.clone();
        let since = object.status.as_ref().and_then(|status| status.candidate_since.as_ref());
        let candidate_seen = self.sightings.age(&object.uid().unwrap_or_default(), since);
        let refused = self.refusals.current(object);
        let mut observed = Observed { set, slices, own_image, refused, candidate_seen, ..Observed::default() };
        if resources::distribution(object, &names::replicas(object)).is_some() {
            self.zones.add_to(&mut observed.set).await;
        }
        self.ask_nodes(object, &mut observed, fresh).await?;
        Ok(observed)
    }

    /// Reads the Secrets of an object, each by its name.
    async fn read_passwords(&self, object: &Object, observed: &mut Observed) -> Result<(), Error> {
        let user_provided = object.spec.auth.secret_name.clone().unwrap_or_else(|| names::password(object));
        let users = names::users(object);
        let read = futures::try_join!(
            self.sets.get::<Secret>(object, &user_provided),
            self.sets.get::<Secret>(object, &users)
        );
        let (user_provided, users) = match read {
            Ok(read) => read,
            Err(causeway_databases::Error::Read { source, .. }) if class_of_kubernetes(&source) == Class::Denied => {
                observed.passwords = Passwords { denied: true, ..Passwords::default() };
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let (users, child) = own_users(users, object);
        observed.set.children.extend(child.map(|child| (("Secret".to_owned(), names::users(object)), child)));
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let shared = |secret: &Secret| REDIS.may_use(&secret.metadata, &name, &uid);
        let unshared = user_provided.as_ref().is_some_and(|secret| !shared(secret));
        let provided = user_provided.filter(shared);
        let bytes = provided.as_ref().and_then(|secret| secret.data.as_ref()?.get(KEY));
        let password = bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        // Causeway writes a password into an empty Secret of its own.
        let is_named = object.spec.auth.secret_name.is_some();
        let password = password.filter(|text| is_named || !text.trim_ascii().is_empty());
        let is_empty = |_: &Secret| password.is_none() && !is_named;
        let emptied =
            provided.filter(is_empty).map(|secret| Emptied::judge(&secret, is_controlled_by(&secret, object)));
        let read = users.and_then(|secret| resources::users_of(&secret.data?));
        let (users, users_lost) = self.users_of(object, read);
        let user_provided = password.map(|text| SecretString(text.trim_end_matches('\n').to_owned()));
        observed.passwords = Passwords { denied: false, unshared, user_provided, emptied, users, users_lost };
        Ok(())
    }

    /// The users that the nodes know, and whether their Secret lacks them: a user may have deleted or changed it.
    fn users_of(&self, object: &Object, read: Option<Users>) -> (Option<Users>, bool) {
        let uid = object.uid().unwrap_or_default();
        let is_lost = |known: &Users| read.as_ref().is_none_or(|read| read.internal != known.internal);
        if let Some(known) = self.users.get(&uid).filter(is_lost) {
            return (Some(known), true);
        }
        if let Some(read) = &read {
            self.users.set(&uid, read.clone());
        }
        (read, false)
    }

    /// Asks every node for its state. Nodes that refuse are asked again, in another way ([`Way`]).
    async fn ask_nodes(&self, object: &Object, observed: &mut Observed, fresh: bool) -> Result<(), Error> {
        let uid = object.uid().unwrap_or_default();
        let is_detour = |ways: &mut HashMap<String, Way>| ways.values().any(|way| *way != Way::Open);
        let needs_passwords = object.spec.auth.enabled || self.ways.with(&uid, is_detour).unwrap_or_default();
        if needs_passwords {
            self.read_passwords(object, observed).await?;
        }
        if object.spec.tls.is_some() {
            let look = self.secrets.look(object, &observed.set.pods, fresh).await?;
            observed.certificates = look.certificates;
            observed.set.children.extend(look.children);
            for pod in observed.set.pods.values_mut() {
                pod.own.tls.clone_from(&look.credentials);
            }
        }
        self.ask_each(object, observed).await;
        let refuses = |pod: &Pod| matches!(pod.own.state, NodeState::Refuses(_));
        if !observed.set.pods.values().any(refuses) {
            return Ok(());
        }
        if !needs_passwords {
            self.read_passwords(object, observed).await?;
        }
        self.ways.change(&uid, HashMap::default, |ways| {
            ways.retain(|uid, _| observed.set.pods.values().any(|pod| pod.uid == *uid));
            for pod in observed.set.pods.values().filter(|pod| refuses(pod)) {
                let way = ways.get(&pod.uid).copied().unwrap_or(Way::of_spec(object));
                ways.insert(pod.uid.clone(), way.next());
            }
        });
        self.ask_each(object, observed).await;
        Ok(())
    }

    /// Asks all nodes for their state, at the same time.
    async fn ask_each(&self, object: &Object, observed: &mut Observed) {
        let ways = self.ways.get(&object.uid().unwrap_or_default()).unwrap_or_default();
        let mut followed = Vec::new();
        let hang_timeout = Duration::from_secs(object.spec.failover.hang_timeout.seconds());
        for pod in observed.set.pods.values_mut() {
            let way = ways.get(&pod.uid).copied().unwrap_or(Way::of_spec(object));
            pod.own.detour = way != Way::of_spec(object);
            pod.own.login = way.login(&observed.passwords);
            let Some(endpoint) = pod.endpoint() else { continue };
            let as_client = as_client(object, &observed.passwords, &endpoint);
            followed.push(listened::Node::new(pod.name.clone(), endpoint, as_client, hang_timeout));
        }
        let key = key(object);
        let nodes: Vec<(i32, Endpoint)> =
            observed.set.pods.iter().filter_map(|(ordinal, pod)| Some((*ordinal, pod.endpoint()?))).collect();
        self.monitor.follow(&key, &object.uid().unwrap_or_default(), followed);
        let asked = nodes.iter().map(|(ordinal, node)| async {
            let silence = self.monitor.silence(&key, node).unwrap_or_default();
            if silence >= SILENCE_TIMEOUT {
                return (*ordinal, NodeState::Silent(silence), None, self.monitor.has_answered(&key, node));
            }
            let node_state = self.ask(&key, node).await;
            let writes = match &node_state {
                NodeState::Answers(info) => self.writes(object, &key, node, info).await,
                _ => None,
            };
            (*ordinal, node_state, writes, self.monitor.has_answered(&key, node))
        });
        for (ordinal, node_state, writes, has_answered) in join_all(asked).await {
            if let Some(pod) = observed.set.pods.get_mut(&ordinal) {
                (pod.own.state, pod.own.writes, pod.own.has_answered) = (node_state, writes, has_answered);
                let Some(node) = pod.endpoint() else { continue };
                pod.own.unchanged =
                    pod.info().map(|info| self.monitor.unchanged(&key, &node, &info.role)).unwrap_or_default();
                pod.own.busy = pod.info().is_none() && self.monitor.is_busy(&key, &node);
                pod.own.turned_away = pod.info().and_then(|_| self.monitor.turned_away(&key, &node));
            }
        }
        let uid = object.uid().unwrap_or_default();
        observed.words = self.monitor.words.last(&uid);
        let master = object.status.as_ref().and_then(|status| status.master.clone()).unwrap_or_default();
        for pod in observed.set.pods.values_mut() {
            let is_stalled = |host: &String| self.monitor.words.is_stalled(&uid, &master, host);
            pod.own.stalled = pod.address.as_ref().is_some_and(is_stalled);
        }
        self.count_stragglers(object, observed).await;
        self.look_for_drift(object, observed).await;
        let is_to_weigh = |pod: &&mut Pod| memory::room_after(object, pod.own.memory_limit).is_some();
        if let Some(pod) = observed.set.pods.values_mut().find(|pod| pod.name == master).filter(is_to_weigh)
            && let Some(node) = pod.endpoint().filter(|_| pod.info().is_some())
        {
            pod.own.used = self.redis.used_memory(&node).await.ok();
        }
    }

    /// Counts the clients of nodes that were the master until a moment ago.
    async fn count_stragglers(&self, object: &Object, observed: &mut Observed) {
        let last = object.status.as_ref().and_then(|status| status.last_failover.as_ref());
        let left = last.map(|last| last.left.as_slice()).unwrap_or_default();
        let looks = observed.set.pods.values_mut().filter(|pod| left.contains(&pod.name)).map(|pod| async move {
            let Some((node, info)) = pod.endpoint().zip(pod.info()) else { return };
            let others = info.other_clients();
            // If the list cannot be read, because it is too long for example, the number in `INFO` counts.
            pod.own.clients = if others == 0 { 0 } else { self.redis.clients(&node).await.unwrap_or(others) };
        });
        join_all(looks).await;
    }

    /// Returns a master's answer to a write. A change of masters does not wait for that.
    async fn writes(&self, object: &Object, key: &Key, node: &Endpoint, info: &Info) -> Option<Writes> {
        let changes = object.status.as_ref().is_none_or(|status| status.failover.is_some());
        if !info.is_master() || info.handing_over || changes {
            return None;
        }
        match self.monitor.writes(key, node) {
            Some(writes @ (Writes::Taken | Writes::Waiting)) => Some(writes),
            // A write that was refused half a second ago may be taken now.
            Some(Writes::Refused(_)) | None => self.redis.writes(node).await.ok(),
        }
    }

    /// Asks processes for their settings now and then, and at once if writes are refused.
    async fn look_for_drift(&self, object: &Object, observed: &mut Observed) {
        if object.status.as_ref().is_none_or(|status| status.failover.is_some()) {
            return;
        }
        let uid = object.uid().unwrap_or_default();
        self.drifts.keep(&uid, |known| observed.set.pods.values().any(|pod| pod.uid == known));
        let (uid, to_master) = (&uid, &to_master(object, &observed.passwords));
        let looks = observed.set.pods.values_mut().map(|pod| async move {
            let wanted = &[settings::live_of(object, pod.own.memory_limit), to_master.clone()].concat();
            let Some((node, run_id)) = pod.endpoint().zip(pod.info().map(|info| info.run_id.clone())) else { return };
            let pressing = matches!(pod.own.writes, Some(Writes::Refused(_))) || pod.own.turned_away.is_some();
            if self.drifts.is_due(uid, &pod.uid, &run_id, pressing)
                && let Ok(live) = self.redis.settings(&node, asked_for(wanted)).await
            {
                self.drifts.note(uid, &pod.uid, &run_id, live, false);
            }
            pod.own.drift = self.drifts.find(uid, &pod.uid, &run_id, wanted);
            pod.own.databases = self.drifts.value(uid, &pod.uid, &run_id, DATABASES).and_then(|text| text.parse().ok());
        });
        join_all(looks).await;
    }

    async fn ask(&self, key: &Key, node: &Endpoint) -> NodeState {
        match self.redis.info(node).await {
            Ok(info) => {
                self.monitor.note_answer(key, node);
                NodeState::Answers(Box::new(info))
            }
            Err(error) => match error.trouble {
                Trouble::Gone => NodeState::Gone,
                Trouble::Broken | Trouble::Unanswered | Trouble::Busy | Trouble::NotLeading => {
                    NodeState::Silent(self.monitor.silence(key, node).unwrap_or_default())
                }
                Trouble::Loading | Trouble::Unauthenticated | Trouble::Refused => NodeState::Refuses(error.message),
            },
        }
    }
}

/// The Secret with the users if it is the object's, and what is noted of it. One of another owner is never used, and noted only
/// where the spec needs its name. That is no error: the nodes are helped with the users that the operator remembers.
fn own_users(found: Option<Secret>, object: &Object) -> (Option<Secret>, Option<Child>) {
    let Some(secret) = found else { return (None, None) };
    let ours = is_controlled_by(&secret, object);
    let child = Child::bare(&secret, ours);
    (Some(secret).filter(|_| ours), Some(child).filter(|_| ours || object.spec.auth.enabled))
}

fn key(object: &Object) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The names of these settings, and of what else matters of a process.
fn asked_for(settings: &[(String, String)]) -> Vec<String> {
    settings.iter().map(|(name, _)| name.clone()).chain([DATABASES.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::fixtures::redis;

    #[test]
    fn a_foreign_secret_of_users_is_never_read() {
        for enabled in [true, false] {
            let mut object = redis(1);
            object.spec.auth.enabled = enabled;
            let mut secret = Secret::default();
            secret.metadata.name = Some(names::users(&object));
            let (users, child) = own_users(Some(secret.clone()), &object);
            assert_eq!((users, child.map(|child| child.ours)), (None, enabled.then_some(false)));
            secret.metadata.owner_references = object.controller_owner_ref(&()).map(|owner| vec![owner]);
            let (users, child) = own_users(Some(secret.clone()), &object);
            assert_eq!((users, child.map(|child| child.ours)), (Some(secret), Some(true)));
            assert_eq!(own_users(None, &object), (None, None));
        }
    }
}
