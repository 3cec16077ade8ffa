//! Members that another client added: they vote, and Causeway can neither ask nor start them.

use causeway_databases::etcd::Member;

use super::super::action::Action;
use super::super::membership::{describe, never_started};
use super::{CORRECTION_INTERVAL, Step, View, majority};

/// The reason while the cluster has strangers.
pub const UNKNOWN: &str = "UnknownMembers";

/// Removes a stranger. One that has never started has no data and has acknowledged nothing, but its vote counts: the
/// cluster survives one failure less, so it goes at once. One that has started may be part of a user's plan: it goes when the
/// spec asks for that.
pub fn step(view: &View<'_>) -> Option<Step> {
    let asked = view.object.spec.remove_unknown_members;
    let goes = |member: &&Member| (asked || never_started(member)) && can_go(view, member);
    let member = view.strangers().find(goes)?;
    let (name, why) = (describe(member), why(member));
    let action = Action::Remove { name: name.clone(), id: member.id, why: why.into(), via: view.via()? };
    Some(Step::act(vec![action], "MemberRemoving", format!("removing {name}: {why}")))
}

/// Reports whether a majority of the others is healthy.
fn can_go(view: &View<'_>, member: &Member) -> bool {
    let healthy = view.voters().filter(|voter| view.is_healthy(*voter)).count();
    member.is_learner || healthy >= majority(view.votes() - 1)
}

fn why(member: &Member) -> &'static str {
    if never_started(member) {
        "it was not added by Causeway, and has never started"
    } else {
        "it was not added by Causeway, and spec.removeUnknownMembers asks for that"
    }
}

/// Reports the strangers that are left.
pub fn trouble(view: &View<'_>) -> Option<Step> {
    let names: Vec<String> = view.strangers().map(describe).collect();
    if names.is_empty() {
        return None;
    }
    let (all, votes) = (names.join(", "), view.votes());
    let fix = if view.object.spec.remove_unknown_members {
        "waiting until a majority is healthy without them"
    } else {
        "if they are not needed, set spec.removeUnknownMembers to true"
    };
    let message = format!(
        "the cluster has members that Causeway did not add, cannot ask and counts as failed: {all}. {votes} vote, {} must \
         agree: {fix}",
        majority(votes)
    );
    Some(Step { again: CORRECTION_INTERVAL, ..Step::stalled(UNKNOWN, message) })
}
