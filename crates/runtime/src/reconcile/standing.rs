//! Objects for which nothing is changed: they are suspended, or cannot be decoded.

use std::time::Duration;

use tracing::warn;

use causeway_api::Conditioned;

use super::{Failed, Reconciler};
use crate::conditions::{Health, not_observed};
use crate::events::PendingEvents;
use crate::kind::Kind;

/// The pause before trying again to stand by an object for which nothing is changed.
const STAND_BY_RETRY: Duration = Duration::from_secs(30);

impl<K: Kind> Reconciler<K> {
    /// Reports why nothing is changed for the object, and that conditions which only observing shows are unknown.
    pub(super) async fn stand_still(
        &self,
        object: &K::Object,
        health: &Health,
        news: &mut PendingEvents,
    ) -> Result<Option<Duration>, Failed<K>> {
        let status = self.statuses.current(object).unwrap_or_default();
        let parts = not_observed(status.conditions(), K::OBSERVED_CONDITIONS);
        self.write_status(object, status, health, &parts, news).await?;
        // The status says what to correct, and a failure must not hide that.
        let stood_by = self.kind.stand_by(object).await;
        Ok(stood_by.err().map(|error| {
            warn!(%error, "what goes on between reconciles is not as it should be yet");
            STAND_BY_RETRY
        }))
    }
}
