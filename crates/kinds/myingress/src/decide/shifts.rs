//! Sends requests to a target group only once it can take them.
//!
//! Requests stay where they are answered until every group that they are to go to has a healthy target, whatever the
//! reason why it has none. AWS checks only targets of groups that a listener uses. So a new group is first added to an
//! action with weight 0, which sends it no request. Where no action can take it along, AWS cannot check its targets, and
//! it is enough that some are registered.

use std::collections::{BTreeMap, BTreeSet};

use causeway_aws::elbv2::{Oidc, RuleAction};

use crate::action::predicted::forwards_to;
use crate::model::nothing_here;
use crate::observe::facts::Observed;
use crate::region::assets::{Assets, GroupMember, Member};
use crate::targets::{Binding, Summary};

/// An action forwards to at most this many target groups.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html>
const MOST_GROUPS: usize = 5;

/// The seconds for which clients stay with their group where AWS asks for a time and no spec gives one: AWS's minimum.
const SHORTEST_STICKINESS: u32 = 1;

/// How well a target group answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fitness {
    /// It has no target.
    Empty,
    /// It has targets. If none is healthy, AWS sends requests to all of them.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html>
    Registered,
    /// It has a healthy target.
    Healthy,
}

/// The target groups of an owner, with what AWS says of their targets.
pub struct Groups<'a> {
    /// The resources of the owner.
    pub assets: &'a Assets,
    /// Summaries by ARN.
    pub summaries: &'a BTreeMap<String, Summary>,
    /// The bindings in force.
    pub bound: &'a [Binding],
}

impl<'a> Groups<'a> {
    /// The target groups of the owner that was observed.
    pub fn new(observed: &'a Observed) -> Self {
        Self { assets: &observed.assets, summaries: &observed.summaries, bound: &observed.bound }
    }
}

impl Groups<'_> {
    /// Rates how well a group answers requests that it gets now. One whose targets are not known may serve, and so will one whose
    /// pods restart: requests that go elsewhere meanwhile would not come back.
    pub fn present_fitness(&self, arn: &str) -> Fitness {
        match self.summaries.get(arn) {
            Some(summary) if summary.known && !summary.served_lately => fitness(summary),
            _ => Fitness::Healthy,
        }
    }

    /// How well a group would answer requests. Nothing is known of groups that are not ours; they get requests at once.
    pub fn expected_fitness(&self, arn: &str) -> Fitness {
        if !self.assets.groups.contains_key(arn) {
            return Fitness::Healthy;
        }
        let summary = self.summaries.get(arn).filter(|summary| summary.own > 0 || !self.leaves_former(arn));
        summary.map_or(Fitness::Empty, fitness)
    }

    /// Reports whether the group still follows a former backend although nothing forwards to it, so that those targets
    /// are about to be deregistered (see `groups::former`).
    fn leaves_former(&self, arn: &str) -> bool {
        let mut bound = self.bound.iter().filter(|it| it.former.is_some());
        let uses = |it: &Member| match &it.listeners {
            Some(listeners) => listeners.values().flat_map(forwards_to).any(|used| used == arn),
            None => true,
        };
        bound.any(|it| it.group_arn.as_deref() == Some(arn)) && !self.assets.balancers.values().any(uses)
    }

    /// How well these actions answer requests, as far as groups do that stay.
    pub fn answer(&self, actions: &[RuleAction], stays: impl Fn(&GroupMember) -> bool) -> Fitness {
        let is_there = |arn: &String| self.assets.groups.get(arn).is_none_or(&stays);
        match actions.last() {
            Some(RuleAction::Forward { .. }) => {
                let groups = receivers(actions).into_iter().filter(is_there);
                groups.map(|arn| self.present_fitness(&arn)).max().unwrap_or(Fitness::Empty)
            }
            Some(_) if actions != nothing_here() => Fitness::Healthy,
            _ => Fitness::Empty,
        }
    }

    /// The groups that are to get requests, get none now, and would answer them worse than `before`.
    pub fn worse(&self, wanted: &[RuleAction], present: &[RuleAction], before: Fitness) -> BTreeSet<String> {
        let known = receivers(present);
        receivers(wanted)
            .into_iter()
            .filter(|arn| !known.contains(arn) && self.expected_fitness(arn) < before)
            .collect()
    }

    /// Reports whether AWS lets clients wander among groups of which this is one only if they stay with their group.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html>
    fn is_sticky(&self, arn: &str) -> bool {
        let attributes = self.assets.groups.get(arn).and_then(|member| member.attributes.as_ref());
        attributes.and_then(|it| it.get("stickiness.enabled")).is_some_and(|it| it == "true")
    }

    fn stickiness(&self, groups: &BTreeMap<String, u16>, chosen: Option<u32>) -> Option<u32> {
        let needed = groups.len() > 1 && groups.keys().any(|arn| self.is_sticky(arn));
        chosen.or_else(|| needed.then_some(SHORTEST_STICKINESS))
    }

    /// The actions with as many of these groups added, with weight 0, as there is room for; `None` if none is added.
    pub fn with_unused(&self, actions: &[RuleAction], groups: &BTreeSet<String>) -> Option<Vec<RuleAction>> {
        if !can_be_sent(actions) {
            return None;
        }
        let (RuleAction::Forward { groups: present, stickiness }, first) = actions.split_last()? else { return None };
        let room = MOST_GROUPS.saturating_sub(present.len());
        let new = groups.iter().filter(|arn| !present.contains_key(*arn)).take(room).map(|arn| (arn.clone(), 0));
        let all: BTreeMap<String, u16> = new.chain(present.clone()).collect();
        let stickiness = self.stickiness(&all, *stickiness);
        let forward = RuleAction::Forward { groups: all.clone(), stickiness };
        (all != *present).then(|| first.iter().cloned().chain([forward]).collect())
    }

    /// Returns the actions until requests may go to the wanted groups: they go where they went. The wanted groups are
    /// added with weight 0 where that is possible, and the wanted checks come before requests are forwarded. Where a
    /// log-in goes or changes, all stays as it is: the present groups would serve clients that they are protected from.
    pub fn hold(&self, wanted: &[RuleAction], present: &[RuleAction]) -> Vec<RuleAction> {
        self.merged(wanted, present).unwrap_or_else(|| present.to_vec())
    }

    fn merged(&self, wanted: &[RuleAction], present: &[RuleAction]) -> Option<Vec<RuleAction>> {
        let serving = present.iter().find_map(|action| match action {
            RuleAction::Forward { groups, .. } => Some(groups),
            _ => None,
        })?;
        if unprotects(wanted, present) {
            return None;
        }
        let mut groups = serving.clone();
        groups.retain(|_, weight| *weight > 0);
        for arn in wanted.iter().flat_map(RuleAction::forwarded_to) {
            groups.entry(arn.clone()).or_insert(0);
        }
        if groups.len() > MOST_GROUPS {
            return None;
        }
        // Clients stay with their group as soon as they are to. Target stickiness needs that first, and ends first.
        let chosen = group_stickiness(wanted).or_else(|| group_stickiness(present));
        let stickiness = self.stickiness(&groups, chosen);
        let others = wanted.iter().filter(|action| !matches!(action, RuleAction::Forward { .. })).cloned();
        Some(others.chain([RuleAction::Forward { groups, stickiness }]).collect())
    }

    /// Reports whether the held actions take the wanted groups along.
    pub fn takes_along(&self, wanted: &[RuleAction], present: &[RuleAction]) -> bool {
        self.merged(wanted, present).is_some()
    }
}

fn fitness(summary: &Summary) -> Fitness {
    match (summary.healthy, summary.registered) {
        (0, 0) => Fitness::Empty,
        (0, _) => Fitness::Registered,
        _ => Fitness::Healthy,
    }
}

/// The groups that get requests.
pub fn receivers(actions: &[RuleAction]) -> BTreeSet<String> {
    actions.iter().flat_map(weights).filter(|(_, weight)| **weight > 0).map(|(arn, _)| arn.clone()).collect()
}

/// The groups that get none, and whose targets AWS checks nevertheless.
pub fn unused(actions: &[RuleAction]) -> BTreeSet<String> {
    actions.iter().flat_map(weights).filter(|(_, weight)| **weight == 0).map(|(arn, _)| arn.clone()).collect()
}

/// Reports whether AWS returned all of these actions: it never returns a client secret.
fn can_be_sent(actions: &[RuleAction]) -> bool {
    !actions.iter().any(|action| matches!(action, RuleAction::AuthenticateOidc(oidc) if oidc.client_secret.is_none()))
}

/// Returns the number of further groups that these actions can forward to.
pub fn room(actions: &[RuleAction]) -> usize {
    match actions.last() {
        Some(RuleAction::Forward { groups, .. }) if can_be_sent(actions) => MOST_GROUPS.saturating_sub(groups.len()),
        _ => 0,
    }
}

/// Reports whether the wanted actions lack a log-in or another check of the present ones, or have it with other
/// settings.
fn unprotects(wanted: &[RuleAction], present: &[RuleAction]) -> bool {
    let kept: Vec<RuleAction> = checks(wanted).collect();
    checks(present).any(|check| !kept.contains(&check))
}

/// The actions on a request before it is forwarded.
fn checks(actions: &[RuleAction]) -> impl Iterator<Item = RuleAction> {
    actions.iter().filter(|action| !matches!(action, RuleAction::Forward { .. })).map(without_secret)
}

/// Reports whether these actions are the same, as far as AWS shows them.
pub fn are_same(wanted: &[RuleAction], present: &[RuleAction]) -> bool {
    wanted.iter().map(without_secret).eq(present.iter().map(without_secret))
}

/// The action as AWS returns it: without a client secret.
fn without_secret(action: &RuleAction) -> RuleAction {
    match action {
        RuleAction::AuthenticateOidc(oidc) => {
            RuleAction::AuthenticateOidc(Box::new(Oidc { client_secret: None, ..oidc.as_ref().clone() }))
        }
        other => other.clone(),
    }
}

/// For how many seconds clients stay with the group of their first request; `None` if they do not.
fn group_stickiness(actions: &[RuleAction]) -> Option<u32> {
    actions.iter().find_map(|action| match action {
        RuleAction::Forward { stickiness, .. } => *stickiness,
        _ => None,
    })
}

fn weights(action: &RuleAction) -> impl Iterator<Item = (&String, &u16)> {
    let groups = match action {
        RuleAction::Forward { groups, .. } => Some(groups),
        _ => None,
    };
    groups.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::elbv2::{FixedResponse, Session, TargetGroup, Unauthenticated};

    fn log_in(client_id: &str, client_secret: Option<&str>) -> RuleAction {
        let session = Session {
            cookie: "session".into(),
            scope: "openid".into(),
            timeout_seconds: 60,
            unauthenticated: Unauthenticated::Authenticate,
            parameters: BTreeMap::new(),
        };
        let endpoint = || "https://i.example.com".to_owned();
        RuleAction::AuthenticateOidc(Box::new(Oidc {
            issuer: endpoint(),
            authorization_endpoint: endpoint(),
            token_endpoint: endpoint(),
            user_info_endpoint: endpoint(),
            client_id: client_id.into(),
            client_secret: client_secret.map(str::to_owned),
            session,
        }))
    }

    fn forward(groups: &[(&str, u16)]) -> Vec<RuleAction> {
        let groups = groups.iter().map(|(arn, weight)| ((*arn).to_owned(), *weight)).collect();
        vec![RuleAction::Forward { groups, stickiness: None }]
    }

    fn summaries(groups: &[(&str, usize, usize)]) -> BTreeMap<String, Summary> {
        let summary = |healthy, total| Summary { healthy, registered: total, total, known: true, ..Summary::default() };
        groups.iter().map(|(arn, healthy, total)| ((*arn).to_owned(), summary(*healthy, *total))).collect()
    }

    fn assets(sticky: &[&str]) -> Assets {
        let member = |arn: &str| {
            let group = TargetGroup {
                arn: arn.into(),
                name: arn.into(),
                kind: None,
                health_check: None,
                balancers: BTreeSet::new(),
            };
            let enabled = sticky.contains(&arn).to_string();
            let attributes = Some([("stickiness.enabled".to_owned(), enabled)].into());
            (arn.to_owned(), GroupMember { group, tags: BTreeMap::new(), attributes, fresh: false })
        };
        let groups = ["a", "b", "c", "d", "new", "new-0", "new-1", "old"].into_iter().map(member).collect();
        Assets { groups, ..Assets::default() }
    }

    /// The groups that requests wait for, with these numbers of healthy and registered targets.
    fn worse(wanted: &[RuleAction], present: &[RuleAction], groups: &[(&str, usize, usize)]) -> Vec<String> {
        let (assets, summaries) = (assets(&[]), summaries(groups));
        let groups = Groups { assets: &assets, summaries: &summaries, bound: &[] };
        groups.worse(wanted, present, groups.answer(present, |_| true)).into_iter().collect()
    }

    fn hold(wanted: &[RuleAction], present: &[RuleAction]) -> Vec<RuleAction> {
        Groups { assets: &assets(&[]), summaries: &BTreeMap::new(), bound: &[] }.hold(wanted, present)
    }

    #[test]
    fn requests_wait_for_a_group_that_would_answer_them_worse() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        let page = vec![RuleAction::FixedResponse(FixedResponse { status: 200, content_type: None, body: None })];
        for (present, groups, waits) in [
            (&old, &[("old", 2, 2), ("new", 0, 2)][..], true),
            (&old, &[("old", 2, 2), ("new", 0, 0)], true),
            (&old, &[("old", 2, 2)], true),
            (&old, &[("old", 2, 2), ("new", 1, 2)], false),
            // AWS sends requests to targets that fail if no others are there.
            (&old, &[("old", 0, 2), ("new", 0, 2)], false),
            (&old, &[("old", 0, 2), ("new", 0, 0)], true),
            (&old, &[("old", 0, 0), ("new", 0, 0)], false),
            // It is not known whether the old one serves.
            (&old, &[("new", 0, 2)], true),
            (&forward(&[("old", 9), ("new", 1)]), &[("old", 1, 1), ("new", 0, 1)], false),
            (&forward(&[("old", 1), ("new", 0)]), &[("old", 1, 1), ("new", 0, 1)], true),
            (&page, &[("new", 0, 0)], true),
            (&nothing_here(), &[("new", 0, 0)], false),
        ] {
            assert_eq!(!worse(&new, present, groups).is_empty(), waits, "{present:?} {groups:?}");
        }
        let mut restarting = summaries(&[("old", 0, 0), ("new", 0, 2)]);
        restarting.get_mut("old").unwrap().served_lately = true;
        let none = assets(&[]);
        let groups = Groups { assets: &none, summaries: &restarting, bound: &[] };
        let waits = groups.worse(&new, &old, groups.answer(&old, |_| true));
        assert_eq!(waits, ["new".to_owned()].into(), "pods of the old one restart");
        let elsewhere = forward(&[("arn:of:another", 1)]);
        assert!(worse(&elsewhere, &old, &[("old", 1, 1)]).is_empty(), "nothing is known of it");
        let mut unread = summaries(&[("old", 0, 2)]);
        for summary in unread.values_mut() {
            summary.known = false;
        }
        let (assets, groups) = (assets(&[]), unread);
        let groups = Groups { assets: &assets, summaries: &groups, bound: &[] };
        assert_eq!(groups.answer(&old, |_| true), Fitness::Healthy);
        assert_eq!(groups.answer(&old, |_| false), Fitness::Empty, "its member leaves");
    }

    #[test]
    fn a_new_group_is_checked_before_it_gets_requests() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        let between = forward(&[("new", 0), ("old", 1)]);
        assert_eq!((hold(&new, &old), hold(&new, &between)), (between.clone(), between));
        assert_eq!(hold(&forward(&[("a", 1)]), &forward(&[("new", 0), ("old", 1)])), forward(&[("a", 0), ("old", 1)]));
        let five = forward(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("old", 1)]);
        assert_eq!(hold(&new, &five), five, "there is no room");
    }

    #[test]
    fn nothing_opens_a_group_that_a_log_in_protects() {
        let after = |log_in: Option<RuleAction>, groups: &[(&str, u16)]| -> Vec<RuleAction> {
            log_in.into_iter().chain(forward(groups)).collect()
        };
        let present = after(Some(log_in("staff", None)), &[("old", 1)]);
        for log_in in [None, Some(log_in("all", Some("secret")))] {
            assert_eq!(hold(&after(log_in, &[("new", 1)]), &present), present);
        }
        let same = || Some(log_in("staff", Some("another secret")));
        let between = after(same(), &[("new", 0), ("old", 1)]);
        assert_eq!(hold(&after(same(), &[("new", 1)]), &present), between);
        assert_eq!(hold(&after(same(), &[("new", 1)]), &forward(&[("old", 1)])), between);
    }

    #[test]
    fn clients_stay_with_their_group_in_every_step() {
        let sticky = |groups: &[(&str, u16)], seconds| {
            let groups = groups.iter().map(|(arn, weight)| ((*arn).to_owned(), *weight)).collect();
            vec![RuleAction::Forward { groups, stickiness: seconds }]
        };
        for (wanted, present, between) in
            [(Some(60), None, Some(60)), (Some(60), Some(30), Some(60)), (None, Some(30), Some(30)), (None, None, None)]
        {
            let step = hold(&sticky(&[("new", 1)], wanted), &sticky(&[("old", 1)], present));
            assert_eq!(step, sticky(&[("new", 0), ("old", 1)], between));
        }
        // AWS refuses a second group beside one with sticky targets otherwise.
        let groups = Groups { assets: &assets(&["old"]), summaries: &BTreeMap::new(), bound: &[] };
        let step = groups.hold(&forward(&[("new", 1)]), &forward(&[("old", 1)]));
        assert_eq!(step, sticky(&[("new", 0), ("old", 1)], Some(SHORTEST_STICKINESS)));
    }

    #[test]
    fn groups_are_added_where_there_is_room() {
        let new = |count| (0..count).map(|number| format!("new-{number}")).collect::<BTreeSet<String>>();
        let with_unused = |actions: &[RuleAction], groups: &BTreeSet<String>| {
            Groups { assets: &assets(&[]), summaries: &BTreeMap::new(), bound: &[] }.with_unused(actions, groups)
        };
        let four = forward(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        let five = forward(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("new-0", 0)]);
        assert_eq!(with_unused(&four, &new(2)), Some(five.clone()));
        assert_eq!((room(&four), room(&five), room(&[])), (1, 0, 0));
        assert_eq!(with_unused(&five, &new(2)), None);
        assert_eq!(with_unused(&forward(&[("a", 1), ("new-0", 2)]), &new(1)), None, "it is there");
        assert_eq!(with_unused(&[], &new(1)), None);
        let protected: Vec<RuleAction> = [log_in("staff", None)].into_iter().chain(four).collect();
        assert_eq!((with_unused(&protected, &new(1)), room(&protected)), (None, 0), "AWS does not tell the secret");
    }
}
