//! What children, members and their addresses are called. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::api::EtcdCluster;

/// Label of every child, with the cluster's name.
pub const LABEL: &str = "causeway.example.com/etcd";
/// Label of volume claims: the uid of the object that they were made for.
pub const INCARNATION: &str = "causeway.example.com/incarnation";
/// Label of pods: what they were made from.
pub const REVISION: &str = "causeway.example.com/revision";
/// Label of pods that begin the cluster anew from their data.
pub const FORCED: &str = "causeway.example.com/forced";
/// Annotation of volume claims: the ID of the member whose data they hold.
pub const MEMBER: &str = "causeway.example.com/member";
/// Annotation of volume claims that an earlier object of the name left: the uid of the object whose members use them now.
pub const ADOPTED: &str = "causeway.example.com/adopted-by";
/// Name of the volume in the pods, and the beginning of the claims' names.
pub const VOLUME: &str = "data";
/// Name of the init container by which the member of a recovery skips revisions.
pub const SKIP: &str = "skip-revisions";
/// Name of the pods' container.
pub const CONTAINER: &str = "etcd";

/// Port for clients.
pub const CLIENT_PORT: u16 = 2379;
/// Port for the other members.
pub const PEER_PORT: u16 = 2380;
/// Port for the other members by TLS. It is another one, so that a member can be reached both ways while that changes.
pub const PEER_TLS_PORT: u16 = 2382;
/// Port for probes and metrics, without TLS.
pub const METRICS_PORT: u16 = 2381;

/// Name of the headless Service of the pods.
pub fn peers(object: &EtcdCluster) -> String {
    format!("{}-peers", object.name_any())
}

/// Name of the `DatabaseBackup`.
pub fn backup(object: &EtcdCluster) -> String {
    format!("{}-backup", object.name_any())
}

/// Name of the pod, and of the member, with that ordinal.
pub fn pod(object: &EtcdCluster, ordinal: i32) -> String {
    format!("{}-{ordinal}", object.name_any())
}

/// Where the peers of the member with that ordinal reach it, with or without TLS.
pub fn peer_url(object: &EtcdCluster, ordinal: i32, tls: bool) -> String {
    let (scheme, port) = if tls { ("https", PEER_TLS_PORT) } else { ("http", PEER_PORT) };
    format!("{scheme}://{}:{port}", host(object, &pod(object, ordinal)))
}

/// Whether a URL asks for TLS.
pub fn is_https(url: &str) -> bool {
    url.starts_with("https:")
}

/// DNS name of a pod. Without the cluster's domain, which nobody tells us; the pods' search list has it.
pub fn host(object: &EtcdCluster, pod: &str) -> String {
    format!("{pod}.{}.{}.svc", peers(object), object.namespace().unwrap_or_default())
}

/// Name of the volume claim of the pod with that ordinal.
pub fn claim(object: &EtcdCluster, ordinal: i32) -> String {
    format!("{VOLUME}-{}", pod(object, ordinal))
}

/// The ordinal in the name of a pod, or of a claim.
pub fn ordinal_of(object: &EtcdCluster, name: &str) -> Option<i32> {
    let name =
        name.strip_prefix(&format!("{VOLUME}-")).filter(|rest| rest.starts_with(&object.name_any())).unwrap_or(name);
    let ordinal = name.strip_prefix(&object.name_any())?.strip_prefix('-')?;
    ordinal.parse().ok().filter(|number: &i32| *number >= 0 && number.to_string() == ordinal)
}

/// The ordinal of the member that its peers reach at one of these.
pub fn ordinal_at(object: &EtcdCluster, peer_urls: &[String]) -> Option<i32> {
    let host_of = |url: &String| -> Option<String> {
        let rest = url.split_once("://")?.1;
        Some(rest.split(['.', ':', '/']).next()?.to_owned())
    };
    peer_urls.iter().find_map(|url| ordinal_of(object, &host_of(url)?))
}

/// By which the pods are found.
pub fn selector(object: &EtcdCluster) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.into(), object.name_any())])
}

/// Labels of every child.
pub fn labels(object: &EtcdCluster) -> BTreeMap<String, String> {
    let mut labels = selector(object);
    labels.insert("app.kubernetes.io/name".into(), "etcd".into());
    labels.insert("app.kubernetes.io/instance".into(), object.name_any());
    labels.insert("app.kubernetes.io/managed-by".into(), "causeway".into());
    labels
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cluster;
    use super::*;

    #[test]
    fn ordinals_are_read_from_names_and_urls_whatever_the_cluster_is_called() {
        let mut object = cluster(3);
        for name in ["db", "data", "data-1", "a-0"] {
            object.metadata.name = Some(name.into());
            for ordinal in [0, 7, 11] {
                assert_eq!(ordinal_of(&object, &pod(&object, ordinal)), Some(ordinal), "{name}");
                let claim = format!("{VOLUME}-{}", pod(&object, ordinal));
                assert_eq!(ordinal_of(&object, &claim), Some(ordinal), "{name}");
                for tls in [false, true] {
                    assert_eq!(ordinal_at(&object, &[peer_url(&object, ordinal, tls)]), Some(ordinal), "{name}");
                }
            }
        }
        object.metadata.name = Some("db".into());
        for stranger in ["db", "db-", "db-x", "db-01", "db--1", "web-0", "data-web-0"] {
            assert_eq!(ordinal_of(&object, stranger), None, "{stranger}");
        }
    }
}
