//! Works out, from the objects alone, the state that AWS should have. Pure.

mod actions;
mod attributes;
mod authentication;
mod backends;
mod balancer;
mod build;
pub mod certificates;
mod conditions;
mod defaults;
mod field;
mod foreign_groups;
mod guests;
mod inbound;
mod limits;
mod listeners;
mod listening;
mod member;
mod merge;
mod numbering;
mod regexes;
mod text;

#[cfg(test)]
pub mod fixtures;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod guests_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod specs;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::{
    HealthCheck, IpAddressType, MutualAuthentication, Pairs, Protocol, ProtocolVersion, RuleAction, RuleSettings,
    TargetType,
};

use super::targets::Backend;

pub use actions::nothing_here;
pub use attributes::{DELETION_PROTECTION, unprotects};
pub use backends::backend_called;
#[cfg(test)]
pub use build::build;
pub use build::{Built, Inputs, Secrets, build_beside, order};
pub use conditions::conditions_of;
pub use defaults::{
    default_balancer_attribute, default_balancer_attributes, default_group_attributes, default_listener_attributes,
};
pub use foreign_groups::foreign_groups;
#[cfg(test)]
pub use guests::covers;
pub use inbound::{MOST_RULES, counted, everywhere, everywhere_by_ipv6, inbound_of};
pub use limits::{Limits, is_nearly_used};
pub use listeners::RECOMMENDED_SSL_POLICY;

/// A balancer with all its parts, as the members of its group want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The balancer itself.
    pub balancer: BalancerModel,
    /// Target groups by name.
    pub groups: BTreeMap<String, GroupModel>,
    /// Listeners by port.
    pub listeners: BTreeMap<u16, ListenerModel>,
}

/// A balancer without its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerModel {
    /// The scheme: internet-facing or internal.
    pub scheme: Scheme,
    /// IP address type; `None` leaves it as it is.
    pub ip_address_type: Option<IpAddressType>,
    pub subnets: SubnetsModel,
    /// Its security groups.
    pub security: SecurityModel,
    /// Attributes that the spec names.
    pub attributes: Pairs,
    /// Tags of the balancer and of everything that belongs to it, without those of the owner.
    pub tags: Pairs,
    /// ARN of its web ACL.
    pub web_acl: Option<String>,
    /// Reserved capacity units.
    pub capacity: Option<u32>,
    /// The name that the spec gives it.
    pub name: Option<String>,
    /// Name of the balancer to adopt.
    pub adopt: Option<String>,
}

/// The subnets of a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubnetsModel {
    /// Those with these ids.
    Ids(BTreeSet<String>),
    /// Those with these tags: values by key; no values stand for any value.
    Tagged { tags: BTreeMap<String, Vec<String>>, vpc: Option<String> },
}

/// The security groups of a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityModel {
    /// AWS gives it the VPC's default group; nothing is compared.
    Default,
    /// Exactly these, by id or name.
    Given(BTreeSet<String>),
    /// One of our own. It lets these networks and prefix lists in on the listeners' ports. The security groups of its
    /// targets, which are ids or names, let it in.
    Managed { cidrs: BTreeSet<String>, prefix_lists: BTreeSet<String>, targets: BTreeSet<String> },
}

/// Reports whether that is the id of a security group, and not a name: the value of its tag `Name`.
pub fn is_group_id(called: &str) -> bool {
    called.starts_with("sg-")
}

impl SecurityModel {
    /// The groups, by id or name, that must be looked up before anything can be done with them.
    pub fn looked_up(&self) -> BTreeSet<String> {
        match self {
            Self::Default => BTreeSet::new(),
            Self::Given(groups) => groups.iter().filter(|it| !is_group_id(it)).cloned().collect(),
            Self::Managed { targets, .. } => targets.clone(),
        }
    }

    /// Reports whether the VPC of a balancer that is still to be created must be known. A group of our own may be in
    /// another one.
    pub fn needs_vpc(&self) -> bool {
        match self {
            Self::Default => false,
            Self::Given(_) => !self.looked_up().is_empty(),
            Self::Managed { .. } => true,
        }
    }
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupModel {
    /// Name of the backend in the spec.
    pub backend_name: String,
    /// The object that wants it: (namespace, name).
    pub member: (String, String),
    /// Where its targets come from.
    pub backend: Backend,
    /// The type of the targets: IP addresses or instances.
    pub target_type: TargetType,
    /// Protocol of requests to them.
    pub protocol: Protocol,
    pub version: ProtocolVersion,
    /// Port on which targets tell the balancer how many requests they take.
    pub control_port: Option<u16>,
    /// How targets are checked.
    pub health_check: HealthCheck,
    /// Every attribute that is compared: the spec's, and AWS's defaults for the others.
    pub attributes: Pairs,
}

/// A listener with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerModel {
    /// The protocol that clients speak.
    pub protocol: Protocol,
    pub certificates: CertificatesModel,
    /// Security policy; `None` leaves the choice to AWS.
    pub ssl_policy: Option<String>,
    /// How client certificates are checked.
    pub mutual_authentication: Option<MutualAuthentication>,
    /// Networks that are let in on its port; none for those of the balancer.
    pub inbound: BTreeSet<String>,
    /// Attributes that the spec names.
    pub attributes: Pairs,
    /// The actions on requests that no rule matches. Forward actions refer to target groups by name.
    pub default_actions: Vec<RuleAction>,
    /// Rules in the order of their evaluation.
    pub rules: Vec<RuleModel>,
}

/// The certificates of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatesModel {
    /// None: it speaks HTTP.
    None,
    /// Those that specs give, the first of which is the default, and those of AWS Certificate Manager that cover these hosts:
    /// the hosts of members that give none.
    Chosen { given: Vec<String>, hosts: BTreeSet<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleModel {
    /// The object that wants it: (namespace, name).
    pub member: (String, String),
    /// Its field in the spec, for messages: `spec.listeners[0].rules[2]`.
    pub field: String,
    /// The priority that the spec asks for.
    pub priority: Option<u16>,
    /// The conditions and actions. Forward actions refer to target groups by name.
    pub settings: RuleSettings,
}

/// The reason why an object, or a part of it, cannot be built. The text names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence that names the field and the fix.
    pub message: String,
}
