//! Reads and writes the `EndpointSlice`s by which Services lead to nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use causeway_api::Redis as Object;
use causeway_api::common::FIELD_MANAGER;
use causeway_databases::names::selector_text;
use causeway_databases::sets::version_of;
use causeway_runtime::child_watch::Watch;
use causeway_runtime::manifest::{delete_exactly, is_controlled_by};
use causeway_runtime::{PerObject, list};

use super::action::SliceWrite;
use super::database::RedisDatabase;
use super::error::Error;
use super::facts::Child;
use super::names;

/// The slices of all objects. Kubernetes' own controllers copy the labels of a Service to the slices that they write
/// for it, so the watch shows those as well.
/// <https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/endpointslice/utils.go> (`setEndpointSliceLabels`)
pub struct Slices {
    client: Client,
    watch: Watch<Object, EndpointSlice>,
    /// Slices as they were after this process wrote them, by object: the watch may not show them yet.
    written: PerObject<HashMap<String, EndpointSlice>>,
}

impl Slices {
    /// Reads and writes through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, watch: Watch::new(names::LABEL), written: PerObject::default() }
    }

    /// Lets the slices wake the controller.
    pub fn add_to(&self, controller: Controller<Object>, namespace: Option<&str>) -> Controller<Object> {
        self.watch.add_to(controller, &self.client, namespace)
    }

    /// The slices: from the apiserver if `fresh`, else from the watch.
    pub async fn look(
        &self,
        object: &Object,
        fresh: bool,
    ) -> Result<BTreeMap<String, Child>, causeway_databases::Error> {
        if fresh { self.read(object).await } else { Ok(self.watched(object).await) }
    }

    /// The slices as the watch has them, or as this process has written them since.
    async fn watched(&self, object: &Object) -> BTreeMap<String, Child> {
        self.watch.ready(object).await;
        let seen = self.watch.children_of(object);
        let written = self.written_slices(object);
        let newest = |seen: Arc<EndpointSlice>| {
            let newer = |ours: &&EndpointSlice| ours.uid() == seen.uid() && version_of(*ours) > version_of(&*seen);
            written.get(&seen.name_any()).filter(newer).cloned().unwrap_or_else(|| Arc::unwrap_or_clone(seen))
        };
        by_name(object, seen.into_iter().map(newest))
    }

    async fn read(&self, object: &Object) -> Result<BTreeMap<String, Child>, causeway_databases::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let list = list(&self.client, &namespace, &selector_text::<RedisDatabase>(object), |_| true).await;
        let list = list.map_err(|source| causeway_databases::Error::Read { what: "slices of Services", source })?;
        Ok(by_name(object, list))
    }

    /// Writes a slice, but only over the version that was observed or that this process has written since. So an
    /// earlier leader that wakes up overwrites nothing that the next leader wrote.
    pub async fn write(&self, object: &Object, slice_write: &SliceWrite) -> Result<(), Error> {
        let name = slice_write.slice.name();
        let failed = |source| match source {
            kube::Error::Api(status) if status.code == 403 => {
                Error::SlicesDenied { name: name.to_owned(), message: status.message.clone() }
            }
            source => {
                let (kind, name) = ("EndpointSlice".to_owned(), name.to_owned());
                causeway_databases::Error::Apply { kind, name, source }.into()
            }
        };
        let wanted = serde_json::from_value(slice_write.slice.value.clone());
        let mut wanted: EndpointSlice = wanted.map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let Some((uid, version)) = &slice_write.before else {
            return match self.api(object).create(&parameters, &wanted).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    self.find_again(object, name).await?;
                    Err(failed(kube::Error::Api(status)))
                }
                made => made.map(drop).map_err(failed),
            };
        };
        let written = self.written_slices(object).remove(name);
        let ours = written.filter(|ours| ours.uid().as_ref() == Some(uid));
        let since = ours.filter(|ours| version_of(ours) > version.parse().unwrap_or(0));
        wanted.metadata.resource_version = since.and_then(|ours| ours.resource_version()).or(Some(version.clone()));
        wanted.metadata.uid = Some(uid.clone());
        let answer = self.api(object).replace(name, &parameters, &wanted).await.map_err(failed)?;
        let uid = object.uid().unwrap_or_default();
        self.written.change(&uid, HashMap::default, |slices| slices.insert(name.to_owned(), answer));
        Ok(())
    }

    /// Makes these the owners of a slice, if it still is as it was observed.
    pub async fn take_back(
        &self,
        object: &Object,
        name: &str,
        version: &str,
        owners: &[OwnerReference],
    ) -> Result<(), causeway_databases::Error> {
        let failed = |source| causeway_databases::Error::Change { name: format!("EndpointSlice {name}"), source };
        let Some(mut there) = self.api(object).get_opt(name).await.map_err(failed)? else { return Ok(()) };
        (there.metadata.resource_version, there.metadata.owner_references) =
            (Some(version.to_owned()), Some(owners.to_vec()));
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        self.api(object).replace(name, &parameters, &there).await.map(drop).map_err(failed)
    }

    /// Restores the labels of a slice of ours, without which the watch does not show it. The next reconcile decides
    /// about its content.
    async fn find_again(&self, object: &Object, name: &str) -> Result<(), Error> {
        let failed = |source| causeway_databases::Error::Change { name: format!("EndpointSlice {name}"), source };
        let Some(mut there) = self.api(object).get_opt(name).await.map_err(failed)? else { return Ok(()) };
        if !is_controlled_by(&there, object) {
            return Err(causeway_databases::Error::NameTaken(format!("EndpointSlice {name}")).into());
        }
        there.labels_mut().extend(names::labels(object));
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        Ok(self.api(object).replace(name, &parameters, &there).await.map(drop).map_err(failed)?)
    }

    /// Removes the selector of the Service with that uid.
    pub async fn unselect(&self, object: &Object, service: &str, uid: &str) -> Result<(), causeway_databases::Error> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let nothing: Option<&str> = None;
        let patch = json!({ "metadata": { "uid": uid }, "spec": { "selector": nothing } });
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patched = api.patch(service, &parameters, &Patch::Merge(&patch)).await;
        patched
            .map(drop)
            .map_err(|source| causeway_databases::Error::Change { name: format!("Service {service}"), source })
    }

    /// Deletes what Kubernetes wrote for a Service while it had a selector. The Endpoints object goes first: Kubernetes
    /// would mirror it into a new slice.
    pub async fn sweep(
        &self,
        object: &Object,
        service: &str,
        slices: &[(String, String)],
    ) -> Result<(), causeway_databases::Error> {
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        match endpoints.delete(service, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => {
                return Err(causeway_databases::Error::Change { name: format!("Endpoints {service}"), source });
            }
        }
        for (name, uid) in slices {
            let deleted = delete_exactly(&self.api(object), name, uid, DeleteParams::default()).await;
            deleted.map_err(|source| causeway_databases::Error::Change {
                name: format!("EndpointSlice {name}"),
                source,
            })?;
        }
        Ok(())
    }

    /// The object with that uid is gone.
    pub fn forget(&self, uid: &str) {
        self.written.forget(uid);
    }

    fn api(&self, object: &Object) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }

    fn written_slices(&self, object: &Object) -> HashMap<String, EndpointSlice> {
        self.written.get(&object.uid().unwrap_or_default()).unwrap_or_default()
    }
}

fn by_name(object: &Object, slices: impl IntoIterator<Item = EndpointSlice>) -> BTreeMap<String, Child> {
    slices.into_iter().map(|slice| (slice.name_any(), Child::read(&slice, object))).collect()
}
