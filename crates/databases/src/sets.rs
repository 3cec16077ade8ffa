//! Reads children and pods: from the shared watches, or from the apiserver after something was changed.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod as CorePod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::Controller;
use kube::{Api, Client, Resource, ResourceExt};

use causeway_runtime::child_watch::Owner;
use causeway_runtime::guardrails::{Guardrails, Required};
use causeway_runtime::{Children, PerObject, list};

use super::reading::{claims_of, pods_of};
use super::{Database, Error, Rules, Set, names, network, rivals};
use crate::pod_refusal::{Missing, Refusals};
use crate::restore_from::Restores;
use crate::revival::Revivals;

/// Reads and changes the children of all objects of a kind.
pub struct Sets<D: Database> {
    /// The client for all calls.
    pub client: Client,
    rules: Arc<Rules>,
    guardrails: Guardrails,
    watches: Children<D::Object>,
    pub(super) restores: Restores,
    pub(super) revivals: Revivals,
    refusals: Refusals,
    /// Objects about which something was changed, by uid: the watches may not show it yet.
    changed: PerObject<()>,
    /// Pods as they were after we changed them, by the object's uid and their name: the watches may not show it yet.
    written: PerObject<HashMap<String, CorePod>>,
}

impl<D: Database> Sets<D> {
    /// Reads and changes through `client`.
    pub fn new(client: Client, rules: Rules, guardrails: Guardrails) -> Self {
        Self {
            rules: Arc::new(rules),
            guardrails,
            watches: Children::with_label(D::LABEL, D::SETTINGS_MAP),
            restores: Restores::with_label(client.clone(), D::LABEL),
            revivals: Revivals::default(),
            refusals: Refusals::new(client.clone()),
            client,
            changed: PerObject::default(),
            written: PerObject::default(),
        }
    }

    /// Lets the children wake the controller.
    pub fn add_to(&self, controller: Controller<D::Object>, namespace: Option<&str>) -> Controller<D::Object> {
        let controller = self.watches.add_to(controller, &self.client, namespace);
        self.restores.add_to(controller, namespace)
    }

    /// Notes that something is about to be changed: the next look goes to the apiserver.
    pub fn expect_change(&self, object: &D::Object) {
        self.changed.set(&object.uid().unwrap_or_default(), ());
    }

    /// Reports whether something was changed since this was asked last.
    pub fn take_change(&self, object: &D::Object) -> bool {
        self.changed.take(&object.uid().unwrap_or_default()).is_some()
    }

    /// Notes a pod as it is after we changed it.
    pub fn note_pod(&self, object: &D::Object, pod: CorePod) {
        let uid = object.uid().unwrap_or_default();
        self.written.change(&uid, HashMap::default, |pods| pods.insert(pod.name_any(), pod));
    }

    /// Forgets the object with that uid, which is gone.
    pub fn forget(&self, uid: &str) {
        self.revivals.forget(uid);
        self.restores.forget(uid);
        self.changed.forget(uid);
        self.written.forget(uid);
    }

    /// Reads all children of an object; `fresh` from the apiserver.
    pub async fn look(&self, object: &D::Object, fresh: bool) -> Result<Set<D::Node>, Error> {
        let children = async { if fresh { self.read(object).await } else { self.watched(object).await } };
        let restore = self.restores.look(object, D::set_spec(object).restore_from.is_some(), D::restored(object));
        let (set, restore) = tokio::join!(children, restore);
        self.guardrails.ready().await;
        let namespace = object.namespace().unwrap_or_default();
        let denied = self.guardrails.denial(object, || D::asks(object));
        let (required, unknown) = match self.guardrails.requirements(&namespace) {
            Ok(required) => (required, None),
            Err(unknown) => (Required::default(), Some(unknown)),
        };
        let mut set = Set { restore, rules: self.rules.clone(), required, denied: denied.or(unknown), ..set? };
        self.find_unlabelled(object, &mut set).await?;
        set.rivals =
            rivals::find::<D>(object, &set, self.watches.budgets.in_namespace_of(object).iter().map(Arc::as_ref));
        let uid = object.uid().unwrap_or_default();
        for (ordinal, pod) in &mut set.pods {
            let room = self.revivals.room(&uid, pod, set.claims.get(ordinal));
            pod.revival = pod.revival.take().or(room).filter(|_| self.revivals.may(&uid, &pod.name));
        }
        let there = set.pods.keys().copied().collect();
        let live = set.child("StatefulSet", &object.name_any()).filter(|live| live.ours);
        match self.refusals.look(live.map(|live| &live.value), &there).await {
            Some(Missing::Refused(unmade)) => set.unmade = Some(unmade),
            Some(Missing::Accepted(name)) => set.makeable = Some(name),
            Some(Missing::SpecAccepted(revision)) => set.acceptable = Some(revision),
            None => {}
        }
        Ok(set)
    }

    async fn watched(&self, object: &D::Object) -> Result<Set<D::Node>, Error> {
        let watches = &self.watches;
        watches.ready(object).await;
        let mut set = Set::default();
        set.add(watches.statefulsets.get(object).as_deref(), object);
        set.add(watches.budgets.get(object).as_deref(), object);
        let policy = watches.policies.get_named(object, &network::name(object));
        set.add_optional(policy.as_deref(), network::is_wanted::<D>(object, &self.rules), object);
        if let Some(config_maps) = &watches.config_maps {
            let settings = config_maps.read_named(&self.client, object, &object.name_any()).await;
            let settings = settings.map_err(|source| Error::Read { what: "children", source })?;
            set.add(settings.as_deref(), object);
        }
        for (name, wanted) in D::services(object) {
            set.add_optional(watches.services.get_named(object, &name).as_deref(), wanted, object);
        }
        let pods: Vec<CorePod> =
            watches.pods.children_of(object).into_iter().map(|pod| self.newest(object, pod)).collect();
        set.pods = pods_of::<D>(object, &pods);
        set.claims = claims_of::<D>(object, watches.claims.children_of(object).iter().map(Arc::as_ref));
        Ok(set)
    }

    /// The pod as we wrote it, until the watch shows that or something newer.
    fn newest(&self, object: &D::Object, seen: Arc<CorePod>) -> CorePod {
        let uid = object.uid().unwrap_or_default();
        let is_newer = |ours: &CorePod| ours.uid() == seen.uid() && version_of(ours) > version_of(&*seen);
        let ours = self.written.with(&uid, |pods| {
            let name = seen.name_any();
            let ours = pods.get(&name).filter(|ours| is_newer(ours)).cloned();
            if ours.is_none() {
                pods.remove(&name);
            }
            ours
        });
        ours.flatten().unwrap_or_else(|| Arc::unwrap_or_clone(seen))
    }

    async fn read(&self, object: &D::Object) -> Result<Set<D::Node>, Error> {
        let name = object.name_any();
        let services = D::services(object);
        let policy = network::name(object);
        let (live, budget, policy, settings, live_services, pods, claims) = tokio::try_join!(
            self.get::<StatefulSet>(object, &name),
            self.get::<PodDisruptionBudget>(object, &name),
            self.get::<NetworkPolicy>(object, &policy),
            async { if D::SETTINGS_MAP { self.get::<ConfigMap>(object, &name).await } else { Ok(None) } },
            try_join_all(services.iter().map(|(name, _)| self.get::<Service>(object, name))),
            self.list::<CorePod>(object, "pods"),
            self.list::<PersistentVolumeClaim>(object, "volume claims"),
        )?;
        let mut set = Set::default();
        set.add(live.as_ref(), object);
        set.add(budget.as_ref(), object);
        set.add_optional(policy.as_ref(), network::is_wanted::<D>(object, &self.rules), object);
        set.add(settings.as_ref(), object);
        for ((_, wanted), service) in services.iter().zip(&live_services) {
            set.add_optional(service.as_ref(), *wanted, object);
        }
        set.pods = pods_of::<D>(object, &pods);
        set.claims = claims_of::<D>(object, &claims);
        Ok(set)
    }

    /// An object in the same namespace, by its name.
    pub async fn get<K: Owner>(&self, object: &D::Object, name: &str) -> Result<Option<K>, Error> {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        api.get_opt(name).await.map_err(|source| Error::Read { what: "children", source })
    }

    /// All that carry the object's label and the name of one of its pods, or of the claim of one.
    pub async fn list<K: Owner>(&self, object: &D::Object, what: &'static str) -> Result<Vec<K>, Error> {
        let (namespace, selector) = (object.namespace().unwrap_or_default(), names::selector_text::<D>(object));
        // Others may make any number of pods with the object's label, but only with other names.
        let is_of = |child: &K| names::ordinal_of(object, &child.name_any()).is_some();
        let list = list(&self.client, &namespace, &selector, is_of).await;
        list.map_err(|source| Error::Read { what, source })
    }
}

/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
pub fn version_of(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
