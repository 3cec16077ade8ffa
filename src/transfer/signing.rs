//! The key by which the operator signs backups, in a Secret of its own namespace: made once, and kept for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::api::common::FIELD_MANAGER;
use crate::backup::signature::{KeyError, SigningKey};
use crate::runtime::api_message;

/// Name of the Secret.
const SIGNING_KEY: &str = "causeway-signing-key";
/// Its key with the secret, PKCS#8.
const PRIVATE: &str = "private";
/// Its key with what others know it by, for people.
const PUBLIC: &str = "public";
/// Somebody may put back the key of a lost cluster: it is read again so often.
const FRESH: Duration = Duration::from_mins(1);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    /// The Secret could not be read or made.
    #[error("Secret {SIGNING_KEY} of the operator's namespace: {}", api_message(.0))]
    Secret(#[from] kube::Error),
    /// It holds none.
    #[error("Secret {SIGNING_KEY} of the operator's namespace, key {PRIVATE}: {0}")]
    Content(#[from] KeyError),
}

/// The key.
pub struct Signing {
    client: Client,
    namespace: String,
    held: Mutex<Option<(Instant, Arc<SigningKey>)>>,
}

impl Signing {
    /// That of the operator in this namespace.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, held: Mutex::default() }
    }

    /// The key, which is made where there is none.
    pub async fn key(&self) -> Result<Arc<SigningKey>, NoKey> {
        if let Some(key) = self.existing().await? {
            return Ok(key);
        }
        let (key, secret) = SigningKey::generate()?;
        let data = [(PRIVATE, secret), (PUBLIC, key.public().to_string().into_bytes())];
        let labels = [("app.kubernetes.io/name", "signing-key"), ("app.kubernetes.io/managed-by", "causeway")];
        let made = Secret {
            metadata: ObjectMeta {
                name: Some(SIGNING_KEY.into()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from(data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes))))),
            immutable: Some(true),
            ..Secret::default()
        };
        let how = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        // Where another process was faster, the next look finds its key.
        self.api().create(&how, &made).await?;
        Ok(self.keep(key))
    }

    /// The key, where there is one.
    pub async fn existing(&self) -> Result<Option<Arc<SigningKey>>, NoKey> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, key)) = held.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Some(key));
        }
        let Some(secret) = self.api().get_opt(SIGNING_KEY).await? else { return Ok(None) };
        let bytes = secret.data.and_then(|mut data| data.remove(PRIVATE)).unwrap_or_default();
        Ok(Some(self.keep(SigningKey::read(&bytes.0)?)))
    }

    fn keep(&self, key: SigningKey) -> Arc<SigningKey> {
        let key = Arc::new(key);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), key.clone()));
        key
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
