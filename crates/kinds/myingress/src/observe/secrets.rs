//! Client secrets that log-ins need. A Secret is read by its name when a spec refers to it, and checked every few
//! seconds from then on. A watch would need more than the right to `get`, and with `get` alone a namespace does not let
//! a client list its Secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::sleep;

use causeway_api::MyIngress;
use causeway_api::myingress::OidcSpec;
use causeway_runtime::consent::{self, MYINGRESS};
use causeway_runtime::{Class, Failure, class_of_kubernetes};

use crate::error::Error;
use crate::members::{Members, key};
use crate::model::Complaint;

/// Secrets by namespace, name and key.
pub type Values = BTreeMap<(String, String, String), String>;

/// The time between two checks of a Secret, if there are few of them.
const CHECK_INTERVAL: Duration = Duration::from_secs(4);
/// Each Secret adds this much to the pause, so there are at most twenty checks a second.
const APART: Duration = Duration::from_millis(50);
/// Checks at the same time.
const AT_ONCE: usize = 4;

/// The longest client secret that is taken, in bytes. Specs name many, and all that a group needs are in memory at once.
const LONGEST: usize = 4096;

/// A Secret, by namespace and name.
type Place = (String, String);

/// Reads Secrets, and notices when they change.
pub struct Secrets {
    client: Client,
    /// The version of each Secret that was read last; `None` if it did not exist.
    seen: Mutex<BTreeMap<Place, Option<String>>>,
}

impl Secrets {
    /// Reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// Checks every Secret that was read and that an object names. Wakes these objects when the Secret changed. It runs
    /// until it is dropped.
    pub async fn follow(&self, objects: impl Fn() -> Vec<Arc<MyIngress>>, wake: impl Fn(&MyIngress)) {
        loop {
            let objects = objects();
            let named = places(&objects);
            self.lock_seen().retain(|place, _| named.contains_key(place));
            let seen = self.lock_seen().clone();
            let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            let looks: Vec<_> = seen.into_iter().map(|(place, version)| self.changed(place, version)).collect();
            let changed: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
            for (place, version) in changed.into_iter().flatten() {
                // Objects are woken once per change. An object that fails to read the Secret tries again by itself.
                named.get(&place).into_iter().flatten().for_each(|object| wake(object));
                self.lock_seen().insert(place, version);
            }
            sleep(CHECK_INTERVAL.max(APART.saturating_mul(count))).await;
        }
    }

    /// The version of the Secret, if it changed. The content is not read.
    async fn changed(&self, place: Place, before: Option<String>) -> Option<(Place, Option<String>)> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &place.0);
        // A Secret that cannot be read now counts as unchanged.
        let version = api.get_metadata_opt(&place.1).await.ok()?.and_then(|secret| secret.metadata.resource_version);
        (version != before).then_some((place, version))
    }

    fn lock_seen(&self) -> parking_lot::MutexGuard<'_, BTreeMap<Place, Option<String>>> {
        self.seen.lock()
    }

    /// The client secrets that the specs of the members name. Secrets that do not exist are left out, and the member
    /// that names one gets a complaint. A member whose Secret may not be read, or whose owner has not agreed to that,
    /// takes no part. The others go on.
    pub async fn read_for(&self, members: &mut Members) -> Result<Values, Error> {
        let mut values = Values::new();
        let active: Vec<MyIngress> = members.active().into_iter().cloned().collect();
        for member in &active {
            let namespace = member.namespace().unwrap_or_default();
            let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            let mut fields: BTreeMap<&str, String> = BTreeMap::new();
            for (field, wanted) in oidc_specs(member) {
                keys.entry(&wanted.client_secret_name).or_default().insert(&wanted.client_secret_key);
                fields.entry(&wanted.client_secret_name).or_insert(field);
            }
            let places = keys.keys().map(|name| (namespace.clone(), (*name).to_owned()));
            let reads: Vec<_> = places.zip(keys.values()).map(|(place, keys)| self.read_keys(place, keys)).collect();
            let secrets: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
            let mut found = Values::new();
            let mut refused = None;
            for ((name, keys), secret) in keys.into_iter().zip(secrets) {
                let data = match secret {
                    Ok(data) => data,
                    Err(error @ (Error::SecretDenied { .. } | Error::SecretNotShared { .. })) => {
                        refused = refused.or_else(|| Some((fields.remove(name).unwrap_or_default(), error)));
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                for (wanted, value) in keys.into_iter().zip(data) {
                    let key = (namespace.clone(), name.to_owned(), wanted.to_owned());
                    found.extend(value.map(|value| (key, value)));
                }
            }
            match refused {
                None => values.extend(found),
                Some((field, error)) => {
                    let complaint = Complaint { reason: error.reason(), message: format!("{field}: {error}") };
                    members.refused.insert(key(member), complaint);
                }
            }
        }
        Ok(values)
    }

    /// The values of these keys of a Secret. What is longer than [`LONGEST`] is no client secret, and left out.
    async fn read_keys(&self, place: Place, keys: &BTreeSet<&str>) -> Result<Vec<Option<String>>, Error> {
        let data = self.read(place).await?;
        let value = |key: &&str| {
            let value = data.get(*key).filter(|value| value.0.len() <= LONGEST)?;
            Some(String::from_utf8(value.0.clone()).ok()?.trim_end_matches('\n').to_owned())
        };
        Ok(keys.iter().map(value).collect())
    }

    /// The content of a Secret whose owner agrees to its use; empty if the Secret does not exist. The metadata is read
    /// first, so the content is never requested without consent.
    async fn read(&self, place: Place) -> Result<BTreeMap<String, ByteString>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &place.0);
        let failed = |error: kube::Error| match class_of_kubernetes(&error) {
            Class::Denied => Error::SecretDenied { namespace: place.0.clone(), name: place.1.clone() },
            _ => Error::SecretUnread(error),
        };
        let metadata = api.get_metadata_opt(&place.1).await.map_err(failed)?;
        let version = metadata.as_ref().and_then(|secret| secret.metadata.resource_version.clone());
        self.lock_seen().insert(place.clone(), version);
        let Some(metadata) = metadata else { return Ok(BTreeMap::new()) };
        let shared = |metadata: &ObjectMeta| consent::is_given(metadata.labels.as_ref(), MYINGRESS);
        let not_shared = || Error::SecretNotShared { namespace: place.0.clone(), name: place.1.clone() };
        if !shared(&metadata.metadata) {
            return Err(not_shared());
        }
        match api.get_opt(&place.1).await.map_err(failed)? {
            // The owner may have taken back consent meanwhile.
            Some(secret) if !shared(&secret.metadata) => Err(not_shared()),
            secret => Ok(secret.and_then(|secret| secret.data).unwrap_or_default()),
        }
    }
}

/// The objects that name each Secret. Objects that are suspended or being deleted are left out.
fn places(objects: &[Arc<MyIngress>]) -> BTreeMap<Place, Vec<&MyIngress>> {
    let mut found: BTreeMap<Place, Vec<&MyIngress>> = BTreeMap::new();
    let active = objects.iter().filter(|it| !it.spec.suspend && it.meta().deletion_timestamp.is_none());
    for object in active {
        for (_, wanted) in oidc_specs(object) {
            let place = (object.namespace().unwrap_or_default(), wanted.client_secret_name.clone());
            found.entry(place).or_default().push(object);
        }
    }
    found
}

/// The log-ins of a spec, each with the path of the field that names its Secret.
fn oidc_specs(object: &MyIngress) -> impl Iterator<Item = (String, &OidcSpec)> {
    object.spec.listeners.iter().enumerate().flat_map(|(index, listener)| {
        let listener_path = format!("spec.listeners[{index}]");
        let rules = listener.rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| (format!("rules[{index}].action"), &rule.action));
        let default = listener.default_action.iter().map(|action| ("defaultAction".to_owned(), action));
        let actions: Vec<_> = rules.chain(default).collect();
        actions.into_iter().filter_map(move |(path, action)| {
            let field = format!("{listener_path}.{path}.authenticateOidc.clientSecretName");
            action.authenticate_oidc.as_ref().map(|oidc| (field, oidc))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::fixtures::{oidc, standing};

    #[test]
    fn a_log_in_is_found_with_the_field_of_its_secret() {
        let page = json!({ "fixedResponse": { "statusCode": 200 }, "authenticateOidc": oidc() });
        let rules = json!([{ "hosts": ["a.example.com"], "action": { "fixedResponse": { "statusCode": 404 } } },
            { "hosts": ["b.example.com"], "action": page }]);
        let object = standing("web", json!({ "listeners": [{ "port": 443, "rules": rules, "defaultAction": page }] }));
        let fields: Vec<String> = oidc_specs(&object).map(|(field, _)| field).collect();
        let under = |part: &str| format!("spec.listeners[0].{part}.authenticateOidc.clientSecretName");
        assert_eq!(fields, [under("rules[1].action"), under("defaultAction")]);
    }
}
