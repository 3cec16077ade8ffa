//! The resources that exist in AWS, and how a change alters it.

use std::collections::{BTreeMap, BTreeSet};

use causeway_aws::ec2::{Entry, SecurityGroup};
use causeway_aws::elbv2::{Balancer, Listener, Pairs, Rule, TargetGroup};

use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::model::{default_balancer_attributes, default_group_attributes, default_listener_attributes};
use crate::ownership::{Owner, entry_mark};

/// A balancer with what belongs to it. `None` means not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::option_option, reason = "not read, none, and some are three different things")]
pub struct Member {
    pub balancer: Balancer,
    pub tags: Pairs,
    /// True once AWS has shown these tags. Until then they are the ones that we asked for. AWS answers a create call
    /// with an older balancer if there is one of the same name and settings.
    pub verified: bool,
    pub attributes: Option<Pairs>,
    pub web_acl: Option<Option<String>>,
    /// Its reserved capacity units.
    pub capacity: Option<Option<u32>>,
    pub listeners: Option<BTreeMap<String, ListenerMember>>,
}

/// A listener with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerMember {
    pub listener: Listener,
    pub tags: Pairs,
    /// Its certificates beside the default one.
    pub certificates: BTreeSet<String>,
    /// Its attributes, where an object needed them.
    pub attributes: Option<Pairs>,
    /// Its rules by ARN, without the default one.
    pub rules: BTreeMap<String, RuleMember>,
}

/// A rule with its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMember {
    pub rule: Rule,
    pub tags: Pairs,
}

/// A target group with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub group: TargetGroup,
    pub tags: Pairs,
    /// Its attributes, where an object needed them.
    pub attributes: Option<Pairs>,
    /// This process has just made it: nothing is registered in it.
    pub fresh: bool,
}

/// Things in AWS, by ARN; security groups by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assets {
    pub balancers: BTreeMap<String, Member>,
    /// Target groups.
    pub groups: BTreeMap<String, GroupMember>,
    pub security_groups: BTreeMap<String, SecurityGroup>,
    /// Rules in any security groups that let in a group of `security_groups`.
    pub entries: BTreeSet<Entry>,
}

/// AWS's answer to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The change is made.
    Done,
    /// This balancer was made, with these tags.
    Balancer(Balancer, Pairs),
    /// This target group was made.
    Group(TargetGroup),
    /// This security group was made.
    SecurityGroup(SecurityGroup),
    /// This listener was created or modified, and is now like this.
    Listener(Listener),
    /// This rule was created or modified, and is now like this.
    Rule(Rule),
}

impl Assets {
    /// The part that belongs to the owner.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        let own = |id: &String| self.security_groups.get(id).is_some_and(|group| owner.owns(&group.tags));
        Self {
            entries: self.entries.iter().filter(|entry| own(&entry.from)).cloned().collect(),
            balancers: self.balancers.iter().filter(|(_, it)| owner.owns(&it.tags)).map(cloned).collect(),
            groups: self.groups.iter().filter(|(_, it)| owner.owns(&it.tags)).map(cloned).collect(),
            security_groups: self.security_groups.iter().filter(|(_, it)| owner.owns(&it.tags)).map(cloned).collect(),
        }
    }

    /// The security group in that VPC. An owner has at most one in each.
    pub fn security_group_in(&self, vpc: &str) -> Option<&SecurityGroup> {
        self.security_groups.values().find(|group| group.vpc == vpc)
    }

    /// The rules that were made for an owner in other owners' security groups.
    pub fn entries_of(&self, owner: &Owner) -> impl Iterator<Item = &Entry> {
        let mark = entry_mark(owner);
        self.entries.iter().filter(move |entry| entry.description == mark)
    }

    /// Reports whether there is no balancer, target group or security group.
    pub fn is_empty(&self) -> bool {
        self.balancers.is_empty() && self.groups.is_empty() && self.security_groups.is_empty()
    }

    /// The target group of that name.
    pub fn group_named(&self, name: &str) -> Option<&GroupMember> {
        self.groups.values().find(|member| member.group.name == name)
    }

    /// Records a change that AWS has made.
    pub fn enter(&mut self, action: &Action, answer: Answer) {
        match action {
            Action::Security(action) => self.enter_security(action, answer),
            Action::Balancer(action) => self.enter_balancer(action, answer),
            Action::Group(action) => self.enter_group(action, answer),
            Action::Listener(action) => self.enter_listener(action, answer),
            Action::Bind(_) => {}
        }
    }

    fn enter_security(&mut self, action: &SecurityAction, answer: Answer) {
        match (action, answer) {
            (SecurityAction::Create { .. }, Answer::SecurityGroup(group)) => {
                self.security_groups.insert(group.id.clone(), group);
            }
            (SecurityAction::Authorize { id, permissions }, _) => self.edit_security(id, |group| {
                group.ingress.extend(permissions.iter().cloned());
            }),
            (SecurityAction::Revoke { id, permissions }, _) => self.edit_security(id, |group| {
                group.ingress.retain(|permission| !permissions.contains(permission));
            }),
            (SecurityAction::LetOut { id, permissions }, _) => self.edit_security(id, |group| {
                group.egress.extend(permissions.iter().cloned());
            }),
            (SecurityAction::KeepIn { id, permissions }, _) => self.edit_security(id, |group| {
                group.egress.retain(|permission| !permissions.contains(permission));
            }),
            (SecurityAction::AddTags { id, tags }, _) => self.edit_security(id, |group| {
                group.tags.extend(tags.clone());
            }),
            (SecurityAction::RemoveTags { id, keys }, _) => self.edit_security(id, |group| {
                group.tags.retain(|key, _| !keys.contains(key));
            }),
            (SecurityAction::LetIn(entry), _) => drop(self.entries.insert(entry.clone())),
            (SecurityAction::ShutOut(entry), _) => self.entries.retain(|it| !it.is_same_rule(entry)),
            (SecurityAction::Delete { id, .. }, _) => {
                self.security_groups.remove(id);
                self.entries.retain(|entry| entry.from != *id);
            }
            (SecurityAction::Create { .. }, _) => {}
        }
    }

    fn edit_security(&mut self, id: &str, change: impl FnOnce(&mut SecurityGroup)) {
        self.security_groups.get_mut(id).map(change);
    }

    fn enter_balancer(&mut self, action: &BalancerAction, answer: Answer) {
        match (action, answer) {
            (BalancerAction::Create(_), Answer::Balancer(balancer, tags)) => {
                let arn = balancer.arn.clone();
                self.balancers.insert(arn, Member::new(balancer, tags));
            }
            (BalancerAction::Delete { arn, .. }, _) => {
                self.balancers.remove(arn);
                for member in self.groups.values_mut() {
                    member.group.balancers.remove(arn);
                }
            }
            (action, _) => {
                if let Some(member) = action.arn().and_then(|arn| self.balancers.get_mut(arn)) {
                    member.enter(action);
                }
            }
        }
    }

    fn enter_group(&mut self, action: &GroupAction, answer: Answer) {
        match (action, answer) {
            (GroupAction::Create(new), Answer::Group(group)) => {
                let attributes = Some(default_group_attributes());
                let member = GroupMember { group, tags: new.tags.clone(), attributes, fresh: true };
                self.groups.insert(member.group.arn.clone(), member);
            }
            (GroupAction::SetHealthCheck { arn, check, .. }, _) => self.edit_group(arn, |member| {
                member.group.health_check = Some(check.clone());
            }),
            (GroupAction::SetAttributes { arn, attributes, .. }, _) => self.edit_group(arn, |member| {
                member.attributes.get_or_insert_default().extend(attributes.clone());
            }),
            (GroupAction::AddTags { arn, tags, .. }, _) => self.edit_group(arn, |member| {
                member.tags.extend(tags.clone());
            }),
            (GroupAction::RemoveTags { arn, keys, .. }, _) => self.edit_group(arn, |member| {
                member.tags.retain(|key, _| !keys.contains(key));
            }),
            (GroupAction::Delete { arn, .. }, _) => {
                self.groups.remove(arn);
            }
            (GroupAction::Create(_), _) => {}
        }
    }

    fn edit_group(&mut self, arn: &str, change: impl FnOnce(&mut GroupMember)) {
        self.groups.get_mut(arn).map(change);
    }

    fn enter_listener(&mut self, action: &ListenerAction, answer: Answer) {
        let balancer = action.balancer();
        if let Some(listeners) = self.balancers.get_mut(balancer).and_then(|member| member.listeners.as_mut()) {
            enter_into(listeners, action, answer);
        }
    }
}

impl Member {
    /// A balancer that was just created: it has AWS's defaults and no listeners.
    pub fn new(balancer: Balancer, tags: Pairs) -> Self {
        Self {
            attributes: balancer.scheme.map(default_balancer_attributes),
            web_acl: Some(None),
            capacity: Some(None),
            listeners: Some(BTreeMap::new()),
            verified: false,
            ..Self::unread(balancer, tags)
        }
    }

    /// A balancer of which nothing more is known.
    pub fn unread(balancer: Balancer, tags: Pairs) -> Self {
        Self { balancer, tags, verified: true, attributes: None, web_acl: None, capacity: None, listeners: None }
    }

    /// Records the tags that AWS shows. If they differ from those of the balancer that we created, AWS gave us an older
    /// balancer, and nothing is known of its listeners.
    pub fn verify(&mut self, tags: Pairs) {
        if !self.verified && self.tags != tags {
            *self = Self::unread(self.balancer.clone(), tags);
        } else {
            (self.tags, self.verified) = (tags, true);
        }
    }

    fn enter(&mut self, action: &BalancerAction) {
        match action {
            BalancerAction::Verify { .. } => self.verified = true,
            BalancerAction::SetSubnets { subnets, .. } => self.balancer.subnets.clone_from(subnets),
            BalancerAction::SetSecurityGroups { groups, .. } => self.balancer.security_groups.clone_from(groups),
            BalancerAction::SetIpAddressType { to, .. } => self.balancer.ip_address_type = Some(*to),
            BalancerAction::SetAttributes { attributes, .. } => {
                self.attributes.get_or_insert_default().extend(attributes.clone());
            }
            BalancerAction::SetWebAcl { acl, .. } => self.web_acl = Some(acl.clone()),
            BalancerAction::SetCapacity { units, .. } => self.capacity = Some(*units),
            BalancerAction::AddTags { tags, .. } | BalancerAction::Adopt { tags, .. } => self.tags.extend(tags.clone()),
            BalancerAction::RemoveTags { keys, .. } => self.tags.retain(|key, _| !keys.contains(key)),
            BalancerAction::Create(_) | BalancerAction::Delete { .. } => {}
        }
    }
}

fn enter_into(listeners: &mut BTreeMap<String, ListenerMember>, action: &ListenerAction, answer: Answer) {
    match (action, answer) {
        (ListenerAction::Create { tags, .. }, Answer::Listener(listener)) => {
            let member = ListenerMember {
                tags: tags.clone(),
                certificates: BTreeSet::new(),
                attributes: Some(default_listener_attributes(listener.settings.protocol)),
                rules: BTreeMap::new(),
                listener,
            };
            listeners.insert(member.listener.arn.clone(), member);
        }
        (ListenerAction::Modify { arn, .. }, Answer::Listener(listener)) => edit(listeners, arn, |member| {
            // A further certificate that becomes the default stays in AWS's list, and counts there. Without TLS there are no
            // further certificates.
            // https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeListenerCertificates.html
            if listener.settings.certificate.is_none() {
                member.certificates.clear();
            }
            let (before, after) = (member.listener.settings.protocol, listener.settings.protocol);
            if let Some(attributes) = member.attributes.as_mut().filter(|_| before != after) {
                let (gone, mut new) = (default_listener_attributes(before), default_listener_attributes(after));
                attributes.retain(|key, _| new.contains_key(key) || !gone.contains_key(key));
                new.append(attributes);
                *attributes = new;
            }
            member.listener = listener;
        }),
        (ListenerAction::SetAttributes { arn, attributes, .. }, _) => edit(listeners, arn, |member| {
            member.attributes.get_or_insert_default().extend(attributes.clone());
        }),
        (ListenerAction::AddCertificates { arn, certificates, .. }, _) => edit(listeners, arn, |member| {
            member.certificates.extend(certificates.clone());
        }),
        (ListenerAction::RemoveCertificates { arn, certificates, .. }, _) => edit(listeners, arn, |member| {
            member.certificates.retain(|certificate| !certificates.contains(certificate));
        }),
        (ListenerAction::AddTags { arn, tags, .. }, _) => {
            for member in listeners.values_mut() {
                if member.listener.arn == *arn {
                    member.tags.extend(tags.clone());
                }
                if let Some(rule) = member.rules.get_mut(arn) {
                    rule.tags.extend(tags.clone());
                }
            }
        }
        (ListenerAction::RemoveTags { arns, keys, .. }, _) => {
            for member in listeners.values_mut() {
                let listener = arns.contains(&member.listener.arn).then_some(&mut member.tags);
                let rules =
                    member.rules.iter_mut().filter(|(arn, _)| arns.contains(*arn)).map(|(_, rule)| &mut rule.tags);
                rules.chain(listener).for_each(|tags| tags.retain(|key, _| !keys.contains(key)));
            }
        }
        (ListenerAction::Delete { arn, .. }, _) => {
            listeners.remove(arn);
        }
        (ListenerAction::CreateRule { listener, tags, .. }, Answer::Rule(rule)) => {
            edit(listeners, listener, |member| {
                member.rules.insert(rule.arn.clone(), RuleMember { rule, tags: tags.clone() });
            });
        }
        (ListenerAction::ModifyRule { listener, arn, .. }, Answer::Rule(rule)) => edit(listeners, listener, |member| {
            if let Some(known) = member.rules.get_mut(arn) {
                known.rule = rule;
            }
        }),
        (ListenerAction::SetPriorities { listener, priorities, .. }, _) => edit(listeners, listener, |member| {
            for (arn, priority) in priorities {
                if let Some(known) = member.rules.get_mut(arn) {
                    known.rule.priority = *priority;
                }
            }
        }),
        (ListenerAction::DeleteRule { listener, arn, .. }, _) => edit(listeners, listener, |member| {
            member.rules.remove(arn);
        }),
        (
            ListenerAction::Create { .. }
            | ListenerAction::Modify { .. }
            | ListenerAction::CreateRule { .. }
            | ListenerAction::ModifyRule { .. },
            _,
        ) => {}
    }
}

fn edit(listeners: &mut BTreeMap<String, ListenerMember>, arn: &str, change: impl FnOnce(&mut ListenerMember)) {
    listeners.get_mut(arn).map(change);
}

fn cloned<T: Clone>((arn, it): (&String, &T)) -> (String, T) {
    (arn.clone(), it.clone())
}
