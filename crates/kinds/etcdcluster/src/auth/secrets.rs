//! Reads and writes the Secrets with passwords.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use causeway_api::{DeletionPolicy, EtcdCluster};
use causeway_databases::etcd::{Password, ROOT};
use causeway_databases::password::{Emptied, KEY, version_of, write};
use causeway_databases::{Error, random_password};
use causeway_runtime::consent::ETCDCLUSTER;
use causeway_runtime::{Class, class_of_kubernetes};

use super::{Auth, StoredPasswords, kept_secret, user_provided_secret};
use crate::names;
use crate::tls::facts::Version;

/// Passwords that are to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The version of the Secret when that was decided; `None` if it is to be made.
    pub version: Option<Version>,
    /// The password that etcd has.
    pub current: Password,
    /// The one that it is about to be given.
    pub next: Option<Password>,
    /// The Secret is deleted with the object.
    pub goes: bool,
}

/// Reads the Secrets that matter to the object.
pub async fn read(client: &Client, object: &EtcdCluster) -> Result<Auth, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let (user_provided, kept) = (user_provided_secret(object), kept_secret(object));
    let read = tokio::try_join!(api.get_opt(&user_provided), api.get_opt(&kept));
    let (user_provided, kept) = match read {
        Ok(read) => read,
        Err(source) if class_of_kubernetes(&source) == Class::Denied => {
            return Ok(Auth { denied: true, ..Auth::default() });
        }
        Err(source) => return Err(Error::Read { what: "Secrets", source }),
    };
    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
    let shared = |secret: &Secret| ETCDCLUSTER.may_use(&secret.metadata, &name, &uid);
    let foreign = kept.as_ref().is_some_and(|secret| !is_ours(secret, object));
    let unshared = user_provided.as_ref().is_some_and(|secret| !shared(secret));
    let kept = kept.filter(|_| !foreign);
    let user_provided = user_provided.filter(shared);
    let provided = user_provided.as_ref().and_then(|secret| password(secret, KEY));
    let is_empty = |_: &Secret| provided.is_none() && object.spec.auth.secret_name.is_none();
    let emptied = user_provided.filter(is_empty).map(|secret| Emptied::judge(&secret, is_ours(&secret, object)));
    let stored = kept.as_ref().and_then(read_stored);
    let kept_emptied = kept.filter(|_| stored.is_none()).map(|secret| version_of(&secret));
    Ok(Auth { unshared, user_provided: provided, emptied, kept: stored, kept_emptied, foreign, ..Auth::default() })
}

/// Reads the record of root's password from the Secret; `None` if it has none.
fn read_stored(secret: &Secret) -> Option<StoredPasswords> {
    Some(StoredPasswords {
        version: version_of(secret),
        goes: !secret.owner_references().is_empty(),
        current: password(secret, KEY)?,
        next: password(secret, "next"),
    })
}

/// Like a volume, the Secret may remain from an earlier object of this name. It has no owner then.
fn is_ours(secret: &Secret, object: &EtcdCluster) -> bool {
    let owners = secret.owner_references();
    secret.labels().get(names::LABEL) == Some(&object.name_any())
        && owners.iter().all(|owner| Some(&owner.uid) == object.uid().as_ref())
}

/// The value of that key, without the line break that editors add.
fn password(secret: &Secret, key: &str) -> Option<Password> {
    let bytes = secret.data.as_ref()?.get(key)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty()).map(Password)
}

/// Makes the Secret with the password that root is to have, or writes the password into the emptied version `before` of
/// it. Fails if there is another: a user made it, and it stays.
pub async fn make(
    client: &Client,
    object: &EtcdCluster,
    known: Option<&Password>,
    before: Option<&Version>,
) -> Result<(), Error> {
    let password = match known {
        Some(Password(known)) => known.clone(),
        None => random_password()?,
    };
    let data = json!({ "username": ROOT, "password": password });
    let content = json!({ "metadata": metadata(object, goes(object)), "stringData": data });
    put(client, object, user_provided_secret(object), before, content).await
}

/// Records passwords. Fails if another client has changed the Secret meanwhile.
pub async fn note(client: &Client, object: &EtcdCluster, note: &Note) -> Result<(), Error> {
    let Password(current) = &note.current;
    let mut data = json!({ "username": ROOT, "password": current });
    if let Some(Password(next)) = &note.next {
        data["next"] = json!(next);
    }
    let mut content = json!({ "metadata": metadata(object, note.goes), "stringData": data });
    if note.next.is_none() && note.version.is_some() {
        content["data"] = json!({ "next": Value::Null });
    }
    put(client, object, kept_secret(object), note.version.as_ref(), content).await
}

/// Reports whether the Secret is deleted with the object. If the volumes are kept, so is the only password for the data on
/// them.
pub fn goes(object: &EtcdCluster) -> bool {
    object.spec.deletion_policy == DeletionPolicy::Delete
}

fn metadata(object: &EtcdCluster, goes: bool) -> Value {
    let owners: Vec<_> = object.controller_owner_ref(&()).into_iter().filter(|_| goes).collect();
    json!({ "labels": names::labels(object), "ownerReferences": owners })
}

async fn put(
    client: &Client,
    object: &EtcdCluster,
    name: String,
    before: Option<&Version>,
    content: Value,
) -> Result<(), Error> {
    let verb = if before.is_some() { "patch" } else { "create" };
    let written = write(client, &object.namespace().unwrap_or_default(), &name, before, content).await;
    written.map_err(|source| failed(source, name, verb))
}

fn failed(source: kube::Error, name: String, verb: &'static str) -> Error {
    match class_of_kubernetes(&source) {
        Class::Denied => Error::SecretsDenied { verb },
        _ => Error::Apply { kind: "Secret".into(), name, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::cluster;

    fn secret(owners: &[&str], label: &str) -> Secret {
        let owner = |uid: &&str| {
            json!({ "apiVersion": "mycompany.com/v1alpha1", "kind": "EtcdCluster", "name": "prod-etcd", "uid": uid,
                "controller": true })
        };
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let metadata =
            json!({ "name": "prod-etcd-root", "labels": { names::LABEL: label }, "ownerReferences": owners });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn a_secret_of_an_earlier_object_is_found_again() {
        let object = cluster(3);
        assert!(is_ours(&secret(&[], "prod-etcd"), &object));
        assert!(is_ours(&secret(&["uid"], "prod-etcd"), &object));
        assert!(!is_ours(&secret(&["another"], "prod-etcd"), &object));
        assert!(!is_ours(&secret(&[], "other"), &object));
    }

    #[test]
    fn passwords_are_lines_and_never_shown() {
        let mut user_provided = secret(&[], "x");
        user_provided.data = serde_json::from_value(json!({ "password": "aHVudGVyMgo=", "empty": "Cg==" })).unwrap();
        assert_eq!(password(&user_provided, "password"), Some(Password("hunter2".into())));
        assert_eq!(password(&user_provided, "empty"), None);
        assert!(!format!("{:?}", password(&user_provided, "password")).contains("hunter2"));
    }
}
