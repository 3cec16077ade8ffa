//! Reads from the cluster whether Secrets agree to be used. Only their metadata is read.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};

use super::account::grant;
use super::{Consent, not_for_hooks, not_shared};
use crate::{Class, class_of_kubernetes};

/// The reason if there is no Secret of that name.
pub const SECRET_MISSING: &str = "SecretMissing";

/// The number of Secrets that are read at the same time.
const AT_ONCE: usize = 4;

/// The reason for which a Secret may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of a condition.
    pub reason: &'static str,
    /// The message, with the command that fixes it.
    pub message: String,
}

/// Returns for each of these Secrets of a namespace the reason for which objects of `kind` may not use it: it does not
/// exist, does not agree, or may not be read; `None` if they may use it. Any other failure of the API is returned as an
/// error.
pub async fn refusals(
    client: &Client,
    namespace: &str,
    kind: &str,
    asked: impl IntoIterator<Item = (&str, &Consent)>,
) -> Result<Vec<Option<Refusal>>, kube::Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let reads = asked.into_iter().map(|(name, consent)| {
        let api = api.clone();
        async move {
            Ok(match api.get_metadata_opt(name).await {
                Ok(Some(secret)) if consent.is_given(&secret.metadata, kind) => None,
                Ok(Some(secret)) => Some(not_given(namespace, name, consent, &secret.metadata, kind)),
                Ok(None) => Some(missing_secret(name, consent, kind)),
                Err(error) if class_of_kubernetes(&error) == Class::Denied => Some(denied_secret(namespace, name)),
                Err(error) => return Err(error),
            })
        }
    });
    stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await
}

fn not_given(namespace: &str, name: &str, consent: &Consent, secret: &ObjectMeta, kind: &str) -> Refusal {
    let is_usable = *consent == Consent::Hooks && Consent::Named.is_given(secret, kind);
    let message =
        if is_usable { not_for_hooks(namespace, name, kind) } else { not_shared(namespace, name, consent.value(kind)) };
    Refusal { reason: "SecretNotShared", message }
}

/// A Secret that does not exist has not agreed either: its creator may not want it to be used.
fn missing_secret(name: &str, consent: &Consent, kind: &str) -> Refusal {
    let message = match consent {
        Consent::Named | Consent::Hooks => {
            format!("there is no Secret {name} in this namespace: make it, with the label {}={kind}", super::USABLE_BY)
        }
        Consent::Database(..) => {
            format!("there is no Secret {name} in this namespace, by which the database is reached")
        }
    };
    Refusal { reason: SECRET_MISSING, message }
}

fn denied_secret(namespace: &str, name: &str) -> Refusal {
    let message = format!(
        "Secret {name} may not be read, so it is not known whether it agrees to be used: let this namespace grant it ({}), or a \
         Role that names the Secret",
        grant(Some(namespace), "causeway-secrets")
    );
    Refusal { reason: "SecretDenied", message }
}
