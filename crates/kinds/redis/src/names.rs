//! Names of children and nodes. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::database::RedisDatabase;
use causeway_api::Redis;
use causeway_databases::names;
pub use causeway_databases::names::{REVISION, VOLUME, ordinal_of, peers, pod};

/// Label of Kubernetes nodes: their zone. <https://kubernetes.io/docs/reference/labels-annotations-taints/>
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of every child, with the object's name.
pub const LABEL: &str = causeway_runtime::consent::REDIS.made_for;
/// Label of pods with their role: [`MASTER`] or [`REPLICA`]. Services do not select by it: the operator writes their
/// `EndpointSlice`s itself.
pub const ROLE: &str = "causeway.example.com/role";
/// The node that takes writes.
pub const MASTER: &str = "master";
/// A node that follows the master.
pub const REPLICA: &str = "replica";
/// The writer of the `EndpointSlice`s, as in their label `endpointslice.kubernetes.io/managed-by`.
pub const SLICER: &str = "causeway.example.com";
/// Annotation of pods: the settings that the process has, and which process.
pub const SETTINGS: &str = "causeway.example.com/settings";
/// Annotation of pods: the file of settings that a process starts with. It is here and not in a `ConfigMap`: who may write those
/// would choose the master to which a replica sends its password.
pub const CONF: &str = "causeway.example.com/redis-conf";
/// Annotation of pods: the process that was asked to rewrite its append-only file, for which memory limit in bytes, and how
/// often it had done so before: `<run id>/<bytes>/<count>`.
pub const LOG: &str = "causeway.example.com/append-only-file";
/// Annotation of pods: the certificates that the process has loaded, and which process.
pub const CERTIFICATES: &str = "causeway.example.com/certificates";
/// Annotation of pods: the certificates that are to be loaded. The kubelet syncs a pod that changes, so this change
/// brings the files at once rather than within a minute.
pub const AWAITED: &str = "causeway.example.com/awaited-certificates";
/// The user as which replicas and the operator log in.
pub const INTERNAL_USER: &str = "causeway";
/// The user as which exporters log in.
pub const EXPORTER_USER: &str = "causeway-exporter";
/// The port at which nodes answer.
pub const PORT: u16 = 6379;
/// The port at which exporters answer.
pub const EXPORTER_PORT: u16 = 9121;

/// Labels of every child.
pub fn labels(object: &Redis) -> BTreeMap<String, String> {
    names::labels::<RedisDatabase>(object)
}

/// How URLs of the nodes begin.
pub fn scheme(object: &Redis) -> &'static str {
    if object.spec.tls.is_some() { "rediss" } else { "redis" }
}

/// Name of the Service of the replicas.
pub fn replicas(object: &Redis) -> String {
    format!("{}-replicas", object.name_any())
}

/// Name of the Service at which clients of Redis Sentinel ask for the master.
pub fn sentinel(object: &Redis) -> String {
    format!("{}-sentinel", object.name_any())
}

/// A Service's DNS name, valid in the whole cluster.
pub fn dns_name(object: &Redis, service: &str) -> String {
    format!("{service}.{}.svc", object.namespace().unwrap_or_default())
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
