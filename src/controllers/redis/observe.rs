//! Reads the world: children from the watches, or from the apiserver after something was changed, and nodes from Redis.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{self as core, ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::drift::Drifts;
use super::error::Error;
use super::facts::{Child, Hidden, Observed, Passwords, Pod, Users, Voice};
use super::monitor::Monitor;
use super::names;
use super::reading::{claims_of, pods_of};
use super::slices::Slices;
use super::vault::Vault;
use super::{resources, settings};
use crate::api::Redis as Object;
use crate::controllers::pod_refusal::Refusals;
use crate::controllers::restore_from::Restores;
use crate::controllers::revival::Revivals;
use crate::controllers::wake::Key;
use crate::external::redis::{Endpoint, Info, Login, Redis, Trouble, Writes};
use crate::runtime::manifest::is_controlled_by;
use crate::runtime::{Children, Class, class_of_kubernetes};

/// A node that has been silent for so long is not asked again: its listener hears it when it speaks.
const SILENT: Duration = Duration::from_millis(700);

/// Reads for all objects.
pub struct Observer {
    pub client: Client,
    redis: Redis,
    pub watches: Children<Object>,
    pub monitor: Monitor,
    pub restores: Restores,
    pub slices: Slices,
    drifts: Drifts,
    vault: Vault,
    refusals: Refusals,
    pub revivals: Revivals,
    /// Objects about which something was changed: the watches may not show it yet.
    changed: Mutex<HashSet<String>>,
    /// Whether the processes of pods, by object and uid, know us by name, where that is another than the spec says.
    logins: Mutex<HashMap<String, HashMap<String, bool>>>,
    /// Users as their Secret had them last, by object: who forgets by what name nodes know us is never let in again.
    users: Mutex<HashMap<String, Users>>,
    /// Pods as they were after we changed them, by object: the watches may not show it yet.
    written: Mutex<HashMap<String, HashMap<String, core::Pod>>>,
}

impl Observer {
    /// Reads through these.
    pub fn new(client: Client, redis: Redis) -> Self {
        Self {
            restores: Restores::labelled(client.clone(), names::LABEL),
            slices: Slices::new(client.clone()),
            drifts: Drifts::default(),
            vault: Vault::new(client.clone()),
            refusals: Refusals::new(client.clone()),
            revivals: Revivals::default(),
            client,
            monitor: Monitor::new(redis.clone()),
            redis,
            watches: Children::labelled(names::LABEL),
            changed: Mutex::default(),
            logins: Mutex::default(),
            users: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Something is about to be changed: the next look goes to the apiserver.
    pub fn expect_change(&self, object: &Object) {
        let uid = object.uid().unwrap_or_default();
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
    }

    /// A pod as it is after we changed it.
    pub fn note_pod(&self, object: &Object, pod: core::Pod) {
        let uid = object.uid().unwrap_or_default();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.entry(uid).or_default().insert(pod.name_any(), pod);
    }

    /// A process was told its settings: what it answers now is what it made of them.
    pub async fn note_told(&self, object: &Object, pod: &str, run_id: &str, node: &Endpoint) {
        if let Ok(live) = self.redis.settings(node, names_of(&settings::live(object))).await {
            self.drifts.note(&object.uid().unwrap_or_default(), pod, run_id, live, true);
        }
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        self.slices.forget(uid);
        self.revivals.forget(uid);
        self.drifts.forget(uid);
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.logins.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.users.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Reads all that matters to one object.
    pub async fn observe(&self, object: &Object) -> Result<Observed, Error> {
        let uid = object.uid().unwrap_or_default();
        let fresh = self.changed.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        let children = async { if fresh { self.read(object).await } else { self.watched(object).await } };
        let restored = object.status.as_ref().and_then(|status| status.restored.as_ref());
        let restore = self.restores.look(object, object.spec.restore_from.is_some(), restored);
        let (children, restore) = tokio::join!(children, restore);
        let mut observed = Observed { restore, ..children? };
        self.find_unlabelled(object, &mut observed).await?;
        for pod in observed.pods.values_mut() {
            pod.revival.take_if(|_| !self.revivals.may(&uid, &pod.name));
        }
        let there = observed.pods.keys().copied().collect();
        let set = observed.child("StatefulSet", &object.name_any()).filter(|set| set.ours);
        observed.unmade = self.refusals.look(set.map(|set| &set.value), &there).await;
        self.ask_nodes(object, &mut observed, fresh).await?;
        Ok(observed)
    }

    async fn watched(&self, object: &Object) -> Result<Observed, Error> {
        let watches = &self.watches;
        watches.ready().await;
        let name = object.name_any();
        let mut children = BTreeMap::new();
        for (name, child) in [
            (name.clone(), child::<StatefulSet>(watches.statefulsets.get(object).as_deref(), object)),
            (name.clone(), child::<PodDisruptionBudget>(watches.budgets.get(object).as_deref(), object)),
            (name, child::<ConfigMap>(watches.config_maps.get(object).as_deref(), object)),
        ] {
            children.extend(child.map(|(kind, child)| ((kind, name), child)));
        }
        let slices = self.slices.watched(object).await;
        for name in services_of(object) {
            let service = watches.services.named(object, &name);
            children.extend(child(service.as_deref(), object).map(|(kind, child)| ((kind, name), child)));
        }
        let pods: Vec<core::Pod> = watches.pods.of(object).into_iter().map(|pod| self.newest(object, pod)).collect();
        let claims = watches.claims.of(object);
        Ok(Observed {
            children,
            slices,
            pods: pods_of(object, &pods),
            claims: claims_of(object, claims.iter().map(Arc::as_ref)),
            ..Observed::default()
        })
    }

    /// The pod as we wrote it, until the watch shows that or something newer.
    fn newest(&self, object: &Object, seen: Arc<core::Pod>) -> core::Pod {
        let uid = object.uid().unwrap_or_default();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pods) = written.get_mut(&uid) else { return Arc::unwrap_or_clone(seen) };
        let name = seen.name_any();
        let is_newer = |ours: &core::Pod| ours.uid() == seen.uid() && version_of(ours) > version_of(&*seen);
        if let Some(ours) = pods.get(&name).filter(|ours| is_newer(ours)) {
            return ours.clone();
        }
        pods.remove(&name);
        if pods.is_empty() {
            written.remove(&uid);
        }
        Arc::unwrap_or_clone(seen)
    }

    async fn read(&self, object: &Object) -> Result<Observed, Error> {
        let name = object.name_any();
        let services = services_of(object);
        let (set, budget, settings, services, slices, pods, claims) = tokio::try_join!(
            self.get::<StatefulSet>(object, &name),
            self.get::<PodDisruptionBudget>(object, &name),
            self.get::<ConfigMap>(object, &name),
            futures::future::try_join_all(services.iter().map(|name| self.get::<Service>(object, name))),
            self.slices.read(object),
            self.list::<core::Pod>(object, "pods"),
            self.list::<PersistentVolumeClaim>(object, "volume claims"),
        )?;
        let mut children = BTreeMap::new();
        for child in [child(set.as_ref(), object), child(budget.as_ref(), object), child(settings.as_ref(), object)] {
            children.extend(child.map(|(kind, child)| ((kind, name.clone()), child)));
        }
        for service in services.iter().flatten() {
            let named = child(Some(service), object);
            children.extend(named.map(|(kind, child)| ((kind, service.name_any()), child)));
        }
        Ok(Observed {
            children,
            slices,
            pods: pods_of(object, &pods),
            claims: claims_of(object, &claims),
            ..Observed::default()
        })
    }

    async fn get<K>(&self, object: &Object, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        api.get_opt(name).await.map_err(|source| Error::Read { what: "children", source })
    }

    async fn list<K>(&self, object: &Object, what: &'static str) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let selector = format!("{}={}", names::LABEL, object.name_any());
        let list = api.list(&ListParams::default().labels(&selector)).await;
        list.map(|list| list.items).map_err(|source| Error::Read { what, source })
    }

    /// Reads the Secrets of an object, each by its name.
    async fn passwords(&self, object: &Object) -> Result<Passwords, Error> {
        let given = object.spec.auth.secret_name.clone().unwrap_or_else(|| names::password(object));
        let users = names::users(object);
        let read = futures::try_join!(self.get::<Secret>(object, &given), self.get::<Secret>(object, &users));
        let (given, users) = match read {
            Ok(read) => read,
            Err(Error::Read { source, .. }) if class_of_kubernetes(&source) == Class::Denied => {
                return Ok(Passwords { denied: true, ..Passwords::default() });
            }
            Err(error) => return Err(error),
        };
        if let Some(users) = users.as_ref().filter(|users| !is_controlled_by(*users, object)) {
            return Err(Error::NameTaken(format!("Secret {}", users.name_any())));
        }
        let password = given.and_then(|secret| secret.data?.remove("password"));
        let password = password.and_then(|bytes| String::from_utf8(bytes.0).ok());
        let read = users.and_then(|secret| resources::users_of(&secret.data?));
        let (users, users_lost) = self.users_of(object, read);
        let given = password.map(|text| Hidden(text.trim_end_matches('\n').to_owned()));
        Ok(Passwords { denied: false, given, users, users_lost })
    }

    /// The users by which the nodes know us, and whether their Secret lacks them: somebody deleted or changed it.
    fn users_of(&self, object: &Object, read: Option<Users>) -> (Option<Users>, bool) {
        let mut all = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = object.uid().unwrap_or_default();
        if let Some(known) =
            all.get(&uid).filter(|known| read.as_ref().is_none_or(|read| read.internal != known.internal))
        {
            return (Some(known.clone()), true);
        }
        if let Some(read) = &read {
            all.insert(uid, read.clone());
        }
        (read, false)
    }

    /// Asks every node for itself. Where some do not know us, clients had to log in until now, or have to from now on.
    async fn ask_nodes(&self, object: &Object, observed: &mut Observed, fresh: bool) -> Result<(), Error> {
        if object.spec.auth.enabled {
            observed.passwords = self.passwords(object).await?;
        }
        if object.spec.tls.is_some() {
            let look = self.vault.look(object, &observed.pods, fresh).await?;
            observed.certificates = look.certificates;
            observed.children.extend(look.children);
            for pod in observed.pods.values_mut() {
                pod.tls.clone_from(&look.credentials);
            }
        }
        self.ask_each(object, observed).await;
        let refuses = |pod: &Pod| matches!(pod.voice, Voice::Refuses(_));
        if !observed.pods.values().any(refuses) {
            return Ok(());
        }
        if !object.spec.auth.enabled {
            observed.passwords = self.passwords(object).await?;
        }
        {
            let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
            let logins = logins.entry(object.uid().unwrap_or_default()).or_default();
            logins.retain(|uid, _| observed.pods.values().any(|pod| pod.uid == *uid));
            for pod in observed.pods.values().filter(|pod| refuses(pod)) {
                let with = logins.get(&pod.uid).copied().unwrap_or(object.spec.auth.enabled);
                logins.insert(pod.uid.clone(), !with);
            }
        }
        self.ask_each(object, observed).await;
        Ok(())
    }

    /// Asks every node for itself, all at once.
    async fn ask_each(&self, object: &Object, observed: &mut Observed) {
        let internal = observed.passwords.users.as_ref();
        let internal =
            internal.map(|users| Login { user: names::INTERNAL_USER.into(), password: users.internal.0.clone() });
        {
            let logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
            let logins = logins.get(&object.uid().unwrap_or_default());
            for pod in observed.pods.values_mut() {
                let with = logins.and_then(|logins| logins.get(&pod.uid)).copied().unwrap_or(object.spec.auth.enabled);
                pod.login = internal.clone().filter(|_| with);
            }
        }
        let key: Key = (object.namespace().unwrap_or_default(), object.name_any());
        let patience = Duration::from_secs(u64::try_from(object.spec.failover.hang_timeout_seconds).unwrap_or(1));
        let nodes: Vec<(i32, Endpoint)> =
            observed.pods.iter().filter_map(|(ordinal, pod)| Some((*ordinal, pod.endpoint()?))).collect();
        let endpoints: Vec<Endpoint> = nodes.iter().map(|(_, node)| node.clone()).collect();
        self.monitor.follow(&key, &endpoints, patience);
        let asked = nodes.iter().map(|(ordinal, node)| async {
            let silence = self.monitor.silence(&key, node).unwrap_or_default();
            if silence >= SILENT {
                return (*ordinal, Voice::Silent(silence), None);
            }
            let voice = self.ask(&key, node).await;
            let writes = match &voice {
                Voice::Answers(info) => self.writes(object, &key, node, info).await,
                _ => None,
            };
            (*ordinal, voice, writes)
        });
        for (ordinal, voice, writes) in join_all(asked).await {
            if let Some(pod) = observed.pods.get_mut(&ordinal) {
                (pod.voice, pod.writes) = (voice, writes);
            }
        }
        self.look_for_drift(object, observed).await;
    }

    /// What a master answered to the last write. A change of masters does not wait for that.
    async fn writes(&self, object: &Object, key: &Key, node: &Endpoint, info: &Info) -> Option<Writes> {
        let changes = object.status.as_ref().is_none_or(|status| status.failover.is_some());
        if !info.is_master() || info.handing_over || changes {
            return None;
        }
        match self.monitor.writes(key, node) {
            Some(writes @ (Writes::Taken | Writes::Waiting)) => Some(writes),
            // What was refused half a second ago may be taken now.
            Some(Writes::Refused(_)) | None => self.redis.writes(node).await.ok(),
        }
    }

    /// Asks processes now and then how they are set, and at once where writes are refused.
    async fn look_for_drift(&self, object: &Object, observed: &mut Observed) {
        if object.status.as_ref().is_none_or(|status| status.failover.is_some()) {
            return;
        }
        let (uid, wanted) = (object.uid().unwrap_or_default(), settings::live(object));
        self.drifts.keep(&uid, |known| observed.pods.values().any(|pod| pod.uid == known));
        let (uid, wanted) = (&uid, &wanted);
        let looks = observed.pods.values_mut().map(|pod| async move {
            let Some((node, run_id)) = pod.endpoint().zip(pod.info().map(|info| info.run_id.clone())) else { return };
            let pressing = matches!(pod.writes, Some(Writes::Refused(_)));
            if self.drifts.is_due(uid, &pod.uid, &run_id, pressing)
                && let Ok(live) = self.redis.settings(&node, names_of(wanted)).await
            {
                self.drifts.note(uid, &pod.uid, &run_id, live, false);
            }
            pod.drift = self.drifts.of(uid, &pod.uid, &run_id, wanted);
        });
        join_all(looks).await;
    }

    async fn ask(&self, key: &Key, node: &Endpoint) -> Voice {
        match self.redis.info(node).await {
            Ok(info) => {
                self.monitor.heard_of(key, node);
                Voice::Answers(Box::new(info))
            }
            Err(error) => match error.trouble {
                Trouble::Gone => Voice::Gone,
                Trouble::Broken | Trouble::Unanswered | Trouble::NotLeading => {
                    Voice::Silent(self.monitor.silence(key, node).unwrap_or_default())
                }
                Trouble::Loading | Trouble::Unauthenticated | Trouble::Refused => Voice::Refuses(error.message),
            },
        }
    }
}

fn names_of(settings: &[(String, String)]) -> Vec<String> {
    settings.iter().map(|(name, _)| name.clone()).collect()
}

fn services_of(object: &Object) -> [String; 3] {
    [object.name_any(), names::replicas(object), names::peers(object)]
}

/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
pub fn version_of(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A child by its kind, if it is there.
pub fn child<K>(live: Option<&K>, object: &Object) -> Option<(String, Child)>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let live = live?;
    let value = serde_json::to_value(live).unwrap_or_default();
    let uid = live.meta().uid.clone().unwrap_or_default();
    Some((K::kind(&()).into_owned(), Child { value, uid, ours: is_controlled_by(live, object) }))
}
