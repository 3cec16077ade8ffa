//! Rules that guests of a group keep: those of a guest that cannot take part now, those whose replacement AWS refused,
//! and those whose new targets AWS has not judged yet. They keep their actions and their order among the guest's rules,
//! but not their position: the rules of the group's own namespace come first. A rule that the listener's new protocol
//! cannot have keeps its place and is closed: if it went, a broader rule of the same guest might answer its requests
//! without a log-in.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::closed;
use super::{Listener, shifts};
use crate::controllers::myingress::assets::{ListenerMember, RuleMember};
use crate::controllers::myingress::members::key;
use crate::controllers::myingress::model::{ListenerModel, RuleModel};
use crate::controllers::myingress::ownership::{ObjectKey, member_of};
use crate::external::elbv2::{Protocol, RuleAction, RuleSettings};

impl Listener<'_> {
    /// The wanted listener with the rules that guests keep; `None` where they keep none. `stuck` are members of which
    /// AWS refused rules.
    pub(super) fn with_guests(&self, member: &ListenerMember, stuck: &BTreeSet<ObjectKey>) -> Option<ListenerModel> {
        let mut present: Vec<(ObjectKey, &RuleMember)> = member
            .rules
            .values()
            .filter(|rule| self.scene.observed.owner.owns(&rule.tags))
            .filter_map(|rule| Some((member_of(&rule.tags)?, rule)))
            .filter(|(guest, _)| self.scene.is_guest(guest))
            .collect();
        if present.is_empty() {
            return None;
        }
        present.sort_by_key(|(_, rule)| rule.rule.priority);
        // A closed rule makes AWS check nothing.
        let open: Vec<(ObjectKey, &RuleMember)> =
            present.iter().filter(|(_, rule)| !self.must_close(rule)).cloned().collect();
        let waiting: BTreeMap<ObjectKey, BTreeSet<String>> =
            present.iter().map(|(guest, _)| (guest.clone(), self.awaited(guest, &open))).collect();
        let wanted = self.wanted.rules.iter().zip(self.own(member));
        let mut rules: Vec<Placed> = wanted
            .filter(|(rule, _)| waiting.get(&rule.member).is_none_or(BTreeSet::is_empty))
            .map(|(rule, own)| {
                let own = own.filter(|own| member_of(&own.tags).as_ref() == Some(&rule.member));
                Placed { now: own.map(|own| own.rule.priority), rule: rule.clone() }
            })
            .collect();
        let becoming = self.becoming(member);
        let places = self.places();
        // Rules of the group's own namespace come first. Those of guests that nobody sees come last.
        let place =
            |member: &ObjectKey| self.scene.is_guest(member).then(|| places.get(member).copied().unwrap_or(usize::MAX));
        for (guest, rule) in present {
            let unseen = waiting.get(&guest).filter(|groups| !groups.is_empty());
            let left = stuck.contains(&guest) && !self.becomes_own(rule, &becoming);
            let settings = &rule.rule.settings;
            // One behind another with the same conditions stays as well. Otherwise, once that goes, a broader rule of
            // this guest would answer, perhaps without this rule's log-in.
            if self.scene.frozen.contains(&guest) || unseen.is_some() || left {
                let now = rule.rule.priority;
                let at = place_of(&rules, &guest, now);
                let field = format!("a rule of {}/{}", guest.0, guest.1);
                let settings = if self.must_close(rule) {
                    closed(settings)
                } else {
                    let checked = unseen.and_then(|groups| shifts::with_unused(&settings.actions, groups));
                    let actions = checked.unwrap_or_else(|| settings.actions.clone());
                    RuleSettings { actions, ..settings.clone() }
                };
                let rule = RuleModel { member: guest, field, priority: None, settings };
                rules.insert(at, Placed { now: Some(now), rule });
            }
        }
        let mut rules: Vec<RuleModel> = rules.into_iter().map(|it| it.rule).collect();
        rules.sort_by_key(|rule| place(&rule.member));
        (rules != self.wanted.rules).then(|| ListenerModel { rules, ..self.wanted.clone() })
    }

    /// Whether rules of that guest stay as they are until AWS has judged its new targets.
    pub(super) fn holds_back(&self, guest: &ObjectKey, member: &ListenerMember) -> bool {
        let rules = member.rules.values().filter(|rule| self.scene.observed.owner.owns(&rule.tags));
        let rules = rules.filter(|rule| !self.must_close(rule));
        let present: Vec<_> = rules.filter_map(|rule| Some((member_of(&rule.tags)?, rule))).collect();
        self.scene.is_guest(guest) && !self.awaited(guest, &present).is_empty()
    }

    /// Whether the wanted listener cannot have the rule as it is. AWS turns no listener to HTTP that has a rule for HTTPS,
    /// so guests could keep one from it.
    fn must_close(&self, rule: &RuleMember) -> bool {
        self.wanted.protocol == Protocol::Http && self.needs_https(&rule.rule.settings.actions)
    }

    /// Target groups that requests of the guest are to go to once AWS has judged their targets. It returns only those
    /// that an existing rule can make AWS check.
    fn awaited(&self, guest: &ObjectKey, present: &[(ObjectKey, &RuleMember)]) -> BTreeSet<String> {
        let theirs = self.wanted.rules.iter().filter(|rule| rule.member == *guest);
        let Some(wanted) = theirs.map(|rule| self.resolved(&rule.settings.actions)).collect::<Option<Vec<_>>>() else {
            return BTreeSet::new();
        };
        let own = || present.iter().filter(|(member, _)| member == guest).map(|(_, rule)| &rule.rule.settings.actions);
        let all: Vec<RuleAction> = own().flatten().cloned().collect();
        let awaited = shifts::awaited(&wanted.concat(), &all, &self.scene.observed.summaries);
        let seen = |arn: &String| all.iter().flat_map(RuleAction::forwarded_to).any(|it| it == arn);
        let can_be_seen = |arn: &&String| {
            seen(arn) || own().any(|actions| shifts::with_unused(actions, &BTreeSet::from([(*arn).clone()])).is_some())
        };
        awaited.iter().filter(can_be_seen).cloned().collect()
    }

    /// The position of each member in the group.
    fn places(&self) -> BTreeMap<ObjectKey, usize> {
        self.scene.observed.members.present.iter().enumerate().map(|(place, object)| (key(object), place)).collect()
    }
}

/// A rule, and the priority of the present rule of the same member that becomes it.
struct Placed {
    now: Option<u16>,
    rule: RuleModel,
}

/// Where a present rule of the guest with that priority belongs. It stays between the guest's rules that are there. It
/// comes before new ones: a broader one would answer without its log-in, for example.
fn place_of(rules: &[Placed], guest: &ObjectKey, priority: u16) -> usize {
    let theirs = rules.iter().enumerate().filter(|(_, it)| it.rule.member == *guest);
    let theirs: Vec<(usize, Option<u16>)> = theirs.map(|(place, it)| (place, it.now)).collect();
    let follows = theirs.iter().position(|(_, now)| now.is_some_and(|now| now > priority)).unwrap_or(theirs.len());
    let before = theirs[..follows].iter().rev().find(|(_, now)| now.is_some_and(|now| now < priority));
    let first = theirs.first().map_or(rules.len(), |(place, _)| *place);
    before.map_or(first, |(place, _)| place + 1)
}
