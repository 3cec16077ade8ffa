//! Names of children, members and their addresses. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::database::EtcdDatabase;
use causeway_api::EtcdCluster;
use causeway_databases::names::{self, child};
pub use causeway_databases::names::{REVISION, VOLUME, ordinal_of, peers, pod};

/// Label of every child, with the cluster's name.
pub const LABEL: &str = causeway_runtime::consent::ETCDCLUSTER.made_for;
/// Label of pods that rebuild the cluster from their data.
pub const FORCED: &str = "causeway.example.com/forced";
/// Name of the init container by which the member of a recovery skips revisions.
pub const SKIP: &str = "skip-revisions";

/// Port for clients.
pub const CLIENT_PORT: u16 = 2379;
/// Port for the other members.
pub const PEER_PORT: u16 = 2380;
/// Port for the other members with TLS. It differs from the plain one: while TLS is turned on or off, a member is reached
/// both ways.
pub const PEER_TLS_PORT: u16 = 2382;
/// Port for probes and metrics, without TLS.
pub const METRICS_PORT: u16 = 2381;

/// The longest name of a `DatabaseBackup`.
const LONGEST_BACKUP: usize = 38;

/// Labels of every child.
pub fn labels(object: &EtcdCluster) -> BTreeMap<String, String> {
    names::labels::<EtcdDatabase>(object)
}

/// Name of the `DatabaseBackup`. If it would be too long, the end of the cluster's name becomes a hash.
pub fn backup(object: &EtcdCluster) -> String {
    child(object, "-backup", LONGEST_BACKUP)
}

/// Where the peers of the member with that ordinal reach it, with or without TLS.
pub fn peer_url(object: &EtcdCluster, ordinal: i32, tls: bool) -> String {
    let (scheme, port) = if tls { ("https", PEER_TLS_PORT) } else { ("http", PEER_PORT) };
    format!("{scheme}://{}:{port}", host(object, &pod(object, ordinal)))
}

/// Reports whether a URL asks for TLS.
pub fn is_https(url: &str) -> bool {
    url.starts_with("https:")
}

/// DNS name of a pod, without the domain of the Kubernetes cluster: we do not know it, and the pods' search list has it.
pub fn host(object: &EtcdCluster, pod: &str) -> String {
    format!("{pod}.{}.{}.svc", peers(object), object.namespace().unwrap_or_default())
}

/// The ordinal of the member that its peers reach at one of these.
pub fn ordinal_at(object: &EtcdCluster, peer_urls: &[String]) -> Option<i32> {
    let host_of = |url: &String| -> Option<String> {
        let rest = url.split_once("://")?.1;
        Some(rest.split(['.', ':', '/']).next()?.to_owned())
    };
    peer_urls.iter().find_map(|url| ordinal_of(object, &host_of(url)?))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cluster;
    use super::*;

    #[test]
    fn ordinals_are_read_from_urls_whatever_the_cluster_is_called() {
        let mut object = cluster(3);
        for name in ["db", "data", "data-1", "a-0"] {
            object.metadata.name = Some(name.into());
            for (ordinal, tls) in [(0, false), (7, true), (11, false)] {
                assert_eq!(ordinal_at(&object, &[peer_url(&object, ordinal, tls)]), Some(ordinal), "{name}");
            }
        }
    }
}
