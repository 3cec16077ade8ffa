//! Children as manifests: their wanted state, how it is compared with the live one, and how it is applied.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use causeway_api::common::{FIELD_MANAGER, PREFIX};

use super::fingerprint;
use super::quantity::same_amount;

/// The wanted state of a child; fields that are not in it are left to others.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    /// The kind of the object.
    pub resource: ApiResource,
    /// The object, as it is sent.
    pub value: Value,
    /// True if several of our objects share the child.
    pub shared: bool,
}

/// Prints only which child it is, because its content may be long.
impl std::fmt::Debug for Manifest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.kind(), self.name())
    }
}

impl Manifest {
    /// A child of that kind; `value` does not have to name the kind.
    pub fn new<K: Resource<DynamicType = ()>>(mut value: Value) -> Self {
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        Self::of_resource(ApiResource::erase::<K>(&()), value)
    }

    /// A child of a kind known only at run time; `value` must name the kind.
    pub fn of_resource(resource: ApiResource, value: Value) -> Self {
        Self { resource, value, shared: false }
    }

    /// A child that several objects share. Each of them adds its own owner reference, and removes none.
    pub fn of_shared<K: Resource<DynamicType = ()>>(value: Value) -> Self {
        Self { shared: true, ..Self::new::<K>(value) }
    }

    /// A child with a hash of itself in an annotation, which reveals when a field is no longer wanted.
    pub fn with_hash<K: Resource<DynamicType = ()> + Serialize>(child: &K) -> Self {
        let mut value = serde_json::to_value(child).unwrap_or_default();
        let hash = fingerprint(&[value.to_string().as_bytes()], 16);
        value["metadata"]["annotations"][hash_annotation()] = Value::String(hash);
        Self::new::<K>(value)
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns true if a live object has everything that is wanted. A network policy must not have anything else in its
    /// spec, because that would let in more. A slice must not have other endpoints, because they would lead clients
    /// elsewhere.
    pub fn is_met_by(&self, live: &Value) -> bool {
        let is_same = |part: &str| without_empty(&self.value[part]) == without_empty(&live[part]);
        let has_no_more = match self.kind() {
            "NetworkPolicy" => is_same("spec"),
            "EndpointSlice" => is_same("endpoints"),
            _ => true,
        };
        has_no_more && covers(live, &self.value)
    }

    /// Returns true if a live `StatefulSet` differs in fields that cannot be updated, so it must be created again.
    /// <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#updating-statefulsets>
    pub fn needs_another(&self, live: &Value) -> bool {
        let spec = &self.value["spec"];
        let fixed = json!({ "spec": {
            "selector": spec["selector"],
            "serviceName": spec["serviceName"],
            "podManagementPolicy": spec["podManagementPolicy"],
            "volumeClaimTemplates": spec["volumeClaimTemplates"],
        }});
        self.kind() == "StatefulSet" && !covers(live, &fixed)
    }

    /// Applies it server-side in a namespace. With a `uid`, it applies only to that very object.
    async fn apply(&self, client: &Client, namespace: &str, uid: Option<&str>) -> Result<(), kube::Error> {
        if self.shared {
            return self.add(client, namespace).await;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
        let mut value = self.value.clone();
        if let Some(uid) = uid {
            value["metadata"]["uid"] = uid.into();
        }
        api.patch(self.name(), &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&value)).await.map(drop)
    }

    /// Applies it for that owner: to the object with that uid if given, otherwise only to an object that the owner
    /// controls or to none. Returns false if an object of another owner has the name. The watch does not show such an
    /// object, because it selects by label.
    pub async fn apply_for(
        &self,
        client: &Client,
        namespace: &str,
        owner: &impl Resource<DynamicType = ()>,
        uid: Option<&str>,
    ) -> Result<bool, kube::Error> {
        if self.shared || uid.is_some() {
            return self.apply(client, namespace, uid).await.map(|()| true);
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
        let there = api.get_opt(self.name()).await?;
        if there.as_ref().is_some_and(|there| !is_controlled_by(there, owner)) {
            return Ok(false);
        }
        let uid = there.and_then(|there| there.uid());
        self.apply(client, namespace, uid.as_deref()).await.map(|()| true)
    }

    /// Adds the wanted fields to the live object. Server-side apply would remove the owner references that the same
    /// field manager set for other objects.
    /// <https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/#notes-on-the-strategic-merge-patch>
    async fn add(&self, client: &Client, namespace: &str) -> Result<(), kube::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        match api.patch(self.name(), &parameters, &Patch::Strategic(&self.value)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => self.create(client, namespace).await,
            patched => patched.map(drop),
        }
    }

    /// Creates it, for a child whose live content must not be overwritten.
    pub async fn create(&self, client: &Client, namespace: &str) -> Result<(), kube::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let wanted = serde_json::from_value(self.value.clone()).map_err(kube::Error::SerdeError)?;
        api.create(&parameters, &wanted).await.map(drop)
    }

    /// Like [`Self::create`], but succeeds too if the owner already controls an object of that name, as after a crash.
    /// Returns false if an object of another owner has the name.
    pub async fn create_for(
        &self,
        client: &Client,
        namespace: &str,
        owner: &impl Resource<DynamicType = ()>,
    ) -> Result<bool, kube::Error> {
        match self.create(client, namespace).await {
            Ok(()) => Ok(true),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
                match api.get_opt(self.name()).await? {
                    Some(there) => Ok(is_controlled_by(&there, owner)),
                    None => Err(kube::Error::Api(status)),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the metadata of a child of that name, which is deleted with its owner.
pub fn controlled_metadata(
    owner: &impl Resource<DynamicType = ()>,
    name: String,
    labels: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: owner.meta().namespace.clone(),
        labels: Some(labels),
        annotations: Some(BTreeMap::new()),
        owner_references: owner.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Deletes the object with that uid, never another one of the same name. A missing object is no error.
pub async fn delete_exactly<K>(api: &Api<K>, name: &str, uid: &str, how: DeleteParams) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let exactly = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    match api.delete(name, &how.preconditions(exactly)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Merges a patch into the object with that uid, never into another one of the same name; returns the result.
pub async fn patch_exactly<K>(api: &Api<K>, name: &str, uid: &str, mut patch: Value) -> Result<K, kube::Error>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    patch["metadata"]["uid"] = uid.into();
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(&patch)).await
}

/// Returns the name of the annotation with the hash of what was applied.
pub fn hash_annotation() -> String {
    format!("{PREFIX}/applied")
}

/// Returns true if the owner controls the child.
pub fn is_controlled_by(child: &impl Resource, owner: &impl Resource) -> bool {
    let mut owners = child.owner_references().iter();
    owners.any(|it| it.controller == Some(true) && Some(&it.uid) == owner.meta().uid.as_ref())
}

/// Returns the owner references of an object in JSON.
pub fn owners_of(live: &Value) -> Vec<OwnerReference> {
    serde_json::from_value(live["metadata"]["ownerReferences"].clone()).unwrap_or_default()
}

/// Returns true if these owner references name a controller of the owner's kind and name, but with another uid. Such a
/// controller was deleted, and Kubernetes is about to collect its child.
/// <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents>
pub fn is_left_over<O: Resource<DynamicType = ()>>(owners: &[OwnerReference], owner: &O) -> bool {
    owners.iter().any(|it| {
        let same = it.kind == O::kind(&()) && it.name == owner.name_any();
        same && it.controller == Some(true) && Some(&it.uid) != owner.meta().uid.as_ref()
    })
}

/// Describes such a child for the user.
pub fn left_over<O: Resource<DynamicType = ()>>(kind: &str, name: &str) -> String {
    let of = O::kind(&());
    format!("{kind} {name} belongs to an earlier {of} of this name: waiting for Kubernetes to delete it")
}

/// Returns true if `live` has everything that `wanted` has. Defaults of the apiserver and additions by others are
/// ignored. Quantities are compared by amount, because the apiserver rewrites them.
pub fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (_, Value::Null) => true,
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).map_or(is_nothing(wanted), |live| covers(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => match wanted.iter().map(name_of).collect::<Option<Vec<&str>>>() {
            // Others may add containers, ports and the like; ours are found by name.
            Some(_) if !wanted.is_empty() => wanted
                .iter()
                .all(|wanted| live.iter().any(|live| name_of(live) == name_of(wanted) && covers(live, wanted))),
            _ => live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted)),
        },
        (Value::String(live), Value::String(wanted)) => live == wanted || same_amount(live, wanted),
        _ => live == wanted,
    }
}

/// Returns the value without empty lists and maps in selectors, which the apiserver leaves out. Empty selectors
/// themselves stay, because they select everything.
fn without_empty(value: &Value) -> Value {
    let stays = |key: &String, value: &Value| {
        !is_nothing(value) || !["matchLabels", "matchExpressions", "values", "except"].contains(&key.as_str())
    };
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| stays(key, value));
            Value::Object(kept.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn name_of(value: &Value) -> Option<&str> {
    value.get("name")?.as_str()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_additions_of_others_are_no_drift() {
        let wanted = json!({ "replicas": 3, "nothing": null, "none": {}, "ports": [{ "name": "a", "port": 1 }] });
        let live = json!({
            "replicas": 3, "revisionHistoryLimit": 10,
            "ports": [{ "name": "injected", "port": 9 }, { "name": "a", "port": 1, "protocol": "TCP" }],
        });
        assert!(covers(&live, &wanted));
    }

    #[test]
    fn whatever_we_set_is_missed() {
        let wanted = json!({ "a": { "b": "1" }, "list": ["x", "y"], "named": [{ "name": "n", "v": 1 }] });
        for changed in [
            json!({ "a": { "b": "2" }, "list": ["x", "y"], "named": [{ "name": "n", "v": 1 }] }),
            json!({ "a": {}, "list": ["x", "y"], "named": [{ "name": "n", "v": 1 }] }),
            json!({ "a": { "b": "1" }, "list": ["x"], "named": [{ "name": "n", "v": 1 }] }),
            json!({ "a": { "b": "1" }, "list": ["x", "y"], "named": [{ "name": "n", "v": 2 }] }),
            json!({ "a": { "b": "1" }, "list": ["x", "y"], "named": [] }),
        ] {
            assert!(!covers(&changed, &wanted), "{changed}");
        }
        assert!(covers(&wanted, &wanted));
    }

    #[tokio::test]
    async fn deletions_and_patches_spare_a_successor_of_the_same_name() {
        let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = sent.clone();
        let answer = move |request: http::Request<Body>| {
            let seen = seen.clone();
            async move {
                let body = request.into_body().collect_bytes().await.expect("a body");
                seen.lock().push(serde_json::from_slice(&body).expect("JSON"));
                // The apiserver's answer if the uid differs.
                let status =
                    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409 });
                let response = http::Response::builder().status(409).body(Body::from(status.to_string().into_bytes()));
                Ok::<_, Infallible>(response.expect("a response"))
            }
        };
        let api: Api<ConfigMap> = Api::default_namespaced(Client::new(tower::service_fn(answer), "shop"));
        assert!(delete_exactly(&api, "nightly", "uid-1", DeleteParams::default()).await.is_err());
        assert!(patch_exactly(&api, "nightly", "uid-1", json!({ "data": {} })).await.is_err());
        let sent = sent.lock();
        assert_eq!(sent[0]["preconditions"]["uid"], "uid-1");
        assert_eq!(sent[1]["metadata"]["uid"], "uid-1");
    }
}
