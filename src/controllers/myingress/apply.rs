//! Carries out what was decided: one AWS call an action, beside the checks of ownership.

use std::collections::BTreeSet;

use super::error::Error;
use super::fleet::Fleet;
use super::ownership::Owner;
use crate::external::elbv2::{NewBalancer, Pairs};
use crate::runtime::ActionEvent;

/// One change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create a balancer.
    Create(NewBalancer),
    /// Move a balancer into other subnets.
    SetSubnets { arn: String, subnets: BTreeSet<String> },
    /// Give a balancer other security groups.
    SetSecurityGroups { arn: String, groups: BTreeSet<String> },
    /// Set attributes that are not as they should be.
    SetAttributes { arn: String, attributes: Pairs },
    /// Add or change tags.
    AddTags { arn: String, tags: Pairs },
    /// Remove tags that the spec no longer has.
    RemoveTags { arn: String, keys: BTreeSet<String> },
    /// Delete a balancer, if it still carries the owner's tags.
    Delete { owner: Owner, arn: String, name: String },
}

impl Action {
    /// The event that tells of the action.
    pub fn event(&self) -> ActionEvent {
        let (reason, note) = match self {
            Self::Create(new) => ("Created", format!("Created load balancer {}", new.name)),
            Self::SetSubnets { subnets, .. } => ("Updated", format!("Set subnets to {}", listed(subnets))),
            Self::SetSecurityGroups { groups, .. } => ("Updated", format!("Set security groups to {}", listed(groups))),
            Self::SetAttributes { attributes, .. } => {
                ("Updated", format!("Set attributes {}", listed(attributes.keys())))
            }
            Self::AddTags { tags, .. } => ("Updated", format!("Set tags {}", listed(tags.keys()))),
            Self::RemoveTags { keys, .. } => ("Updated", format!("Removed tags {}", listed(keys))),
            Self::Delete { name, .. } => ("Deleted", format!("Deleted load balancer {name}")),
        };
        ActionEvent { reason, note }
    }
}

fn listed<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    items.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Carries out `action`.
pub async fn apply(fleet: &Fleet, action: &Action) -> Result<(), Error> {
    let done = match action {
        Action::Create(new) => fleet.create(new).await,
        Action::SetSubnets { arn, subnets } => fleet.set_subnets(arn, subnets).await,
        Action::SetSecurityGroups { arn, groups } => fleet.set_security_groups(arn, groups).await,
        Action::SetAttributes { arn, attributes } => fleet.set_attributes(arn, attributes).await,
        Action::AddTags { arn, tags } => fleet.add_tags(arn, tags).await,
        Action::RemoveTags { arn, keys } => fleet.remove_tags(arn, keys).await,
        Action::Delete { owner, arn, .. } => fleet.delete(owner, arn).await,
    };
    done.map_err(Error::of)
}
