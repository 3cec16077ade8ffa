//! The throw-away server: a backup is loaded into it first, and then its data are copied or compared.

use causeway_api::databasebackup::Source;
use causeway_api::etcdcluster::published_image;
use causeway_api::redis::Module;
use causeway_api::{EtcdCluster, Redis};

use super::image_of;
use crate::manifest::Manifest;
use crate::plan::BASE;

/// A server that is thrown away afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scratch {
    /// etcd, of that image.
    Etcd {
        /// Name of the image.
        image: String,
    },
    /// Redis or Valkey, of that image.
    Redis {
        /// Name of the image.
        image: String,
        /// Modules to load: without them it cannot read their values.
        modules: Vec<Module>,
    },
    /// PostgreSQL, MySQL or MariaDB, of that image. Our program runs in it, and starts what it needs.
    Sql {
        /// Name of the image.
        image: String,
    },
    /// PostgreSQL that recovers from a base backup and log, in a container of its own that has access to nothing else: the
    /// files of a server may make it run programs.
    Recovered {
        /// The image of that server, of the backup's major version.
        by: String,
        /// The image with the programs of the target, which may be later.
        image: String,
    },
}

/// The known facts about the server of a database. Of databases that Causeway does not manage that is little or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Its version, if that is known.
    pub version: Option<String>,
    /// Its image, if that is not the usual one.
    pub image: Option<String>,
    /// Modules in the spec of a `Redis`; not known for other servers.
    pub modules: Option<Vec<Module>>,
}

impl Served {
    /// The server of a database that is named by its address: only its image is known, and not of all kinds.
    #[must_use]
    pub fn of_source(source: &Source) -> Self {
        Self { image: image_of(source).map(|(_, image)| image.to_owned()), ..Self::default() }
    }

    /// The server of an `EtcdCluster`.
    #[must_use]
    pub fn of_etcd_cluster(object: &EtcdCluster) -> Self {
        Self { version: Some(object.spec.version.clone()), image: object.spec.image.clone(), ..Self::default() }
    }

    /// The server of a `Redis`. The version of an image that the spec names is known only from the running server.
    #[must_use]
    pub fn of_redis(object: &Redis) -> Self {
        let running = object.status.as_ref().and_then(|status| status.version.clone());
        let version = running.or_else(|| object.spec.image.is_none().then(|| object.spec.version.clone()));
        Self { version, image: object.spec.image.clone(), modules: Some(object.spec.modules.clone()) }
    }
}

impl Scratch {
    /// The server for a backup: the published image of the backup's version, because other versions may not read it. If the
    /// database has an image of its own, that is used instead; for etcd only if it is of the backup's version.
    #[must_use]
    pub fn for_backup(manifest: &Manifest, served: &Served) -> Self {
        let version = &manifest.version;
        let same = served.version.as_ref() == Some(version);
        let user_provided = |always: bool| served.image.clone().filter(|_| same || always);
        let number = |parts: usize| {
            let number = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
            number.split('.').take(parts).collect::<Vec<_>>().join(".")
        };
        match manifest.kind.as_str() {
            "etcd" => Self::Etcd { image: user_provided(false).unwrap_or_else(|| published_image(version)) },
            "postgresql" | BASE => {
                Self::Sql { image: user_provided(true).unwrap_or_else(|| format!("postgres:{}", number(1))) }
            }
            "mysql" if version.contains("MariaDB") => {
                Self::Sql { image: user_provided(true).unwrap_or_else(|| format!("mariadb:{}", number(2))) }
            }
            "mysql" => Self::Sql { image: user_provided(true).unwrap_or_else(|| format!("mysql:{}", number(2))) },
            _ => {
                let is_valkey = manifest.contents.facts.get("server").is_some_and(|server| server == "valkey");
                let usual = if is_valkey { "valkey/valkey" } else { "redis" };
                let image = user_provided(true).unwrap_or_else(|| format!("{usual}:{version}"));
                Self::Redis { image, modules: served.modules.clone().unwrap_or_default() }
            }
        }
    }

    /// The images that it runs.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        let (first, other) = match self {
            Self::Etcd { image } | Self::Redis { image, .. } | Self::Sql { image } => (image, None),
            Self::Recovered { by, image } => (by, Some(image)),
        };
        [first].into_iter().chain(other).map(String::as_str)
    }

    /// Its address within the pod; empty if the command starts it. etcd asks for a client certificate, whose user is root.
    #[must_use]
    pub fn address(&self) -> &'static str {
        match self {
            Self::Etcd { .. } => "https://127.0.0.1:12379",
            Self::Redis { .. } => "127.0.0.1:16379",
            Self::Sql { .. } | Self::Recovered { .. } => "",
        }
    }

    /// The memory limit in bytes for a backup of that size; the request is smaller. It is large because short keys of Redis
    /// take many times what they take in the file, and a server that is killed would look like a broken backup.
    #[must_use]
    pub fn memory(&self, size: u64) -> u64 {
        let spare = 1 << 30;
        match self {
            Self::Etcd { .. } | Self::Sql { .. } | Self::Recovered { .. } => size.saturating_add(spare),
            Self::Redis { .. } => size.saturating_mul(16).saturating_add(spare),
        }
    }

    /// Bytes on disk for a backup of that size.
    #[must_use]
    pub fn room(&self, size: u64) -> u64 {
        let spare = 256 << 20;
        match self {
            // The snapshot, the data unpacked from it, and what it logs meanwhile.
            Self::Etcd { .. } => size.saturating_mul(3).saturating_add(spare),
            Self::Redis { .. } => size.saturating_add(size / 4).saturating_add(spare),
            // The dump, the data with their indexes, and the log of what is written; or base backup and log as they were
            // fetched and unpacked, and the dump.
            Self::Sql { .. } | Self::Recovered { .. } => size.saturating_mul(5).saturating_add(spare * 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(kind: &str, served: (Option<&str>, Option<&str>)) -> String {
        image_for(kind, "3.5.9", served)
    }

    fn image_for(kind: &str, version: &str, served: (Option<&str>, Option<&str>)) -> String {
        image_of_scratch(&Manifest::sample(kind, version), served)
    }

    fn image_of_scratch(manifest: &Manifest, served: (Option<&str>, Option<&str>)) -> String {
        let (version, image) = (served.0.map(Into::into), served.1.map(Into::into));
        let served = Served { version, image, ..Served::default() };
        let scratch = Scratch::for_backup(manifest, &served);
        let images: Vec<&str> = scratch.images().collect();
        let [image] = images.as_slice() else { panic!("no backup is recovered by itself") };
        (*image).to_owned()
    }

    #[test]
    fn a_scratch_server_has_the_backups_version_or_own_image() {
        assert_eq!(image("etcd", (None, None)), "quay.io/coreos/etcd:v3.5.9");
        assert_eq!(image("etcd", (Some("3.5.9"), Some("mirror/etcd:1"))), "mirror/etcd:1");
        assert_eq!(image("etcd", (Some("3.6.0"), Some("mirror/etcd:2"))), "quay.io/coreos/etcd:v3.5.9");
        assert_eq!(image("redis", (Some("8.0.2"), None)), "redis:3.5.9");
        assert_eq!(image("redis", (None, Some("valkey:8"))), "valkey:8");
        assert_eq!(image("postgresql", (None, Some("mirror/postgres:15"))), "mirror/postgres:15");
        assert_eq!(image_for("postgresql", "15.18 (Debian 15.18-0+deb12u1)", (None, None)), "postgres:15");
        assert_eq!(image_for("postgresql-base", "15.18", (None, None)), "postgres:15");
        assert_eq!(image_for("postgresql-base", "15.18", (None, Some("mirror/postgres:15"))), "mirror/postgres:15");
        assert_eq!(image_for("mysql", "10.11.19-MariaDB-0+deb12u1", (None, None)), "mariadb:10.11");
        assert_eq!(image_for("mysql", "8.4.2", (None, None)), "mysql:8.4");
    }

    #[test]
    fn a_server_that_is_recovered_runs_two_images() {
        let recovered = Scratch::Recovered { by: "postgres:15".into(), image: "postgres:17".into() };
        assert!(recovered.images().eq(["postgres:15", "postgres:17"]));
    }

    #[test]
    fn a_backup_of_valkey_is_brought_into_valkey() {
        let with = |server: &str| {
            let mut manifest = Manifest::sample("redis", "8.1.4");
            manifest.contents.facts.insert("server".into(), server.into());
            manifest
        };
        assert_eq!(image_of_scratch(&with("valkey"), (None, None)), "valkey/valkey:8.1.4");
        assert_eq!(image_of_scratch(&with("valkey"), (None, Some("mirror/valkey:8"))), "mirror/valkey:8");
        assert_eq!(image_of_scratch(&with("redis"), (None, None)), "redis:8.1.4");
    }
}
