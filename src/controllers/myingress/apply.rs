//! Carries out what was decided.

use super::MyIngressKind;
use super::action::Action;
use super::blame::blamed;
use super::error::Error;
use super::members::{key, members_of};
use super::observe::key_of;
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
    // The field is one of the member whose part the action makes, be it another than the one that acts for the group.
    let members = members_of(object, &kind.objects());
    let blamed = blamed(action, &members, &kind.region.owned_by(owner), &error.message);
    let member = members.present.iter().find(|member| Some(key(member)) == blamed);
    Err(Error::of_action(error, action, owner, member.map_or(object, AsRef::as_ref)))
}
