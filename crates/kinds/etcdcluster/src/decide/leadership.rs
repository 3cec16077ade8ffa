//! Leadership moves before the leader is disturbed.

use super::super::action::Action;
use super::super::names;
use super::{Step, View};

/// Hands leadership to a healthy member that `fits`.
pub fn hand_over(view: &View<'_>, from: i32, fits: impl Fn(i32) -> bool) -> Option<Step> {
    let to = view.voters().find(|voter| *voter != from && view.is_healthy(*voter) && fits(*voter))?;
    let action = Action::MoveLeader {
        from: names::pod(view.object, from),
        to: names::pod(view.object, to),
        id: view.members.get(&to)?.id,
        via: view.observed.endpoint(from)?,
    };
    Some(Step::act(vec![action], "MovingLeader", "moving leadership before the leader is disturbed"))
}
