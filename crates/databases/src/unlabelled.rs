//! Pods and volume claims that have a name of a set's, but not its label. They are looked for by their names, and only if
//! one is missing.
//!
//! The controller of `StatefulSet`s uses a claim that has the right name, whichever client made it, and with `whenDeleted:
//! Delete` it deletes that with the set. It releases a pod whose labels do not match any more, and then cannot make another of
//! that name.
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_pod_control.go>
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/controller_ref_manager.go>

use std::collections::BTreeMap;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use causeway_runtime::ActionEvent;

use super::{Database, names};

/// Labels of pods and claims by which they belong to an object of a kind.
const KINDS: [(&str, &str); 2] =
    [("causeway.example.com/etcd", "EtcdCluster"), ("causeway.example.com/redis", "Redis")];

/// The pods and claims of an object.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// The label by which they are found.
    pub label: &'static str,
    /// The object, whose name the label and the `StatefulSet` have.
    pub name: &'a str,
    /// The headless Service of the pods.
    pub peers: &'a str,
    /// The container of the database in them.
    pub container: &'static str,
}

/// The names by which the pods and claims of an object are recognized.
pub struct Names {
    object: String,
    peers: String,
}

impl Names {
    /// Returns the names of an object.
    pub fn new(object: &impl ResourceExt) -> Self {
        Self { object: object.name_any(), peers: names::peers(object) }
    }

    /// The labels that its pods and claims have.
    pub fn set<D: Database>(&self) -> Set<'_> {
        Set { label: D::LABEL, name: &self.object, peers: &self.peers, container: D::APP }
    }
}

/// Whose a pod or claim of the right name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It carries the label.
    Labelled,
    /// It is one of the set's whose label a user took off.
    Stripped,
    /// It belongs to another owner; with the sentence that says so, and what to do.
    Foreign(String),
}

/// The objects of these names that exist.
pub async fn look<K>(client: &Client, namespace: &str, names: Vec<String>) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = try_join_all(names.iter().map(|name| api.get_opt(name))).await?;
    Ok(found.into_iter().flatten().collect())
}

/// The event that reports a label that was put back.
pub fn event(kind: &str, name: &str, label: &str) -> ActionEvent {
    let why = match kind {
        "Pod" => {
            "without it its StatefulSet lets go of it, and can make none of that name. To keep everything as it is, set \
             spec.suspend; to look into it, use kubectl debug"
        }
        _ => "it holds data of this object",
    };
    ActionEvent::warning("Labelled", format!("Put label {label} back on {kind} {name}: {why}"))
}

impl Set<'_> {
    /// Reports whether its labels say that it belongs to this object, and to no other.
    pub fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(self.label).is_some_and(|name| name == self.name) && self.another(labels).is_none()
    }

    /// Another object that the labels name.
    fn another(&self, labels: &BTreeMap<String, String>) -> Option<String> {
        KINDS.iter().find_map(|(label, kind)| {
            let name = labels.get(*label)?;
            ((*label, name.as_str()) != (self.label, self.name)).then(|| format!("{kind} {name}"))
        })
    }

    /// Whose a pod of the right name is. Pods of the set have their host name and subdomain from it, and no client can change
    /// those. The label may have another value: a user who wants to look into a pod gives it one.
    pub fn pod(&self, pod: &Pod) -> Standing {
        let name = pod.name_any();
        let spec = pod.spec.as_ref();
        let made_by_set = spec.is_some_and(|spec| {
            spec.hostname.as_deref() == Some(&name)
                && spec.subdomain.as_deref() == Some(self.peers)
                && spec.containers.iter().any(|container| container.name == self.container)
        });
        let other_kind = KINDS.iter().any(|(label, _)| *label != self.label && pod.labels().contains_key(*label));
        let mut controllers = pod.owner_references().iter().filter(|owner| owner.controller == Some(true));
        let is_free = controllers.all(|owner| owner.kind == "StatefulSet" && owner.name == self.name);
        if !made_by_set || !is_free || other_kind {
            return Standing::Foreign(format!(
                "Pod {name} exists and does not belong to this object: delete it, or choose another metadata.name"
            ));
        }
        if self.has(pod.labels()) { Standing::Labelled } else { Standing::Stripped }
    }

    /// Whose a claim of the right name is. One without labels is used only if its owner asks for that with the label. One of
    /// another object is never used, whatever other labels it has.
    pub fn claim(&self, claim: &PersistentVolumeClaim, used_by_us: bool) -> Standing {
        let (name, object, label) = (claim.name_any(), self.name, self.label);
        match self.another(claim.labels()) {
            Some(another) => Standing::Foreign(format!(
                "PersistentVolumeClaim {name} exists and holds data of {another}: delete it if they are not needed, or choose \
                 another metadata.name"
            )),
            None if self.has(claim.labels()) => Standing::Labelled,
            None if used_by_us => Standing::Stripped,
            None => Standing::Foreign(format!(
                "PersistentVolumeClaim {name} exists and nothing says whose it is: if this object is to use what it holds, say \
                 so (kubectl label pvc {name} {label}={object}); else delete it, or choose another metadata.name"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SET: Set<'_> = Set { label: "causeway.example.com/etcd", name: "z", peers: "z-peers", container: "etcd" };

    fn claim(labels: &Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({ "metadata": { "name": "data-z-0", "labels": labels } })).unwrap()
    }

    fn describe(standing: Standing) -> String {
        match standing {
            Standing::Foreign(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_claim_of_another_kind_or_object_is_never_ours() {
        let redis = json!({ "causeway.example.com/redis": "z" });
        assert!(describe(SET.claim(&claim(&redis), true)).contains("data of Redis z"));
        let both = json!({ "causeway.example.com/redis": "z", "causeway.example.com/etcd": "z" });
        assert!(describe(SET.claim(&claim(&both), true)).contains("data of Redis z"));
        assert!(!SET.has(claim(&both).labels()));
        let other = json!({ "causeway.example.com/etcd": "y" });
        assert!(describe(SET.claim(&claim(&other), false)).contains("data of EtcdCluster y"));
    }

    #[test]
    fn an_unlabelled_claim_needs_consent_or_use() {
        assert_eq!(SET.claim(&claim(&json!({ "causeway.example.com/etcd": "z" })), false), Standing::Labelled);
        let unowned = claim(&json!({ "app": "x" }));
        assert!(
            describe(SET.claim(&unowned, false)).contains("kubectl label pvc data-z-0 causeway.example.com/etcd=z")
        );
        assert_eq!(SET.claim(&unowned, true), Standing::Stripped);
    }

    #[test]
    fn a_pod_is_recognized_by_its_set_fields() {
        let pod = |metadata: Value, subdomain: &str| -> Pod {
            let spec = json!({ "containers": [{ "name": "etcd" }], "hostname": "z-1", "subdomain": subdomain });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
        };
        let owner =
            |kind: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": "z", "uid": "1", "controller": true }]);
        let label = json!({ "causeway.example.com/etcd": "z" });
        assert_eq!(SET.pod(&pod(json!({ "name": "z-1", "labels": label }), "z-peers")), Standing::Labelled);
        assert_eq!(SET.pod(&pod(json!({ "name": "z-1" }), "z-peers")), Standing::Stripped);
        let of_set = json!({ "name": "z-1", "ownerReferences": owner("StatefulSet") });
        assert_eq!(SET.pod(&pod(of_set, "z-peers")), Standing::Stripped);
        let elsewhere = json!({ "causeway.example.com/etcd": "quarantine" });
        assert_eq!(SET.pod(&pod(json!({ "name": "z-1", "labels": elsewhere }), "z-peers")), Standing::Stripped);
        let of_redis = json!({ "causeway.example.com/redis": "z" });
        let leaving = SET.pod(&pod(json!({ "name": "z-1", "labels": of_redis }), "z-peers"));
        assert!(matches!(leaving, Standing::Foreign(_)));
        let taken = json!({ "name": "z-1", "ownerReferences": owner("ReplicaSet") });
        assert!(matches!(SET.pod(&pod(taken, "z-peers")), Standing::Foreign(_)));
        assert!(matches!(SET.pod(&pod(json!({ "name": "z-1" }), "others")), Standing::Foreign(_)));
    }
}
