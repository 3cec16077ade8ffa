//! Rules and default actions that wait for the targets of groups: requests stay where they are answered.
//!
//! A present rule that becomes such a rule does what it did. A new one is not made yet. Meanwhile surplus rules of its
//! member stay (see `refused`), because they may answer the requests that it is for. No other member waits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Listener, keeps_default, shifts};
use crate::action::predicted::forwards_to;
use crate::decide::rules::may_share;
use crate::model::RuleModel;
use crate::ownership::{ObjectKey, member_of};
use crate::region::assets::{GroupMember, ListenerMember, Member, RuleMember};
use causeway_aws::elbv2::{Pairs, Protocol, RuleAction};
use shifts::{Fitness, Groups};

/// The rules and the default action of a listener that wait, with the groups that they wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// By the member and the field of the rule.
    rules: BTreeMap<(ObjectKey, String), BTreeSet<String>>,
    /// For which groups the default action waits.
    default: BTreeSet<String>,
    /// Groups that present actions take along with weight 0, so that AWS checks their targets: by the rule's ARN, or an
    /// empty text for the default action.
    along: BTreeMap<String, BTreeSet<String>>,
    /// For which groups a present rule waits to do something else, by its ARN.
    present: BTreeMap<String, BTreeSet<String>>,
}

/// A rule, or the default action, whose groups would answer its requests worse than what answers them now.
struct Slot<'a> {
    rule: Option<&'a RuleModel>,
    /// ARN of the present rule that becomes it.
    own: Option<&'a String>,
    wanted: Vec<RuleAction>,
    present: &'a [RuleAction],
    lacking: BTreeSet<String>,
}

impl Waiting {
    /// The groups that keep the rule from doing what it is to do.
    pub(super) fn of_rule(&self, rule: &RuleModel) -> Option<&BTreeSet<String>> {
        self.rules.get(&(rule.member.clone(), rule.field.clone()))
    }

    /// The groups that keep the default action from doing what it is to do.
    pub(super) fn of_default(&self) -> Option<&BTreeSet<String>> {
        Some(&self.default).filter(|groups| !groups.is_empty())
    }

    /// All groups that something of that member waits for.
    pub(super) fn of_member(&self, object: &ObjectKey, sets_default: bool) -> BTreeSet<String> {
        let rules = self.rules.iter().filter(|((member, _), _)| member == object).map(|(_, groups)| groups);
        rules.chain(self.of_default().filter(|_| sets_default)).flatten().cloned().collect()
    }

    /// All groups that something waits for.
    pub(super) fn of_all(&self) -> BTreeSet<String> {
        self.rules.values().chain([&self.default]).flatten().cloned().collect()
    }

    /// The members whose rules wait.
    pub(super) fn members(&self) -> impl Iterator<Item = &ObjectKey> {
        self.rules.keys().map(|(member, _)| member)
    }
}

impl Listener<'_> {
    pub(super) fn groups(&self) -> Groups<'_> {
        Groups::new(self.scene.observed)
    }

    /// Finds what waits on this listener. Nothing waits where others changed AWS: what answers now is not what the spec
    /// had answer. Nothing waits either where it turns to HTTP and has something that HTTP cannot have: AWS would not
    /// turn it until the new targets are healthy.
    pub(super) fn find_waiting(&self, member: &ListenerMember, current: &Member) -> Waiting {
        if self.scene.observed.was_right {
            return Waiting::default();
        }
        let owned = member.rules.values().filter(|rule| self.scene.observed.owner.owns(&rule.tags));
        let rules = owned.map(|rule| &rule.rule.settings.actions);
        let mut all = rules.chain([&member.listener.settings.default_actions]);
        if self.wanted.protocol == Protocol::Http && all.any(|actions| self.needs_https(actions)) {
            return Waiting::default();
        }
        let mut slots = self.lacking(member);
        if slots.is_empty() {
            return Waiting::default();
        }
        let (checked, along) = self.checked(member, current, &slots);
        for slot in &mut slots {
            // AWS can judge no others. So it is enough that requests find a target there.
            slot.lacking.retain(|arn| checked.contains(arn) || self.groups().expected_fitness(arn) == Fitness::Empty);
        }
        let mut waiting = Waiting { along, ..Waiting::default() };
        for slot in slots.into_iter().filter(|slot| !slot.lacking.is_empty()) {
            if let Some(own) = slot.own {
                waiting.present.insert(own.clone(), slot.lacking.clone());
            }
            match slot.rule {
                Some(rule) => drop(waiting.rules.insert((rule.member.clone(), rule.field.clone()), slot.lacking)),
                None => waiting.default = slot.lacking,
            }
        }
        waiting
    }

    /// The rules, and the default action, whose groups would answer worse.
    fn lacking<'s>(&'s self, member: &'s ListenerMember) -> Vec<Slot<'s>> {
        let (groups, default) = (self.groups(), &member.listener.settings.default_actions);
        let becoming = self.becoming(member);
        let owned = || member.rules.values().filter(|rule| self.scene.observed.owner.owns(&rule.tags));
        let answer = |rule: &RuleMember| {
            let remains = self.remains(&rule.tags);
            let answer = groups.answer(&rule.rule.settings.actions, |it| self.is_kept_group(it));
            if remains { answer } else { Fitness::Empty }
        };
        let by_default = groups.answer(default, |it| self.is_kept_group(it));
        let going = |of: Option<&ObjectKey>, rule: &RuleMember| {
            let same = member_of(&rule.tags).is_none_or(|member| of == Some(&member));
            same && self.is_ours(rule) && !becoming.contains_key(rule.rule.arn.as_str())
        };
        let mut slots = Vec::new();
        for (index, (rule, own)) in self.wanted.rules.iter().zip(self.own(member)).enumerate() {
            let Some(wanted) = self.resolved(&rule.settings.actions) else { continue };
            if groups.worse(&wanted, &[], Fitness::Healthy).is_empty() {
                continue;
            }
            let shares = |it: &&RuleMember| may_share(&it.rule.settings.conditions, &rule.settings.conditions);
            let Some(own) = own else {
                let before = owned().filter(shares).map(answer).chain([by_default]).max();
                let lacking = groups.worse(&wanted, &[], before.unwrap_or(by_default));
                slots.push(Slot { rule: Some(rule), own: None, wanted, present: &[], lacking });
                continue;
            };
            let is_overtaken = |it: &&RuleMember| {
                let wanted = becoming.get(it.rule.arn.as_str()).map(|at| (*at, self.wanted.rules[*at].priority));
                let behind = wanted.is_some_and(|(at, priority)| at > index || priority.or(rule.priority).is_some());
                behind && it.rule.priority < own.rule.priority
            };
            let present = own.rule.settings.actions.as_slice();
            let overtaken = owned().filter(is_overtaken).filter(shares);
            let before = overtaken.chain([own]).map(answer).max().unwrap_or(Fitness::Empty);
            // Its requests may come from rules that go, too.
            let others = owned().filter(|it| going(Some(&rule.member), it)).filter(shares);
            let former = others.map(answer).max().unwrap_or(Fitness::Empty);
            let mut lacking = groups.worse(&wanted, present, before.max(former));
            lacking.append(&mut groups.worse(&wanted, &[], former));
            slots.push(Slot { rule: Some(rule), own: Some(&own.rule.arn), wanted, present, lacking });
        }
        if let Some(wanted) = self.resolved(&self.wanted.default_actions) {
            let setter = self.setter();
            let former = owned().filter(|it| going(setter.as_ref(), it)).map(answer).max().unwrap_or(Fitness::Empty);
            let mut lacking = groups.worse(&wanted, default, by_default.max(former));
            lacking.append(&mut groups.worse(&wanted, &[], former));
            slots.push(Slot { rule: None, own: None, wanted, present: default, lacking });
        }
        slots.retain(|slot| !slot.lacking.is_empty());
        slots
    }

    /// The groups whose targets AWS checks or can be made to check, and what takes them along for that.
    fn checked(
        &self,
        member: &ListenerMember,
        current: &Member,
        slots: &[Slot],
    ) -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
        let on_balancer = current.listeners.iter().flat_map(BTreeMap::values);
        let mut checked: BTreeSet<String> = on_balancer.flat_map(forwards_to).cloned().collect();
        for slot in slots.iter().filter(|slot| self.groups().takes_along(&slot.wanted, slot.present)) {
            checked.extend(slot.lacking.iter().cloned());
        }
        let setter = self.setter();
        let waiting: BTreeSet<&ObjectKey> =
            slots.iter().filter_map(|slot| slot.rule.map(|rule| &rule.member).or(setter.as_ref())).collect();
        let becoming = self.becoming(member);
        // Surplus rules stay only while something of their member waits.
        let stays = |rule: &&RuleMember| {
            let member = member_of(&rule.tags);
            becoming.contains_key(rule.rule.arn.as_str()) || member.is_none_or(|member| waiting.contains(&member))
        };
        let guest = |member: Option<&ObjectKey>| member.filter(|member| self.scene.is_guest(member)).cloned();
        let rules =
            member.rules.values().filter(|rule| self.is_ours(rule)).filter(stays).map(|rule| {
                (rule.rule.arn.as_str(), guest(member_of(&rule.tags).as_ref()), &rule.rule.settings.actions)
            });
        let default = ("", None, &member.listener.settings.default_actions);
        let default = (!keeps_default(self.scene, member)).then_some(default);
        // One that is healthy stays until it gets requests: otherwise AWS would stop checking it.
        let pending = self.pending(current);
        let mut along: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (host, host_guest, actions) in default.into_iter().chain(rules) {
            // Guests change nothing but their own rules.
            let concerned = slots.iter().filter(|slot| guest(slot.rule.map(|rule| &rule.member)) == host_guest);
            let lacking: BTreeSet<String> = concerned.flat_map(|slot| slot.lacking.iter().cloned()).collect();
            let needed: BTreeSet<String> = lacking.union(&pending).cloned().collect();
            let mut taken: BTreeSet<String> = shifts::unused(actions).intersection(&needed).cloned().collect();
            let new: Vec<String> = lacking.difference(&checked).take(shifts::room(actions)).cloned().collect();
            checked.extend(new.iter().cloned());
            taken.extend(new);
            if !taken.is_empty() {
                along.insert(host.to_owned(), taken);
            }
        }
        (checked, along)
    }

    /// The groups that are to get requests and get none yet.
    fn pending(&self, current: &Member) -> BTreeSet<String> {
        let rules = self.wanted.rules.iter().map(|rule| &rule.settings.actions);
        let wanted = rules.chain([&self.wanted.default_actions]).filter_map(|actions| self.resolved(actions));
        let mut pending: BTreeSet<String> = wanted.flat_map(|actions| shifts::receivers(&actions)).collect();
        for listener in current.listeners.iter().flat_map(BTreeMap::values) {
            let rules = listener.rules.values().map(|rule| &rule.rule.settings.actions);
            for actions in rules.chain([&listener.listener.settings.default_actions]) {
                let sent = shifts::receivers(actions);
                pending.retain(|arn| !sent.contains(arn));
            }
        }
        pending
    }

    /// Reports whether something with these tags has a member that stays.
    fn remains(&self, tags: &Pairs) -> bool {
        let members = &self.scene.observed.members;
        let is_there = |member: ObjectKey| members.all_keys().contains(&member) || members.may_be_unseen(&member);
        !members.grouped || member_of(tags).is_none_or(is_there)
    }

    fn is_kept_group(&self, group: &GroupMember) -> bool {
        self.remains(&group.tags)
    }

    /// Returns the present actions of the rule; `None` while a target group is missing.
    pub(super) fn step(&self, rule: &RuleModel, own: Option<&RuleMember>) -> Option<Vec<RuleAction>> {
        let wanted = self.resolved(&rule.settings.actions)?;
        let Some(own) = own else { return Some(wanted) };
        let held = self.waiting.of_rule(rule).map(|_| self.groups().hold(&wanted, &own.rule.settings.actions));
        Some(self.with_others(&own.rule.arn, held.unwrap_or(wanted)))
    }

    /// Returns the present default actions of the listener; `None` while a target group is missing.
    pub(super) fn default_step(&self, member: &ListenerMember) -> Option<Vec<RuleAction>> {
        let wanted = self.resolved(&self.wanted.default_actions)?;
        let held = self.waiting.of_default();
        Some(held.map(|_| self.groups().hold(&wanted, &member.listener.settings.default_actions)).unwrap_or(wanted))
    }

    /// Returns the actions of a rule that is not changed: with the groups that the changed rule would take along.
    pub(super) fn as_it_is(&self, rule: &RuleMember) -> Vec<RuleAction> {
        let present = &rule.rule.settings.actions;
        let own = self.waiting.present.get(&rule.rule.arn);
        let actions = own.and_then(|groups| self.groups().with_unused(present, groups));
        self.with_others(&rule.rule.arn, actions.unwrap_or_else(|| present.clone()))
    }

    /// These actions, with the groups that they take along.
    pub(super) fn with_others(&self, host: &str, actions: Vec<RuleAction>) -> Vec<RuleAction> {
        let more = self.waiting.along.get(host).and_then(|groups| self.groups().with_unused(&actions, groups));
        more.unwrap_or(actions)
    }
}
