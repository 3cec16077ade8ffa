//! A cluster that is made again while the pods of an earlier one of its name stop. They still answer for a while, but what
//! they say is about the earlier cluster, whose volumes may go with it.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use causeway_api::EtcdCluster;

use super::super::auth::{Access, Auth};
use super::super::facts::Observed;
use super::{Step, View};

/// Reports whether no cluster is recorded, and the pods go with a `StatefulSet` that is not ours, or not there any more.
fn stops(object: &EtcdCluster, observed: &Observed) -> bool {
    let is_new = object.status.as_ref().is_none_or(|status| status.cluster_id.is_none());
    is_new && observed.set.is_leaving(object)
}

/// Returns the facts without the answers of an earlier cluster's members; `None` if there are no such members. If its ID were
/// recorded, no other cluster could ever begin.
pub fn without_answers(object: &EtcdCluster, observed: &Observed) -> Option<Observed> {
    stops(object, observed).then(|| Observed {
        statuses: BTreeMap::new(),
        reserved: BTreeSet::new(),
        remembered: Vec::new(),
        quorum: None,
        auth: Auth { access: Access::Unknown, ..observed.auth.clone() },
        ..observed.clone()
    })
}

/// Waits for the pods of an earlier cluster. Only when they are gone do the volumes show whether they go, too.
pub fn step(view: &View<'_>) -> Option<Step> {
    let set = &view.observed.set;
    let is_going = stops(view.object, view.observed) && set.is_going(&view.object.name_any());
    is_going.then(|| Step::wait("Applying", set.describe_going()))
}
