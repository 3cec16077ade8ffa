//! `ConfigMap`s of objects: a watch of their metadata, and the content of those that an object controls, read by name.
//!
//! Users who may write `ConfigMap`s can create large ones with our labels, and a watch of whole objects would hold all
//! of them in memory.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderValue, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::core::PartialObjectMeta;
use kube::runtime::Controller;
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use tower::service_fn;

use super::child_watch::{Owner, Watch};
use super::manifest::is_controlled_by;

/// The most bytes of content that are kept. What Causeway writes is smaller, and additions by others are dropped.
const MOST: usize = 512 * 1024;

/// Contents by namespace and name, with their resource version.
type Contents = HashMap<(String, String), (Option<String>, Arc<ConfigMap>)>;

/// The `ConfigMap`s of all objects of kind `O`.
pub struct ConfigMaps<O> {
    seen: Watch<O, PartialObjectMeta<ConfigMap>>,
    read: Mutex<Contents>,
}

impl<O: Owner> ConfigMaps<O> {
    /// Watches `ConfigMap`s whose `label` names their object.
    pub fn new(label: &'static str) -> Self {
        Self { seen: Watch::new(label).prune_with(prune), read: Mutex::default() }
    }

    /// Adds the watch to the controller, so that the `ConfigMap`s wake it.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        self.seen.add_to(controller, &of_metadata(client), namespace)
    }

    /// Waits until the first list of the object's namespace is complete.
    pub async fn ready(&self, object: &O) {
        self.seen.ready(object).await;
    }

    /// Returns the `ConfigMap` of that name in the object's namespace, read if its version changed. If the object does
    /// not control it, only its metadata is returned. If it cannot be read, an earlier content is returned, because
    /// nothing urgent depends on it.
    pub async fn read_named(
        &self,
        client: &Client,
        object: &O,
        name: &str,
    ) -> Result<Option<Arc<ConfigMap>>, kube::Error> {
        let key = (object.namespace().unwrap_or_default(), name.to_owned());
        let Some(seen) = self.seen.get_named(object, name) else {
            self.lock().remove(&key);
            return Ok(None);
        };
        if !is_controlled_by(&*seen, object) {
            self.lock().remove(&key);
            return Ok(Some(Arc::new(ConfigMap { metadata: seen.metadata.clone(), ..ConfigMap::default() })));
        }
        let version = seen.resource_version();
        if let Some((_, known)) = self.lock().get(&key).filter(|(of, _)| *of == version) {
            return Ok(Some(known.clone()));
        }
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &key.0);
        let content = match api.get_opt(name).await {
            Ok(content) => content,
            Err(error) => match self.lock().get(&key) {
                Some((_, earlier)) => return Ok(Some(earlier.clone())),
                None => return Err(error),
            },
        };
        let Some(content) = content else { return Ok(None) };
        let content = Arc::new(cut(content, MOST));
        let mut known = self.lock();
        known.retain(|(namespace, name), _| self.seen.has(namespace, name));
        known.insert(key, (content.resource_version(), content.clone()));
        Ok(Some(content))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.read.lock()
    }
}

/// Returns a client whose lists and watches return only metadata.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources>
pub fn of_metadata(client: &Client) -> Client {
    let asked = client.clone();
    let ask = move |mut request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let kind = if is_watch {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        } else {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        };
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(kind));
        let asked = asked.clone();
        async move { asked.send(request).await }
    };
    Client::new(service_fn(ask), client.default_namespace().to_owned())
}

/// Keeps only the needed metadata: annotations and labels of others may be large.
fn prune(seen: &mut PartialObjectMeta<ConfigMap>, label: &str) {
    let metadata = &mut seen.metadata;
    metadata.annotations = None;
    metadata.managed_fields = None;
    metadata.finalizers = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == label);
    }
}

/// Drops binary data, and then the largest values until at most `most` bytes are left.
fn cut(mut content: ConfigMap, most: usize) -> ConfigMap {
    content.binary_data = None;
    content.metadata.managed_fields = None;
    let Some(data) = &mut content.data else { return content };
    let size = |(key, value): (&String, &String)| key.len() + value.len();
    let mut all: usize = data.iter().map(size).sum();
    while all > most {
        let Some(largest) = data.iter().max_by_key(|entry| size(*entry)).map(|(key, _)| key.clone()) else { break };
        let value = data.remove(&largest).unwrap_or_default();
        all -= largest.len() + value.len();
    }
    content
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn additions_of_others_to_a_config_map_are_dropped() {
        let data = BTreeMap::from([("ours".to_owned(), "x".into()), ("theirs".to_owned(), "y".repeat(900_000))]);
        let content = cut(ConfigMap { data: Some(data), ..ConfigMap::default() }, MOST);
        assert_eq!(content.data.expect("data").keys().collect::<Vec<_>>(), ["ours"]);
    }
}
