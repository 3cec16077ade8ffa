//! Members that cannot take part now, and what of theirs stays as it is.

use std::collections::BTreeSet;

use causeway_aws::elbv2::Pairs;

use crate::members::key;
use crate::model::Model;
use crate::observe::facts::Observed;
use crate::ownership::{ObjectKey, member_of};

/// Members whose rules and target groups stay as they are: a mistake in a spec must not remove what the spec had made.
///
/// A member that is no longer allowed to join keeps nothing. If AWS's limits leave no room for both, what guests had
/// gives way to what the others want, starting with the last guest. What guests have whose namespace cannot be listed
/// does not even give way: no user there did anything.
pub fn frozen(observed: &Observed, model: &Model) -> BTreeSet<ObjectKey> {
    let members = &observed.members;
    let suspended: BTreeSet<ObjectKey> = members.suspended().collect();
    let unable = |member: &ObjectKey| {
        members.refused.contains_key(member)
            || observed.built.complaints.contains_key(member)
            || suspended.contains(member)
    };
    let present = members.present.iter().map(|object| key(object));
    let present = present.filter(|member| unable(member) && !members.strangers.contains(member));
    let mut frozen: Vec<ObjectKey> = unseen(observed).into_iter().chain(present).collect();
    while !fits(observed, model, &frozen) {
        let gives_way = |member: &ObjectKey| members.is_guest(member) && !members.may_be_unseen(member);
        let Some(last) = frozen.iter().rposition(gives_way) else { break };
        frozen.remove(last);
    }
    frozen.into_iter().collect()
}

/// The guests that have rules or target groups and that may be there, although the operator cannot see them.
fn unseen(observed: &Observed) -> BTreeSet<ObjectKey> {
    if observed.members.unlisted.is_empty() {
        return BTreeSet::new();
    }
    let groups = observed.assets.groups.values().map(|member| &member.tags);
    let listeners = observed.assets.balancers.values().flat_map(|member| &member.listeners).flat_map(|it| it.values());
    let rules = listeners.flat_map(|listener| listener.rules.values()).map(|rule| &rule.tags);
    let owned = groups.chain(rules).filter(|tags| observed.owner.owns(tags));
    owned.filter_map(member_of).filter(|member| observed.members.may_be_unseen(member)).collect()
}

/// Reports whether AWS's limits allow what is wanted together with what these members had.
fn fits(observed: &Observed, model: &Model, frozen: &[ObjectKey]) -> bool {
    let theirs = |tags: &Pairs| observed.owner.owns(tags) && member_of(tags).is_some_and(|it| frozen.contains(&it));
    let wanted: usize = model.listeners.values().map(|listener| listener.rules.len()).sum();
    let rules = observed.assets.balancers.values().map(|member| {
        let listeners = member.listeners.iter().flat_map(|listeners| listeners.values());
        listeners.flat_map(|listener| listener.rules.values()).filter(|rule| theirs(&rule.tags)).count()
    });
    let groups = observed.assets.groups.values();
    let groups = groups.filter(|it| theirs(&it.tags) && !model.groups.contains_key(&it.group.name)).count();
    wanted + rules.max().unwrap_or(0) <= observed.limits.rules && model.groups.len() + groups <= observed.limits.groups
}
