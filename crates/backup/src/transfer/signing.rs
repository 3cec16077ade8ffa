//! The key with which the operator signs backups, in a Secret of its own namespace. It is created once and never
//! replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;

use causeway_api::common::FIELD_MANAGER;
use causeway_runtime::api_message;

use crate::signature::{KeyError, SigningKey};

/// Name of the Secret.
const SIGNING_KEY: &str = "causeway-signing-key";
/// The data key of the private key, in PKCS#8.
const PRIVATE: &str = "private";
/// The data key of the public key, which users give to `--trusted-key`.
const PUBLIC: &str = "public";
/// How long the key is cached: an administrator may restore the key of a lost cluster.
const FRESH: Duration = Duration::from_mins(1);

/// The reasons why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    /// The Secret could not be read or created.
    #[error("Secret {SIGNING_KEY} of the operator's namespace: {}", api_message(.0))]
    Secret(#[from] kube::Error),
    /// The Secret has no valid key.
    #[error("Secret {SIGNING_KEY} of the operator's namespace, key {PRIVATE}: {0}")]
    Content(#[from] KeyError),
}

/// The signing key.
pub struct Signing {
    client: Client,
    namespace: String,
    held: Mutex<Option<(Instant, Arc<SigningKey>)>>,
}

impl Signing {
    /// The key of the operator in this namespace.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, held: Mutex::default() }
    }

    /// The key, which is created if it does not exist.
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
        // If another process was faster, this fails, and the next attempt reads that key.
        self.api().create(&how, &made).await?;
        Ok(self.keep(key))
    }

    /// The key, if it exists.
    pub async fn existing(&self) -> Result<Option<Arc<SigningKey>>, NoKey> {
        let held = self.held.lock().clone();
        if let Some((_, key)) = held.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Some(key));
        }
        let Some(secret) = self.api().get_opt(SIGNING_KEY).await? else { return Ok(None) };
        let bytes = secret.data.and_then(|mut data| data.remove(PRIVATE)).unwrap_or_default();
        Ok(Some(self.keep(SigningKey::read(&bytes.0)?)))
    }

    fn keep(&self, key: SigningKey) -> Arc<SigningKey> {
        let key = Arc::new(key);
        *self.held.lock() = Some((Instant::now(), key.clone()));
        key
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
