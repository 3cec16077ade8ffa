//! Reads a manifest as strictly as the apiserver reads an object: any client that may write into the bucket may have written
//! it, and its version becomes a part of the name of an image. Pure.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{FORMAT, Manifest, due_of};
use crate::plan::{BASE, WAL};

/// Bytes of the largest manifest that is read.
pub const LIMIT: usize = 64 * 1024;
/// More bytes than any backup has: 1 PiB.
const LARGEST: u64 = 1 << 50;
/// Characters of the longest version: a tag of an image has at most 128.
/// <https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests>
const LONGEST_VERSION: usize = 120;
/// Characters of the longest title of a source: a kind, and names of a host and a database.
const LONGEST_TITLE: usize = 512;
/// Characters of the longest name and value of a fact.
const LONGEST_FACT: usize = 128;
/// Characters of a foreign value that a message repeats.
const QUOTED: usize = 60;

/// A manifest as it lies in S3.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The manifest as a value.
    pub manifest: Manifest,
    /// SHA-256 of its bytes, hexadecimal: another manifest has another one.
    pub sha256: String,
}

/// The reasons why a manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It is too large.
    #[error("it is larger than {LIMIT} bytes, which no manifest is")]
    Large,
    /// It is no JSON, or lacks a field.
    #[error("it is no manifest: {0}")]
    Unreadable(String),
    /// It is of a format that this version does not know.
    #[error("it has format {0}, and this version of Causeway knows format {FORMAT}: use the version that wrote it")]
    Format(u32),
    /// Its ID is not the one in its key.
    #[error("its id is {found:?}, and it lies where the manifest of {expected} does")]
    Id {
        /// The value in the manifest.
        found: String,
        /// The value by its key.
        expected: String,
    },
    /// It is of a kind of database that this version does not know.
    #[error("its kind is {0:?}: this version of Causeway knows etcd, redis, postgresql and mysql")]
    Kind(String),
    /// Its version is not valid for its kind.
    #[error("its version {version:?} is none of {kind}")]
    Version {
        /// Kind of the database.
        kind: String,
        /// The version in the manifest.
        version: String,
    },
    /// A hash is not valid.
    #[error("its {0} is no SHA-256: 64 hexadecimal digits in lower case")]
    Hash(&'static str),
    /// A size is larger than that of any backup.
    #[error("its {0} is larger than any backup")]
    Size(&'static str),
    /// It is compressed in another way.
    #[error("its compression is {0:?}: this version of Causeway knows zstd")]
    Compression(String),
    /// It is encrypted in another way.
    #[error("its encryption is {0:?}: this version of Causeway knows age")]
    Encryption(String),
    /// The title is not valid.
    #[error("its source must have 1 to {LONGEST_TITLE} printable characters")]
    Source,
    /// A fact is not valid.
    #[error("its contents.facts must be names of letters and digits with printable values")]
    Facts,
}

impl Mistake {
    /// Reports whether a later version of Causeway may be able to read it.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Format(_) | Self::Kind(_) | Self::Compression(_) | Self::Encryption(_))
    }
}

/// Reads the manifest that lies under the ID `id`.
pub fn parse(bytes: &[u8], id: &str) -> Result<Document, Mistake> {
    /// The field that every format has.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    if bytes.len() > LIMIT {
        return Err(Mistake::Large);
    }
    let unreadable = |error: serde_json::Error| Mistake::Unreadable(clipped(&error.to_string()));
    let Form { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if format != FORMAT {
        return Err(Mistake::Format(format));
    }
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(unreadable)?;
    check(&manifest, id)?;
    Ok(Document { manifest, sha256: hex::encode(Sha256::digest(bytes)) })
}

/// Checks that a manifest is of the backup `id`, and that all its values are valid in this format.
pub fn check(manifest: &Manifest, id: &str) -> Result<(), Mistake> {
    let Manifest { format, id: own, source, kind, version, started: _, finished: _, contents, .. } = manifest;
    if *format != FORMAT {
        return Err(Mistake::Format(*format));
    }
    if own != id || due_of(id).is_none() {
        return Err(Mistake::Id { found: clipped(own), expected: clipped(id) });
    }
    let is_version = match kind.as_str() {
        "etcd" => is_tag(version, 3..=3),
        "redis" => is_tag(version, 2..=4),
        "postgresql" | BASE | WAL | "mysql" => is_sql_version(version),
        _ => return Err(Mistake::Kind(clipped(kind))),
    };
    if !is_version {
        return Err(Mistake::Version { kind: kind.clone(), version: clipped(version) });
    }
    for (field, hash) in [("sha256", &manifest.sha256), ("storedSha256", &manifest.stored_sha256)] {
        if !is_sha256(hash) {
            return Err(Mistake::Hash(field));
        }
    }
    for (field, size) in [("size", manifest.size), ("storedSize", manifest.stored_size), ("keys", contents.keys)] {
        if size > LARGEST {
            return Err(Mistake::Size(field));
        }
    }
    if manifest.compression != "zstd" {
        return Err(Mistake::Compression(clipped(&manifest.compression)));
    }
    if let Some(other) = manifest.encryption.as_deref().filter(|it| *it != "age") {
        return Err(Mistake::Encryption(clipped(other)));
    }
    if source.is_empty() || !is_printable(source, LONGEST_TITLE) {
        return Err(Mistake::Source);
    }
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_fact = |(name, value): (&String, &String)| {
        is_name(name) && name.len() <= LONGEST_FACT && is_printable(value, LONGEST_FACT)
    };
    if contents.facts.iter().all(is_fact) { Ok(()) } else { Err(Mistake::Facts) }
}

/// 64 hexadecimal digits in lower case.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reports whether a version is a count of numbers within `numbers`, joined by dots, and what may follow a hyphen in the tag of
/// an image: `3.5.9`, `7.4.0-rc1`. <https://semver.org>
fn is_tag(version: &str, numbers: std::ops::RangeInclusive<usize>) -> bool {
    let (number, rest) = version.split_once('-').map_or((version, None), |(number, rest)| (number, Some(rest)));
    let is_number = |part: &str| (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_rest =
        |rest: &str| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-'));
    version.len() <= LONGEST_VERSION
        && numbers.contains(&number.split('.').count())
        && number.split('.').all(is_number)
        && rest.is_none_or(is_rest)
}

/// A number, and whatever packagers add: `15.18 (Debian 15.18-0+deb12u1)`, `10.11.19-MariaDB-0+deb12u1`. Only the number
/// becomes a part of the name of an image.
fn is_sql_version(version: &str) -> bool {
    let is_usual = |it: u8| it.is_ascii_alphanumeric() || b" .-_+~:,()".contains(&it);
    version.len() <= LONGEST_VERSION
        && version.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && version.bytes().all(is_usual)
}

fn is_printable(text: &str, longest: usize) -> bool {
    text.chars().count() <= longest && !text.chars().any(char::is_control)
}

fn clipped(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::Contents;

    const ID: &str = "20261122T000500Z";

    fn manifest(kind: &str, version: &str) -> Manifest {
        Manifest {
            format: FORMAT,
            id: ID.into(),
            source: "Redis cache".into(),
            kind: kind.into(),
            version: version.into(),
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::UNIX_EPOCH,
            size: 5,
            sha256: "0f".repeat(32),
            stored_size: 3,
            stored_sha256: "a9".repeat(32),
            compression: "zstd".into(),
            encryption: None,
            contents: Contents { keys: 1, facts: [("db0".into(), "1".into())].into() },
        }
    }

    fn read(manifest: &Manifest) -> Result<Document, Mistake> {
        parse(&serde_json::to_vec(manifest).unwrap(), ID)
    }

    #[test]
    fn versions_that_servers_have_are_read() {
        for (kind, version) in [
            ("etcd", "3.5.9"),
            ("etcd", "3.7.0-rc.1"),
            ("redis", "7.0.15"),
            ("redis", "8.4-rc1"),
            ("redis", "255.255.255"),
            ("postgresql", "15.18 (Debian 15.18-0+deb12u1)"),
            ("postgresql", "19beta1"),
            ("mysql", "10.11.19-MariaDB-0+deb12u1"),
            ("mysql", "10.11.6-MariaDB-1:10.11.6+maria~ubu2204-log"),
            ("mysql", "8.0.mysql_aurora.3.04.0"),
        ] {
            assert_eq!(read(&manifest(kind, version)).map(|it| it.manifest.version), Ok(version.into()), "{kind}");
        }
    }

    #[test]
    fn a_version_that_names_another_image_is_refused() {
        for version in [
            "5000/evil/redis:pwn",
            "7.0.15/../evil",
            "7.0.15@sha256:00",
            "evil:5000/redis",
            "7.0.15\n",
            "7.0.15 ",
            "",
            "7",
            ".7.0",
            "7.0.15-",
            "7.0.15-x/y",
            "v7.0.15",
            "7.0.\u{665}",
            &format!("7.0.15-{}", "x".repeat(200)),
        ] {
            for kind in ["redis", "etcd"] {
                let refused = read(&manifest(kind, version)).unwrap_err();
                assert!(matches!(refused, Mistake::Version { .. }), "{kind} {version:?}: {refused}");
            }
        }
        for version in ["5000/evil", "15;x", "evil", "15\u{7}", "15@x"] {
            let refused = read(&manifest("postgresql", version)).unwrap_err();
            assert!(matches!(refused, Mistake::Version { .. }), "{version:?}: {refused}");
        }
    }

    #[test]
    fn every_value_is_as_this_form_has_it() {
        let changed = |change: fn(&mut Manifest)| {
            let mut manifest = manifest("redis", "7.0.15");
            change(&mut manifest);
            read(&manifest).unwrap_err()
        };
        assert_eq!(changed(|it| it.format = 2), Mistake::Format(2));
        let another = Mistake::Id { found: "20261122T001000Z".into(), expected: ID.into() };
        assert_eq!(changed(|it| it.id = "20261122T001000Z".into()), another);
        assert_eq!(changed(|it| it.kind = "oracle".into()), Mistake::Kind("oracle".into()));
        assert_eq!(changed(|it| it.sha256.clear()), Mistake::Hash("sha256"));
        assert_eq!(changed(|it| it.stored_sha256 = "A9".repeat(32)), Mistake::Hash("storedSha256"));
        assert_eq!(changed(|it| it.size = u64::MAX), Mistake::Size("size"));
        assert_eq!(changed(|it| it.contents.keys = u64::MAX), Mistake::Size("keys"));
        assert_eq!(changed(|it| it.compression = "none".into()), Mistake::Compression("none".into()));
        assert_eq!(changed(|it| it.encryption = Some("rot13".into())), Mistake::Encryption("rot13".into()));
        assert_eq!(changed(|it| it.source = "a\nb".into()), Mistake::Source);
        assert_eq!(changed(|it| drop(it.contents.facts.insert("a/b".into(), String::new()))), Mistake::Facts);
        assert!(matches!(parse(b"[]", ID), Err(Mistake::Unreadable(_))));
        assert_eq!(parse(br#"{"format":7}"#, ID), Err(Mistake::Format(7)), "whatever else it has");
        assert_eq!(parse(&vec![b' '; LIMIT + 1], ID), Err(Mistake::Large));
        assert!(matches!(
            parse(&serde_json::to_vec(&manifest("redis", "7.0.15")).unwrap(), "latest"),
            Err(Mistake::Id { .. })
        ));
    }

    proptest! {
        #[test]
        fn what_is_read_names_no_other_image(version in "[ -~]{0,24}", kind in 0..4_usize) {
            let kind = ["etcd", "redis", "postgresql", "mysql"][kind];
            if read(&manifest(kind, &version)).is_ok() {
                prop_assert!(!version.contains(['/', '@']));
                prop_assert!(kind.ends_with("sql") || !version.contains(':'));
            }
        }

        #[test]
        fn nothing_that_is_written_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes, ID).is_err());
        }
    }
}
