//! A balancer of the other scheme takes over. First users see its name, then the old balancer goes on for a while:
//! clients may keep its address for as long as its name lives in DNS.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::myingress::ReplacedStatus;
use causeway_api::{MyIngress, MyIngressStatus};
use causeway_aws::elbv2::{Condition, Pairs, RuleAction, RuleSettings};
use causeway_runtime::Plan;

use super::balancer::delete;
use super::followed::remembered;
use super::shifts::{Fitness, Groups};
use super::{Scene, serves, shifts};
use crate::action::Action;
use crate::decide::rules::may_share;
use crate::model::{Model, RuleModel};
use crate::observe::facts::Observed;
use crate::ownership::{ObjectKey, member_of};
use crate::region::assets::{GroupMember, ListenerMember, Member, RuleMember};

/// Shows users the new balancer, and later removes the ones that it replaces. They are removed only once the new one
/// serves and the grace period of the old address is over.
pub fn switch(object: &MyIngress, scene: &Scene, current: &Member, plan: &mut Plan<Action, MyIngressStatus>) {
    let all = scene.observed.assets.balancers.values();
    let surplus: Vec<&Member> = all.filter(|it| it.balancer.arn != current.balancer.arn).collect();
    plan.status.replaced = replaced(object, scene, current, &surplus);
    // While the member that decides about the balancer cannot take part, none is deleted.
    if surplus.is_empty() || scene.is_held() || !replaces(scene.observed, current) {
        return;
    }
    // A balancer that was never in a status has no clients, and needs no grace period.
    let left = plan.status.replaced.as_ref().map(|replaced| remaining_grace(replaced, scene)).unwrap_or_default();
    if !left.is_zero() {
        plan.requeue = Some(left);
        return;
    }
    plan.status.replaced = None;
    plan.actions.extend(surplus.into_iter().map(|member| delete(scene.observed, member)));
    // The new DNS name must be in the status before the old balancer stops answering.
    let shown = object.status.as_ref().and_then(|status| status.alb.as_ref());
    plan.write_status_first |= shown.is_none_or(|alb| alb.arn != current.balancer.arn);
}

/// The balancers that are being replaced: those of the other scheme.
pub fn old<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Member> + use<'a> {
    former_balancers(scene.observed, scene.model)
}

fn former_balancers<'a>(observed: &'a Observed, model: &Model) -> impl Iterator<Item = &'a Member> + use<'a> {
    let scheme = model.balancer.scheme;
    observed.assets.balancers.values().filter(move |it| it.balancer.scheme != Some(scheme))
}

/// The old balancer, and since when it is being replaced.
fn replaced(object: &MyIngress, scene: &Scene, current: &Member, surplus: &[&Member]) -> Option<ReplacedStatus> {
    let there = |arn: &str| surplus.iter().any(|member| member.balancer.arn == arn);
    // In a group, another member may have shown the new name to its users later, so the latest time counts.
    let members = scene.observed.members.present.iter();
    let reported = members.filter_map(|member| member.status.as_ref()?.replaced.as_ref());
    let known = reported.filter(|replaced| there(&replaced.arn)).max_by_key(|replaced| replaced.since.0);
    if let Some(known) = known {
        return Some(known.clone());
    }
    let shown = object.status.as_ref()?.alb.as_ref().filter(|alb| there(&alb.arn))?;
    replaces(scene.observed, current).then(|| ReplacedStatus {
        dns: shown.dns.clone(),
        arn: shown.arn.clone(),
        name: shown.name.clone(),
        since: whole_second(scene.now),
    })
}

/// The rest of the grace period.
fn remaining_grace(replaced: &ReplacedStatus, scene: &Scene) -> Duration {
    let passed = scene.now.duration_since(replaced.since.0).max(SignedDuration::ZERO);
    let passed = Duration::try_from(passed).unwrap_or_default();
    scene.observed.replacement_grace.saturating_sub(passed)
}

/// Kubernetes keeps times in whole seconds. A time with a fraction would differ from itself after it was written.
fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Reports whether the balancer can take over from the ones that it replaces: it is active, has all its parts, and
/// waits for no targets.
pub fn replaces(observed: &Observed, current: &Member) -> bool {
    serves(current) && is_whole(observed, current) && awaited(observed).is_empty()
}

/// Reports whether the balancer has all listeners, rules and target groups. Parts of guests do not count.
fn is_whole(observed: &Observed, current: &Member) -> bool {
    let Some(model) = &observed.built.model else { return true };
    let present = |port: u16| {
        let mut all = current.listeners.iter().flat_map(BTreeMap::values);
        all.find(|it| it.listener.settings.port == port && observed.owner.owns(&it.tags))
    };
    let has_rules = |port: u16, rules: &[RuleModel]| {
        let wanted = rules.iter().filter(|rule| !observed.members.is_guest(&rule.member)).count();
        present(port)
            .is_some_and(|it| it.rules.values().filter(|rule| observed.owner.owns(&rule.tags)).count() >= wanted)
    };
    let mut groups = model.groups.iter().filter(|(_, group)| !observed.members.is_guest(&group.member));
    groups.all(|(name, _)| observed.assets.group_named(name).is_some())
        && model.listeners.iter().all(|(port, listener)| has_rules(*port, &listener.rules))
}

/// The target groups for whose targets the balancer waits before it takes over. All its backends that get requests need to
/// answer as well as the best answer of the ones that it replaces, but for those that got the same requests before and did
/// not then. Targets of guests do not count.
pub fn awaited(observed: &Observed) -> BTreeSet<String> {
    let Some(model) = &observed.built.model else { return BTreeSet::new() };
    let is_guests = |tags: &Pairs| member_of(tags).is_some_and(|member| observed.members.is_guest(&member));
    let all = observed.assets.groups.values().filter(|it| !is_guests(&it.tags));
    let (new, former): (Vec<&GroupMember>, Vec<&GroupMember>) =
        all.partition(|it| model.groups.contains_key(&it.group.name));
    let groups = Groups::new(observed);
    let answers = former_places(observed, model).map(|(_, actions)| groups.answer(actions, |_| true));
    let best = answers.max().unwrap_or(Fitness::Empty);
    let idle: BTreeSet<Backend> = former
        .iter()
        .filter(|it| groups.present_fitness(&it.group.arn) < best)
        .filter_map(|it| backend(observed, it))
        .collect();
    let (before, now) = (backends_before(observed, model), receivers_by_place(places(model)));
    // Its requests may come from rules of its member that go, too.
    let takes_over = |it: &GroupMember, (port, conditions): &Place| {
        former_rules(observed, model).any(|(former_port, rule)| {
            let RuleSettings { conditions: former, actions, .. } = &rule.rule.settings;
            let shares = conditions.as_ref().is_none_or(|conditions| may_share(conditions, former));
            let goes = !now.contains_key(&(former_port, Some(former.clone())));
            let same = member_of(&rule.tags) == member_of(&it.tags);
            let better = groups.answer(actions, |_| true) > groups.expected_fitness(&it.group.arn);
            former_port == *port && shares && goes && same && better
        })
    };
    let was_idle = |it: &GroupMember, place: &Place| {
        let same = backend(observed, it).filter(|backend| idle.contains(backend));
        same.is_some_and(|backend| before.get(place).is_some_and(|backends| backends.contains(&backend)))
    };
    let waits = |it: &GroupMember| {
        let mut places = now.iter().filter(|(_, groups)| groups.contains(&it.group.name)).map(|(place, _)| place);
        groups.expected_fitness(&it.group.arn) < best
            && places.any(|place| !was_idle(it, place) || takes_over(it, place))
    };
    new.into_iter().filter(|it| waits(it)).map(|it| it.group.arn.clone()).collect()
}

/// A port, and the conditions of a rule there; `None` for the default action.
type Place = (u16, Option<BTreeSet<Condition>>);

/// The member that a target group belongs to, and the Service and port that it follows.
type Backend = (Option<ObjectKey>, String, String, String);

fn backend(observed: &Observed, group: &GroupMember) -> Option<Backend> {
    let backend = remembered(&observed.owner, observed.members.grouped, group)?;
    Some((member_of(&group.tags), backend.namespace, backend.service, backend.port.to_string()))
}

fn places(model: &Model) -> impl Iterator<Item = (Place, &[RuleAction])> {
    model.listeners.iter().flat_map(|(port, listener)| {
        let rules = listener
            .rules
            .iter()
            .map(|rule| ((*port, Some(rule.settings.conditions.clone())), &*rule.settings.actions));
        rules.chain([((*port, None), &*listener.default_actions)])
    })
}

/// Names or ARNs of the target groups that get requests, by place.
fn receivers_by_place<'a>(
    places: impl Iterator<Item = (Place, &'a [RuleAction])>,
) -> BTreeMap<Place, BTreeSet<String>> {
    let mut all: BTreeMap<Place, BTreeSet<String>> = BTreeMap::new();
    for (place, actions) in places {
        all.entry(place).or_default().extend(shifts::receivers(actions));
    }
    all
}

/// The actions of the balancers that are replaced, by place.
fn former_places<'a>(observed: &'a Observed, model: &Model) -> impl Iterator<Item = (Place, &'a [RuleAction])> {
    let place = |(port, rule): (u16, &'a RuleMember)| {
        let RuleSettings { conditions, actions, .. } = &rule.rule.settings;
        ((port, Some(conditions.clone())), actions.as_slice())
    };
    let defaults = former_listeners(observed, model).map(|it| {
        let settings = &it.listener.settings;
        ((settings.port, None), settings.default_actions.as_slice())
    });
    former_rules(observed, model).map(place).chain(defaults)
}

/// The rules of the balancers that are replaced, with their ports.
fn former_rules<'a>(observed: &'a Observed, model: &Model) -> impl Iterator<Item = (u16, &'a RuleMember)> {
    former_listeners(observed, model)
        .flat_map(|it| it.rules.values().map(move |rule| (it.listener.settings.port, rule)))
}

fn former_listeners<'a>(observed: &'a Observed, model: &Model) -> impl Iterator<Item = &'a ListenerMember> {
    former_balancers(observed, model).flat_map(|it| &it.listeners).flat_map(BTreeMap::values)
}

/// The backends that get requests of the balancers that are replaced, by place.
fn backends_before(observed: &Observed, model: &Model) -> BTreeMap<Place, BTreeSet<Backend>> {
    let named = |arn: &String| backend(observed, observed.assets.groups.get(arn)?);
    let backends = |(place, arns): (Place, BTreeSet<String>)| (place, arns.iter().filter_map(named).collect());
    receivers_by_place(former_places(observed, model)).into_iter().map(backends).collect()
}
