//! Rules that guests of a group keep: those of a guest that cannot take part now, those whose replacement AWS refused,
//! and those whose new targets AWS has not judged yet. They keep their actions and their order among the guest's rules,
//! but not their position: the rules of the group's own namespace come first. A rule that the listener's new protocol
//! cannot have keeps its place and is closed: if it went, a broader rule of the same guest might answer its requests
//! without a log-in.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::closed;
use super::refused::Reduced;
use super::{Listener, shifts};
use crate::controllers::myingress::assets::{ListenerMember, RuleMember};
use crate::controllers::myingress::members::key;
use crate::controllers::myingress::model::{ListenerModel, RuleModel};
use crate::controllers::myingress::ownership::{ObjectKey, member_of};
use crate::external::elbv2::{Protocol, RuleAction, RuleSettings};

impl Listener<'_> {
    /// The wanted listener with the rules that guests keep; `None` where they keep none. `reduced` says what was left
    /// out.
    pub(super) fn with_guests(&self, member: &ListenerMember, reduced: Option<&Reduced>) -> Option<ListenerModel> {
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
        let mut stuck = BTreeSet::new();
        for (guest, rule) in present {
            let unseen = waiting.get(&guest).filter(|groups| !groups.is_empty());
            let reduced = reduced.filter(|it| it.members.contains(&guest));
            let left = reduced.is_some_and(|reduced| self.stays(rule, &becoming, reduced));
            let settings = &rule.rule.settings;
            // One behind another with the same conditions stays as well. Otherwise, once that goes, a broader rule of
            // this guest would answer, perhaps without this rule's log-in.
            let stays = self.scene.frozen.contains(&guest) || unseen.is_some() || left;
            if stays && !self.is_anothers(rule, &becoming) {
                let now = Some(rule.rule.priority);
                let field = format!("a rule of {}/{}", guest.0, guest.1);
                let settings = if self.must_close(rule) {
                    closed(settings)
                } else {
                    let checked = unseen.and_then(|groups| shifts::with_unused(&settings.actions, groups));
                    let actions = checked.unwrap_or_else(|| settings.actions.clone());
                    RuleSettings { actions, ..settings.clone() }
                };
                stuck.insert(guest.clone());
                rules.push(Placed { now, rule: RuleModel { member: guest, field, priority: None, settings } });
            }
        }
        // Present rules of a guest that keeps one stay in their order, and new ones come after them: a broader one would
        // answer the requests of another, perhaps without its log-in.
        let among = |it: &Placed| stuck.contains(&it.rule.member).then(|| (it.now.is_none(), it.now));
        rules.sort_by_key(|it| (place(&it.rule.member), among(it)));
        let rules: Vec<RuleModel> = rules.into_iter().map(|it| it.rule).collect();
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
