//! Sends requests to a new target group only once it can take them.
//!
//! AWS checks only targets of groups that a listener uses. So a new group is first added to an existing action with
//! weight 0, which sends it no request. Until AWS has judged its targets, all rules of the listener stay as they are:
//! if one rule waited while others changed, some requests would match neither the old rules nor the new ones. This
//! takes a few health checks. If they fail, existing rules keep their former groups until the checks pass, and
//! everything else goes on.

use std::collections::{BTreeMap, BTreeSet};

use crate::controllers::myingress::targets::Summary;
use crate::external::elbv2::{Oidc, RuleAction};

/// An action forwards to at most this many target groups.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html>
const MOST_GROUPS: usize = 5;

/// The target groups that requests are to go to once AWS has judged their targets. Where nothing serves yet, it is
/// enough that AWS knows the targets.
pub fn awaited(
    wanted: &[RuleAction],
    present: &[RuleAction],
    summaries: &BTreeMap<String, Summary>,
) -> BTreeSet<String> {
    let sent = |actions: &[RuleAction]| -> BTreeSet<String> {
        actions.iter().flat_map(weights).filter(|(_, weight)| **weight > 0).map(|(arn, _)| arn.clone()).collect()
    };
    let serving = sent(present);
    // If no target is healthy, AWS sends requests to all that are registered. So registration is worth waiting for in
    // any case.
    let serves = serving.iter().any(|arn| may_serve(summaries.get(arn)));
    let good = |summary: &Summary| if serves { summary.healthy > 0 } else { summary.registered > 0 };
    let unjudged = |summary: &Summary| summary.total > 0 && !good(summary) && summary.trouble.is_none();
    sent(wanted).difference(&serving).filter(|arn| summaries.get(*arn).is_some_and(unjudged)).cloned().collect()
}

/// The actions with as many of these groups added, with weight 0, as there is room for; `None` if none is added.
pub fn with_unused(present: &[RuleAction], groups: &BTreeSet<String>) -> Option<Vec<RuleAction>> {
    // Other actions cannot be sent again, because AWS does not return all of them: a client secret is missing.
    let [RuleAction::Forward { groups: present, stickiness }] = present else { return None };
    let room = MOST_GROUPS.saturating_sub(present.len());
    let added = groups.iter().take(room).map(|arn| (arn.clone(), 0));
    let all: BTreeMap<String, u16> = added.chain(present.clone()).collect();
    (all != *present).then(|| vec![RuleAction::Forward { groups: all, stickiness: *stickiness }])
}

fn may_serve(summary: Option<&Summary>) -> bool {
    summary.is_none_or(|summary| summary.healthy > 0 || !summary.known)
}

/// The wanted actions, or a step towards them, and whether it is a step. It is a step while a new group has targets but
/// no healthy one, and the groups that requests go to may have some. The step adds the new groups with weight 0: AWS
/// checks their targets and sends them no request. There is no step where a log-in goes or changes: the present groups
/// would serve clients that they are protected from.
pub fn step(
    wanted: Vec<RuleAction>,
    present: &[RuleAction],
    summaries: &BTreeMap<String, Summary>,
) -> (Vec<RuleAction>, bool) {
    let serving: Vec<(&String, &u16)> = present.iter().flat_map(weights).collect();
    let unready = |arn: &&String| summaries.get(*arn).is_some_and(|summary| summary.total > 0 && summary.healthy == 0);
    let known = |arn: &String| serving.iter().any(|(serving, weight)| *serving == arn && **weight > 0);
    let newcomers: Vec<&String> = wanted.iter().flat_map(RuleAction::forwarded_to).filter(|arn| !known(arn)).collect();
    let waits = newcomers.iter().any(unready)
        && serving.iter().any(|(arn, weight)| **weight > 0 && may_serve(summaries.get(*arn)))
        && wanted.iter().flat_map(weights).any(|(arn, weight)| *weight > 0 && unready(&arn) && !known(arn));
    if !waits || unprotects(&wanted, present) {
        return (wanted, false);
    }
    let mut groups: BTreeMap<String, u16> = serving.iter().map(|(arn, weight)| ((*arn).clone(), **weight)).collect();
    for arn in newcomers {
        groups.entry(arn.clone()).or_insert(0);
    }
    if groups.len() > MOST_GROUPS {
        return (wanted, false);
    }
    // Clients stay with their group as soon as they are to. Target stickiness needs that first, and ends first.
    let stickiness = group_stickiness(&wanted).or_else(|| group_stickiness(present));
    let others = wanted.into_iter().filter(|action| !matches!(action, RuleAction::Forward { .. }));
    (others.chain([RuleAction::Forward { groups, stickiness }]).collect(), true)
}

/// Whether the wanted actions lack a log-in or another check of the present ones, or have it with other settings.
fn unprotects(wanted: &[RuleAction], present: &[RuleAction]) -> bool {
    let kept: Vec<RuleAction> = checks(wanted).collect();
    checks(present).any(|check| !kept.contains(&check))
}

/// What happens to a request before it is forwarded.
fn checks(actions: &[RuleAction]) -> impl Iterator<Item = RuleAction> {
    actions.iter().filter(|action| !matches!(action, RuleAction::Forward { .. })).map(without_secret)
}

/// Whether these actions are the same, as far as AWS shows them.
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
    use crate::external::elbv2::{Session, Unauthenticated};

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

    #[test]
    fn a_new_group_is_checked_before_it_gets_requests() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        let unchecked = summaries(&[("old", 2, 2), ("new", 0, 2)]);
        let between = forward(&[("new", 0), ("old", 1)]);
        assert_eq!(step(new.clone(), &old, &unchecked), (between.clone(), true));
        assert_eq!(step(new.clone(), &between, &unchecked), (between.clone(), true));
        let healthy = summaries(&[("old", 2, 2), ("new", 1, 2)]);
        assert_eq!(step(new.clone(), &between, &healthy), (new, false));
    }

    #[test]
    fn no_step_opens_a_group_that_a_log_in_protects() {
        let unchecked = summaries(&[("old", 2, 2), ("new", 0, 2)]);
        let after = |log_in: Option<RuleAction>, groups: &[(&str, u16)]| -> Vec<RuleAction> {
            log_in.into_iter().chain(forward(groups)).collect()
        };
        let present = after(Some(log_in("staff", None)), &[("old", 1)]);
        for log_in in [None, Some(log_in("everybody", Some("secret")))] {
            let wanted = after(log_in, &[("new", 1)]);
            assert_eq!(step(wanted.clone(), &present, &unchecked), (wanted, false));
        }
        let same = || Some(log_in("staff", Some("another secret")));
        let between = after(same(), &[("new", 0), ("old", 1)]);
        assert_eq!(step(after(same(), &[("new", 1)]), &present, &unchecked), (between.clone(), true));
        assert_eq!(step(after(same(), &[("new", 1)]), &forward(&[("old", 1)]), &unchecked), (between, true));
    }

    #[test]
    fn clients_stay_with_their_group_from_the_first_step_on_to_the_last() {
        let sticky = |groups: &[(&str, u16)], seconds| {
            let groups = groups.iter().map(|(arn, weight)| ((*arn).to_owned(), *weight)).collect();
            vec![RuleAction::Forward { groups, stickiness: seconds }]
        };
        let unchecked = summaries(&[("old", 2, 2), ("new", 0, 2)]);
        for (wanted, present, between) in
            [(Some(60), None, Some(60)), (Some(60), Some(30), Some(60)), (None, Some(30), Some(30)), (None, None, None)]
        {
            let (step, waits) = step(sticky(&[("new", 1)], wanted), &sticky(&[("old", 1)], present), &unchecked);
            assert_eq!((step, waits), (sticky(&[("new", 0), ("old", 1)], between), true));
        }
    }

    #[test]
    fn nobody_waits_for_what_cannot_become_better() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        for groups in [&[("old", 0, 2), ("new", 0, 2)], &[("old", 2, 2), ("new", 0, 0)]] {
            assert_eq!(step(new.clone(), &old, &summaries(groups)), (new.clone(), false));
        }
    }

    #[test]
    fn what_is_not_known_to_fail_goes_on_serving() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        let between = forward(&[("new", 0), ("old", 1)]);
        let unbound = summaries(&[("new", 0, 2)]);
        assert_eq!(step(new.clone(), &old, &unbound), (between.clone(), true));
        let mut unread = summaries(&[("old", 0, 2), ("new", 0, 2)]);
        for summary in unread.values_mut() {
            summary.known = false;
        }
        assert_eq!(step(new, &old, &unread), (between, true));
    }

    #[test]
    fn a_new_group_is_awaited_until_aws_has_judged_its_targets() {
        let (old, new) = (forward(&[("old", 1)]), forward(&[("new", 1)]));
        let awaited_of =
            |groups: &BTreeMap<String, Summary>| awaited(&new, &old, groups).into_iter().collect::<Vec<_>>();
        let mut groups = summaries(&[("old", 1, 1), ("new", 0, 1)]);
        assert_eq!(awaited_of(&groups), ["new"]);
        for summary in groups.values_mut() {
            summary.trouble = Some("it fails its checks".into());
        }
        assert!(awaited_of(&groups).is_empty(), "it is judged");
        for groups in
            [&[("old", 1, 1), ("new", 1, 1)], &[("old", 1, 1), ("new", 0, 0)], &[("old", 0, 1), ("new", 0, 1)]]
        {
            assert!(awaited_of(&summaries(groups)).is_empty());
        }
        let mut nobody_serves = summaries(&[("old", 0, 1), ("new", 0, 1)]);
        nobody_serves.get_mut("new").unwrap().registered = 0;
        assert_eq!(awaited_of(&nobody_serves), ["new"], "AWS knows none of its targets");
        let known = forward(&[("old", 9), ("new", 1)]);
        assert!(
            awaited(&new, &known, &summaries(&[("old", 1, 1), ("new", 0, 1)])).is_empty(),
            "it gets requests already"
        );
    }

    #[test]
    fn groups_are_added_where_there_is_room() {
        let new = |count| (0..count).map(|number| format!("new-{number}")).collect::<BTreeSet<String>>();
        let four = forward(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        let five = forward(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("new-0", 0)]);
        assert_eq!(with_unused(&four, &new(2)), Some(five.clone()));
        assert_eq!(with_unused(&five, &new(2)), None);
        assert_eq!(with_unused(&forward(&[("a", 1), ("new-0", 2)]), &new(1)), None, "it is there");
        assert_eq!(with_unused(&[], &new(1)), None);
    }

    #[test]
    fn other_weights_of_the_same_groups_are_set_at_once() {
        let (old, new) = (forward(&[("a", 9), ("b", 1)]), forward(&[("a", 1), ("b", 9)]));
        assert_eq!(step(new.clone(), &old, &summaries(&[("a", 1, 1), ("b", 0, 1)])), (new, false));
    }
}
