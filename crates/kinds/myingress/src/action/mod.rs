//! The changes that a plan can consist of. Each is one AWS call, plus the calls that check ownership.

pub mod dependencies;
pub mod predicted;

use std::collections::{BTreeMap, BTreeSet};

use causeway_aws::ec2::{Entry, Permission, Source};
use causeway_aws::elbv2::{
    GroupKind, HealthCheck, IpAddressType, ListenerSettings, NewBalancer, NewTargetGroup, Pairs, RuleAction,
    RuleSettings,
};
use causeway_runtime::ActionEvent;

use super::ownership::Owner;
use super::targets::Binding;

/// One change in the cluster or in AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A change of the balancer's own security group.
    Security(SecurityAction),
    /// A change of a balancer.
    Balancer(BalancerAction),
    /// A change of a target group.
    Group(GroupAction),
    /// A change of a listener or its rules.
    Listener(ListenerAction),
    /// Let the targets of these groups follow their backends. Targets of the owner's other groups stop following
    /// theirs.
    Bind(Vec<Binding>),
}

/// A change of a security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityAction {
    /// Make it.
    Create { name: String, vpc: String, tags: Pairs },
    /// Allow inbound traffic.
    Authorize { id: String, permissions: BTreeSet<Permission> },
    /// Stop allowing inbound traffic.
    Revoke { id: String, permissions: BTreeSet<Permission> },
    /// Allow outbound traffic.
    LetOut { id: String, permissions: BTreeSet<Permission> },
    /// Stop allowing outbound traffic.
    KeepIn { id: String, permissions: BTreeSet<Permission> },
    /// Add or change tags.
    AddTags { id: String, tags: Pairs },
    /// Remove tags that the spec no longer has.
    RemoveTags { id: String, keys: BTreeSet<String> },
    /// Let it in to a security group that is not ours and agrees to that by a tag.
    LetIn(Entry),
    /// Remove the rule by which a security group that is not ours lets it in.
    ShutOut(Entry),
    /// Delete it, if it still carries the owner's tags.
    Delete { id: String, name: String },
}

/// A change of a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalancerAction {
    /// Make it.
    Create(NewBalancer),
    /// Check by its tags that the balancer in AWS's answer is the one that was created, not an older one.
    Verify { arn: String, name: String },
    /// Move it into other subnets.
    SetSubnets { arn: String, subnets: BTreeSet<String> },
    /// Give it other security groups.
    SetSecurityGroups { arn: String, groups: BTreeSet<String> },
    /// Change its IP address type.
    SetIpAddressType { arn: String, to: IpAddressType },
    /// Set attributes that are not as they should be.
    SetAttributes { arn: String, attributes: Pairs },
    /// Attach a web ACL, or detach it.
    SetWebAcl { arn: String, acl: Option<String> },
    /// Reserve capacity, or release it.
    SetCapacity { arn: String, units: Option<u32> },
    /// Add or change tags.
    AddTags { arn: String, tags: Pairs },
    /// Take over a balancer whose tags allow it.
    Adopt { arn: String, name: String, tags: Pairs },
    /// Remove tags that the spec no longer has.
    RemoveTags { arn: String, keys: BTreeSet<String> },
    /// Delete it, if it still carries the owner's tags.
    Delete { owner: Owner, arn: String, name: String },
}

/// A change of a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAction {
    /// Make it.
    Create(NewTargetGroup),
    /// Change its health check.
    SetHealthCheck { arn: String, name: String, kind: GroupKind, check: HealthCheck },
    /// Set attributes that are not as they should be.
    SetAttributes { arn: String, name: String, attributes: Pairs },
    /// Add or change tags.
    AddTags { arn: String, name: String, tags: Pairs },
    /// Remove tags that the spec no longer has.
    RemoveTags { arn: String, name: String, keys: BTreeSet<String> },
    /// Delete it, if it still carries the owner's tags.
    Delete { owner: Owner, arn: String, name: String },
}

/// A change of a listener or its rules. `balancer` is the ARN of the balancer that it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerAction {
    /// Make a listener.
    Create { balancer: String, settings: ListenerSettings, tags: Pairs },
    /// Change it.
    Modify { balancer: String, arn: String, settings: ListenerSettings },
    /// Set attributes that are not as they should be.
    SetAttributes { balancer: String, arn: String, port: u16, attributes: Pairs },
    /// Add certificates beside the default one.
    AddCertificates { balancer: String, arn: String, port: u16, certificates: BTreeSet<String> },
    /// Remove certificates beside the default one.
    RemoveCertificates { balancer: String, arn: String, port: u16, certificates: BTreeSet<String> },
    /// Add or change tags of a listener or a rule.
    AddTags { balancer: String, arn: String, port: u16, tags: Pairs },
    /// Remove tags from listeners and rules, as many as one call takes.
    RemoveTags { balancer: String, arns: BTreeSet<String>, keys: BTreeSet<String> },
    /// Delete a listener with its rules.
    Delete { balancer: String, arn: String, port: u16 },
    /// Make a rule.
    CreateRule { balancer: String, listener: String, port: u16, priority: u16, settings: RuleSettings, tags: Pairs },
    /// Change what a rule does.
    ModifyRule { balancer: String, listener: String, port: u16, arn: String, settings: RuleSettings },
    /// Give rules other priorities, all at once.
    SetPriorities { balancer: String, listener: String, port: u16, priorities: BTreeMap<String, u16> },
    /// Delete a rule, perhaps of a guest of a group.
    DeleteRule { balancer: String, listener: String, port: u16, arn: String, priority: u16, of_guest: bool },
}

impl Action {
    /// ARN of the listener, rule or target group that it deletes.
    pub fn deletes(&self) -> Option<&str> {
        match self {
            Self::Listener(ListenerAction::Delete { arn, .. } | ListenerAction::DeleteRule { arn, .. })
            | Self::Group(GroupAction::Delete { arn, .. }) => Some(arn),
            _ => None,
        }
    }

    /// Takes away the rule by which a security group that is not ours lets ours in.
    pub fn shut_out(entry: &Entry) -> Self {
        Self::Security(SecurityAction::ShutOut(entry.clone()))
    }

    /// ARN of the balancer whose parts the action changes.
    pub fn balancer(&self) -> Option<&str> {
        match self {
            Self::Balancer(action) => action.arn(),
            Self::Listener(action) => Some(action.balancer()),
            Self::Security(_) | Self::Group(_) | Self::Bind(_) => None,
        }
    }

    /// ARN of the target group that the action changes.
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Group(
                GroupAction::SetHealthCheck { arn, .. }
                | GroupAction::SetAttributes { arn, .. }
                | GroupAction::AddTags { arn, .. }
                | GroupAction::RemoveTags { arn, .. }
                | GroupAction::Delete { arn, .. },
            ) => Some(arn),
            _ => None,
        }
    }

    /// Reports whether it creates a resource of its own: a balancer, a target group or a security group.
    pub fn creates(&self) -> bool {
        matches!(
            self,
            Self::Balancer(BalancerAction::Create(_))
                | Self::Group(GroupAction::Create(_))
                | Self::Security(SecurityAction::Create { .. })
        )
    }

    /// The event that reports the action.
    pub fn event(&self) -> Option<ActionEvent> {
        let (reason, note) = match self {
            Self::Security(action) => action.describe(),
            // These change nothing in AWS by themselves.
            Self::Balancer(BalancerAction::Verify { .. }) | Self::Bind(_) => return None,
            Self::Balancer(action) => action.describe(),
            Self::Group(action) => action.describe(),
            Self::Listener(action) => action.describe(),
        };
        Some(ActionEvent::normal(reason, note))
    }
}

/// The targets whose health an action may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbed<'a> {
    /// The targets of no group.
    Nothing,
    /// Those of this group; with its health check, if that is what changes.
    Group(&'a str, Option<&'a HealthCheck>),
    /// Those of all groups of the owner: the way from the balancer to its targets changes.
    All,
}

impl Action {
    /// The targets whose health AWS may judge differently after the action.
    pub fn disturbs(&self) -> Disturbed<'_> {
        match self {
            Self::Group(GroupAction::SetHealthCheck { arn, check, .. }) => Disturbed::Group(arn, Some(check)),
            // Without cross-zone load balancing, targets in zones without a subnet of the balancer are not used.
            // https://docs.aws.amazon.com/elasticloadbalancing/latest/application/disable-cross-zone.html
            Self::Group(GroupAction::SetAttributes { arn, attributes, .. })
                if attributes.contains_key("load_balancing.cross_zone.enabled") =>
            {
                Disturbed::Group(arn, None)
            }
            Self::Balancer(BalancerAction::SetSubnets { .. } | BalancerAction::SetSecurityGroups { .. })
            | Self::Security(
                SecurityAction::LetIn(_)
                | SecurityAction::ShutOut(_)
                | SecurityAction::LetOut { .. }
                | SecurityAction::KeepIn { .. },
            ) => Disturbed::All,
            _ => Disturbed::Nothing,
        }
    }
}

impl BalancerAction {
    /// ARN of the balancer; `None` while it is still to be created.
    pub fn arn(&self) -> Option<&str> {
        match self {
            Self::Create(_) => None,
            Self::Verify { arn, .. }
            | Self::SetSubnets { arn, .. }
            | Self::SetSecurityGroups { arn, .. }
            | Self::SetIpAddressType { arn, .. }
            | Self::SetAttributes { arn, .. }
            | Self::SetWebAcl { arn, .. }
            | Self::SetCapacity { arn, .. }
            | Self::AddTags { arn, .. }
            | Self::Adopt { arn, .. }
            | Self::RemoveTags { arn, .. }
            | Self::Delete { arn, .. } => Some(arn),
        }
    }

    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Create(new) => ("Created", format!("Created load balancer {}", new.name)),
            Self::Verify { name, .. } => ("Verified", format!("Checked the tags of load balancer {name}")),
            Self::SetSubnets { subnets, .. } => ("Updated", format!("Set subnets to {}", listed(subnets))),
            Self::SetSecurityGroups { groups, .. } => ("Updated", format!("Set security groups to {}", listed(groups))),
            Self::SetIpAddressType { to, .. } => ("Updated", format!("Set the address type to {}", to.as_str())),
            Self::SetAttributes { attributes, .. } => {
                ("Updated", format!("Set attributes {}", listed(attributes.keys())))
            }
            Self::SetWebAcl { acl: Some(acl), .. } => {
                ("Updated", format!("Associated web ACL {acl} with the load balancer"))
            }
            Self::SetWebAcl { acl: None, .. } => ("Updated", "Disassociated the web ACL from the load balancer".into()),
            Self::SetCapacity { units: Some(units), .. } => ("Updated", format!("Reserved {units} capacity units")),
            Self::SetCapacity { units: None, .. } => ("Updated", "Removed the capacity reservation".into()),
            Self::AddTags { tags, .. } => ("Updated", format!("Set tags {}", listed(tags.keys()))),
            Self::Adopt { name, .. } => ("Adopted", format!("Adopted load balancer {name}")),
            Self::RemoveTags { keys, .. } => ("Updated", format!("Removed tags {}", listed(keys))),
            Self::Delete { name, .. } => ("Deleted", format!("Deleted load balancer {name}")),
        }
    }
}

impl SecurityAction {
    /// Id of the security group of our own that the action is about.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::LetIn(entry) | Self::ShutOut(entry) => Some(&entry.from),
            Self::Authorize { id, .. }
            | Self::Revoke { id, .. }
            | Self::LetOut { id, .. }
            | Self::KeepIn { id, .. }
            | Self::AddTags { id, .. }
            | Self::RemoveTags { id, .. }
            | Self::Delete { id, .. } => Some(id),
        }
    }

    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Create { name, .. } => ("Created", format!("Created security group {name}")),
            Self::Authorize { id, permissions } => {
                ("Updated", format!("Allowed {} in security group {id}", described(permissions)))
            }
            Self::Revoke { id, permissions } => {
                ("Updated", format!("Revoked {} in security group {id}", described(permissions)))
            }
            Self::LetOut { id, permissions } => {
                ("Updated", format!("Allowed outbound {} in security group {id}", described(permissions)))
            }
            Self::KeepIn { id, permissions } => {
                ("Updated", format!("Revoked outbound {} in security group {id}", described(permissions)))
            }
            Self::AddTags { id, tags } => {
                ("Updated", format!("Set tags {} of security group {id}", listed(tags.keys())))
            }
            Self::RemoveTags { id, keys } => {
                ("Updated", format!("Removed tags {} of security group {id}", listed(keys)))
            }
            Self::LetIn(Entry { group, from, .. }) => {
                ("Updated", format!("Allowed security group {from} in security group {group} of the targets"))
            }
            Self::ShutOut(Entry { group, from, .. }) => {
                ("Updated", format!("Revoked security group {from} in security group {group}"))
            }
            Self::Delete { name, .. } => ("Deleted", format!("Deleted security group {name}")),
        }
    }
}

impl GroupAction {
    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Create(new) => ("Created", format!("Created target group {}", new.name)),
            Self::SetHealthCheck { name, .. } => ("Updated", format!("Set the health check of target group {name}")),
            Self::SetAttributes { name, attributes, .. } => {
                ("Updated", format!("Set attributes {} of target group {name}", listed(attributes.keys())))
            }
            Self::AddTags { name, tags, .. } => {
                ("Updated", format!("Set tags {} of target group {name}", listed(tags.keys())))
            }
            Self::RemoveTags { name, keys, .. } => {
                ("Updated", format!("Removed tags {} of target group {name}", listed(keys)))
            }
            Self::Delete { name, .. } => ("Deleted", format!("Deleted target group {name}")),
        }
    }
}

impl ListenerAction {
    /// ARNs of the target groups that the listener or rule forwards to after the action.
    pub fn forwarded_to(&self) -> BTreeSet<&String> {
        let actions = match self {
            Self::Create { settings, .. } | Self::Modify { settings, .. } => &settings.default_actions,
            Self::CreateRule { settings, .. } | Self::ModifyRule { settings, .. } => &settings.actions,
            _ => return BTreeSet::new(),
        };
        actions.iter().flat_map(RuleAction::forwarded_to).collect()
    }

    /// The same addition or removal of certificates with these in place of its own; `None` if it is another change.
    pub fn of_certificates(&self, certificates: BTreeSet<String>) -> Option<Self> {
        let mut action = self.clone();
        match &mut action {
            Self::AddCertificates { certificates: own, .. } | Self::RemoveCertificates { certificates: own, .. } => {
                *own = certificates;
            }
            _ => return None,
        }
        Some(action)
    }

    /// ARN of the balancer.
    pub fn balancer(&self) -> &str {
        match self {
            Self::Create { balancer, .. }
            | Self::Modify { balancer, .. }
            | Self::SetAttributes { balancer, .. }
            | Self::AddCertificates { balancer, .. }
            | Self::RemoveCertificates { balancer, .. }
            | Self::AddTags { balancer, .. }
            | Self::RemoveTags { balancer, .. }
            | Self::Delete { balancer, .. }
            | Self::CreateRule { balancer, .. }
            | Self::ModifyRule { balancer, .. }
            | Self::SetPriorities { balancer, .. }
            | Self::DeleteRule { balancer, .. } => balancer,
        }
    }

    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Create { settings, .. } => ("Created", format!("Created the listener on port {}", settings.port)),
            Self::Modify { settings, .. } => ("Updated", format!("Changed the listener on port {}", settings.port)),
            Self::SetAttributes { port, attributes, .. } => {
                ("Updated", format!("Set attributes {} of the listener on port {port}", listed(attributes.keys())))
            }
            Self::AddCertificates { port, certificates, .. } => {
                ("Updated", format!("Added certificates {} on port {port}", listed(certificates)))
            }
            Self::RemoveCertificates { port, certificates, .. } => {
                ("Updated", format!("Removed certificates {} on port {port}", listed(certificates)))
            }
            Self::AddTags { port, tags, .. } => ("Updated", format!("Set tags {} on port {port}", listed(tags.keys()))),
            Self::RemoveTags { arns, keys, .. } => {
                let parts = match arns.len() {
                    1 => "a listener or rule".to_owned(),
                    count => format!("{count} listeners and rules"),
                };
                ("Updated", format!("Removed tags {} of {parts}", listed(keys)))
            }
            Self::Delete { port, .. } => ("Deleted", format!("Deleted the listener on port {port}")),
            Self::CreateRule { port, priority, .. } => ("Created", format!("Created rule {priority} on port {port}")),
            Self::ModifyRule { port, .. } => ("Updated", format!("Changed a rule on port {port}")),
            Self::SetPriorities { port, priorities, .. } => {
                ("Updated", format!("Reordered {} rules on port {port}", priorities.len()))
            }
            Self::DeleteRule { port, priority, .. } => ("Deleted", format!("Deleted rule {priority} on port {port}")),
        }
    }
}

fn listed<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    items.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn described(permissions: &BTreeSet<Permission>) -> String {
    let text = |permission: &Permission| match (&permission.source, permission.ports) {
        (Source::Network(from) | Source::Group(from) | Source::PrefixList(from), Some(ports)) => {
            format!("{from} on port {}", ports.from)
        }
        (Source::Network(from) | Source::Group(from) | Source::PrefixList(from), None) => from.clone(),
    };
    permissions.iter().map(text).collect::<Vec<_>>().join(", ")
}
