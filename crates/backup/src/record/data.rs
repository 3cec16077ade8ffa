//! A record as the data of `ConfigMaps`: a key for each folder, a line for each backup.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Evidence, Page, Record, is_folder};
use crate::manifest::{due_of, id_of, is_sha256};

/// The prefix of keys of folders.
const BACKUPS: &str = "backups.";
/// The key of the list of pages.
const PAGES: &str = "pages";
/// The prefix of evidence of a manifest.
const SHA256: &str = "sha256:";
/// The prefix of evidence of a listing: seconds since the epoch follow.
const LISTED: &str = "listed:";

impl Record {
    /// As the data of the first `ConfigMap`.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let Self { namespace, name, bucket, backups: _, jobs, pages } = self;
        let mut data = BTreeMap::from([
            ("namespace".to_owned(), namespace.clone()),
            ("name".to_owned(), name.clone()),
            ("bucket".to_owned(), bucket.clone()),
            ("jobs".to_owned(), jobs.iter().map(String::as_str).collect::<Vec<_>>().join("\n")),
        ]);
        let line = |Page { number, until }: &Page| format!("{number} {}", id_of(*until));
        let list = pages.iter().map(line).collect::<Vec<_>>().join("\n");
        data.extend((!list.is_empty()).then(|| (PAGES.to_owned(), list)));
        data.extend(self.lines(None));
        data
    }

    /// As the data of the page with that number.
    #[must_use]
    pub fn data_of(&self, page: u32) -> BTreeMap<String, String> {
        self.lines(Some(page))
    }

    /// The lines of one `ConfigMap`, by its keys.
    fn lines(&self, page: Option<u32>) -> BTreeMap<String, String> {
        let line = |(due, evidence): (&Timestamp, &Evidence)| match evidence {
            Evidence::Manifest(hash) => format!("{} {SHA256}{hash}", id_of(*due)),
            Evidence::Listed(at) => format!("{} {LISTED}{}", id_of(*due), at.as_second()),
        };
        let range = self.range_of(page);
        let folders = self.backups.iter().filter_map(|(folder, backups)| {
            let lines = backups.range(range).map(line).collect::<Vec<_>>().join("\n");
            (!lines.is_empty()).then(|| (format!("{BACKUPS}{folder}"), lines))
        });
        folders.collect()
    }

    /// From the data of the first `ConfigMap`. Ignores lines that the operator would not write.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).cloned().unwrap_or_default();
        let mut record = Self {
            namespace: text("namespace"),
            name: text("name"),
            bucket: text("bucket"),
            backups: BTreeMap::new(),
            jobs: text("jobs").lines().map(str::to_owned).collect(),
            pages: text(PAGES).lines().filter_map(page).collect(),
        };
        record.pages.sort_by_key(|page| page.until);
        record.pages.dedup_by_key(|page| page.until);
        record.add(data);
        record
    }

    /// Adds the backups of a `ConfigMap`.
    pub fn add(&mut self, data: &BTreeMap<String, String>) {
        for (key, lines) in data {
            let Some(folder) = key.strip_prefix(BACKUPS).filter(|folder| is_folder(folder)) else { continue };
            for (due, evidence) in lines.lines().filter_map(backup) {
                self.backups.entry(folder.to_owned()).or_default().entry(due).or_insert(evidence);
            }
        }
    }
}

fn page(line: &str) -> Option<Page> {
    let (number, until) = line.split_once(' ')?;
    Some(Page { number: number.parse().ok()?, until: due_of(until)? })
}

fn backup(line: &str) -> Option<(Timestamp, Evidence)> {
    let (id, evidence) = line.split_once(' ')?;
    let evidence = match evidence.strip_prefix(SHA256) {
        Some(hash) => Evidence::Manifest(Some(hash).filter(|hash| is_sha256(hash))?.to_owned()),
        None => Evidence::Listed(Timestamp::from_second(evidence.strip_prefix(LISTED)?.parse().ok()?).ok()?),
    };
    Some((due_of(id)?, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_pages_is_read_as_it_was_written() {
        let until = |id| due_of(id).unwrap();
        let pages = vec![
            Page { number: 7, until: until("20261121T000500Z") },
            Page { number: 2, until: until("20261122T000500Z") },
        ];
        let record = Record { pages, ..Record::default() };
        let mut data = record.data();
        assert_eq!(data["pages"], "7 20261121T000500Z\n2 20261122T000500Z");
        assert_eq!(Record::from_data(&data), record);
        data.insert("pages".into(), "2 20261122T000500Z\n7 20261121T000500Z\n9 20261122T000500Z".into());
        assert_eq!(Record::from_data(&data), record, "each begins where the one before ends");
        data.insert("pages".into(), "x 20261121T000500Z\n7\n3 latest".into());
        assert!(Record::from_data(&data).pages.is_empty());
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record {
            namespace: "shop".into(),
            name: "nightly".into(),
            bucket: "b".into(),
            jobs: ["u1".to_owned(), "u2".to_owned()].into(),
            ..Record::default()
        };
        let backups = record.backups.entry("redis-cache".into()).or_default();
        backups.insert(due_of("20261122T000500Z").unwrap(), Evidence::Manifest("0f".repeat(32)));
        backups.insert(due_of("20261121T000500Z").unwrap(), Evidence::Listed(Timestamp::from_second(5).unwrap()));
        let mut data = record.data();
        let expected = format!("20261121T000500Z listed:5\n20261122T000500Z sha256:{}", "0f".repeat(32));
        assert_eq!(data["backups.redis-cache"], expected);
        assert_eq!(Record::from_data(&data), record);
        assert_eq!(Record::from_data(&Record::default().data()), Record::default());
        // Lines of another form are ignored.
        let strange = "20261122T000500Z sha256:xyz\nlatest listed:5\n20261122T000500Z\n\n20261122T000500Z listed:-x";
        data.insert("backups.redis-other".into(), strange.into());
        data.insert("backups.../x".into(), "20261122T000500Z listed:5".into());
        assert_eq!(Record::from_data(&data), record);
    }
}
