//! Target groups that exist already, and whose names a member of a group therefore cannot have. Pure.
//!
//! The name of a target group ends in 40 bits of a hash, and tenants know all that goes into it. So they can find names
//! of backends for which two target groups have one name.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Built, Complaint, GroupModel};
use super::ownership::Owner;

/// Target groups whose names a member cannot have.
#[derive(Clone, Debug, Default)]
pub struct Occupied {
    /// ARNs of target groups that another owner's tags are on, by name.
    pub foreign: BTreeMap<String, String>,
}

impl Occupied {
    /// Refuses the member that wants these target groups, by name, if it cannot have one of them.
    pub fn check(&self, groups: &BTreeMap<String, GroupModel>, owner: &Owner) -> Result<(), Complaint> {
        for (name, group) in groups {
            if self.foreign.contains_key(name) {
                return Err(lost(name, &group.backend_name, owner));
            }
        }
        Ok(())
    }

    /// Builds again until no member has a target group that it cannot have. Each time, the members that want one are
    /// left out. `foreign` returns the target groups among these names that another owner's tags are on.
    pub fn settle(
        &mut self,
        built: &mut Built,
        owner: &Owner,
        build: impl Fn(&Self) -> Built,
        foreign: impl Fn(&BTreeSet<&String>) -> BTreeMap<String, String>,
    ) {
        while let Some(model) = &built.model {
            let taken = foreign(&model.groups.keys().collect());
            if taken.is_empty() && self.check(&model.groups, owner).is_ok() {
                return;
            }
            self.foreign.extend(taken);
            *built = build(self);
        }
    }
}

/// The complaint about a target group that the backend needs, and whose tags name another owner.
pub fn lost(name: &str, backend: &str, owner: &Owner) -> Complaint {
    let message = format!(
        "spec.backends: target group {name}, which backend {backend} needs, has tags that name another owner: put its tags \
         causeway.example.com/cluster and /uid back ({} and {}), or delete it, or give the backend another name",
        owner.cluster.name, owner.uid
    );
    Complaint { reason: "OwnershipLost", message }
}
