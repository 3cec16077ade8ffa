//! TLS of a set: which certificates nodes have, and where those come from.
//!
//! ```text
//! NAME-authority ──sign──▶ NAME-server-tls ──▶ the nodes' files: by fixed names when a process starts, and by names with
//!                          NAME-client-tls     a hash of the content when a running process loads new ones
//! a given Secret ──copy──▶ NAME-server-tls
//! ```

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use causeway_api::Redis;
use causeway_api::redis::ClientCertificates;
use causeway_databases::redis::Credentials;
use causeway_databases::tls::secrets::Secrets;
use causeway_databases::tls::user_provided::Needs;
use causeway_databases::tls::{CertificateConfig, lifetime};
use causeway_runtime::consent::REDIS;

use super::facts::{Certificates, NodePod, Pod};
use super::names;

/// The Secret that nodes mount.
pub fn servers_secret(object: &Redis) -> String {
    format!("{}-server-tls", object.name_any())
}

/// The Secret for the user's clients.
fn clients_secret(object: &Redis) -> String {
    format!("{}-client-tls", object.name_any())
}

/// The Secret whose `ca.crt` clients trust.
pub fn trusted_secret(object: &Redis) -> Option<String> {
    let tls = object.spec.tls.as_ref()?;
    Some(tls.secret_name.clone().unwrap_or_else(|| clients_secret(object)))
}

/// Where certificates are kept, and what they are to be.
pub fn config(object: &Redis) -> CertificateConfig {
    let tls = object.spec.tls.as_ref();
    let asks = tls.is_some_and(|tls| tls.client_certificates != ClientCertificates::Off);
    CertificateConfig {
        word: "ca",
        authority_secret: format!("{}-authority", object.name_any()),
        secret: servers_secret(object),
        clients_secret: Some(clients_secret(object)),
        user_provided: tls.and_then(|tls| tls.secret_name.clone()),
        field: "spec.tls.secretName",
        kind: REDIS.kind,
        // Replicas present theirs to the master, if it asks for one.
        needs: Needs { names: services(object).map(|name| names::dns_name(object, &name)).collect(), clients: asks },
        names: all_names(object),
        authority: format!("{} {}", object.namespace().unwrap_or_default(), object.name_any()),
        subject: object.name_any(),
        certificate_lifetime: tls.map(|tls| lifetime(&tls.certificate_duration)),
        authority_lifetime: tls.map_or(SignedDuration::from_hours(1), |tls| lifetime(&tls.authority_duration)),
        renewal: tls.and_then(|tls| tls.renewal.clone()),
        named_by_content: true,
    }
}

/// The Services at which clients speak TLS.
fn services(object: &Redis) -> impl Iterator<Item = String> {
    let sentinel = object.spec.sentinel.is_some().then(|| names::sentinel(object));
    [object.name_any(), names::replicas(object)].into_iter().chain(sentinel)
}

/// Returns the names that a certificate of ours is valid for.
fn all_names(object: &Redis) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let of_service = |name: String| {
        let whole = names::dns_name(object, &name);
        [name.clone(), format!("{name}.{namespace}"), format!("{whole}.cluster.local"), whole]
    };
    let pods = names::dns_name(object, &format!("*.{}", names::peers(object)));
    let mut all: Vec<String> = services(object).flat_map(of_service).collect();
    all.extend([format!("{pods}.cluster.local"), pods]);
    all.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    all
}

/// The facts about the Secrets, without anything secret.
pub fn facts(object: &Redis, secrets: &Secrets, now: Timestamp) -> Certificates {
    let config = config(object);
    Certificates {
        denied: false,
        nodes: secrets.facts(&config, now),
        for_clients: secrets.stored_certificate(&clients_secret(object)),
        authority: secrets.version(&config.authority_secret),
    }
}

/// Returns the credentials for calling nodes over TLS. The operator presents the nodes' own certificate, which they accept.
pub fn credentials(object: &Redis, secrets: &Secrets) -> Option<Arc<Credentials>> {
    let files = secrets.files(&servers_secret(object))?;
    let asks = object.spec.tls.as_ref()?.client_certificates != ClientCertificates::Off;
    Some(Arc::new(Credentials {
        trusted: files.trusted,
        server_name: names::dns_name(object, &object.name_any()),
        identity: asks.then_some((files.certificate, files.key)),
    }))
}

/// The annotation of a pod whose process has loaded certificates.
pub fn note(content: &str, run_id: &str) -> String {
    format!("{content}/{run_id}")
}

/// Reports whether the process of a pod has loaded those certificates.
pub fn has_loaded(pod: &Pod, content: &str) -> bool {
    pod.info().is_some_and(|info| pod.own.certificates.as_deref() == Some(note(content, &info.run_id).as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::redis;
    use super::*;
    use causeway_api::redis::{Sentinel, Tls};

    #[test]
    fn certificates_name_the_sentinel_service_if_there_is_one() {
        let mut object = redis(2);
        let has = |object: &Redis| {
            let config = config(object);
            [config.names, config.needs.names].map(|names| names.iter().any(|it| it == "cache-sentinel.shop.svc"))
        };
        assert_eq!(has(&object), [false, false]);
        object.spec.sentinel = Some(Sentinel::default());
        assert_eq!(has(&object), [true, true]);
    }

    #[test]
    fn certificates_name_services_in_all_forms() {
        let names = config(&redis(2)).names;
        for name in ["cache", "cache.shop", "cache-replicas.shop.svc", "*.cache-peers.shop.svc", "127.0.0.1"] {
            assert!(names.iter().any(|it| it == name), "{name} is not in {names:?}");
        }
        assert_eq!(config(&redis(2)).needs.names, ["cache.shop.svc", "cache-replicas.shop.svc"]);
    }

    #[test]
    fn given_certificates_serve_clients_only_if_required() {
        let mut object = redis(0);
        let of = |client_certificates| Some(Tls { client_certificates, ..Tls::default() });
        for (mode, clients) in [(ClientCertificates::Off, false), (ClientCertificates::Optional, true)] {
            object.spec.tls = of(mode);
            assert_eq!(config(&object).needs.clients, clients);
        }
    }
}
