//! The backup that a new cluster begins with.

use causeway_api::EtcdCluster;
use causeway_databases::restore_from::Database;

use super::super::names;
use super::{View, auth, children};

/// The cluster, as far as a restore is concerned. It takes writes as soon as a majority has a leader,
/// and, with authentication, knows the password that the restore logs in with.
pub fn database<'a>(view: &'a View<'_>) -> Database<'a, EtcdCluster> {
    Database {
        object: view.object,
        asked: view.object.spec.restore_from.as_ref(),
        before: view.object.status.as_ref().and_then(|status| status.restored.as_ref()),
        seen: &view.observed.set.restore,
        serves: view.leader().is_some() && auth::is_settled(view),
        found_volumes: children::earlier_volumes(view).is_some(),
        labels: names::labels(view.object),
    }
}
