//! What is known of buckets, shared by all objects that use one: each is looked at once a sweep, however many they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Fast, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::decide::is_ours;
use crate::external::aws::AwsError;
use crate::external::s3::{Found, Place, S3};

/// A look is good for this part of a sweep: with the next one comes another.
const FRESH: f64 = 0.9;

/// Buckets as they were seen last.
pub struct Buckets {
    s3: S3,
    cluster: String,
    fresh: Duration,
    seen: Fast<HashMap<Place, Slot>>,
}

/// Held by who looks; the others wait for what it sees.
type Slot = Arc<Mutex<Option<(Instant, Found)>>>;

impl Buckets {
    /// Buckets of a cluster of that name.
    pub fn new(s3: S3, cluster: String, sweep: Duration) -> Self {
        Self { s3, cluster, fresh: sweep.mul_f64(FRESH), seen: Fast::default() }
    }

    /// A bucket as it is, or was a moment ago.
    pub async fn look(&self, place: &Place, owner: &str) -> Result<Found, AwsError> {
        let slot = self.slot(place);
        let mut seen = slot.lock().await;
        if let Some((_, found)) = seen.as_ref().filter(|(at, _)| at.elapsed() < self.fresh) {
            return Ok(found.clone());
        }
        let all = place.endpoint.is_none();
        let found = self.s3.bucket(place, owner, |tags| all && is_ours(tags, &self.cluster)).await?;
        *seen = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    /// It was changed: the next look goes to S3.
    pub async fn changed(&self, place: &Place) {
        *self.slot(place).lock().await = None;
    }

    fn slot(&self, place: &Place) -> Slot {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(place.clone()).or_default().clone()
    }
}
