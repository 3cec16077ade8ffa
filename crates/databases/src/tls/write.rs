//! Makes authorities and certificates, and writes them where they are kept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use rcgen::KeyPair;
use serde_json::{Map, Value, json};

use causeway_api::common::FIELD_MANAGER;
use causeway_runtime::{Class, class_of_kubernetes};

use super::facts::{Version, content};
use super::issue::{self, Purpose};
use super::pem::{certificates, ids, joined};
use super::secrets::{AUTHORITY, Secrets, WRITTEN, renewal_of};
use super::user_provided::Files;
use super::{CertificateConfig, RotationStep};
use crate::Error;

/// A certificate that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Certify {
    /// The Secret that is written.
    pub secret: String,
    /// Its version when that was decided; `None` if it is to be made.
    pub version: Option<Version>,
    /// Where certificates came from when that was decided, as `Source::id` has it.
    pub source: String,
    pub need: RotationStep,
    /// The reason why it is due.
    pub why: String,
}

/// The subject of the certificates of the user's clients.
const CLIENT: &str = "client";
/// How long a certificate is valid if the spec does not say.
const USUAL_LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Makes what is due, and writes it. Fails with a conflict if the Secrets have changed since that was decided.
pub async fn certify<K>(
    client: &Client,
    object: &K,
    labels: &BTreeMap<String, String>,
    config: &CertificateConfig,
    certify: &Certify,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
{
    let now = Timestamp::now();
    let secrets = Secrets::read(client, object, std::slice::from_ref(config)).await?;
    let is_as_before = secrets.version(&certify.secret) == certify.version;
    if !is_as_before || secrets.source(config, now).id() != certify.source {
        return Err(Error::SecretChanged(certify.secret.clone()));
    }
    let content = make_content(&secrets, config, certify, now)?;
    write(client, object, labels, &secrets, certify, &content).await
}

/// The content that a Secret is to have.
#[derive(Default)]
struct Content {
    files: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    kind: &'static str,
}

fn make_content(
    secrets: &Secrets,
    config: &CertificateConfig,
    certify: &Certify,
    now: Timestamp,
) -> Result<Content, Error> {
    match certify.need {
        RotationStep::Authority => {
            let key = KeyPair::generate()?;
            let certificate = issue::authority(&config.authority, &key, now, config.authority_lifetime)?;
            let files =
                [(format!("{}.crt", config.word), certificate), (format!("{}.key", config.word), key.serialize_pem())];
            let renewal = config.renewal.clone().unwrap_or_default();
            let annotations = BTreeMap::from([(renewal_of(config), renewal)]);
            Ok(Content { files: BTreeMap::from(files), annotations, kind: "Opaque" })
        }
        RotationStep::Trust | RotationStep::Leaf | RotationStep::Forget => {
            let before = secrets.files(&config.secret).unwrap_or_default();
            let source = secrets.user_provided(config);
            let trusted = match &source {
                Some(user_provided) => certificates(&user_provided.trusted),
                None => secrets.signer(config).iter().flat_map(|it| certificates(&it.certificate)).collect(),
            };
            let known = certificates(&before.trusted);
            let others = known.iter().filter(|_| certify.need != RotationStep::Forget);
            let all = joined(trusted.iter().chain(others));
            let leaf = match (certify.need, source) {
                (RotationStep::Leaf, Some(user_provided)) => user_provided,
                (RotationStep::Leaf, None) => own(secrets, config, true, now)?,
                _ => before,
            };
            let mut content = content_of(Files { trusted: all, ..leaf });
            if config.named_by_content {
                name_by_content(&mut content.files);
            }
            if certify.need == RotationStep::Leaf {
                content.annotations.insert(AUTHORITY.into(), certify.source.clone());
            }
            Ok(content)
        }
        RotationStep::TrustOfClients => {
            let before = secrets.files(&certify.secret).unwrap_or_default();
            let server = secrets.files(&config.secret).unwrap_or_default();
            let mut content = content_of(Files { trusted: server.trusted, ..before });
            content.annotations.insert(WRITTEN.into(), now.to_string());
            Ok(content)
        }
        RotationStep::Clients => {
            let server = secrets.files(&config.secret).unwrap_or_default();
            let mut content = content_of(Files { trusted: server.trusted, ..own(secrets, config, false, now)? });
            content.annotations.insert(WRITTEN.into(), now.to_string());
            content.annotations.insert(AUTHORITY.into(), certify.source.clone());
            Ok(content)
        }
    }
}

/// A certificate from our own authority.
fn own(secrets: &Secrets, config: &CertificateConfig, serves: bool, now: Timestamp) -> Result<Files, Error> {
    let signer = secrets.signer(config).ok_or_else(|| Error::SecretChanged(config.authority_secret.clone()))?;
    let names = if serves { config.names.clone() } else { Vec::new() };
    let subject = if serves { &config.subject } else { CLIENT };
    let key = KeyPair::generate()?;
    let lifetime = config.certificate_lifetime.unwrap_or(USUAL_LIFETIME);
    let certificate = issue::leaf(&signer, Purpose { subject, names, serves }, &key, now, lifetime)?;
    Ok(Files { certificate, key: key.serialize_pem(), trusted: String::new() })
}

fn content_of(files: Files) -> Content {
    let Files { certificate, key, trusted } = files;
    let files = [("tls.crt", certificate), ("tls.key", key), ("ca.crt", trusted)];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    Content { files: BTreeMap::from(files), annotations: BTreeMap::new(), kind: "kubernetes.io/tls" }
}

/// Adds the same files under names with a hash of their content: a process that reads them by these names gets exactly
/// them, or none.
fn name_by_content(files: &mut BTreeMap<String, String>) {
    let file = |name: &str| files.get(name).cloned().unwrap_or_default();
    let leaf = certificates(&file("tls.crt")).into_iter().next().map(|it| it.facts.id).unwrap_or_default();
    let content = content(&ids(&certificates(&file("ca.crt"))), &leaf);
    let named = ["tls.crt", "tls.key", "ca.crt"].map(|name| (by_content(&content, name), file(name)));
    files.extend(named);
}

/// The name of a file with the hash of the content of all of them.
pub fn by_content(content: &str, file: &str) -> String {
    format!("{content}-{file}")
}

/// Writes the Secret. Fails if another client has changed it meanwhile.
async fn write<K>(
    client: &Client,
    object: &K,
    labels: &BTreeMap<String, String>,
    secrets: &Secrets,
    certify: &Certify,
    content: &Content,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
{
    let api: Api<Secret> = Api::namespaced(client.clone(), &object.meta().namespace.clone().unwrap_or_default());
    let name = &certify.secret;
    let outcome = match &certify.version {
        None => {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": content.annotations,
                    "ownerReferences": object.controller_owner_ref(&()).map(|owner| vec![owner]),
                },
                "type": content.kind,
                "stringData": content.files,
            }))?;
            let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
            api.create(&parameters, &secret).await.map(drop)
        }
        Some(Version { uid, version }) => {
            let patch: Value = json!({
                "metadata": {
                    "uid": uid,
                    "resourceVersion": version,
                    "labels": labels,
                    "annotations": content.annotations,
                },
                "data": outlived(secrets, name, content),
                "stringData": content.files,
            });
            let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
            api.patch(name, &parameters, &Patch::Merge(&patch)).await.map(drop)
        }
    };
    outcome.map_err(|source| match class_of_kubernetes(&source) {
        Class::Denied => Error::SecretsDenied { verb: if certify.version.is_none() { "create" } else { "patch" } },
        _ => Error::Apply { kind: "Secret".into(), name: name.clone(), source },
    })
}

/// Files of earlier content, which are removed. What users put there, and the other side's authority, stays.
fn outlived(secrets: &Secrets, name: &str, content: &Content) -> Map<String, Value> {
    let there: BTreeSet<&String> =
        secrets.own(name).and_then(|it| it.data.as_ref()).into_iter().flat_map(BTreeMap::keys).collect();
    let is_named_by_content = |key: &str| ["-tls.crt", "-tls.key", "-ca.crt"].iter().any(|end| key.ends_with(end));
    let gone = there.into_iter().filter(|key| is_named_by_content(key) && !content.files.contains_key(*key));
    gone.map(|key| (key.clone(), Value::Null)).collect()
}
