//! Secrets with a password that Causeway generates: how they are written, and what becomes of one that a user emptied.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use causeway_runtime::manifest::{Manifest, patch_exactly};

use super::tls::facts::Version;

/// The key of the password.
pub const KEY: &str = "password";

/// A Secret that exists, but holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// Causeway made it, and writes a password into this version of it.
    Ours(Version),
    /// A user made it, or its password is not text: a person has to mend it.
    Theirs,
}

impl Emptied {
    /// Judges a Secret without a readable password. `is_ours` says whether Causeway made it.
    pub fn judge(secret: &Secret, is_ours: bool) -> Self {
        let bytes = secret.data.as_ref().and_then(|data| data.get(KEY));
        let is_empty = bytes.is_none_or(|bytes| bytes.0.trim_ascii().is_empty());
        if is_ours && is_empty { Self::Ours(version_of(secret)) } else { Self::Theirs }
    }

    /// The version that Causeway writes to, if it may.
    pub fn version(&self) -> Option<&Version> {
        match self {
            Self::Ours(version) => Some(version),
            Self::Theirs => None,
        }
    }

    /// Says that the Secret of that name has no password, and what to do.
    pub fn describe(secret: &str) -> String {
        format!(
            "spec.auth: Secret {secret} has no text in key {KEY}, and Causeway fills only an empty Secret that it made itself: put a \
             password there, or delete the Secret"
        )
    }
}

/// The version of a Secret as it was read.
pub fn version_of(secret: &Secret) -> Version {
    Version { uid: secret.uid().unwrap_or_default(), version: secret.resource_version().unwrap_or_default() }
}

/// Creates a Secret with this content, or merges the content into exactly the version `before` of it. Fails if another client
/// has created, changed or deleted the Secret meanwhile.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
pub async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    before: Option<&Version>,
    mut content: Value,
) -> Result<(), kube::Error> {
    if let Some(Version { uid, version }) = before {
        content["metadata"]["resourceVersion"] = json!(version);
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        return patch_exactly(&api, name, uid, content).await.map(drop);
    }
    content["metadata"]["name"] = json!(name);
    Manifest::new::<Secret>(content).create(client, namespace).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emptied(data: &Value, is_ours: bool) -> Emptied {
        let metadata = json!({ "name": "cache-auth", "uid": "u", "resourceVersion": "7" });
        Emptied::judge(&serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap(), is_ours)
    }

    #[test]
    fn only_an_empty_secret_that_causeway_made_is_filled() {
        let version = Version { uid: "u".into(), version: "7".into() };
        for data in [json!(null), json!({}), json!({ "password": "" }), json!({ "password": "Cg==" })] {
            assert_eq!(emptied(&data, true), Emptied::Ours(version.clone()), "{data}");
            assert_eq!(emptied(&data, false), Emptied::Theirs);
        }
        assert_eq!(emptied(&json!({ "password": "/w==" }), true), Emptied::Theirs, "a user's password is not text");
    }
}
