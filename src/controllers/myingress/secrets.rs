//! Client secrets that log-ins need: read from Secrets, each by its name, when a spec asks for one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use super::members::{Members, key};
use super::model::Complaint;
use crate::api::MyIngress;
use crate::api::myingress::SecretKey;
use crate::runtime::{Class, Failure, class_of_kubernetes};

/// Secrets by namespace, name and key.
pub type Values = BTreeMap<(String, String, String), String>;

/// Reads Secrets.
pub struct Secrets(pub Client);

impl Secrets {
    /// The client secrets that the specs of the members name. What is not there is left out: the member that names it
    /// is told. A member whose Secret may not be read takes no part; the others go on.
    pub async fn of(&self, members: &mut Members) -> Result<Values, Error> {
        let mut values = Values::new();
        let active: Vec<MyIngress> = members.active().into_iter().cloned().collect();
        'members: for member in &active {
            let namespace = member.namespace().unwrap_or_default();
            for wanted in named(member) {
                let api: Api<Secret> = Api::namespaced(self.0.clone(), &namespace);
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

fn named(object: &MyIngress) -> impl Iterator<Item = &SecretKey> {
    let listeners = object.spec.listeners.iter();
    let actions =
        listeners.flat_map(|listener| listener.rules.iter().map(|rule| &rule.action).chain(&listener.default_action));
    actions.filter_map(|action| action.authenticate_oidc.as_ref()).map(|oidc| &oidc.client_secret)
}
