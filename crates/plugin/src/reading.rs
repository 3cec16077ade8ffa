//! Reads from the cluster for the plugin, and makes its changes.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::KubeConfigOptions;
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use causeway_api::Served;
use causeway_api::common::FIELD_MANAGER;
use causeway_runtime::api_message;
use causeway_runtime::clients;
use causeway_runtime::metrics::Metrics;

use super::Error;
use super::kinds;
use super::options::Place;
use super::seen::title;

/// Kinds of the children of our objects.
const PARTS: [(&str, &str, &str); 9] = [
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "Deployment"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("", "v1", "Service"),
    ("", "v1", "PersistentVolumeClaim"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "Pod"),
];
/// The time that the operator may take to react to a change. It reacts within a second, unless it is down or busy.
const REACTION: Duration = Duration::from_secs(30);
/// The pause between two looks at an object that is to react.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Calls the cluster with the rights of the user.
pub struct Cluster {
    client: Client,
    /// The namespace to read; `None` for all.
    namespace: Option<String>,
}

/// Objects of our kinds that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The objects that could be read.
    pub objects: Vec<DynamicObject>,
    /// The errors of kinds that could not be read.
    pub refused: Vec<String>,
}

impl Cluster {
    /// Connects as the user's kubeconfig says.
    pub async fn of_user(place: &Place) -> Result<Self, Error> {
        let config = match &place.context {
            None => Config::infer().await.map_err(clients::Error::Kubeconfig)?,
            Some(context) => {
                let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
                Config::from_kubeconfig(&options).await.map_err(Error::Kubeconfig)?
            }
        };
        let own = config.default_namespace.clone();
        let namespace = (!place.all_namespaces).then(|| place.namespace.clone().unwrap_or(own));
        let client = clients::kubernetes(config, &Metrics::new()).map_err(clients::Error::Client)?;
        Ok(Self { client, namespace })
    }

    /// Returns the objects that `word` selects. A kind that is not installed has none. A kind that may not be read is
    /// reported beside the objects of the others.
    pub async fn objects(&self, word: Option<&str>) -> Result<Found, Error> {
        let (kinds, name) = kinds::meant(word)?;
        if let (Some(name), [kind]) = (name, &kinds[..]) {
            return Ok(Found { objects: vec![self.get(*kind, &name).await?], refused: Vec::new() });
        }
        let resources: Vec<ApiResource> = kinds.into_iter().map(Served::resource).collect();
        Ok(self.lists(&resources).await)
    }

    /// Returns the one object that `word` names.
    pub async fn object(&self, word: &str) -> Result<DynamicObject, Error> {
        let (kinds, name) = kinds::meant(Some(word))?;
        match (&kinds[..], name) {
            ([kind], Some(name)) => self.get(*kind, &name).await,
            _ => Err(Error::NoName(word.to_owned())),
        }
    }

    /// Waits until the object that `word` names is as `wanted` says. Returns false if it is not so within half a minute.
    pub async fn becomes(&self, word: &str, wanted: fn(&DynamicObject) -> bool) -> Result<bool, Error> {
        let deadline = Instant::now() + REACTION;
        loop {
            if wanted(&self.object(word).await?) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn get(&self, kind: Served, name: &str) -> Result<DynamicObject, Error> {
        let resource = kind.resource();
        let what = || format!("{} {name}", kind.name());
        let object = self.api(&resource).get(name).await;
        object.map(|object| with_type(object, &resource)).map_err(|source| Error::Read { what: what(), source })
    }

    /// Lists everything in the object's namespace that may belong to it.
    pub async fn parts(&self, object: &DynamicObject) -> Found {
        let namespace = object.namespace().unwrap_or_default();
        let here = Self { client: self.client.clone(), namespace: Some(namespace) };
        let resources =
            PARTS.map(|(group, version, kind)| ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)));
        here.lists(&resources).await
    }

    /// Lists all objects of these kinds at the same time.
    async fn lists(&self, resources: &[ApiResource]) -> Found {
        let mut found = Found::default();
        let lists = resources.iter().map(|resource| self.list(resource));
        for (resource, list) in resources.iter().zip(join_all(lists).await) {
            match list {
                Ok(objects) => found.objects.extend(objects),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => found.refused.push(format!("cannot list {}: {}", resource.plural, api_message(&error))),
            }
        }
        found
    }

    /// Lists warning events about the object; none if they may not be read, because they only add to its status.
    pub async fn warnings(&self, object: &DynamicObject) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let of = format!("involvedObject.uid={},type=Warning", object.uid().unwrap_or_default());
        let list = api.list(&ListParams::default().fields(&of).limit(PAGE)).await;
        list.map(|list| list.items).unwrap_or_default()
    }

    /// Changes exactly the object that was read, and never another one of the same name.
    pub async fn patch(&self, object: &DynamicObject, body: &Value) -> Result<(), Error> {
        let mut body = body.clone();
        body["metadata"]["uid"] = object.uid().into();
        let types = object.types.clone().unwrap_or_default();
        let Some(kind) = kinds::kind_named(&types.kind) else {
            return Err(Error::Kind { word: types.kind, known: String::new() });
        };
        let parameters =
            PatchParams { field_manager: Some(format!("kubectl-{FIELD_MANAGER}")), ..PatchParams::default() };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &object.namespace().unwrap_or_default(), &kind.resource());
        let done = api.patch(&object.name_any(), &parameters, &Patch::Merge(&body)).await;
        done.map(drop).map_err(|source| Error::Write { what: title(object), source })
    }

    /// Lists all objects of a kind, page by page.
    async fn list(&self, resource: &ApiResource) -> Result<Vec<DynamicObject>, kube::Error> {
        let (api, mut all) = (self.api(resource), Vec::new());
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&parameters).await?;
            all.extend(page.items.into_iter().map(|object| with_type(object, resource)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }
}

/// Adds the type, which items of a list do not have.
fn with_type(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types =
        Some(kube::core::TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    object
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::client::Body;
    use serde_json::json;

    use super::super::changes::has_forgotten_switchover;
    use super::*;

    /// A cluster whose operator forgets the switchover of a Redis only after that many looks at it.
    fn cluster(looks: usize) -> Cluster {
        let seen = Arc::new(AtomicUsize::new(0));
        let answer = move |_: http::Request<Body>| {
            let remembers = seen.fetch_add(1, Ordering::Relaxed) < looks;
            let object = json!({
                "apiVersion": "example.com/v1", "kind": "Redis", "metadata": { "name": "cache" },
                "status": { "switchedTo": remembers.then_some("cache-1") },
            });
            async move { Ok::<_, Infallible>(http::Response::new(Body::from(object.to_string().into_bytes()))) }
        };
        Cluster { client: Client::new(tower::service_fn(answer), "default"), namespace: Some("shop".into()) }
    }

    #[tokio::test(start_paused = true)]
    async fn the_plugin_waits_for_the_operator_but_not_for_ever() {
        assert!(cluster(3).becomes("redis/cache", has_forgotten_switchover).await.expect("a Redis"));
        assert!(!cluster(usize::MAX).becomes("redis/cache", has_forgotten_switchover).await.expect("a Redis"));
    }
}
