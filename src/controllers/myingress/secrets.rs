//! Client secrets that log-ins need: read from Secrets, each by its name, when a spec asks for one, and looked at every few
//! seconds from then on. A watch would need another right than `get`, by which a namespace grants no list of its Secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::time::sleep;

use super::error::Error;
use super::members::{Members, key};
use super::model::Complaint;
use crate::api::MyIngress;
use crate::api::myingress::SecretKey;
use crate::runtime::{Class, Failure, class_of_kubernetes};

/// Secrets by namespace, name and key.
pub type Values = BTreeMap<(String, String, String), String>;

/// Between two looks at a Secret, where there are few of them.
const OFTEN: Duration = Duration::from_secs(4);
/// Each Secret makes the pause longer by so much: there are at most twenty looks a second.
const APART: Duration = Duration::from_millis(50);
/// Looks at the same time.
const AT_ONCE: usize = 4;

/// A Secret, by namespace and name.
type Place = (String, String);

/// Reads Secrets, and sees when they change.
pub struct Secrets {
    client: Client,
    /// The version of each that was read last; none of one that was not there.
    seen: Mutex<BTreeMap<Place, Option<String>>>,
}

impl Secrets {
    /// Reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// Looks at every Secret that was read and that an object names, and wakes those objects when it is another. It runs
    /// until it is dropped.
    pub async fn follow(&self, objects: impl Fn() -> Vec<Arc<MyIngress>>, wake: impl Fn(&MyIngress)) {
        loop {
            let objects = objects();
            let named = places(&objects);
            self.seen().retain(|place, _| named.contains_key(place));
            let seen = self.seen().clone();
            let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            let looks: Vec<_> = seen.into_iter().map(|(place, version)| self.changed(place, version)).collect();
            let changed: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
            for (place, version) in changed.into_iter().flatten() {
                // Told once: whoever fails to read it tries again by himself.
                named.get(&place).into_iter().flatten().for_each(|object| wake(object));
                self.seen().insert(place, version);
            }
            sleep(OFTEN.max(APART.saturating_mul(count))).await;
        }
    }

    /// The Secret's version, where it is another. Its content is not read.
    async fn changed(&self, place: Place, before: Option<String>) -> Option<(Place, Option<String>)> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &place.0);
        // What cannot be read now has not changed as far as we know.
        let version = api.get_metadata_opt(&place.1).await.ok()?.and_then(|secret| secret.metadata.resource_version);
        (version != before).then_some((place, version))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Option<String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client secrets that the specs of the members name. What is not there is left out: the member that names it
    /// is told. A member whose Secret may not be read takes no part; the others go on.
    pub async fn of(&self, members: &mut Members) -> Result<Values, Error> {
        let mut values = Values::new();
        let active: Vec<MyIngress> = members.active().into_iter().cloned().collect();
        'members: for member in &active {
            let namespace = member.namespace().unwrap_or_default();
            for wanted in named(member) {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
                let secret = match api.get_opt(&wanted.name).await {
                    Ok(secret) => secret,
                    Err(error) if class_of_kubernetes(&error) == Class::Denied => {
                        let denied = Error::SecretDenied { namespace, name: wanted.name.clone() };
                        let complaint = Complaint { reason: denied.reason(), message: denied.to_string() };
                        members.refused.insert(key(member), complaint);
                        continue 'members;
                    }
                    Err(error) => return Err(Error::SecretUnread(error)),
                };
                let version = secret.as_ref().and_then(|secret| secret.metadata.resource_version.clone());
                self.seen().insert((namespace.clone(), wanted.name.clone()), version);
                let data = secret.and_then(|secret| secret.data).unwrap_or_default();
                let value = data.get(&wanted.key).and_then(|value| String::from_utf8(value.0.clone()).ok());
                if let Some(value) = value {
                    let key = (namespace.clone(), wanted.name.clone(), wanted.key.clone());
                    values.insert(key, value.trim_end_matches('\n').to_owned());
                }
            }
        }
        Ok(values)
    }
}

/// Who names each Secret; objects that are suspended, or go, are left alone.
fn places(objects: &[Arc<MyIngress>]) -> BTreeMap<Place, Vec<&MyIngress>> {
    let mut found: BTreeMap<Place, Vec<&MyIngress>> = BTreeMap::new();
    let active = objects.iter().filter(|it| !it.spec.suspend && it.meta().deletion_timestamp.is_none());
    for object in active {
        for wanted in named(object) {
            let place = (object.namespace().unwrap_or_default(), wanted.name.clone());
            found.entry(place).or_default().push(object);
        }
    }
    found
}

fn named(object: &MyIngress) -> impl Iterator<Item = &SecretKey> {
    let listeners = object.spec.listeners.iter();
    let actions =
        listeners.flat_map(|listener| listener.rules.iter().map(|rule| &rule.action).chain(&listener.default_action));
    actions.filter_map(|action| action.authenticate_oidc.as_ref()).map(|oidc| &oidc.client_secret)
}
