//! The task of a Job, as the operator writes it into an annotation of the pods or into a `ConfigMap`. Holds no secrets:
//! those are mounted as files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use causeway_api::databasebackup::{self, Method};
use causeway_api::databaserestore::{Excluded, Included, OnDependents, is_one, one};

/// Where the plan is mounted in the Jobs' pods.
pub const PATH: &str = "/etc/causeway/plan.json";
/// Variable of the containers that read the plan: the SHA-256 that it must have. It is part of the pod's template,
/// which accounts with rights on `ConfigMap`s alone cannot change.
pub const SHA256_VARIABLE: &str = "CAUSEWAY_PLAN_SHA256";

/// The work of `causeway-backup backup`: one backup of each source, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupPlan {
    /// The place of the backups.
    pub destination: Destination,
    /// The databases to back up.
    pub sources: Vec<Source>,
    /// Public keys of [age](https://age-encryption.org) to encrypt for; without any, Causeway does not encrypt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Statements that run around each dump of a SQL server; none if the spec has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// The replication slot of the object that keeps the log of the server, for a base backup: it is made first, so that the log
    /// has all that the base backup needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_slot: Option<String>,
}

/// SQL statements around a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hooks {
    /// Those that run before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Those that run when it has ended, even if it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How long each of the lists may take.
    pub timeout_seconds: u64,
}

impl Hooks {
    /// The hooks of a spec; none if both lists are empty.
    #[must_use]
    pub fn from_spec(spec: &databasebackup::Hooks) -> Option<Self> {
        let databasebackup::Hooks { before, after, timeout } = spec;
        let hooks = || Self { before: before.clone(), after: after.clone(), timeout_seconds: timeout.seconds() };
        (!spec.is_empty()).then(hooks)
    }
}

impl BackupPlan {
    /// The replication slot that keeps the write-ahead log: this object's, or for base backups that of the object that keeps the log,
    /// and empty if there is none. Its name comes from the uid at the end of the prefix, so no further object uses it.
    #[must_use]
    pub fn slot(&self) -> String {
        // A base backup makes no slot for itself.
        if self.log_slot.is_some() || self.sources.iter().any(|source| source.server.kind() == BASE) {
            return self.log_slot.clone().unwrap_or_default();
        }
        slot_of(self.destination.prefix.rsplit('/').next().unwrap_or_default())
    }
}

/// The replication slot of the object with that uid.
#[must_use]
pub fn slot_of(uid: &str) -> String {
    let letters = uid.chars().map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '_' });
    // <https://www.postgresql.org/docs/current/warm-standby.html#STREAMING-REPLICATION-SLOTS>
    format!("causeway_{}", letters.take(50).collect::<String>())
}

/// The work of `causeway-backup fetch`, `causeway-backup restore` and `causeway-backup verify` on one backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestorePlan {
    /// The place of the backup.
    pub origin: Destination,
    /// Folder of the source under [`Destination::prefix`]: [`Source::folder`].
    pub folder: String,
    /// Which backup: its ID such as `20261122T000500Z`.
    pub id: String,
    /// SHA-256 of its manifest, hexadecimal, as the operator checked it: any other manifest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Where the backup is unpacked to: a directory shared by the pod's containers. `fetch` writes `snapshot.db` (etcd),
    /// `dump.rdb` (Redis), `base.tar` and the log (base backups) or the directory `dump` (others) there, and `manifest.json`.
    pub work: PathBuf,
    /// Address within the pod of the throw-away server that holds the backup: `127.0.0.1:port`, with `https://` before
    /// it if the server asks for the certificates that `fetch` writes into `tls` of the work directory. Empty if the
    /// command starts the server itself, or needs none.
    pub scratch: String,
    /// Directory with the file `identity`: secret keys of age that open the backup, if it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// The database to restore to; none for a verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Source>,
    /// True if the target may hold something: it is overwritten, and what the backup lacks is deleted.
    #[serde(default)]
    pub force: bool,
    /// The treatment of objects that are not in the backup and depend on objects that are replaced.
    #[serde(default, skip_serializing_if = "OnDependents::is_fail")]
    pub on_dependents: OnDependents,
    /// Which parts of a dump are restored.
    #[serde(default, skip_serializing_if = "Included::is_all")]
    pub include: Included,
    /// Which of those parts are left out.
    #[serde(default, skip_serializing_if = "Excluded::is_nothing")]
    pub exclude: Excluded,
    /// Over how many connections a PostgreSQL is restored.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parallelism: u8,
    /// True to report what the restore would do, and to do nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// True if it was not verified who wrote the backup. Then programs with a defect that a crafted backup could use are
    /// refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
    /// The log that PostgreSQL replays after a base backup, and up to when; none for all other backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// The log that follows a base backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovery {
    /// The place of the log in S3.
    pub origin: Destination,
    /// IDs of its backups, each with the SHA-256 of its manifest, hexadecimal, as the operator checked it.
    pub log: BTreeMap<String, String>,
    /// The instant to recover to; none for all of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A place in S3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Destination {
    /// Name of the bucket.
    pub bucket: String,
    /// The account that must own the bucket: `ExpectedBucketOwner` of every call.
    pub owner: String,
    /// AWS region of the bucket.
    pub region: String,
    /// Another S3 than AWS', reached by path-style addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The prefix of all keys, without a slash at the end: `<namespace>/<prefix>/<name>/<uid>`.
    pub prefix: String,
    /// Storage class of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Key of KMS; none for S3's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms_key: Option<String>,
    /// True if what names no key is encrypted as the bucket says: the bucket is its owner's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bucket_encrypts: bool,
}

/// A database to back up, or to restore into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Its folder under [`Destination::prefix`], such as `etcdcluster-prod-etcd`: `[a-z0-9.-]+`, another one for each
    /// source.
    pub folder: String,
    /// Its name in the status and in messages, such as `EtcdCluster prod-etcd`.
    pub title: String,
    /// How to talk to it.
    pub server: Server,
}

/// How a database is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Server {
    /// etcd.
    #[serde(rename_all = "camelCase")]
    Etcd {
        /// URLs of clients, such as `https://prod-etcd.shop.svc:2379`.
        endpoints: Vec<String>,
        /// Directory with `ca.crt`, and `tls.crt` and `tls.key` if it asks for them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<PathBuf>,
        /// Directory with the files `username` and `password`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<PathBuf>,
    },
    /// Redis or Valkey.
    #[serde(rename_all = "camelCase")]
    Redis {
        /// Where to try, in order: `host:port`. For a managed one its replicas first, then its master.
        addresses: Vec<String>,
        /// Directory with `password`, and `username` if it is not the default user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<PathBuf>,
        /// Directory with `ca.crt`, and `tls.crt` and `tls.key`; none for no TLS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<PathBuf>,
    },
    /// PostgreSQL.
    Postgresql(SqlServer),
    /// MySQL or MariaDB.
    Mysql(SqlServer),
}

impl Server {
    /// `etcd`, `redis`, `postgresql`, [`BASE`], [`WAL`] or `mysql`, as manifests have it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Etcd { .. } => "etcd",
            Self::Redis { .. } => "redis",
            Self::Postgresql(server) => kind_of(server.method),
            Self::Mysql(_) => "mysql",
        }
    }
}

/// A base backup of PostgreSQL, as manifests and folders have it.
pub const BASE: &str = "postgresql-base";
/// Write-ahead log of PostgreSQL.
pub const WAL: &str = "postgresql-wal";

/// The kind of backup that a method makes, as manifests and folders have it.
#[must_use]
pub fn kind_of(method: Method) -> &'static str {
    match method {
        Method::Dump => "postgresql",
        Method::BaseBackup => BASE,
        Method::Wal => WAL,
    }
}

/// A server that is dumped by its own programs: they are in the image of the Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqlServer {
    /// Host name or IP address.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The database; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Directory with the files `username` and `password`.
    pub login: PathBuf,
    /// Directory with `ca.crt`, and `tls.crt` and `tls.key` if it asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<PathBuf>,
    /// How a PostgreSQL is backed up.
    #[serde(default, skip_serializing_if = "Method::is_dump")]
    pub method: Method,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_the_operator_writes_it() {
        let text = r#"{"destination":{"bucket":"b","owner":"000000000000","region":"eu-central-1","prefix":"p"},
            "sources":[{"folder":"redis-cache","title":"Redis cache","server":
            {"type":"redis","addresses":["cache-replicas.shop.svc:6379"],"login":"/login"}}]}"#;
        let plan: BackupPlan = serde_json::from_str(text).unwrap();
        let login = Some("/login".into());
        let expected = Server::Redis { addresses: vec!["cache-replicas.shop.svc:6379".into()], login, tls: None };
        assert_eq!(plan.sources[0].server, expected);
        let written: serde_json::Value = serde_json::to_value(&plan).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn plans_of_sql_servers_are_read_as_written() {
        let text = r#"{"type":"postgresql","host":"db","port":5432,"database":"shop","login":"/login"}"#;
        let (host, port, database) = ("db".into(), 5432, Some("shop".into()));
        let expected = Server::Postgresql(SqlServer {
            host,
            port,
            database,
            login: "/login".into(),
            tls: None,
            method: Method::Dump,
        });
        assert_eq!(serde_json::from_str::<Server>(text).unwrap(), expected);
        assert_eq!(serde_json::to_string(&expected).unwrap(), text);
    }

    #[test]
    fn hooks_are_as_in_the_spec() {
        let of = |text: &str| Hooks::from_spec(&serde_json::from_str(text).unwrap());
        let hooks = of(r#"{ "after": ["CHECKPOINT"], "timeout": "2m" }"#).unwrap();
        let text = r#"{"after":["CHECKPOINT"],"timeoutSeconds":120}"#;
        assert_eq!(serde_json::to_string(&hooks).unwrap(), text);
        assert_eq!(serde_json::from_str::<Hooks>(text).unwrap(), hooks);
        assert_eq!(of(r#"{ "before": [], "after": [] }"#), None);
    }

    #[test]
    fn an_object_has_its_own_slot_by_uid() {
        let text = r#"{"destination":{"bucket":"b","owner":"0","region":"r",
            "prefix":"shop/log/5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11"},"sources":[]}"#;
        let plan: BackupPlan = serde_json::from_str(text).unwrap();
        assert_eq!(plan.slot(), "causeway_5ee0e5f6_3a5c_4e6a_9d0c_6f5f0a3b8f11");
    }

    #[test]
    fn a_base_backup_uses_the_slot_of_the_logs_object() {
        let text = r#"{"destination":{"bucket":"b","owner":"0","region":"r","prefix":"shop/base/uid-1"},"sources":[],
            "logSlot":"causeway_uid_2"}"#;
        let plan: BackupPlan = serde_json::from_str(text).unwrap();
        assert_eq!(plan.slot(), "causeway_uid_2");
        assert_eq!(BackupPlan { log_slot: None, ..plan }.slot(), "causeway_uid_1");
    }

    #[test]
    fn what_a_plan_does_not_know_is_refused() {
        let text = r#"{"origin":{"bucket":"b","owner":"0","region":"r","prefix":"p"},"folder":"f","id":"latest",
            "work":"/work","scratch":"127.0.0.1:1","forse":true}"#;
        let message = serde_json::from_str::<RestorePlan>(text).unwrap_err().to_string();
        assert!(message.contains("forse"), "{message}");
    }
}
