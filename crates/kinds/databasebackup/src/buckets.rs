//! A cache of buckets, shared by all objects: a bucket is read once a sweep, however many objects use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex as Fast;
use tokio::sync::{Mutex, OwnedMutexGuard};

use causeway_aws::aws::AwsError;
use causeway_aws::s3::{Found, Place, S3, Tags};
use causeway_backup::transfer::{OFFERED, is_ours};

/// An entry is valid for this part of a sweep, so the next sweep reads the bucket again.
const FRESH: f64 = 0.9;
/// How long a bucket that cannot be used counts as it was seen. Then an edit, a request for a backup or the next look asks S3.
const UNUSABLE: Duration = Duration::from_secs(5);

/// From so many entries on, those that no task needs make room for new ones: users choose the names of buckets.
const MANY: usize = 256;

/// Buckets as they were seen last.
pub struct Buckets {
    s3: S3,
    cluster: String,
    fresh: Duration,
    seen: Fast<HashMap<Place, Slot>>,
}

/// The lock of one bucket. The task that reads or changes the bucket holds it, and the others wait for the outcome.
type Slot = Arc<Mutex<Known>>;

/// The known facts about a bucket.
#[derive(Default)]
pub struct Known(Option<(Instant, Result<Found, AwsError>)>);

impl Known {
    /// Reports whether the bucket was last seen as `found`.
    pub fn is(&self, found: Option<&Found>) -> bool {
        matches!((&self.0, found), (Some((_, Ok(seen))), Some(found)) if seen == found)
    }

    /// Call this before the bucket is changed: the next look goes to S3.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl Buckets {
    /// An empty cache, for the cluster of that name.
    pub fn new(s3: S3, cluster: String, sweep: Duration) -> Self {
        Self { s3, cluster, fresh: sweep.mul_f64(FRESH), seen: Fast::default() }
    }

    /// A bucket, from the cache if its entry is fresh, and else from S3.
    pub async fn look(&self, place: &Place, owner: &str) -> Result<Found, AwsError> {
        let asked = Instant::now();
        let mut known = self.lock(place).await;
        match &known.0 {
            Some((at, Ok(found))) if at.elapsed() < self.valid(found) => return Ok(found.clone()),
            // Callers that waited while a look failed share its error. Otherwise each would fail after a deadline of
            // its own.
            Some((at, Err(error))) if *at > asked => return Err(error.clone()),
            _ => {}
        }
        let all = place.endpoint.is_none();
        let found = self.s3.bucket(place, owner, |tags| all && is_ours(tags, &self.cluster)).await;
        known.0 = Some((Instant::now(), found.clone()));
        found
    }

    /// How long a bucket counts as it was seen.
    fn valid(&self, found: &Found) -> Duration {
        let is_offered = |tags: &Tags| tags.get(OFFERED) == Some(&self.cluster);
        let is_usable =
            matches!(found, Found::There(facts) if is_ours(&facts.tags, &self.cluster) || is_offered(&facts.tags));
        if is_usable { self.fresh } else { self.fresh.min(UNUSABLE) }
    }

    /// Locks a bucket, and returns the known facts about it. The holder of the guard may change the bucket, and no other task
    /// reads it meanwhile.
    pub async fn lock(&self, place: &Place) -> OwnedMutexGuard<Known> {
        self.slot(place).lock_owned().await
    }

    fn slot(&self, place: &Place) -> Slot {
        let mut seen = self.seen.lock();
        if seen.len() >= MANY && !seen.contains_key(place) {
            seen.retain(|_, slot| self.is_needed(slot));
        }
        seen.entry(place.clone()).or_default().clone()
    }

    /// Reports whether a task uses the entry now, or it is fresh.
    fn is_needed(&self, slot: &Slot) -> bool {
        let is_fresh = |known: &Known| known.0.as_ref().is_some_and(|(at, _)| at.elapsed() < self.fresh);
        Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|known| is_fresh(&known))
    }
}

#[cfg(test)]
mod tests {
    use aws_types::SdkConfig;

    use super::*;
    use causeway_aws::s3::BucketFacts;
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    fn place(number: usize) -> Place {
        Place { bucket: format!("bucket-{number}"), region: "us-east-1".into(), endpoint: None }
    }

    #[test]
    fn an_unusable_bucket_is_soon_looked_at_again() {
        let s3 = S3::new(&SdkConfig::builder().build(), Metrics::new(), Fence::always_open());
        let buckets = Buckets::new(s3, "prod".into(), Duration::from_mins(5));
        assert_eq!(buckets.valid(&Found::Forbidden("Forbidden".into())), UNUSABLE);
        let there = |tags: Tags| Found::There(Box::new(BucketFacts { tags, ..BucketFacts::default() }));
        assert_eq!(buckets.valid(&there(Tags::new())), UNUSABLE, "it is not ours");
        let offered = Tags::from([(OFFERED.to_owned(), "prod".to_owned())]);
        assert_eq!(buckets.valid(&there(offered)), Duration::from_mins(5).mul_f64(FRESH));
    }

    #[tokio::test]
    async fn unused_buckets_make_room() {
        let s3 = S3::new(&SdkConfig::builder().build(), Metrics::new(), Fence::always_open());
        let buckets = Buckets::new(s3, "prod".into(), Duration::from_mins(5));
        let used = buckets.lock(&place(0)).await;
        let fresh = AwsError::stale("HeadBucket", "no such bucket".into());
        buckets.lock(&place(1)).await.0 = Some((Instant::now(), Err(fresh)));
        for number in 2..MANY * 2 {
            buckets.lock(&place(number)).await;
        }
        let seen = buckets.seen.lock();
        assert!(seen.len() <= MANY && seen.contains_key(&place(0)) && seen.contains_key(&place(1)), "{}", seen.len());
        drop(used);
    }
}
