//! Carries out what was decided.

use causeway_api::MyIngress;

use super::MyIngressKind;
use super::action::{Action, Disturbed};
use super::error::Error;
use super::ownership::Owner;
use crate::observe::facts::key_of;
use crate::refusals::blame::refused_part;

/// Has the health of targets read again soon after a change that may decide about it.
fn disturb(kind: &MyIngressKind, owner: &Owner, action: &Action) {
    let disturbed = action.disturbs();
    if disturbed == Disturbed::Nothing {
        return;
    }
    for (arn, member) in &kind.region.owned_by(owner).groups {
        let check = match disturbed {
            Disturbed::All => None,
            Disturbed::Group(group, check) if group == arn => check,
            Disturbed::Group(..) | Disturbed::Nothing => continue,
        };
        if let Some(check) = check.or(member.group.health_check.as_ref()) {
            kind.targets.disturbed(arn, check);
        }
    }
}

/// Carries out `action` for an owner, as `object` wants it.
pub async fn apply(kind: &MyIngressKind, owner: &Owner, object: &MyIngress, action: &Action) -> Result<(), Error> {
    if let Action::Bind(bindings) = action {
        kind.bind(bindings, &key_of(owner));
        return Ok(());
    }
    let outcome = kind.region.change(owner, action).await;
    // After a lost answer the change may be made, and is not made again.
    if outcome.as_ref().err().is_none_or(|error| error.ambiguous) {
        disturb(kind, owner, action);
    }
    let Err(error) = outcome else { return Ok(()) };
    let action = &refused_part(action, &kind.region.owned_by(owner));
    // The error names a field of the member whose part the action makes. That may be another member than `object`,
    // which acts for the whole group.
    let member = kind.blamed(object, owner, action, &error.message);
    Err(Error::of_action(error, action, owner, member.as_deref().unwrap_or(object)))
}
