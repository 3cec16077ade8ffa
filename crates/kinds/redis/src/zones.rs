//! The zones of Kubernetes nodes, for readers that are led to a replica near them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::facts::Set;
use super::names::ZONE;

/// How long a zone that was read counts, and longer if it cannot be read again: a node stays where it is.
const KNOWN: Duration = Duration::from_hours(1);
/// A node that could not be read, or had no zone, is read again after this time.
const UNKNOWN: Duration = Duration::from_mins(1);
/// A node that was not asked for during this time is forgotten.
const FORGOTTEN: Duration = Duration::from_hours(24);
/// The longest wait for a zone.
const DEADLINE: Duration = Duration::from_secs(1);

/// The zones of nodes.
pub struct Zones {
    nodes: Api<Node>,
    known: Mutex<HashMap<String, (Instant, Option<String>)>>,
}

impl Zones {
    /// Creates an empty cache that reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { nodes: Api::all(client), known: Mutex::default() }
    }

    /// Fills in the zone of every pod. A zone that is not known stays empty.
    pub async fn add_to(&self, set: &mut Set) {
        let open = set.pods.values_mut().filter(|pod| pod.own.zone.is_none());
        join_all(open.map(|pod| async {
            if let Some(host) = pod.own.host.clone() {
                pod.own.zone = self.zone_of(&host).await;
            }
        }))
        .await;
    }

    async fn zone_of(&self, node: &str) -> Option<String> {
        let before = self.lock_zones().get(node).cloned();
        if let Some((at, zone)) = &before
            && at.elapsed() < if zone.is_some() { KNOWN } else { UNKNOWN }
        {
            return zone.clone();
        }
        let zone = match timeout(DEADLINE, self.nodes.get_metadata(node)).await {
            Ok(Ok(node)) => node.labels().get(ZONE).cloned(),
            answer => {
                tracing::warn!(node, ?answer, "its zone is not known: readers are led to replicas of all zones");
                before.and_then(|(_, zone)| zone)
            }
        };
        let mut known = self.lock_zones();
        known.retain(|_, (at, _)| at.elapsed() < FORGOTTEN);
        known.insert(node.to_owned(), (Instant::now(), zone.clone()));
        zone
    }

    fn lock_zones(&self) -> MutexGuard<'_, HashMap<String, (Instant, Option<String>)>> {
        self.known.lock()
    }
}
