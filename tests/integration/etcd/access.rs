//! How clients reach members: with TLS where members serve it, and with the authority that the cluster's Secrets name.

use std::sync::Arc;

use causeway_databases::etcd::{Credentials, Endpoint, Password};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, ResourceExt};

use super::NAME;

/// Label of pods with the transport that they serve to clients.
const TRANSPORT: &str = "causeway.example.com/client-transport";
/// The Secret of the members, and that of their clients.
pub const SERVERS: &str = "db-server-tls";
pub const CLIENTS: &str = "db-client-tls";
/// The Secret with root's password.
pub const ROOT: &str = "db-root";

/// Reports whether the pod's member serves TLS to clients.
pub fn speaks_tls(pod: &Pod) -> bool {
    pod.labels().contains_key(TRANSPORT)
}

/// An endpoint at an address of a member or of the Service, with root's password if there is a Secret with it.
pub async fn endpoint(secrets: &Api<Secret>, address: &str, by_tls: bool) -> Endpoint {
    let login = secrets.get_opt(ROOT).await.ok().flatten().map(|secret| Password(text(&secret, "password")));
    if !by_tls {
        return Endpoint { url: format!("http://{address}:2379"), tls: None, login };
    }
    let tls = credentials(secrets).await.map(Arc::new);
    Endpoint { url: format!("https://{address}:2379"), tls, login }
}

/// Returns the credentials of a client for TLS: from the Secret for clients, or, where the user gave the certificates,
/// from the members' copy.
pub async fn credentials(secrets: &Api<Secret>) -> Option<Credentials> {
    let clients = secrets.get_opt(CLIENTS).await.ok()?;
    let secret = match clients {
        Some(secret) => secret,
        None => secrets.get_opt(SERVERS).await.ok()??,
    };
    let namespace = secret.namespace().unwrap_or_default();
    Some(Credentials {
        trusted: text(&secret, "ca.crt"),
        server_name: format!("{NAME}.{namespace}.svc"),
        identity: Some((text(&secret, "tls.crt"), text(&secret, "tls.key"))),
    })
}

/// A file of a Secret.
pub fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
    String::from_utf8(bytes.unwrap_or_default()).expect("text")
}
