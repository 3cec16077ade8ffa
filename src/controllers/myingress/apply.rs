//! Carries out what was decided.

use super::MyIngressKind;
use super::action::Action;
use super::error::Error;
use super::observe::key_of;
use super::ownership::Owner;

/// Carries out `action` for an owner.
pub async fn apply(kind: &MyIngressKind, owner: &Owner, action: &Action) -> Result<(), Error> {
    if let Action::Bind(bindings) = action {
        kind.bind(bindings, &key_of(owner));
        return Ok(());
    }
    kind.region.change(owner, action).await.map_err(Error::of)
}
