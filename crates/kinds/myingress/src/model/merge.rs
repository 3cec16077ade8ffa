//! Merges the parts of several objects into one balancer.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::Scheme;
use causeway_aws::acm::Certificate;
use causeway_aws::elbv2::{MutualAuthentication, Pairs, Protocol, RuleAction};

use super::balancer::{BalancerPart, within_tag_limit};
use super::build::Held;
use super::field::Field;
use super::guests;
use super::inbound;
use super::limits::{self, Limits};
use super::listeners::ListenerPart;
use super::member::Part;
use super::numbering::{Misplaced, in_order};
use super::{
    BalancerModel, CertificatesModel, Complaint, GroupModel, ListenerModel, Model, RuleModel, SecurityModel,
    SubnetsModel, actions,
};
use crate::members::occupied::shared;
use crate::model::certificates::chosen;
use crate::ownership::ObjectKey;

const CONFLICT: &str = "GroupConflict";

/// A balancer to which members are added one by one. Adding a member succeeds completely, or changes nothing.
#[derive(Clone)]
pub struct Draft {
    /// The member that says where the balancer stands.
    anchor: ObjectKey,
    /// True if the balancer itself stays as it is. Of the members' settings of it, only the scheme is compared.
    held: bool,
    balancer: BalancerModel,
    /// The member that gave a tag first.
    tagged_by: BTreeMap<String, ObjectKey>,
    groups: BTreeMap<String, GroupModel>,
    listeners: BTreeMap<u16, ListenerDraft>,
}

/// A value that one member gave and others may repeat.
#[derive(Clone)]
struct Given<T> {
    value: T,
    by: ObjectKey,
}

#[derive(Clone)]
struct ListenerDraft {
    protocol: Given<Protocol>,
    certificates: Option<Given<Vec<String>>>,
    /// The hosts of each member's rules.
    hosts: BTreeMap<ObjectKey, BTreeSet<String>>,
    ssl_policy: Option<Given<String>>,
    mutual_authentication: Option<Given<MutualAuthentication>>,
    inbound: BTreeSet<String>,
    attributes: BTreeMap<String, Given<String>>,
    default_actions: Option<Given<Vec<RuleAction>>>,
    /// Rules by the position of their member in the group.
    rules: BTreeMap<usize, Vec<RuleModel>>,
    /// Rules of guests, in the order in which they follow all others.
    guests: Vec<RuleModel>,
    /// The members that have this listener, and its field in their specs.
    members: BTreeMap<ObjectKey, String>,
}

impl Draft {
    /// The draft of a member that says where the balancer stands; `None` if it does not. `place` is the member's
    /// position in the group. A balancer that stays as it is gets nothing else from a member with another scheme.
    pub fn begin(part: &Part, place: usize, held: Option<&Held>, limits: &Limits) -> Option<Result<Self, Complaint>> {
        let theirs = part.balancer.clone();
        let contradicts = held.is_some_and(|held| held.scheme != theirs.scheme);
        let draft = Self {
            anchor: held.map_or(&part.member, |held| &held.holder).clone(),
            held: held.is_some(),
            balancer: BalancerModel {
                scheme: held.map_or(theirs.scheme, |held| held.scheme),
                ip_address_type: theirs.ip_address_type,
                subnets: theirs.subnets?,
                security: if contradicts { SecurityModel::Default } else { theirs.security },
                attributes: theirs.attributes,
                tags: BTreeMap::new(),
                web_acl: theirs.web_acl,
                capacity: theirs.capacity,
                name: theirs.name,
                adopt: theirs.adopt,
            },
            tagged_by: BTreeMap::new(),
            groups: BTreeMap::new(),
            listeners: BTreeMap::new(),
        };
        Some(if contradicts { Ok(draft) } else { draft.with(part, place, limits) })
    }

    /// Begins with a balancer that stays as it is and that no other member describes.
    pub fn hold(held: &Held) -> Self {
        Self {
            anchor: held.holder.clone(),
            held: true,
            balancer: BalancerModel {
                scheme: held.scheme,
                ip_address_type: None,
                subnets: SubnetsModel::Ids(BTreeSet::new()),
                security: SecurityModel::Default,
                attributes: Pairs::new(),
                tags: BTreeMap::new(),
                web_acl: None,
                capacity: None,
                name: None,
                adopt: None,
            },
            tagged_by: BTreeMap::new(),
            groups: BTreeMap::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// The complaint about a member that asks for this scheme where the balancer has another one.
    pub fn contradicts(&self, scheme: Scheme) -> Option<Complaint> {
        let field = Field::spec().with_reason(CONFLICT);
        let text = differs_from(&self.anchor, "which says where the balancer stands");
        (scheme != self.balancer.scheme).then(|| field.name("scheme").wrong(text))
    }

    /// The same draft with one more member.
    pub fn with(&self, part: &Part, place: usize, limits: &Limits) -> Result<Self, Complaint> {
        let mut draft = self.clone();
        draft.agree_on_balancer(&part.balancer)?;
        draft.add_tags(part)?;
        for (port, listener) in &part.listeners {
            let merged = match draft.listeners.remove(port) {
                None => ListenerDraft::new(listener, &part.member, place),
                Some(before) => before.with(listener, &part.member, place)?,
            };
            draft.listeners.insert(*port, merged);
        }
        draft.take_groups(part)?;
        let sizes: Vec<_> = draft.listeners.values().map(ListenerDraft::size).collect();
        limits::check(&sizes, draft.groups.len(), limits)?;
        let listeners = draft.listeners.iter().map(|(port, listener)| (*port, &listener.inbound));
        inbound::check(&inbound::permissions(&draft.balancer.security, listeners), limits.security_group_rules)?;
        draft.rules_fit(&part.member)?;
        Ok(draft)
    }

    /// The same draft with one more guest. It adds rules behind all others, and target groups.
    pub fn with_guest(&self, part: &Part, limits: &Limits) -> Result<Self, Complaint> {
        let mut draft = self.clone();
        for (port, listener) in &part.listeners {
            // That the port exists was checked before.
            if let Some(ours) = draft.listeners.get_mut(port) {
                ours.admit(listener, &part.member)?;
            }
        }
        draft.take_groups(part)?;
        let sizes: Vec<_> = draft.listeners.values().map(ListenerDraft::size).collect();
        limits::check(&sizes, draft.groups.len(), limits)?;
        draft.rules_fit(&part.member)?;
        Ok(draft)
    }

    /// The protocol of each port.
    pub fn protocols(&self) -> BTreeMap<u16, Protocol> {
        self.listeners.iter().map(|(port, listener)| (*port, listener.protocol.value)).collect()
    }

    /// The scheme. Names of target groups depend on it.
    pub fn scheme(&self) -> Scheme {
        self.balancer.scheme
    }

    /// Takes in what a member says about the balancer. The anchor's settings apply to all; others may repeat them, and
    /// add networks, prefix lists and security groups of targets.
    fn agree_on_balancer(&mut self, theirs: &BalancerPart) -> Result<(), Complaint> {
        // A scheme that is left out reads as the default one. Without subnets it is no statement.
        let says_scheme = theirs.subnets.is_some() || theirs.scheme != Scheme::default();
        if self.held {
            self.let_in(theirs);
            return self.contradicts(theirs.scheme).filter(|_| says_scheme).map_or(Ok(()), Err);
        }
        let field = Field::spec().with_reason(CONFLICT);
        let (ours, anchor) = (&mut self.balancer, &self.anchor);
        let differs =
            |name: &'static str| field.name(name).wrong(differs_from(anchor, "which says where the balancer stands"));
        if theirs.subnets.as_ref().is_some_and(|subnets| *subnets != ours.subnets) {
            let ids = matches!(theirs.subnets, Some(SubnetsModel::Ids(_)));
            return Err(differs(if ids { "subnets" } else { "subnetSelector" }));
        }
        if says_scheme && theirs.scheme != ours.scheme {
            return Err(differs("scheme"));
        }
        if theirs.ip_address_type.is_some() && theirs.ip_address_type != ours.ip_address_type {
            return Err(differs("ipAddressType"));
        }
        if theirs.web_acl.is_some() && theirs.web_acl != ours.web_acl {
            return Err(differs("wafAclArn"));
        }
        if theirs.capacity.is_some() && theirs.capacity != ours.capacity {
            return Err(differs("minimumCapacityUnits"));
        }
        match (&mut ours.security, &theirs.security) {
            (_, SecurityModel::Default) => {}
            (SecurityModel::Given(ours), SecurityModel::Given(theirs)) if ours == theirs => {}
            (
                SecurityModel::Managed { cidrs, prefix_lists, .. },
                SecurityModel::Managed { cidrs: more, prefix_lists: more_lists, .. },
            ) => {
                cidrs.extend(more.clone());
                prefix_lists.extend(more_lists.clone());
            }
            (_, SecurityModel::Given(_)) => return Err(differs("securityGroups")),
            (_, SecurityModel::Managed { .. }) => return Err(differs("inboundCidrs")),
        }
        if !theirs.target_security_groups.is_empty() {
            let SecurityModel::Managed { targets, .. } = &mut ours.security else {
                return field.name("targetSecurityGroups").with_reason("SpecInvalid").complain(
                    "needs a security group that is made for the balancer, because the rule in these \
                     groups allows traffic from it: set spec.inboundCidrs or spec.inboundPrefixLists where the \
                     balancer's subnets are, or remove it",
                );
            };
            targets.extend(theirs.target_security_groups.clone());
        }
        for (key, value) in &theirs.attributes {
            if ours.attributes.get(key) != Some(value) {
                let attributes = field.name("attributes");
                let text = differs_from(anchor, "which says where the balancer stands");
                return attributes.key(key).complain(format_args!("(or the field of spec for it) {text}"));
            }
        }
        Ok(())
    }

    /// Takes in the networks, prefix lists and security groups of targets of a member while the balancer stays as it is.
    fn let_in(&mut self, theirs: &BalancerPart) {
        let ours = &mut self.balancer.security;
        if let SecurityModel::Managed { cidrs: more, prefix_lists: more_lists, .. } = &theirs.security {
            if *ours == SecurityModel::Default {
                ours.clone_from(&theirs.security);
            } else if let SecurityModel::Managed { cidrs, prefix_lists, .. } = ours {
                cidrs.extend(more.clone());
                prefix_lists.extend(more_lists.clone());
            }
        }
        if let SecurityModel::Managed { targets, .. } = ours {
            targets.extend(theirs.target_security_groups.clone());
        }
    }

    fn add_tags(&mut self, part: &Part) -> Result<(), Complaint> {
        let field = Field::spec();
        let field = field.name("tags").with_reason(CONFLICT);
        for (key, value) in &part.balancer.tags {
            let first = self.tagged_by.entry(key.clone()).or_insert_with(|| part.member.clone());
            if self.balancer.tags.entry(key.clone()).or_insert_with(|| value.clone()) != value {
                return field.key(key).complain(differs_from(first, "which came first"));
            }
        }
        within_tag_limit(&self.balancer.tags, part.balancer.grouped, &field.with_reason("LimitReached"))
    }

    /// Takes in a member's target groups. Names of backends can be found that make the names of two groups alike. The
    /// later one must not take the place of the earlier one, for rules forward to groups by their names.
    fn take_groups(&mut self, part: &Part) -> Result<(), Complaint> {
        for (name, group) in &part.groups {
            if let Some(earlier) = self.groups.get(name) {
                return Err(shared(name, &group.backend_name, &earlier.member));
            }
            self.groups.insert(name.clone(), group.clone());
        }
        Ok(())
    }

    fn rules_fit(&self, newcomer: &ObjectKey) -> Result<(), Complaint> {
        for listener in self.listeners.values() {
            listener.in_order().map_err(|misplaced| complaint(misplaced, newcomer))?;
        }
        Ok(())
    }

    /// Members with an HTTPS listener that has neither certificates nor hosts to find some by, and those with a host for
    /// which none of the known certificates is.
    pub fn without_certificate(&self, known: Option<&[Certificate]>) -> BTreeMap<ObjectKey, Complaint> {
        let found_by_hosts = || {
            let listeners = self.listeners.iter();
            listeners.filter(|(_, it)| it.protocol.value == Protocol::Https && it.certificates.is_none())
        };
        let bare = found_by_hosts().filter(|(_, it)| it.hosts.values().all(BTreeSet::is_empty));
        let members = bare.flat_map(|(_, listener)| &listener.members);
        let complaint = |field: &String| Complaint {
            reason: "CertificateMissing",
            message: format!(
                "{field} is HTTPS and needs a certificate: give certificateArns, or hosts in its rules, by which \
                 certificates are found in AWS Certificate Manager"
            ),
        };
        let uncovered = known.into_iter().flat_map(|known| {
            let all = found_by_hosts().flat_map(|(port, it)| it.hosts.iter().map(move |of| (port, of)));
            all.filter_map(|(port, (member, hosts))| Some((member.clone(), chosen(&[], hosts, known, *port).err()?)))
        });
        members.map(|(member, field)| (member.clone(), complaint(field))).chain(uncovered).collect()
    }

    /// Returns the state that AWS should have; `None` if rules cannot be put in order, which [`Draft::with`] prevents.
    pub fn model(self) -> Option<Model> {
        let listeners = self.listeners.into_iter().map(|(port, listener)| Some((port, listener.model()?)));
        Some(Model { balancer: self.balancer, groups: self.groups, listeners: listeners.collect::<Option<_>>()? })
    }
}

impl ListenerDraft {
    fn new(part: &ListenerPart, member: &ObjectKey, place: usize) -> Self {
        let user_provided = |value: &String| Given { value: value.clone(), by: member.clone() };
        Self {
            protocol: Given { value: part.protocol, by: member.clone() },
            certificates: given_by(part.certificates.as_ref(), member),
            hosts: BTreeMap::from([(member.clone(), hosts_of(part))]),
            ssl_policy: given_by(part.ssl_policy.as_ref(), member),
            mutual_authentication: given_by(part.mutual_authentication.as_ref(), member),
            inbound: part.inbound.clone(),
            attributes: part.attributes.iter().map(|(key, value)| (key.clone(), user_provided(value))).collect(),
            default_actions: given_by(part.default_actions.as_ref(), member),
            rules: BTreeMap::from([(place, part.rules.clone())]),
            guests: Vec::new(),
            members: BTreeMap::from([(member.clone(), part.field.clone())]),
        }
    }

    fn with(mut self, part: &ListenerPart, member: &ObjectKey, place: usize) -> Result<Self, Complaint> {
        let at = |name: &str| format!("{}.{name}", part.field);
        agree(&mut Some(self.protocol.clone()), Some(&part.protocol), member, &at("protocol"))?;
        match &mut self.certificates {
            None => self.certificates = given_by(part.certificates.as_ref(), member),
            Some(given) => {
                let further = part.certificates.iter().flatten().filter(|arn| !given.value.contains(arn)).cloned();
                given.value.extend(further.collect::<Vec<_>>());
            }
        }
        agree(&mut self.ssl_policy, part.ssl_policy.as_ref(), member, &at("sslPolicy"))?;
        let mutual = part.mutual_authentication.as_ref();
        agree(&mut self.mutual_authentication, mutual, member, &at("mutualAuthentication"))?;
        for (key, value) in &part.attributes {
            let mut user_provided = self.attributes.remove(key);
            agree(&mut user_provided, Some(value), member, &at(&format!("attributes[{key}]")))?;
            self.attributes.extend(user_provided.map(|user_provided| (key.clone(), user_provided)));
        }
        agree(&mut self.default_actions, part.default_actions.as_ref(), member, &at("defaultAction"))?;
        self.inbound.extend(part.inbound.clone());
        self.hosts.insert(member.clone(), hosts_of(part));
        self.rules.insert(place, part.rules.clone());
        self.members.insert(member.clone(), part.field.clone());
        Ok(self)
    }

    /// Adds a guest's rules behind all others. Their priorities only order them among themselves.
    fn admit(&mut self, part: &ListenerPart, member: &ObjectKey) -> Result<(), Complaint> {
        for rule in &part.rules {
            guests::answers_nothing_of(self.rules.values().flatten(), rule)?;
        }
        let ordered = in_order(&[&part.rules], &[]).map_err(|misplaced| complaint(misplaced, member))?;
        self.guests.extend(ordered.into_iter().map(|rule| RuleModel { priority: None, ..rule.clone() }));
        Ok(())
    }

    fn size(&self) -> limits::Size {
        limits::Size {
            rules: self.rules.values().map(Vec::len).sum::<usize>() + self.guests.len(),
            further_certificates: self.certificates.as_ref().map_or(0, |it| it.value.len().saturating_sub(1)),
        }
    }

    fn in_order(&self) -> Result<Vec<&RuleModel>, Misplaced<'_>> {
        in_order(&self.rules.values().map(Vec::as_slice).collect::<Vec<_>>(), &self.guests)
    }

    fn model(self) -> Option<ListenerModel> {
        let rules = self.in_order().ok()?.into_iter().cloned().collect();
        let attributes = self.attributes.into_iter().map(|(key, user_provided)| (key, user_provided.value));
        Some(ListenerModel {
            protocol: self.protocol.value,
            certificates: match self.protocol.value {
                Protocol::Http => CertificatesModel::None,
                Protocol::Https => CertificatesModel::Chosen {
                    given: self.certificates.map(|user_provided| user_provided.value).unwrap_or_default(),
                    hosts: self.hosts.into_values().flatten().collect(),
                },
            },
            ssl_policy: self.ssl_policy.map(|user_provided| user_provided.value),
            mutual_authentication: self.mutual_authentication.map(|user_provided| user_provided.value),
            inbound: self.inbound,
            attributes: attributes.collect(),
            default_actions: self
                .default_actions
                .map_or_else(actions::nothing_here, |user_provided| user_provided.value),
            rules,
        })
    }
}

/// The hosts for which certificates are found. A member that gives certificates needs none.
fn hosts_of(part: &ListenerPart) -> BTreeSet<String> {
    if part.certificates.is_some() { BTreeSet::new() } else { part.hosts.clone() }
}

fn given_by<T: Clone>(value: Option<&T>, member: &ObjectKey) -> Option<Given<T>> {
    value.map(|value| Given { value: value.clone(), by: member.clone() })
}

/// Takes in a value that one member may give, or several members may give alike.
fn agree<T: Clone + PartialEq>(
    ours: &mut Option<Given<T>>,
    theirs: Option<&T>,
    member: &ObjectKey,
    field: &str,
) -> Result<(), Complaint> {
    match (&ours, theirs) {
        (_, None) => {}
        (None, Some(value)) => *ours = Some(Given { value: value.clone(), by: member.clone() }),
        (Some(user_provided), Some(value)) if user_provided.value == *value => {}
        (Some(user_provided), Some(_)) => {
            let text = differs_from(&user_provided.by, "which has the same port and came first");
            return Err(Complaint { reason: CONFLICT, message: format!("{field} {text}") });
        }
    }
    Ok(())
}

fn differs_from((namespace, name): &ObjectKey, because: &str) -> String {
    format!("differs from that of {namespace}/{name}, {because}: make them equal, or leave it out here")
}

fn complaint(misplaced: Misplaced<'_>, newcomer: &ObjectKey) -> Complaint {
    let whose = |rule: &RuleModel| match &rule.member {
        member if member == newcomer => rule.field.clone(),
        (namespace, name) => format!("{} of {namespace}/{name}", rule.field),
    };
    match misplaced {
        Misplaced::Taken(rule, other) => {
            // The complaint is about the newcomer, wherever it is in the order.
            let (mine, other) = if rule.member == *newcomer { (rule, other) } else { (other, rule) };
            let priority = mine.priority.unwrap_or_default();
            let message =
                format!("{}.priority is {priority}, as that of {}: choose another number", whose(mine), whose(other));
            Complaint { reason: "PriorityTaken", message }
        }
        Misplaced::NoRoom(rule) => Complaint {
            reason: "PriorityTaken",
            message: format!("no priority is left for {}, which follows the highest ones: lower those", whose(rule)),
        },
    }
}
