//! Reads which backups there are in S3: the keys from the first one on, as far as is read at once, and where there are
//! more, those of the newest backups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_aws::aws::AwsError;
use causeway_backup::jobs::Catalog;
use causeway_backup::manifest::id_of;

use super::super::error::Error;
use super::super::facts::{Bucket, Observed};
use super::super::names::prefix;
use super::Observer;

/// S3 is read at least this often: others may delete something.
const STALE: Duration = Duration::from_mins(10);
/// The newest backups are those from this long before the newest one that is recorded.
const NEWEST: SignedDuration = SignedDuration::from_hours(2 * 24);

/// A listing of S3.
#[derive(Clone)]
pub struct Seen {
    catalog: Arc<Catalog>,
    at: Instant,
    /// Ended Jobs at that moment.
    ended: Vec<String>,
}

impl Observer {
    /// Returns what is in S3. It is read again when a Job has ended, after we changed something there, and after `STALE`.
    pub(super) async fn catalog(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        observed: &Observed,
    ) -> Result<Arc<Catalog>, Error> {
        let uid = object.uid().unwrap_or_default();
        let ended: Vec<String> =
            observed.jobs.iter().filter(|job| job.end.is_some()).map(|job| job.name.clone()).collect();
        let seen = self.catalogs.get(&uid);
        if let Some(seen) = seen.filter(|seen| seen.at.elapsed() < STALE && seen.ended == ended) {
            return Ok(seen.catalog);
        }
        let prefix = format!("{}/", prefix(object));
        let listing = self.s3.list(&bucket.place, &bucket.owner, &prefix).await?;
        let uploads = self.s3.uploads(&bucket.place, &bucket.owner, &prefix).await?;
        let mut catalog = Catalog::new(&prefix, &listing, uploads);
        if let Some(last) = listing.objects.last().filter(|_| listing.cut) {
            self.add_newest(bucket, observed, &last.key, &mut catalog).await?;
        }
        let catalog = Arc::new(catalog);
        let seen = Seen { catalog: catalog.clone(), at: Instant::now(), ended };
        self.catalogs.set(&uid, seen);
        Ok(catalog)
    }

    /// Adds the newest backups of each database to what was read up to the key `last`. This takes one call for most
    /// databases.
    async fn add_newest(
        &self,
        bucket: &Bucket,
        observed: &Observed,
        last: &str,
        catalog: &mut Catalog,
    ) -> Result<(), AwsError> {
        catalog.lacks_newest = false;
        for (under, after) in windows(&catalog.prefix, observed, last) {
            let listing = self.s3.list_after(&bucket.place, &bucket.owner, &under, &after).await?;
            catalog.lacks_newest |= listing.cut;
            catalog.add(Catalog::new(&catalog.prefix, &listing, Vec::new()));
        }
        Ok(())
    }
}

/// Where the newest backups are that do not lie before the key `last`: what their keys begin with, and after which key
/// they come.
fn windows(prefix: &str, observed: &Observed, last: &str) -> Vec<(String, String)> {
    let withheld = observed.withheld.iter().map(|it| &it.database);
    let databases = observed.sources.iter().chain(withheld).chain(&observed.starting);
    let folders = databases.map(|database| &database.access.source.folder);
    let newest = |folder: &String| -> Option<Timestamp> {
        let backups = observed.recorded.as_ref()?.backups.get(folder)?;
        backups.last_key_value()?.0.checked_sub(NEWEST).ok()
    };
    let window = |folder: &String| {
        let under = format!("{prefix}{folder}/");
        // All of that folder was read.
        if last > under.as_str() && !last.starts_with(&under) {
            return None;
        }
        let after = newest(folder).map_or_else(|| under.clone(), |from| format!("{under}{}", id_of(from)));
        Some((under, after))
    };
    folders.filter_map(window).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::fixtures::{backup, denied_beside, observed};
    use super::*;
    use causeway_aws::s3::fake::Fake;
    use causeway_backup::manifest::due_of;
    use causeway_backup::record::{Evidence, Record};

    const FOLDER: &str = "redis-cache";

    /// Keys are long, so few objects reach the bound.
    #[tokio::test]
    async fn the_newest_backups_of_a_cut_listing_are_known() {
        let mut object = backup();
        object.spec.destination.prefix = Some("x".repeat(640));
        let due = |number: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(5 * number);
        let id = |number: i64| format!("{}/{FOLDER}/{}", prefix(&object), id_of(due(number)));
        let keys = (0..8000).flat_map(|number| ["data", "manifest.json"].map(|file| format!("{}/{file}", id(number))));
        let fake = Fake::with_keys(keys, "1971-01-01T00:00:00Z").await;
        let (reader, _) = denied_beside(fake.s3.clone());
        let mut observed = observed();
        let bucket = Bucket { place: fake.place.clone(), ..observed.bucket.clone().expect("a bucket") };
        let unknown = reader.catalog(&object, &bucket, &observed).await.expect("an answer");
        assert!(unknown.cut && unknown.lacks_newest, "without a record, it is not known where they are");
        reader.forget_catalog(&object);
        let newest = BTreeMap::from([(due(7999), Evidence::Manifest("ab".repeat(32)))]);
        observed.recorded = Some(Record { backups: [(FOLDER.to_owned(), newest)].into(), ..Record::default() });
        let before = fake.count_answers();
        let known = reader.catalog(&object, &bucket, &observed).await.expect("an answer");
        assert!(known.cut && !known.lacks_newest);
        let complete = known.complete(FOLDER);
        assert!(complete.contains(&due(0)) && complete.contains(&due(7999)), "{}", complete.len());
        assert_eq!(fake.count_answers() - before, 14, "eleven pages, uploads, and two pages of the newest");
    }

    #[test]
    fn newest_backups_beyond_the_last_key_are_found() {
        let mut observed = observed();
        let of = |observed: &Observed, last: &str| windows("p/", observed, last);
        let whole = [("p/redis-cache/".to_owned(), "p/redis-cache/".to_owned())];
        assert_eq!(of(&observed, "p/redis-cache/20261101T000000Z/data"), whole, "nothing is recorded");
        let mut record = Record::default();
        for id in ["20261120T020000Z", "20261122T020000Z"] {
            let evidence = Evidence::Manifest("ab".repeat(32));
            let due = due_of(id).expect("an ID");
            record.backups.entry("redis-cache".into()).or_default().insert(due, evidence);
        }
        observed.recorded = Some(record);
        let newest = [("p/redis-cache/".to_owned(), "p/redis-cache/20261120T020000Z".to_owned())];
        for last in ["p/redis-cache/20261101T000000Z/data", "p/etcdcluster-db/20261101T000000Z/data"] {
            assert_eq!(of(&observed, last), newest, "{last}");
        }
        // A hyphen sorts before a slash.
        assert_eq!(of(&observed, "p/redis-cache-2/20261101T000000Z/data"), newest);
        assert!(of(&observed, "p/redis-other/20261101T000000Z/data").is_empty(), "all of it was read");
    }
}
