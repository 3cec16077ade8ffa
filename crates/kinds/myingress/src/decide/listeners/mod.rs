//! Listeners and their rules.

mod certificates;
mod guests;
mod protocol;
mod refused;
mod room;
mod rules;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::drifted;
use super::secrets::{fingerprint_of, secret_tag, with_known_secret};
use super::{Scene, differing, shifts, tags};
use crate::action::{Action, ListenerAction};
use crate::decide::rules::Step;
use crate::model::certificates::chosen;
use crate::model::{
    CertificatesModel, Complaint, ListenerModel, RECOMMENDED_SSL_POLICY, RuleModel, default_listener_attributes,
    nothing_here,
};
use crate::observe::facts::Observed;
use crate::ownership::{ObjectKey, member_of};
use crate::region::assets::{ListenerMember, Member, RuleMember};
use causeway_api::MyIngress;
use causeway_aws::elbv2::{ListenerSettings, Pairs, Protocol, RuleAction, RuleSettings};
use certificates::{Certificates, Swap};
use room::Room;
use waiting::Waiting;

/// Creates and changes listeners and rules, and deletes those that no member wants.
pub fn plan(scene: &Scene, current: &Member, actions: &mut Vec<Action>) -> Result<(), Complaint> {
    let Some(present) = &current.listeners else { return Ok(()) };
    let arns = scene.group_arns();
    let mut planned = Vec::new();
    let mut stale = BTreeMap::new();
    let mut room = Room::new(scene, current);
    for (port, wanted) in &scene.model.listeners {
        let known = present.values().find(|member| member.listener.settings.port == *port);
        let mut listener = Listener::new(scene, current, *port, wanted, &arns, known);
        let extended;
        let reduced = known.and_then(|member| listener.reduced(member));
        if let Some(reduced) = &reduced {
            listener.default_stays = listener.default_waits_for(&reduced.new);
            listener.wanted = &reduced.listener;
            listener.kept.clone_from(&reduced.kept);
        }
        if let Some(member) = known
            && let Some(all) = listener.with_guests(member, reduced.as_ref())
        {
            extended = all;
            listener.wanted = &extended;
        }
        match known {
            None => planned.extend(listener.create()?),
            Some(member) if !scene.observed.owner.owns(&member.tags) => {
                return Err(Complaint {
                    reason: "ListenerTaken",
                    message: format!(
                        "spec.listeners: port {port} of load balancer {} has a listener that Causeway does not own: \
                         delete it in AWS, or choose another port",
                        current.balancer.name
                    ),
                });
            }
            Some(member) => {
                let before = planned.len();
                listener.change(member, room, &mut planned)?;
                room = room.after_changes(&planned[before..]);
                stale.append(&mut listener.stale(member)?);
            }
        }
    }
    planned.extend(tags::removals(&current.balancer.arn, stale));
    let surplus = present.values().filter(|member| {
        let port = member.listener.settings.port;
        scene.observed.owner.owns(&member.tags) && !scene.model.listeners.contains_key(&port) && !is_kept(scene, member)
    });
    planned.extend(surplus.map(|member| ListenerAction::Delete {
        balancer: current.balancer.arn.clone(),
        arn: member.listener.arn.clone(),
        port: member.listener.settings.port,
    }));
    actions.extend(planned.into_iter().map(Action::Listener));
    Ok(())
}

/// Reports whether the owner's balancers have listeners of ours. Where listeners were not read, the record decides.
pub fn exist(observed: &Observed, recorded: bool) -> bool {
    observed.assets.balancers.values().any(|member| match &member.listeners {
        Some(listeners) => listeners.values().any(|it| observed.owner.owns(&it.tags)),
        None => recorded,
    })
}

/// Reports whether a member of the group's own namespace that cannot take part now needs the listener: because of its
/// spec, or of the rules or targets that it had there.
pub fn is_kept(scene: &Scene, member: &ListenerMember) -> bool {
    member.rules.values().any(|rule| scene.is_frozen_at_home(&rule.tags))
        || keeps_default(scene, member)
        || is_listed(scene, member.listener.settings.port)
}

/// Reports whether the spec of such a member has the port. The listener keeps what that member may have set and no
/// other one sets.
fn is_listed(scene: &Scene, port: u16) -> bool {
    let has_port = |object: &MyIngress| object.spec.listeners.iter().any(|listener| listener.port == port);
    scene.frozen_at_home().any(has_port)
}

/// Reports whether the default action forwards to targets of a member that can take part.
fn forwards_to_active(scene: &Scene, member: &ListenerMember) -> bool {
    member.listener.settings.default_actions.iter().flat_map(RuleAction::forwarded_to).any(|arn| {
        let group = scene.observed.assets.groups.get(arn);
        group.is_some_and(|group| !scene.is_frozen_at_home(&group.tags))
    })
}

/// Reports whether the default action forwards to targets of such a member.
fn keeps_default(scene: &Scene, member: &ListenerMember) -> bool {
    member.listener.settings.default_actions.iter().flat_map(RuleAction::forwarded_to).any(|arn| {
        let group = scene.observed.assets.groups.get(arn);
        group.is_some_and(|group| scene.is_frozen_at_home(&group.tags))
    })
}

/// The target groups that requests of a member, or of any member, are to go to as soon as they have a healthy target. Until
/// then they go where they went.
pub fn awaited(object: Option<&ObjectKey>, scene: &Scene, current: &Member) -> BTreeSet<String> {
    let arns = scene.group_arns();
    let present = current.listeners.iter().flat_map(|listeners| listeners.values());
    let mut awaited = BTreeSet::new();
    for member in present {
        let port = member.listener.settings.port;
        let Some(wanted) = scene.model.listeners.get(&port) else { continue };
        let listener = Listener::new(scene, current, port, wanted, &arns, Some(member));
        let groups = match object {
            Some(object) => listener.waiting.of_member(object, listener.setter().as_ref() == Some(object)),
            None => listener.waiting.of_all(),
        };
        awaited.extend(groups);
    }
    awaited
}

/// Explains what keeps a rule of a group's member from having its priority.
pub fn priority_conflict(object: &ObjectKey, scene: &Scene, current: &Member) -> Option<String> {
    // Outside of a group it is a complaint about the object, and no plan is made.
    if !scene.observed.members.grouped {
        return None;
    }
    let arns = scene.group_arns();
    let mut present = current.listeners.iter().flat_map(|listeners| listeners.values());
    present.find_map(|member| {
        let port = member.listener.settings.port;
        let wanted = scene.model.listeners.get(&port)?;
        let mut listener = Listener::new(scene, current, port, wanted, &arns, Some(member));
        listener.kept = listener.reduced(member).map(|reduced| reduced.kept).unwrap_or_default();
        listener.trouble(object, member)
    })
}

/// Checks that there is a certificate for every host that needs one.
pub fn certified(scene: &Scene) -> Result<(), Complaint> {
    for (port, listener) in &scene.model.listeners {
        if let CertificatesModel::Chosen { given, hosts } = &listener.certificates {
            chosen(given, hosts, &scene.observed.certificates, *port)?;
        }
    }
    Ok(())
}

struct Listener<'a> {
    scene: &'a Scene<'a>,
    balancer: &'a str,
    port: u16,
    wanted: &'a ListenerModel,
    arns: &'a BTreeMap<&'a str, &'a str>,
    /// Rules that stay as they are, because what they should become was refused.
    kept: BTreeSet<String>,
    /// True if the default action stays as it is, because new rules cannot be made.
    default_stays: bool,
    /// Rules and the default action that wait for targets.
    waiting: Waiting,
}

impl<'a> Listener<'a> {
    fn new(
        scene: &'a Scene<'a>,
        current: &'a Member,
        port: u16,
        wanted: &'a ListenerModel,
        arns: &'a BTreeMap<&'a str, &'a str>,
        known: Option<&ListenerMember>,
    ) -> Self {
        let (balancer, kept, waiting) = (&current.balancer.arn, BTreeSet::new(), Waiting::default());
        let listener = Self { scene, balancer, port, wanted, arns, kept, default_stays: false, waiting };
        let waiting = known.map(|member| listener.find_waiting(member, current)).unwrap_or_default();
        Self { waiting, ..listener }
    }

    /// The same listener, as another specification wants it.
    fn with<'b>(&'b self, wanted: &'b ListenerModel) -> Listener<'b> {
        Listener { wanted, kept: BTreeSet::new(), waiting: self.waiting.clone(), ..*self }
    }

    fn create(&self) -> Result<Option<ListenerAction>, Complaint> {
        let Certificates { default, .. } = self.certificates(None)?;
        let Some(default_actions) = self.resolved(&self.wanted.default_actions) else { return Ok(None) };
        let mut tags = self.scene.tags(None);
        tags.extend(fingerprint_of(&self.scene.observed.owner, &default_actions).map(secret_tag));
        let settings = ListenerSettings {
            port: self.port,
            protocol: self.wanted.protocol,
            certificate: default,
            ssl_policy: self.ssl_policy(None),
            mutual_authentication: self.wanted.mutual_authentication.clone(),
            default_actions,
        };
        Ok(Some(ListenerAction::Create { balancer: self.balancer.into(), settings, tags }))
    }

    fn change(&self, member: &ListenerMember, room: Room, planned: &mut Vec<ListenerAction>) -> Result<(), Complaint> {
        let (balancer, arn) = (|| self.balancer.to_owned(), || member.listener.arn.clone());
        let certificates = self.certificates(Some(&member.listener.settings))?;
        if let Some(secured) = self.secured(member, certificates.default.as_ref()) {
            // The rest follows in the next round.
            planned.push(secured);
            return Ok(());
        }
        // The new default certificate may still be a further one. It must not be removed before it is the default.
        let mut surplus: BTreeSet<String> = member.certificates.difference(&certificates.further).cloned().collect();
        let (swaps, waits) = self.swaps(member, &certificates, room.certificates);
        if waits {
            // Old certificates stay until all new ones are in. The default one is not needed a second time.
            surplus.retain(|certificate| certificates.default.as_ref() == Some(certificate));
        }
        for swap in swaps {
            if let Swap::Out(gone) = &swap {
                surplus.retain(|certificate| !gone.contains(certificate));
            }
            planned.push(swap.action(balancer(), arn(), self.port));
        }
        let settings = self.settings(member, certificates.default);
        let mut steps = self.steps(member, settings.as_ref(), room.rules)?;
        self.close_before_http(member, &mut steps);
        steps.extend(self.taken_along(member));
        planned.extend(steps.into_iter().filter_map(|step| self.action(member, step, settings.as_ref())));
        let settled = settings.as_ref().is_none_or(|settings| !self.differs(member, settings));
        if !surplus.is_empty() && settled && !is_kept(self.scene, member) {
            let (port, certificates) = (self.port, surplus);
            planned.push(ListenerAction::RemoveCertificates { balancer: balancer(), arn: arn(), port, certificates });
        }
        if let Some(present) = &member.attributes {
            let defaults = default_listener_attributes(self.wanted.protocol);
            let mut wanted = if is_listed(self.scene, self.port) { Pairs::new() } else { defaults.clone() };
            wanted.extend(self.wanted.attributes.clone());
            let attributes = drifted(&wanted, present, |key| defaults.get(key).map(String::as_str));
            if !attributes.is_empty() {
                let port = self.port;
                planned.push(ListenerAction::SetAttributes { balancer: balancer(), arn: arn(), port, attributes });
            }
        }
        let mut tags = self.scene.tags(None);
        let default_actions = settings.as_ref().map(|settings| settings.default_actions.as_slice()).unwrap_or_default();
        tags.extend(fingerprint_of(&self.scene.observed.owner, default_actions).map(secret_tag));
        self.tag(&member.listener.arn, &tags, &member.tags, planned);
        for (arn, index) in self.becoming(member) {
            let wanted = &self.wanted.rules[index];
            if let Some(rule) = member.rules.get(arn).filter(|rule| !self.keeps_tags(rule, wanted)) {
                self.tag(arn, &self.rule_tags(wanted, Some(rule)), &rule.tags, planned);
            }
        }
        Ok(())
    }

    /// Reports whether the rule is that of a frozen member, and stays so. One that becomes another member's gets the
    /// tags of that member: otherwise it would go with the rules of the former one.
    fn keeps_tags(&self, rule: &RuleMember, wanted: &RuleModel) -> bool {
        self.scene.is_frozen(&rule.tags) && member_of(&rule.tags).is_none_or(|member| member == wanted.member)
    }

    /// Tag keys that the listener and its rules carry and should not, by ARN.
    fn stale(&self, member: &ListenerMember) -> Result<BTreeMap<String, BTreeSet<String>>, Complaint> {
        let settings = self.settings(member, self.certificates(Some(&member.listener.settings))?.default);
        let actions = settings.as_ref().map(|settings| settings.default_actions.as_slice());
        let of_listener = tags::stale_with_secret(self.scene, &self.scene.tags(None), &member.tags, actions);
        let rules = self.becoming(member).into_iter().filter_map(|(arn, index)| {
            let (rule, wanted) = (member.rules.get(arn)?, &self.wanted.rules[index]);
            if self.keeps_tags(rule, wanted) {
                return None;
            }
            let tags = self.rule_tags(wanted, Some(rule));
            let actions = self.step(wanted, Some(rule));
            let stale = tags::stale_with_secret(self.scene, &tags, &rule.tags, actions.as_deref());
            Some((arn.to_owned(), stale))
        });
        Ok(rules.chain([(member.listener.arn.clone(), of_listener)]).collect())
    }

    /// The changes of rules that stay, so that AWS checks targets of groups that others wait for.
    fn taken_along<'m>(&'m self, member: &'m ListenerMember) -> impl Iterator<Item = Step> + 'm {
        let kept = member.rules.values().filter(|rule| self.kept.contains(&rule.rule.arn));
        kept.filter_map(|rule| {
            let settings = &rule.rule.settings;
            let actions = self.as_it_is(rule);
            let differs = actions != settings.actions;
            differs.then(|| Step::Modify {
                arn: rule.rule.arn.clone(),
                settings: RuleSettings { actions, ..settings.clone() },
            })
        })
    }

    /// The settings that the listener is to have; `None` while a target group is missing.
    fn settings(&self, member: &ListenerMember, default: Option<String>) -> Option<ListenerSettings> {
        let settings = self.with_present_default(member, default);
        let wants_default = self.wanted.default_actions != nothing_here();
        let left = is_listed(self.scene, self.port) && !wants_default && !forwards_to_active(self.scene, member);
        // One that waits goes on as it was, too, and makes AWS check what it waits for.
        let stays = self.default_stays && self.waiting.of_default().is_none();
        let stays = stays || keeps_default(self.scene, member) || left;
        let default_actions = if stays { settings.default_actions } else { self.default_step(member)? };
        Some(ListenerSettings { default_actions: self.with_others("", default_actions), ..settings })
    }

    /// These settings, but the default action is the present one, or none where the wanted protocol cannot have that:
    /// AWS would never turn the listener.
    fn with_present_default(&self, member: &ListenerMember, certificate: Option<String>) -> ListenerSettings {
        let present = &member.listener.settings;
        let same = present.protocol == self.wanted.protocol;
        let stays = is_listed(self.scene, self.port) && same;
        let mutual = || present.mutual_authentication.clone();
        let possible = self.can_have_by_default(&present.default_actions);
        ListenerSettings {
            port: self.port,
            protocol: self.wanted.protocol,
            certificate,
            ssl_policy: self.ssl_policy(present.ssl_policy.as_ref().filter(|_| same)),
            mutual_authentication: self.wanted.mutual_authentication.clone().or_else(|| mutual().filter(|_| stays)),
            default_actions: if possible { present.default_actions.clone() } else { nothing_here() },
        }
    }

    /// The security policy: that of the spec, or the present one, or the recommended one.
    fn ssl_policy(&self, present: Option<&String>) -> Option<String> {
        let recommended = || (self.wanted.protocol == Protocol::Https).then(|| RECOMMENDED_SSL_POLICY.to_owned());
        self.wanted.ssl_policy.as_ref().or(present).cloned().or_else(recommended)
    }

    /// Reports whether the listener's settings differ from these.
    fn differs(&self, member: &ListenerMember, settings: &ListenerSettings) -> bool {
        let mut known = member.listener.settings.clone();
        let tags = fingerprint_of(&self.scene.observed.owner, &settings.default_actions).map(secret_tag);
        with_known_secret(
            &mut known.default_actions,
            &member.tags,
            &tags.into_iter().collect(),
            &settings.default_actions,
        );
        known != *settings
    }

    /// The actions with the ARNs of their target groups; `None` while one is missing.
    fn resolved(&self, actions: &[RuleAction]) -> Option<Vec<RuleAction>> {
        let resolve = |action: &RuleAction| match action {
            RuleAction::Forward { groups, stickiness } => {
                let arn = |(name, weight): (&String, &u16)| {
                    // A name has no colon: this is the ARN of a group that is not ours.
                    let foreign = name.starts_with("arn:").then_some(name.as_str());
                    Some((foreign.or_else(|| self.arns.get(name.as_str()).copied())?.to_owned(), *weight))
                };
                let groups = groups.iter().map(arn).collect::<Option<BTreeMap<String, u16>>>()?;
                Some(RuleAction::Forward { groups, stickiness: *stickiness })
            }
            other => Some(other.clone()),
        };
        actions.iter().map(resolve).collect()
    }

    fn tag(&self, arn: &str, wanted: &Pairs, present: &Pairs, planned: &mut Vec<ListenerAction>) {
        let tags = differing(wanted, present);
        if !tags.is_empty() {
            let (balancer, arn, port) = (self.balancer.to_owned(), arn.to_owned(), self.port);
            planned.push(ListenerAction::AddTags { balancer, arn, port, tags });
        }
    }
}
