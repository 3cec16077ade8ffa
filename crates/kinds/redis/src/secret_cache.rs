//! The Secrets with certificates, as they were last read: a failover must not wait for them, nor for a Secret that a
//! user deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::{Client, ResourceExt};

use causeway_api::Redis;
use causeway_databases::redis::Credentials;
use causeway_databases::tls::facts::StoredCertificate;
use causeway_databases::tls::pem::{certificates, ids, joined};
use causeway_databases::tls::secrets::Secrets;
use causeway_runtime::PerObject;

use super::error::Error;
use super::facts::Certificates;
use super::facts::{Child, Pod};
use super::tls;

/// Secrets that were read more recently than this are not read again.
const GOOD: Duration = Duration::from_secs(3);

/// Reads for all objects.
pub struct SecretCache {
    client: Client,
    known: PerObject<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// When they were read last.
    read: Option<Instant>,
    denied: bool,
    secrets: Secrets,
    /// The credentials that nodes were last called with.
    credentials: Option<Arc<Credentials>>,
}

/// The certificates of one object, as they were read last.
pub struct Look {
    pub certificates: Certificates,
    pub children: Vec<((String, String), Child)>,
    pub credentials: Option<Arc<Credentials>>,
}

impl SecretCache {
    /// Creates an empty cache that reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, known: PerObject::default() }
    }

    /// Returns the certificates of an object. They are read again if the last read is older than `GOOD`, or if `fresh`
    /// asks for it.
    pub async fn look(&self, object: &Redis, pods: &BTreeMap<i32, Pod>, fresh: bool) -> Result<Look, Error> {
        let uid = object.uid().unwrap_or_default();
        let mut known = self.known.get(&uid).unwrap_or_default();
        if fresh || known.read.is_none_or(|read| read.elapsed() > GOOD) {
            match Secrets::read(&self.client, object, &[tls::config(object)]).await {
                Ok(secrets) => known = Known { read: Some(Instant::now()), denied: false, secrets, ..known },
                Err(causeway_databases::Error::SecretsDenied { .. }) => {
                    known = Known { read: Some(Instant::now()), denied: true, ..known }
                }
                Err(error) if known.read.is_some() => tracing::info!(%error, "certificates are as they were read last"),
                Err(error) => return Err(error.into()),
            }
        }
        let facts = tls::facts(object, &known.secrets, Timestamp::now());
        let content = facts.nodes.kept.as_ref().and_then(StoredCertificate::content);
        let loaded = |pod: &Pod| {
            let note = pod.own.certificates.as_ref().and_then(|note| note.split_once('/'));
            content.is_some() && note.map(|(loaded, _)| loaded) == content.as_deref()
        };
        let current = tls::credentials(object, &known.secrets);
        known.credentials = match (known.credentials.take(), current) {
            (Some(before), Some(current)) if !pods.values().all(loaded) => Some(trusting_both(&before, current)),
            (before, current) => current.or(before),
        };
        let look = Look {
            certificates: Certificates { denied: known.denied, ..facts },
            children: known.secrets.children(),
            credentials: known.credentials.clone(),
        };
        self.known.set(&uid, known);
        Ok(look)
    }

    /// The object with that UID is gone: its keys and passwords must not stay in memory.
    pub fn forget(&self, uid: &str) {
        self.known.forget(uid);
    }
}

/// Trusts the earlier authorities as well as the current ones: nodes that have not loaded the current certificate may
/// still present the earlier one. The current Secret does not contain the earlier authorities if a user deleted the
/// Secrets.
fn trusting_both(before: &Credentials, current: Arc<Credentials>) -> Arc<Credentials> {
    let (earlier, now) = (certificates(&before.trusted), certificates(&current.trusted));
    if ids(&now).is_superset(&ids(&earlier)) {
        return current;
    }
    let trusted = joined(now.iter().chain(&earlier));
    Arc::new(Credentials { trusted, ..Credentials::clone(&current) })
}
