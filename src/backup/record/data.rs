//! A record as the data of a `ConfigMap`: a key for each folder, a line for each backup.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Evidence, Record, is_folder};
use crate::backup::manifest::{due_of, id_of, is_sha256};

/// What keys of folders begin with.
const BACKUPS: &str = "backups.";
/// What evidence of a manifest begins with.
const SHA256: &str = "sha256:";
/// What evidence of a listing begins with: seconds since the epoch follow.
const LISTED: &str = "listed:";

impl Record {
    /// As the data of a `ConfigMap`, which are at most 1 MiB. A backup takes 90 bytes of that.
    /// <https://kubernetes.io/docs/concepts/configuration/configmap/>
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let Self { namespace, name, bucket, backups, jobs } = self;
        let mut data = BTreeMap::from([
            ("namespace".to_owned(), namespace.clone()),
            ("name".to_owned(), name.clone()),
            ("bucket".to_owned(), bucket.clone()),
            ("jobs".to_owned(), jobs.iter().map(String::as_str).collect::<Vec<_>>().join("\n")),
        ]);
        let line = |(due, evidence): (&Timestamp, &Evidence)| match evidence {
            Evidence::Manifest(hash) => format!("{} {SHA256}{hash}", id_of(*due)),
            Evidence::Listed(at) => format!("{} {LISTED}{}", id_of(*due), at.as_second()),
        };
        data.extend(backups.iter().map(|(folder, backups)| {
            (format!("{BACKUPS}{folder}"), backups.iter().map(line).collect::<Vec<_>>().join("\n"))
        }));
        data
    }

    /// From the data of a `ConfigMap`. Ignores lines that the operator would not write.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).cloned().unwrap_or_default();
        let folders = data.iter().filter_map(|(key, lines)| {
            let folder = key.strip_prefix(BACKUPS).filter(|folder| is_folder(folder))?;
            let backups: BTreeMap<Timestamp, Evidence> = lines.lines().filter_map(backup).collect();
            (!backups.is_empty()).then(|| (folder.to_owned(), backups))
        });
        Self {
            namespace: text("namespace"),
            name: text("name"),
            bucket: text("bucket"),
            backups: folders.collect(),
            jobs: text("jobs").lines().map(str::to_owned).collect(),
        }
    }
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
