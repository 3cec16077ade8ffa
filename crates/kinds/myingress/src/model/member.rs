//! The contribution of one object to the balancer.

use std::collections::BTreeMap;

use causeway_api::MyIngressSpec;
use causeway_api::myingress::Scheme;

use super::balancer::{BalancerPart, balancer};
use super::field::Field;
use super::listeners::{ListenerPart, listeners};
use super::{Complaint, GroupModel, Inputs, SecurityModel, actions, backends};
use crate::ownership::{ObjectKey, member_tag};

/// Characters that the value of a tag has at most.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Tag.html>
const LONGEST_VALUE: usize = 256;

/// One object's part of a balancer.
#[derive(Clone, Debug)]
pub struct Part {
    pub member: ObjectKey,
    /// Its settings of the balancer itself.
    pub balancer: BalancerPart,
    /// Target groups by name: only those that requests are forwarded to. The others would never have a healthy target.
    pub groups: BTreeMap<String, GroupModel>,
    /// Listeners by port.
    pub listeners: BTreeMap<u16, ListenerPart>,
}

/// Builds the contribution of the object with this spec to a balancer of this scheme.
pub fn part(member: &ObjectKey, spec: &MyIngressSpec, scheme: Scheme, context: &Inputs<'_>) -> Result<Part, Complaint> {
    let field = Field::spec();
    let balancer = balancer(spec, &field)?;
    if balancer.grouped {
        fits_into_tag(member)?;
    }
    let backends = backends::backends(&spec.backends, member, context.owner, scheme, &field.name("backends"))?;
    let listeners = listeners(&spec.listeners, member, &backends, context, &field.name("listeners"))?;
    if let Some((_, listener)) = listeners.iter().find(|(_, it)| !it.inbound.is_empty())
        && !matches!(balancer.security, SecurityModel::Managed { .. })
    {
        let message = format!(
            "{}.inboundCidrs needs a security group of Causeway's own: give spec.inboundCidrs for the listeners that have no \
             networks of their own, and leave out spec.securityGroups",
            listener.field
        );
        return Err(Complaint { reason: "InboundInvalid", message });
    }
    let actions = listeners.values().flat_map(|listener| {
        let rules = listener.rules.iter().flat_map(|rule| &rule.settings.actions);
        rules.chain(listener.default_actions.iter().flatten())
    });
    let used = actions::groups_of(actions);
    let groups = backends.into_values().filter(|it| used.contains(&it.group)).map(|it| (it.group, it.model));
    let groups: BTreeMap<String, GroupModel> = groups.collect();
    context.occupied.check(&groups, context.owner)?;
    Ok(Part { member: member.clone(), balancer, groups, listeners })
}

/// Checks that a tag can name the member of a group.
fn fits_into_tag(member: &ObjectKey) -> Result<(), Complaint> {
    let (key, value) = member_tag(member);
    let length = value.chars().count();
    if length <= LONGEST_VALUE {
        return Ok(());
    }
    let message = format!(
        "metadata.name: {value} has {length} characters, and AWS takes {LONGEST_VALUE} in the tag {key}, which names a \
         member of a group: create the object under a shorter name, or leave spec.group out"
    );
    Err(Complaint { reason: "SpecInvalid", message })
}
