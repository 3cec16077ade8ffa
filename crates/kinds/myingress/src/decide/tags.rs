//! Tags that no member wants any more. Only two kinds are removed: keys that the spec once set according to the record
//! in the status, and our own fingerprint of a client secret. All others belong to other clients.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::ManagedKeys;
use causeway_aws::elbv2::{Pairs, RuleAction};

use super::Scene;
use super::secrets::secret_tag;
use crate::action::ListenerAction;
use crate::observe::facts::Observed;
use crate::region::assets::Member;

/// One call removes tags from at most this many resources.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RemoveTags.html>
const MOST_ARNS: usize = 20;

/// Keys that a spec of any member once set; guests set none.
pub fn once_set(observed: &Observed) -> BTreeSet<String> {
    observed.members.recorded().tags.into_iter().collect()
}

/// Keys that were set by a spec and are not wanted. What a member has in its spec that cannot take part now stays.
pub fn stale(scene: &Scene, wanted: &Pairs, present: &Pairs) -> BTreeSet<String> {
    let stale = scene.once_set.iter().filter(|key| present.contains_key(*key) && !wanted.contains_key(*key));
    let stays = |key: &String| scene.frozen_at_home().any(|object| object.spec.tags.contains_key(key));
    stale.filter(|key| !stays(key)).cloned().collect()
}

/// The same for a listener or rule with these actions. The fingerprint of a client secret goes together with the
/// log-in.
pub fn stale_with_secret(
    scene: &Scene,
    wanted: &Pairs,
    present: &Pairs,
    actions: Option<&[RuleAction]>,
) -> BTreeSet<String> {
    let logs_in = |actions: &[RuleAction]| actions.iter().any(|it| matches!(it, RuleAction::AuthenticateOidc(_)));
    let (secret, _) = secret_tag(String::new());
    let mut stale = stale(scene, wanted, present);
    // While the actions are unknown, the fingerprint may still be needed and stays.
    if present.contains_key(&secret) && actions.is_some_and(|actions| !logs_in(actions)) {
        stale.insert(secret);
    }
    stale
}

/// The calls that remove keys from listeners and rules.
pub fn removals(balancer: &str, stale: BTreeMap<String, BTreeSet<String>>) -> Vec<ListenerAction> {
    let mut alike: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (arn, keys) in stale.into_iter().filter(|(_, keys)| !keys.is_empty()) {
        alike.entry(keys).or_default().push(arn);
    }
    let calls = alike.iter().flat_map(|(keys, arns)| arns.chunks(MOST_ARNS).map(move |arns| (keys, arns)));
    let call = |(keys, arns): (&BTreeSet<String>, &[String])| ListenerAction::RemoveTags {
        balancer: balancer.to_owned(),
        arns: arns.iter().cloned().collect(),
        keys: keys.clone(),
    };
    calls.map(call).collect()
}

/// Keeps the record of keys that some part still carries: parts of members that cannot take part now keep their tags.
pub fn remember(scene: &Scene, current: &Member, managed: Option<ManagedKeys>) -> Option<ManagedKeys> {
    let carried = |key: &&String| {
        let assets = &scene.observed.assets;
        let owns = |tags: &&Pairs| scene.observed.owner.owns(tags);
        let listeners = current.listeners.iter().flat_map(BTreeMap::values);
        let on_it = listeners.flat_map(|it| it.rules.values().map(|rule| &rule.tags).chain([&it.tags])).filter(owns);
        let groups = assets.groups.values().map(|it| &it.tags);
        let security = assets.security_groups.values().map(|it| &it.tags);
        on_it.chain(groups).chain(security).chain([&current.tags]).any(|tags| tags.contains_key(*key))
    };
    let kept: BTreeSet<String> = scene.once_set.iter().filter(carried).cloned().collect();
    if kept.is_empty() {
        return managed;
    }
    let mut managed = managed.unwrap_or_default();
    managed.tags = kept.into_iter().chain(managed.tags).collect::<BTreeSet<String>>().into_iter().collect();
    Some(managed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_is_for_twenty_things_with_the_same_keys() {
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<String>>();
        let mut stale: BTreeMap<String, BTreeSet<String>> =
            (0..45).map(|number| (format!("rule-{number:02}"), keys(&["team"]))).collect();
        stale.insert("listener".into(), keys(&["team", "cost"]));
        stale.insert("clean".into(), keys(&[]));
        let calls = removals("web", stale).into_iter().map(|action| match action {
            ListenerAction::RemoveTags { arns, keys, .. } => (arns.len(), keys.len()),
            other => panic!("{other:?}"),
        });
        assert_eq!(calls.collect::<Vec<_>>(), [(1, 2), (20, 1), (20, 1), (5, 1)]);
    }
}
