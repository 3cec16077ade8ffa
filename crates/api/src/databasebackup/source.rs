//! Databases: what is backed up, and what is restored to.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A database: give exactly one of the fields. All objects and Secrets that it names are in the object's own namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// An EtcdCluster of the namespace, such as `{ name: prod-etcd }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_cluster: Option<Named>,

    /// A Redis of the namespace, such as `{ name: cache }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Named>,

    /// Any other etcd, such as `{ endpoints: ["https://etcd-0.example.com:2379"] }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdEndpoints>,

    /// Any other Redis or Valkey, such as `{ address: "cache.example.com:6379" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis_server: Option<RedisServer>,

    /// Any PostgreSQL, such as `{ host: db.example.com, image: "postgres:15", authSecretName: shop-db-backup }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgresql: Option<SqlServer>,

    /// Any MySQL or MariaDB, such as
    /// `{ host: db.example.com, image: "mariadb:10.11", authSecretName: shop-db-backup }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mysql: Option<SqlServer>,
}

/// An object of the namespace.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Name of the object, such as `cache`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "name must be a name of lower case letters, digits, hyphens and dots"))]
    pub name: String,
}

/// Any etcd.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdEndpoints {
    /// Client URLs of the members, such as `https://etcd-0.example.com:2379`.
    #[schemars(length(min = 1, max = 16), inner(length(max = 256)))]
    #[x_kube(validation = (r"self.all(it, it.matches('^https?://[A-Za-z0-9.-]+(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$') || it.matches('^https?://[\\[][0-9a-fA-F:]+[\\]](:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$'))", "endpoints must be URLs without a path, such as https://etcd-0.example.com:2379"))]
    pub endpoints: Vec<String>,

    /// Name of a Secret with `ca.crt`, and with `tls.crt` and `tls.key` if the server asks for a client certificate.
    /// The Secret needs the label `causeway.example.com/usable-by` with the value `databasebackup`, or
    /// `databaserestore` if this is a target, or both joined by a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "tlsSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub tls_secret_name: Option<String>,

    /// Name of a Secret with `username` and `password` of a user who may read everything; a snapshot needs the role
    /// root. The Secret needs the label `causeway.example.com/usable-by` with the value `databasebackup`, or
    /// `databaserestore` if this is a target, or both joined by a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "authSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub auth_secret_name: Option<String>,
}

/// Any Redis or Valkey.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisServer {
    /// Host and port, such as `cache.example.com:6379`.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = (r"self.matches('^[A-Za-z0-9.-]+:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$') || self.matches('^[\\[][0-9a-fA-F:]+[\\]]:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')", "address must be a host and a port, such as cache.example.com:6379"))]
    pub address: String,

    /// Name of a Secret with `password`, and with `username` if it is not the default user. The Secret needs the label
    /// `causeway.example.com/usable-by` with the value `databasebackup`, or `databaserestore` if this is a target, or
    /// both joined by a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "authSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub auth_secret_name: Option<String>,

    /// Name of a Secret with `ca.crt`, and with `tls.crt` and `tls.key` if the server asks for a client certificate.
    /// The Secret needs the label `causeway.example.com/usable-by` with the value `databasebackup`, or
    /// `databaserestore` if this is a target, or both joined by a dot. Left out, no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "tlsSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub tls_secret_name: Option<String>,
}

/// Any PostgreSQL, MySQL or MariaDB. The database's own programs, from `image`, dump and load it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqlServer {
    /// DNS name or address of the server, such as `db.example.com`.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = (r"self.matches('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$') || self.matches('^[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*$')", "host must be a name or an address without a port, such as db.example.com"))]
    pub host: String,

    /// Port of the server. Left out, 5432 for PostgreSQL and 3306 for MySQL and MariaDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,

    /// Name of the database, such as `shop`. Left out, all except the server's own. In a target: the database that
    /// receives the only database of the backup, or the one with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = (r"self.matches('^[^\\x00-\\x1f\\x7f-\\x{9f}]+$')", "database must not have control characters"))]
    pub database: Option<String>,

    /// Image with the database's programs, of the server's version or a later one, such as `postgres:15` or
    /// `mariadb:10.11`: `pg_dump`, `pg_dumpall` and `pg_restore`, or `mariadb-dump` and `mariadb`, or
    /// `mysqldump` and `mysql`. Verification also needs the server itself.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = (r"self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,128})?$')", "image must be the reference of an image, such as registry.example.com/postgres:15"))]
    pub image: String,

    /// Name of a Secret with `username` and `password` of a user who may read everything or, in a target, write
    /// everything. The Secret needs the label `causeway.example.com/usable-by` with the value `databasebackup`, or
    /// `databaserestore` if this is a target, or both joined by a dot.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "authSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub auth_secret_name: String,

    /// Name of a Secret with `ca.crt`, and with `tls.crt` and `tls.key` if the server asks for a client certificate.
    /// The Secret needs the label `causeway.example.com/usable-by` with the value `databasebackup`, or
    /// `databaserestore` if this is a target, or both joined by a dot. Left out, the database's programs decide whether
    /// to use TLS, and the server's certificate is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "tlsSecretName must be a name of lower case letters, digits, hyphens and dots"))]
    pub tls_secret_name: Option<String>,
}
