//! Databases as the plans of Jobs have them, and the Secrets that Jobs need for them.

use std::path::PathBuf;

use kube::ResourceExt;

use causeway_api::databasebackup::{Method, Source, SqlServer};
use causeway_api::redis::ClientCertificates;
use causeway_api::{EtcdCluster, Redis};
use causeway_runtime::consent::{Consent, ETCDCLUSTER, REDIS};

use crate::MOUNTED;
use crate::plan::{self, Server};

/// Port of members of etcd for clients.
const ETCD_PORT: u16 = 2379;
/// Port of nodes of Redis.
const REDIS_PORT: u16 = 6379;
/// Port of PostgreSQL, if no other is given.
const POSTGRESQL_PORT: u16 = 5432;
/// Port of MySQL and MariaDB, if no other is given.
const MYSQL_PORT: u16 = 3306;

/// A database, and the Secrets that its Job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The database, as the plan has it.
    pub source: plan::Source,
    /// Secrets that the Job mounts for it.
    pub mounts: Vec<SecretMount>,
}

/// A Secret in the Job's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretMount {
    /// Where its keys are, a file each.
    pub path: PathBuf,
    /// Name of the Secret.
    pub secret: String,
    /// The keys that are needed; empty for all. A missing key is left out, and the Job reports that.
    pub keys: Vec<&'static str>,
    /// Whose consent the use of the Secret needs.
    pub consent: Consent,
    /// The field below `spec.source` or `spec.target` that names it, if there is one.
    pub field: Option<String>,
}

/// Returns the access to an `EtcdCluster`.
#[must_use]
pub fn of_etcd_cluster(object: &EtcdCluster) -> Access {
    let (name, folder) = (object.name_any(), format!("etcdcluster-{}", object.name_any()));
    let host = format!("{name}.{}.svc:{ETCD_PORT}", object.namespace().unwrap_or_default());
    let client = object.spec.tls.as_ref().and_then(|tls| tls.client.as_ref());
    let consent = Consent::Database(ETCDCLUSTER, name.clone(), object.uid().unwrap_or_default());
    let mut mounts = Vec::new();
    let tls = client.map(|client| {
        let issued = client.secret_name.is_none();
        let secret = client.secret_name.clone().unwrap_or_else(|| format!("{name}-client-tls"));
        // A Secret that the spec names holds the members' own key. A Job gets that only if it must show a certificate.
        let keys = if issued || client.verify_clients { vec!["ca.crt", "tls.crt", "tls.key"] } else { vec!["ca.crt"] };
        mount(&mut mounts, &folder, "tls", secret, &keys, &consent)
    });
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Not the Secret with the wanted password: this one has the password that etcd knows.
    let login = object
        .spec
        .auth
        .enabled
        .then(|| mount(&mut mounts, &folder, "login", format!("{name}-root"), &["username", "password"], &consent));
    let server = Server::Etcd { endpoints: vec![format!("{scheme}://{host}")], tls, login };
    Access { source: plan::Source { folder, title: format!("EtcdCluster {name}"), server }, mounts }
}

/// A `Redis`. Its replicas are asked first, to spare the master.
#[must_use]
pub fn of_redis(object: &Redis, master_only: bool) -> Access {
    let (name, folder) = (object.name_any(), format!("redis-{}", object.name_any()));
    let namespace = object.namespace().unwrap_or_default();
    let mut addresses = vec![format!("{name}.{namespace}.svc:{REDIS_PORT}")];
    if object.spec.replicas > 0 && !master_only {
        addresses.insert(0, format!("{name}-replicas.{namespace}.svc:{REDIS_PORT}"));
    }
    let consent = Consent::Database(REDIS, name.clone(), object.uid().unwrap_or_default());
    let mut mounts = Vec::new();
    let login = object.spec.auth.enabled.then(|| {
        let secret = object.spec.auth.secret_name.clone().unwrap_or_else(|| format!("{name}-auth"));
        mount(&mut mounts, &folder, "login", secret, &["password"], &consent)
    });
    let tls = object.spec.tls.as_ref().map(|tls| {
        let shows = tls.client_certificates != ClientCertificates::Off;
        let secret = tls.secret_name.clone().unwrap_or_else(|| format!("{name}-client-tls"));
        let keys = if shows { vec!["ca.crt", "tls.crt", "tls.key"] } else { vec!["ca.crt"] };
        mount(&mut mounts, &folder, "tls", secret, &keys, &consent)
    });
    let server = Server::Redis { addresses, login, tls };
    Access { source: plan::Source { folder, title: format!("Redis {name}"), server }, mounts }
}

/// A database that is named by its address; none if the source names an object. `method` is for a PostgreSQL.
#[must_use]
pub fn of_source(source: &Source, method: Method) -> Option<Access> {
    let mut mounts = Vec::new();
    let (tls_keys, login_keys) = (["ca.crt", "tls.crt", "tls.key"], ["username", "password"]);
    let mut user_provided = |folder: &str, what: &str, secret: Option<&String>, keys: &[&'static str]| {
        secret.map(|secret| mount(&mut mounts, folder, what, secret.clone(), keys, &Consent::Named))
    };
    let (folder, title, server) = if let Some(etcd) = &source.etcd {
        let tls = user_provided("etcd", "tls", etcd.tls_secret_name.as_ref(), &tls_keys);
        let login = user_provided("etcd", "login", etcd.auth_secret_name.as_ref(), &login_keys);
        let server = Server::Etcd { endpoints: etcd.endpoints.clone(), tls, login };
        ("etcd", format!("etcd {}", etcd.endpoints.first()?), server)
    } else if let Some(redis) = &source.redis_server {
        let tls = user_provided("redisserver", "tls", redis.tls_secret_name.as_ref(), &tls_keys);
        let login = user_provided("redisserver", "login", redis.auth_secret_name.as_ref(), &login_keys);
        let server = Server::Redis { addresses: vec![redis.address.clone()], login, tls };
        ("redisserver", format!("Redis {}", redis.address), server)
    } else {
        let (kind, sql) = sql_of(source)?;
        let tls = user_provided(kind.folder, "tls", sql.tls_secret_name.as_ref(), &tls_keys);
        let login = user_provided(kind.folder, "login", Some(&sql.auth_secret_name), &login_keys)?;
        let port = sql.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(kind.port);
        let (host, database) = (sql.host.clone(), sql.database.clone());
        let of = database.as_ref().map_or_else(String::new, |name| format!("/{name}"));
        let title = format!("{} {host}:{port}{of}", kind.title);
        let server = (kind.server)(plan::SqlServer { host, port, database, login, tls, method });
        (server.kind(), title, server)
    };
    Some(Access { source: plan::Source { folder: folder.into(), title, server }, mounts })
}

/// Host and port of a PostgreSQL: base backups and log with the same ones are taken for those of one server.
#[must_use]
pub fn postgresql_at(source: &Source) -> Option<(&str, u16)> {
    let (host, port) = source.postgresql.as_ref().map(|sql| (sql.host.as_str(), sql.port))?;
    Some((host, port.and_then(|port| u16::try_from(port).ok()).unwrap_or(POSTGRESQL_PORT)))
}

/// The kind of a database that its own programs dump, as manifests have it, and the image with these programs.
#[must_use]
pub fn image_of(source: &Source) -> Option<(&'static str, &str)> {
    sql_of(source).map(|(kind, sql)| (kind.folder, sql.image.as_str()))
}

/// A kind of databases that their own programs dump.
struct SqlKind {
    folder: &'static str,
    title: &'static str,
    port: u16,
    server: fn(plan::SqlServer) -> Server,
}

fn sql_of(source: &Source) -> Option<(SqlKind, &SqlServer)> {
    let postgresql =
        SqlKind { folder: "postgresql", title: "PostgreSQL", port: POSTGRESQL_PORT, server: Server::Postgresql };
    let mysql = SqlKind { folder: "mysql", title: "MySQL", port: MYSQL_PORT, server: Server::Mysql };
    let user_provided = source.postgresql.as_ref().map(|sql| (postgresql, sql));
    user_provided.or_else(|| source.mysql.as_ref().map(|sql| (mysql, sql)))
}

/// The field of a source with this folder.
fn field_of(folder: &str) -> &str {
    match folder {
        "redisserver" => "redisServer",
        other => other,
    }
}

fn mount(
    mounts: &mut Vec<SecretMount>,
    folder: &str,
    what: &str,
    secret: String,
    keys: &[&'static str],
    consent: &Consent,
) -> PathBuf {
    // Errors name the Secret by the last part.
    let path: PathBuf = [MOUNTED, folder, what, &secret].iter().collect();
    let named = *consent == Consent::Named;
    let field = named
        .then(|| format!("{}.{}", field_of(folder), if what == "tls" { "tlsSecretName" } else { "authSecretName" }));
    mounts.push(SecretMount { path: path.clone(), secret, keys: keys.to_vec(), consent: consent.clone(), field });
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(value: serde_json::Value) -> Source {
        serde_json::from_value(value).expect("a source")
    }

    fn etcd(spec: serde_json::Value) -> EtcdCluster {
        let mut object = EtcdCluster::new("prod-etcd", serde_json::from_value(spec).expect("a spec"));
        object.metadata.namespace = Some("shop".into());
        object
    }

    #[test]
    fn members_are_reached_by_the_name_of_their_service() {
        let access = of_etcd_cluster(&etcd(json!({ "version": "3.5.9" })));
        let server = Server::Etcd { endpoints: vec!["http://prod-etcd.shop.svc:2379".into()], tls: None, login: None };
        assert_eq!(access.source.server, server);
        assert_eq!((access.source.folder.as_str(), access.mounts.len()), ("etcdcluster-prod-etcd", 0));
    }

    #[test]
    fn with_authentication_a_job_gets_the_password_that_etcd_has() {
        let auth = json!({ "version": "3.5.9", "auth": { "enabled": true, "secretName": "mine" } });
        let access = of_etcd_cluster(&etcd(auth));
        let Server::Etcd { login, .. } = &access.source.server else { panic!("etcd") };
        assert_eq!(access.mounts[0].secret, "prod-etcd-root");
        assert!(
            access.mounts[0].path.ends_with("etcdcluster-prod-etcd/login/prod-etcd-root"),
            "errors name the Secret"
        );
        assert_eq!(login.as_ref(), Some(&access.mounts[0].path));
    }

    #[test]
    fn with_tls_a_job_never_gets_the_members_key() {
        let issued = of_etcd_cluster(&etcd(json!({ "version": "3.5.9", "tls": { "client": {} } })));
        assert_eq!(issued.mounts[0].secret, "prod-etcd-client-tls");
        let user_provided = json!({ "version": "3.5.9", "tls": { "client": { "secretName": "mine" } } });
        let user_provided = of_etcd_cluster(&etcd(user_provided));
        assert_eq!(
            (user_provided.mounts[0].secret.as_str(), user_provided.mounts[0].keys.as_slice()),
            ("mine", ["ca.crt"].as_slice())
        );
        let Server::Etcd { endpoints, .. } = user_provided.source.server else { panic!("etcd") };
        assert_eq!(endpoints, ["https://prod-etcd.shop.svc:2379"]);
    }

    #[test]
    fn replicas_are_asked_before_the_master() {
        let mut object =
            Redis::new("cache", serde_json::from_value(json!({ "auth": { "enabled": true } })).expect("spec"));
        object.metadata.namespace = Some("shop".into());
        let access = of_redis(&object, false);
        let Server::Redis { addresses, login, .. } = &access.source.server else { panic!("redis") };
        assert_eq!(addresses, &["cache-replicas.shop.svc:6379", "cache.shop.svc:6379"]);
        assert_eq!(access.mounts[0].secret, "cache-auth");
        assert_eq!(login.as_ref(), Some(&access.mounts[0].path));
    }

    #[test]
    fn a_redis_with_tls_gets_a_certificate_if_it_asks() {
        let access = |tls: serde_json::Value| {
            let mut object = Redis::new("cache", serde_json::from_value(json!({ "tls": tls })).expect("spec"));
            object.metadata.namespace = Some("shop".into());
            of_redis(&object, false)
        };
        let issued = access(json!({}));
        assert_eq!((issued.mounts[0].secret.as_str(), issued.mounts[0].keys.len()), ("cache-client-tls", 1));
        let Server::Redis { tls, .. } = &issued.source.server else { panic!("redis") };
        assert_eq!(tls.as_ref(), Some(&issued.mounts[0].path));
        let user_provided = access(json!({ "secretName": "mine", "clientCertificates": "Required" }));
        assert_eq!((user_provided.mounts[0].secret.as_str(), user_provided.mounts[0].keys.len()), ("mine", 3));
    }

    #[test]
    fn servers_are_reached_as_they_are_named() {
        let access =
            of_source(&source(json!({ "redisServer": { "address": "db:6379", "authSecretName": "a" } })), Method::Dump);
        let access = access.expect("an access");
        assert_eq!((access.source.folder.as_str(), access.mounts.len()), ("redisserver", 1));
        let access =
            of_source(&source(json!({ "etcd": { "endpoints": ["http://x:1"], "tlsSecretName": "t" } })), Method::Dump);
        assert_eq!(access.expect("an access").mounts[0].secret, "t");
        assert_eq!(of_source(&source(json!({ "redis": { "name": "cache" } })), Method::Dump), None);
    }

    #[test]
    fn databases_with_programs_of_their_own_have_their_usual_ports() {
        let sql = json!({ "host": "db", "database": "shop", "image": "mirror/db:1", "authSecretName": "db-login" });
        let of = |field: &str| source(json!({ (field): sql.clone() }));
        let access = of_source(&of("postgresql"), Method::Dump).expect("an access");
        assert_eq!(access.source.title, "PostgreSQL db:5432/shop");
        let Server::Postgresql(server) = &access.source.server else { panic!("PostgreSQL") };
        assert_eq!((&server.login, server.port), (&access.mounts[0].path, 5432));
        assert_eq!(of_source(&of("mysql"), Method::Dump).expect("an access").source.title, "MySQL db:3306/shop");
        assert_eq!(image_of(&of("mysql")), Some(("mysql", "mirror/db:1")));
    }
}
