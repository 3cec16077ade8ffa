//! The world as far as it matters to one object: from the snapshot, with calls only where that is in doubt.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Resource;

use super::error::Error;
use super::fleet::{Fleet, Member};
use super::names::candidates;
use super::ownership::Owner;
use crate::api::MyIngress;
use crate::api::myingress::{AlbStatus, Scheme};

/// A create whose answer was lost may take effect, and show, so much later. Only a deletion must wait for that: after
/// it nobody looks again.
const CREATE_LAG: Duration = Duration::from_secs(10);

/// What matters to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The object as an owner.
    pub owner: Owner,
    /// Its balancers: one, or two while one replaces the other.
    pub owned: Vec<Member>,
    /// Names that we might use and that are taken by anybody.
    pub taken: BTreeSet<String>,
    /// The status names a balancer that exists and does not carry our tags.
    pub disowned: Option<AlbStatus>,
}

/// Reads what matters to `object`.
pub async fn observe(fleet: &Fleet, object: &MyIngress) -> Result<Observed, Error> {
    fleet.ready().await.map_err(Error::of)?;
    let owner = Owner::of(fleet.cluster(), object);
    let recorded = object.status.as_ref().and_then(|status| status.alb.as_ref());
    let mut names: Vec<String> =
        [Scheme::InternetFacing, Scheme::Internal].into_iter().flat_map(|scheme| candidates(&owner, scheme)).collect();
    names.extend(recorded.map(|alb| alb.name.clone()));
    let patience = if object.meta().deletion_timestamp.is_some() { CREATE_LAG } else { Duration::ZERO };
    fleet.settle_doubts(&names, patience).await.map_err(Error::of)?;
    if wants_attributes(object) {
        for member in fleet.owned_by(&owner) {
            fleet.want_attributes(&member.balancer.arn).await.map_err(Error::of)?;
        }
    }
    let disowned = recorded.filter(|alb| fleet.disowned(&owner, &alb.arn));
    Ok(Observed { owned: fleet.owned_by(&owner), taken: fleet.taken(&names), disowned: disowned.cloned(), owner })
}

/// Attributes are read only for objects that set them or did so before.
fn wants_attributes(object: &MyIngress) -> bool {
    let managed = object.status.as_ref().and_then(|status| status.managed.as_ref());
    !object.spec.attributes.is_empty() || managed.is_some_and(|managed| !managed.attributes.is_empty())
}
