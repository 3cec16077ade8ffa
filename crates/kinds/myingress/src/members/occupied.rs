//! Target groups that exist already, and whose names a member of a group therefore cannot have. Pure.
//!
//! The name of a target group ends in 40 bits of a hash, and tenants know all that goes into it. So they can find names
//! of backends for which two target groups have one name.

use std::collections::{BTreeMap, BTreeSet};

use causeway_aws::elbv2::RuleAction;

use crate::model::{Built, Complaint, GroupModel};
use crate::ownership::{ObjectKey, Owner, member_of};
use crate::region::assets::Assets;

/// Target groups whose names a member cannot have.
#[derive(Clone, Debug, Default)]
pub struct Occupied {
    /// ARNs of target groups that another owner's tags are on, by name.
    pub foreign: BTreeMap<String, String>,
    /// By name, target groups of the owner's own to which requests for a member go: the member.
    serving: BTreeMap<String, ObjectKey>,
}

impl Occupied {
    /// Collects the names that the owner's target groups occupy. A group counts as a member's if its tags name the
    /// member, and that member's rules or a default action forward to it. If only the tags do, another client changed
    /// them: they are repaired.
    pub fn new(assets: &Assets, owner: &Owner) -> Self {
        let mut forwarding: BTreeSet<(&String, Option<ObjectKey>)> = BTreeSet::new();
        for (_, listener) in assets.balancers.values().flat_map(|it| it.listeners.iter().flatten()) {
            let default = &listener.listener.settings.default_actions;
            forwarding.extend(default.iter().flat_map(RuleAction::forwarded_to).map(|arn| (arn, None)));
            for rule in listener.rules.values() {
                let Some(member) = member_of(&rule.tags) else { continue };
                let arns = rule.rule.settings.actions.iter().flat_map(RuleAction::forwarded_to);
                forwarding.extend(arns.map(|arn| (arn, Some(member.clone()))));
            }
        }
        let serving = assets.groups.iter().filter_map(|(arn, group)| {
            let member = member_of(&group.tags)?;
            // Only members of the group's own namespace have default actions.
            let by_default = member.0 == owner.namespace && forwarding.contains(&(arn, None));
            let serves = by_default || forwarding.contains(&(arn, Some(member.clone())));
            serves.then(|| (group.group.name.clone(), member))
        });
        Self { foreign: BTreeMap::new(), serving: serving.collect() }
    }

    /// Refuses the member that wants these target groups, by name, if it cannot have one of them.
    pub fn check(&self, groups: &BTreeMap<String, GroupModel>, owner: &Owner) -> Result<(), Complaint> {
        for (name, group) in groups {
            if self.foreign.contains_key(name) {
                return Err(lost_group(name, &group.backend_name, owner));
            }
            // Another namespace would get requests that are not for it.
            if let Some(other) = self.serving.get(name).filter(|it| it.0 != group.member.0) {
                return Err(shared(name, &group.backend_name, other));
            }
        }
        Ok(())
    }

    /// Builds again until no member has a target group that it cannot have. `again` builds without the members that are
    /// refused. `foreign` returns the target groups among these names that another owner's tags are on.
    pub fn resolve_names(
        &mut self,
        built: &mut Built,
        owner: &Owner,
        again: impl Fn(&Self) -> Built,
        foreign: impl Fn(&BTreeSet<&String>) -> BTreeMap<String, String>,
    ) {
        while let Some(model) = &built.model {
            let taken = foreign(&model.groups.keys().collect());
            if taken.is_empty() && self.check(&model.groups, owner).is_ok() {
                return;
            }
            self.foreign.extend(taken);
            *built = again(self);
        }
    }
}

/// The complaint about a backend whose target group would have the name of that of another member.
pub fn shared(name: &str, backend: &str, (namespace, other): &ObjectKey) -> Complaint {
    let message = format!(
        "spec.backends: the target group of backend {backend} would be named {name}, which {namespace}/{other} already \
         uses: give the backend another name"
    );
    Complaint { reason: "BackendInvalid", message }
}

/// The complaint about a target group that the backend needs, and whose tags name another owner.
pub fn lost_group(name: &str, backend: &str, owner: &Owner) -> Complaint {
    let message = format!(
        "spec.backends: target group {name}, which backend {backend} needs, has tags that name another owner: put its \
         tags causeway.example.com/cluster and /uid back ({} and {}), or delete it, or give the backend another name",
        owner.cluster.name, owner.uid
    );
    Complaint { reason: "OwnershipLost", message }
}
