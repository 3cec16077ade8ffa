//! Rules that guests of a group keep: those of a guest that cannot take part now, and those whose replacement AWS refused
//! or waits for targets. They keep their actions and their order among the guest's rules,
//! but not their position: the rules of the group's own namespace come first. A rule that the listener's new protocol
//! cannot have keeps its place and is closed: if it went, a broader rule of the same guest might answer its requests
//! without a log-in.

use std::collections::{BTreeMap, BTreeSet};

use causeway_aws::elbv2::Protocol;

use super::Listener;
use super::protocol::close_rule;
use super::refused::Reduced;
use crate::members::key;
use crate::model::{ListenerModel, RuleModel};
use crate::ownership::{ObjectKey, member_of};
use crate::region::assets::{ListenerMember, RuleMember};

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
        let wanted = self.wanted.rules.iter().zip(self.own(member));
        let mut rules: Vec<Placed> = wanted
            .map(|(rule, own)| {
                let own = own.filter(|own| member_of(&own.tags).as_ref() == Some(&rule.member));
                Placed { now: own.map(|own| own.rule.priority), rule: rule.clone() }
            })
            .collect();
        let becoming = self.becoming(member);
        let places = self.places();
        // Rules of the group's own namespace come first. Those of guests that the operator cannot see come last.
        let place =
            |member: &ObjectKey| self.scene.is_guest(member).then(|| places.get(member).copied().unwrap_or(usize::MAX));
        let mut stuck = BTreeSet::new();
        for (guest, rule) in present {
            let reduced = reduced.filter(|it| it.members.contains(&guest));
            let left = reduced.is_some_and(|reduced| self.stays(rule, &becoming, reduced));
            let settings = &rule.rule.settings;
            // One behind another with the same conditions stays as well. Otherwise, once that goes, a broader rule of
            // this guest would answer, perhaps without this rule's log-in.
            let stays = self.scene.frozen.contains(&guest) || left;
            if stays && !self.is_anothers(rule, &becoming) {
                let now = Some(rule.rule.priority);
                let field = format!("a rule of {}/{}", guest.0, guest.1);
                let settings = if self.must_close(rule) { close_rule(settings) } else { settings.clone() };
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

    /// Reports whether the wanted listener cannot have the rule as it is. AWS turns no listener to HTTP that has a rule
    /// for HTTPS, so guests could keep one from it.
    fn must_close(&self, rule: &RuleMember) -> bool {
        self.wanted.protocol == Protocol::Http && self.needs_https(&rule.rule.settings.actions)
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
