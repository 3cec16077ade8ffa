//! The description of a backup, written beside it when all of it is there: `<prefix>/<folder>/<id>/manifest.json`.
//! Without a manifest there is no backup.

mod parse;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use parse::{Document, LIMIT, Mistake, check, is_sha256, parse};

/// How far the clock of a node may be ahead of the operator's. A backup that is due later than that does not count yet.
pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(10);

/// How many IDs a backup tries, each due a second after the one before, while something else lies under them. At most 60:
/// a backup never takes an ID of the next minute, where another one may be due.
pub const SECONDS: i64 = 60;

/// Name of the object that makes a backup complete.
pub const NAME: &str = "manifest.json";
/// Name of the data.
pub const DATA: &str = "data";

/// The format of manifests that this version writes and reads.
pub const FORMAT: u32 = 1;

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Its format: [`FORMAT`].
    pub format: u32,
    /// The backup's ID: the instant it was due, [`id_of`].
    pub id: String,
    /// Title of the source, such as `EtcdCluster prod-etcd`.
    pub source: String,
    /// `etcd`, `redis`, `postgresql` or `mysql`.
    pub kind: String,
    /// Version of the server.
    pub version: String,
    /// The instant at which the backup began.
    pub started: Timestamp,
    /// When the data were complete.
    pub finished: Timestamp,
    /// Bytes as the server gave them.
    pub size: u64,
    /// SHA-256 of them, hexadecimal.
    pub sha256: String,
    /// Bytes as they are stored.
    pub stored_size: u64,
    /// SHA-256 of what is stored, hexadecimal.
    pub stored_sha256: String,
    /// `zstd`.
    pub compression: String,
    /// `age` if it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
    /// Facts that a restored server is compared with.
    pub contents: Contents,
}

#[cfg(any(test, feature = "testing"))]
impl Manifest {
    /// A manifest for tests that need few of its fields.
    pub fn sample(kind: &str, version: &str) -> Self {
        Self {
            format: 1,
            id: "20261122T000500Z".into(),
            source: "a database".into(),
            kind: kind.into(),
            version: version.into(),
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::UNIX_EPOCH,
            size: 1,
            sha256: String::new(),
            stored_size: 1,
            stored_sha256: String::new(),
            compression: "zstd".into(),
            encryption: None,
            contents: Contents::default(),
        }
    }
}

/// Facts about the data of the backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Number of keys, for Redis those of all databases. Number of rows for PostgreSQL and MySQL.
    pub keys: u64,
    /// Further facts of the kind, such as etcd's `revision` and `hash`, or keys by database for Redis.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// The fact of Redis that names the modules that were loaded, such as `ReJSON, search`; left out if there were none.
pub const MODULES: &str = "modules";

/// The fact of PostgreSQL that names databases to which the user may not connect, or of MySQL and MariaDB that says that
/// databases may be hidden from it; left out if there were none.
pub const LEFT_OUT: &str = "leftOut";

/// The ID of a backup that was due at an instant, such as `20261122T000500Z`.
#[must_use]
pub fn id_of(due: Timestamp) -> String {
    due.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The instant that an ID stands for; none if the text is no ID.
#[must_use]
pub fn due_of(id: &str) -> Option<Timestamp> {
    let due = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", id).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    (id_of(due.timestamp()) == id).then(|| due.timestamp())
}

/// Reports whether no backup can be due at that instant yet.
#[must_use]
pub fn is_future(due: Timestamp, now: Timestamp) -> bool {
    due.duration_since(now) > CLOCK_TOLERANCE
}

/// Reports whether something was written so early that no clock can have shown the backup as due.
#[must_use]
pub fn is_early(due: Timestamp, written: Timestamp) -> bool {
    due.duration_since(written) > CLOCK_TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Backups that were made by a release must be read by all later ones.
    #[test]
    fn manifests_stay_as_they_were_written() {
        let manifest = Manifest {
            format: FORMAT,
            id: "20261122T000500Z".into(),
            source: "EtcdCluster db".into(),
            kind: "etcd".into(),
            version: "3.5.9".into(),
            started: "2026-11-22T00:05:01Z".parse().unwrap(),
            finished: "2026-11-22T00:05:02.5Z".parse().unwrap(),
            size: 20512,
            sha256: "aa".into(),
            stored_size: 672,
            stored_sha256: "bb".into(),
            compression: "zstd".into(),
            encryption: None,
            contents: Contents { keys: 5, facts: BTreeMap::from([("revision".into(), "6".into())]) },
        };
        let text = r#"{"format":1,"id":"20261122T000500Z","source":"EtcdCluster db","kind":"etcd","version":"3.5.9",
            "started":"2026-11-22T00:05:01Z","finished":"2026-11-22T00:05:02.5Z","size":20512,"sha256":"aa","storedSize":672,
            "storedSha256":"bb","compression":"zstd","contents":{"keys":5,"facts":{"revision":"6"}}}"#;
        assert_eq!(serde_json::from_str::<Manifest>(text).unwrap(), manifest);
        let written: serde_json::Value = serde_json::to_value(&manifest).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn an_id_is_the_instant_it_was_due() {
        let due: Timestamp = "2026-11-22T00:05:00Z".parse().unwrap();
        assert_eq!(id_of(due), "20261122T000500Z");
        assert_eq!(due_of("20261122T000500Z"), Some(due));
        for other in ["", "latest", "20261122T000500", "20261322T000500Z", "x20261122T000500Z", "manifest.json"] {
            assert_eq!(due_of(other), None, "{other}");
        }
    }
}
