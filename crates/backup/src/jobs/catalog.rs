//! Which backups there are in S3, read from the keys alone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use causeway_aws::s3::{Listing, Upload};

use crate::manifest::{DATA, NAME, due_of};
use crate::signature::SIGNATURE;

/// The backups of one object in S3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The prefix of all keys, with a slash at the end.
    pub prefix: String,
    /// Backups of each database, by its folder, and in it by the instant they were due.
    pub folders: BTreeMap<String, BTreeMap<Timestamp, Stored>>,
    /// Uploads that were begun and did not end.
    pub uploads: Vec<Upload>,
    /// True if there is more than was read: what was not read is not judged.
    pub cut: bool,
    /// True if what was not read may be newer than all that was read.
    pub lacks_newest: bool,
}

/// The stored parts of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// True if its manifest is there.
    pub manifest: bool,
    /// True if its data are there.
    pub data: bool,
    /// True if a signature of its manifest is there, by any key.
    pub signed: bool,
    /// Bytes of all its objects.
    pub size: u64,
    /// When the last of manifest and data was written.
    pub modified: Timestamp,
    /// The reason why it does not count; none if it counts: see [`crate::record`].
    pub doubt: Option<Doubt>,
}

/// The reasons why what looks like a backup does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// No Job of ours reported it.
    NotRecorded,
    /// It was written again after it was recorded.
    Changed,
    /// It was written before it was due: no Job does that.
    Early,
    /// It is due in the future.
    Future,
}

impl Doubt {
    /// In words, after `it`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::NotRecorded => "was reported by no Job",
            Self::Changed => "was written again after it was recorded",
            Self::Early => "was written before it was due",
            Self::Future => "is due in the future",
        }
    }
}

impl Stored {
    /// Reports whether all of it is there: without data a manifest says nothing, and without a manifest data may be anything.
    pub fn is_complete(&self) -> bool {
        self.manifest && self.data
    }
}

impl Catalog {
    /// From what is under a prefix, which ends in a slash. Keys that Causeway does not make are ignored.
    pub fn new(prefix: &str, listing: &Listing, uploads: Vec<Upload>) -> Self {
        let mut folders: BTreeMap<String, BTreeMap<Timestamp, Stored>> = BTreeMap::new();
        for object in &listing.objects {
            let Some((folder, due, file)) = parts(prefix, &object.key) else { continue };
            let backup = folders.entry(folder.to_owned()).or_default().entry(due).or_default();
            backup.manifest |= file == NAME;
            backup.data |= file == DATA;
            backup.signed |= file == SIGNATURE;
            backup.size = backup.size.saturating_add(object.size);
            // A signature is written later, and changes nothing.
            if file != SIGNATURE {
                backup.modified = backup.modified.max(object.modified);
            }
        }
        let (prefix, cut) = (prefix.to_owned(), listing.cut);
        let mut catalog = Self { prefix, folders, uploads, cut, lacks_newest: cut };
        if let Some(last) = listing.objects.last().filter(|_| listing.cut) {
            catalog.leave_out(&last.key);
        }
        catalog
    }

    /// Leaves out the backup of a key: reading stopped there, and the rest of that backup may come after it. A backup that
    /// is there in part would otherwise look like what a dead run left behind.
    fn leave_out(&mut self, key: &str) {
        let mut parts = key.strip_prefix(&self.prefix).unwrap_or_default().split('/');
        let (folder, due) = (parts.next().unwrap_or_default(), parts.next().and_then(due_of));
        if let (Some(backups), Some(due)) = (self.folders.get_mut(folder), due) {
            backups.remove(&due);
        }
        self.folders.retain(|_, backups| !backups.is_empty());
    }

    /// Adds what was read further on in the order of keys.
    pub fn add(&mut self, further: Self) {
        for (folder, backups) in further.folders {
            self.folders.entry(folder).or_default().extend(backups);
        }
    }

    /// From what is under any prefix: a catalog for each object that wrote there, by what its keys begin with, without a
    /// slash at the end.
    pub fn of_all(listing: Listing) -> BTreeMap<String, Self> {
        let mut listings: BTreeMap<String, Listing> = BTreeMap::new();
        let last = listing.objects.last().filter(|_| listing.cut).map(|object| object.key.clone());
        for object in listing.objects {
            let Some(base) = object.key.rsplitn(4, '/').nth(3).map(str::to_owned) else { continue };
            // Each prefix costs far more memory than a key, and any client that may write there may make many.
            if parts(&object.key[..=base.len()], &object.key).is_none() {
                continue;
            }
            listings.entry(base).or_default().objects.push(object);
        }
        let catalogs = listings.into_iter().map(|(base, objects)| {
            let mut catalog = Self::new(&format!("{base}/"), &objects, Vec::new());
            (catalog.cut, catalog.lacks_newest) = (listing.cut, listing.cut);
            if let Some(last) = &last {
                catalog.leave_out(last);
            }
            (base, catalog)
        });
        catalogs.filter(|(_, catalog)| !catalog.folders.is_empty()).collect()
    }

    /// Complete backups of one database that count.
    pub fn complete(&self, folder: &str) -> BTreeSet<Timestamp> {
        let backups = self.folders.get(folder).into_iter().flatten();
        backups.filter(|(_, backup)| backup.is_complete() && backup.doubt.is_none()).map(|(due, _)| *due).collect()
    }

    /// Returns what looks like a complete backup and does not count: folder, instant and why.
    pub fn doubtful(&self) -> impl Iterator<Item = (&str, Timestamp, Doubt)> {
        let all = self.folders.iter().flat_map(|(folder, backups)| backups.iter().map(move |it| (folder.as_str(), it)));
        all.filter(|(_, (_, backup))| backup.is_complete())
            .filter_map(|(folder, (due, backup))| Some((folder, *due, backup.doubt?)))
    }

    /// Reports whether a later backup than that of the upload is complete, of the same database.
    pub fn is_overtaken(&self, upload: &Upload) -> bool {
        let Some((folder, due, _)) = parts(&self.prefix, &upload.key) else { return false };
        self.complete(folder).last().is_some_and(|newest| due < *newest)
    }

    /// How many complete backups count, and the bytes of all that there is.
    pub fn total(&self) -> (usize, u64) {
        let all = || self.folders.values().flat_map(BTreeMap::values);
        let count = all().filter(|backup| backup.is_complete() && backup.doubt.is_none()).count();
        (count, all().map(|backup| backup.size).sum())
    }
}

/// Folder, instant and file of a key; nothing for keys of others.
fn parts<'a>(prefix: &str, key: &'a str) -> Option<(&'a str, Timestamp, &'a str)> {
    let mut parts = key.strip_prefix(prefix)?.split('/');
    let (folder, id, file) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = parts.next().is_none() && !folder.is_empty() && matches!(file, NAME | DATA | SIGNATURE);
    due_of(id).filter(|_| ours).map(|due| (folder, due, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::s3::Object;

    #[test]
    fn keys_of_others_are_not_seen() {
        let object = |key: &str| Object { key: key.into(), size: 5, modified: Timestamp::UNIX_EPOCH };
        let listing = Listing {
            objects: vec![
                object("p/u/redis-a/20261122T000500Z/data"),
                object("p/u/redis-a/20261122T000500Z/manifest.json"),
                object("p/u/redis-a/20261122T001000Z/data"),
                object("p/u/redis-a/20261122T001000Z/data.old"),
                object("p/u/redis-a/20261122T001000Z/x/data"),
                object("p/u/redis-a/notes/data"),
                object("p/u/readme"),
                object("p/u2/redis-a/20261122T000500Z/data"),
            ],
            cut: false,
        };
        let catalog = Catalog::new("p/u/", &listing, Vec::new());
        assert_eq!(catalog.folders.keys().collect::<Vec<_>>(), ["redis-a"]);
        assert_eq!(catalog.folders["redis-a"].len(), 2);
        assert_eq!(catalog.complete("redis-a").len(), 1);
        assert_eq!(catalog.total(), (1, 15));
    }

    #[test]
    fn the_last_backup_of_a_cut_listing_is_not_judged() {
        let object = |key: &str| Object { key: key.into(), size: 5, modified: Timestamp::UNIX_EPOCH };
        let whole = ["data", "manifest.json"].map(|file| object(&format!("p/redis-a/20261122T000500Z/{file}")));
        for (last, read) in [
            ("p/redis-a/20261122T001000Z/data", 1),
            ("p/redis-a/20261122T001000Z/data.old", 1),
            ("p/redis-a/20261122T001000Z/x/y/data", 1),
            ("p/redis-a/notes", 2),
            ("p/zzz", 2),
        ] {
            let next = object("p/redis-a/20261122T001000Z/data");
            let objects: Vec<Object> = whole.iter().cloned().chain([next, object(last)]).collect();
            let of = |cut| Catalog::new("p/", &Listing { objects: objects.clone(), cut }, Vec::new());
            assert_eq!((of(true).folders["redis-a"].len(), of(false).folders["redis-a"].len()), (read, 2), "{last}");
        }
    }

    #[test]
    fn backups_of_all_objects_are_found_by_prefix() {
        let at = |second: i64| Timestamp::from_second(second).expect("an instant");
        let object = |key: &str, second: i64| Object { key: key.into(), size: 5, modified: at(second) };
        let listing = Listing {
            objects: vec![
                object("shop/nightly/u1/redis-a/20261122T000500Z/data", 1),
                object("shop/nightly/u1/redis-a/20261122T000500Z/manifest.json", 2),
                object("shop/nightly/u1/redis-a/20261122T000500Z/manifest.json.sig", 9),
                object("shop/team/nightly/u2/redis-a/20261122T000500Z/data", 1),
                object("shop/notes.txt", 1),
                object("x/data", 1),
                object("y/nightly/u3/redis-a/20261122T000500Z/data", 1),
                object("y/nightly/u3/redis-a/20261122T000500Z/manifest.json", 2),
                object("y/nightly/u3/redis-a/20261122T001000Z/data", 1),
            ],
            cut: true,
        };
        let found = Catalog::of_all(listing);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["shop/nightly/u1", "shop/team/nightly/u2", "y/nightly/u3"]);
        assert_eq!(found["y/nightly/u3"].folders["redis-a"].len(), 1, "of the last one, not all was read");
        let stored = found["shop/nightly/u1"].folders["redis-a"].values().next().expect("a backup");
        assert!(stored.is_complete() && stored.signed && found["shop/nightly/u1"].cut);
        assert_eq!(stored.modified, at(2), "a signature changes nothing");
    }
}
