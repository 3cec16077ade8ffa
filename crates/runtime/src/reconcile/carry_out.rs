//! Carries out the actions of a plan.

use kube::Resource;
use tracing::{info, warn};

use super::{Reconciler, Trouble, version};
use crate::events::PendingEvents;
use crate::failure::{Class, Failure};
use crate::kind::Kind;
use crate::replacements::describe;

/// The point up to which a plan was carried out.
pub(super) enum Carried {
    All,
    /// Up to an action that conflicted with a change by another client, with the error's words.
    Raced(String),
    /// Up to an action for which something else must complete first, with the error's words.
    NotYet(String),
}

impl<K: Kind> Reconciler<K> {
    /// Carries out the actions in order. A conflict ends the round without an error, and the next round observes again.
    /// An action that fails and can be set aside stops only those that depend on it. A child that was replaced too often ends
    /// the reconcile.
    pub(super) async fn carry_out(
        &self,
        object: &K::Object,
        actions: &[K::Action],
        setting_aside: bool,
        news: &mut PendingEvents,
    ) -> Result<Carried, Trouble<K::Error>> {
        // Actions that were set aside, and those that depend on them.
        let mut missing: Vec<&K::Action> = Vec::new();
        let (uid, version) = (object.meta().uid.clone().unwrap_or_default(), version(object));
        for action in actions {
            if missing.iter().any(|refused| K::depends(refused, action)) {
                info!(?action, "not applied: it depends on what was set aside");
                missing.push(action);
                continue;
            }
            let replacement = K::replaces(action);
            if let Some(replacement) = replacement.as_ref().filter(|it| !self.replacements.allow(&uid, version, it)) {
                return Err(Trouble::ReplacedTooOften(describe(replacement)));
            }
            info!(?action, "applying");
            match self.kind.apply(object, action).await {
                Ok(()) => {
                    if let Some(replacement) = replacement {
                        self.replacements.note(&uid, version, &replacement);
                    }
                    if let Some(event) = K::event(action) {
                        news.action(event);
                    }
                }
                Err(error) if matches!(error.class(), Class::Conflict | Class::NotFound) => {
                    info!(%error, "another client changed it meanwhile, observing again");
                    return Ok(Carried::Raced(error.to_string()));
                }
                Err(error) if error.class() == Class::NotYet => {
                    info!(%error, "too early, looking again soon");
                    return Ok(Carried::NotYet(error.to_string()));
                }
                Err(error) if setting_aside && self.kind.set_aside(object, action, &error) => {
                    warn!(%error, class = error.class().as_str(), "set aside; the others go on");
                    self.metrics.reconcile_error(K::NAME, error.class().as_str());
                    missing.push(action);
                }
                Err(error) => return Err(Trouble::Kind(error)),
            }
        }
        Ok(Carried::All)
    }
}
