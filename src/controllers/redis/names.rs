//! What children and nodes are called. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::api::Redis;

/// Label of every child, with the object's name.
pub const LABEL: &str = "causeway.example.com/redis";
/// Label of pods that tells their role: [`MASTER`] or [`REPLICA`]. Services do not select by it: whom they lead to is in slices
/// that are written here.
pub const ROLE: &str = "causeway.example.com/role";
/// The node that takes writes.
pub const MASTER: &str = "master";
/// A node that follows the master.
pub const REPLICA: &str = "replica";
/// Who writes slices, as their label `endpointslice.kubernetes.io/managed-by` has it.
pub const SLICER: &str = "causeway.example.com";
/// Label of volume claims: the uid of the object that they were made for.
pub const INCARNATION: &str = "causeway.example.com/incarnation";
/// Label of pods: what they were made from.
pub const REVISION: &str = "causeway.example.com/revision";
/// Annotation of pods: the settings that the process has, and which process.
pub const SETTINGS: &str = "causeway.example.com/settings";
/// Annotation of pods: the certificates that the process has loaded, and which process.
pub const CERTIFICATES: &str = "causeway.example.com/certificates";
/// Annotation of pods: the certificates that are to be loaded. The kubelet looks at a pod that changes, and so brings their
/// files at once rather than within a minute.
pub const AWAITED: &str = "causeway.example.com/awaited-certificates";
/// Name of the volume in the pods, and the beginning of the claims' names.
pub const VOLUME: &str = "data";
/// Name of the pods' container.
pub const CONTAINER: &str = "redis";
/// The user as whom replicas and we log in.
pub const INTERNAL_USER: &str = "causeway";
/// The user as whom exporters log in.
pub const EXPORTER_USER: &str = "causeway-exporter";
/// Where nodes answer.
pub const PORT: u16 = 6379;

/// How URLs of the nodes begin.
pub fn scheme(object: &Redis) -> &'static str {
    if object.spec.tls.is_some() { "rediss" } else { "redis" }
}

/// Name of the headless Service of all pods.
pub fn peers(object: &Redis) -> String {
    format!("{}-peers", object.name_any())
}

/// Name of the Service of the replicas.
pub fn replicas(object: &Redis) -> String {
    format!("{}-replicas", object.name_any())
}

/// Name of the slice of a Service with addresses of that family.
pub fn slice(service: &str, family: &str) -> String {
    format!("{service}-{}", family.to_lowercase())
}

/// Name of the Secret with the clients' password, where the user names none.
pub fn password(object: &Redis) -> String {
    format!("{}-auth", object.name_any())
}

/// Name of the Secret with the users that processes know.
pub fn users(object: &Redis) -> String {
    format!("{}-users", object.name_any())
}

/// Name of the pod with that ordinal.
pub fn pod(object: &Redis, ordinal: i32) -> String {
    format!("{}-{ordinal}", object.name_any())
}

/// Name of the volume claim of the pod with that ordinal.
pub fn claim(object: &Redis, ordinal: i32) -> String {
    format!("{VOLUME}-{}", pod(object, ordinal))
}

/// The ordinal in the name of a pod, or of a claim.
pub fn ordinal_of(object: &Redis, name: &str) -> Option<i32> {
    let name =
        name.strip_prefix(&format!("{VOLUME}-")).filter(|rest| rest.starts_with(&object.name_any())).unwrap_or(name);
    let ordinal = name.strip_prefix(&object.name_any())?.strip_prefix('-')?;
    ordinal.parse().ok().filter(|number: &i32| *number >= 0 && number.to_string() == ordinal)
}

/// By which the pods are found.
pub fn selector(object: &Redis) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.into(), object.name_any())])
}

/// Labels of every child.
pub fn labels(object: &Redis) -> BTreeMap<String, String> {
    let mut labels = selector(object);
    labels.insert("app.kubernetes.io/name".into(), "redis".into());
    labels.insert("app.kubernetes.io/instance".into(), object.name_any());
    labels.insert("app.kubernetes.io/managed-by".into(), "causeway".into());
    labels
}
