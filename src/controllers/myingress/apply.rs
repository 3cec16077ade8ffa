//! Carries out what was decided.

use super::MyIngressKind;
use super::action::Action;
use super::blame::refused_part;
use super::error::Error;
use super::facts::key_of;
use super::ownership::Owner;
use crate::api::MyIngress;

/// Carries out `action` for an owner, as `object` wants it.
pub async fn apply(kind: &MyIngressKind, owner: &Owner, object: &MyIngress, action: &Action) -> Result<(), Error> {
    if let Action::Bind(bindings) = action {
        kind.bind(bindings, &key_of(owner));
        return Ok(());
    }
    let error = match kind.region.change(owner, action).await {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let action = &refused_part(action, &kind.region.owned_by(owner));
    // The error names a field of the member whose part the action makes. That may be another member than `object`,
    // which acts for the whole group.
    let member = kind.blamed(object, owner, action, &error.message);
    Err(Error::of_action(error, action, owner, member.as_deref().unwrap_or(object)))
}
