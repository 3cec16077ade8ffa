//! Makes authorities and certificates, and writes them where they are kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::facts::Version;
use super::given::Files;
use super::issue::{self, Purpose};
use super::pem::{certificates, joined};
use super::secrets::{AUTHORITY, Secrets, renewal_of};
use super::{Side, authority_secret, clients_secret};
use crate::api::EtcdCluster;
use crate::api::common::FIELD_MANAGER;
use crate::controllers::etcdcluster::error::Error;
use crate::controllers::etcdcluster::names;
use crate::runtime::{Class, class_of_kubernetes};

/// A certificate that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Certify {
    /// The Secret that is written.
    pub secret: String,
    /// What it was when that was decided; `None` where it is to be made.
    pub version: Option<Version>,
    /// Where certificates came from when that was decided, as `Source::id` has it.
    pub source: String,
    pub due: Due,
    /// Why it is due.
    pub why: String,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Another authority. Nobody trusts it yet.
    Authority(Side),
    /// Members trust the source, too.
    Trust(Side),
    /// Members show a certificate from the source.
    Leaf(Side),
    /// Members trust nobody but the source.
    Forget(Side),
    /// The user's clients trust whom members trust.
    TrustOfClients,
    /// The user's clients get a certificate.
    Clients,
}

/// The subject of what members and Causeway show: etcd takes who shows it for its root user, where clients are verified.
const ROOT: &str = "root";
/// The subject of what the user's clients show.
const CLIENT: &str = "client";

/// Carries it out; a conflict where the Secrets are not what they were any more.
pub async fn certify(client: &Client, object: &EtcdCluster, certify: &Certify) -> Result<(), Error> {
    let now = Timestamp::now();
    let secrets = Secrets::read(client, object).await?;
    let is_as_before = secrets.version(object, &certify.secret) == certify.version;
    let side = match certify.due {
        Due::Authority(side) | Due::Trust(side) | Due::Leaf(side) | Due::Forget(side) => side,
        Due::Clients | Due::TrustOfClients => Side::Client,
    };
    if !is_as_before || secrets.source(object, side, now).id() != certify.source {
        return Err(Error::SecretChanged(certify.secret.clone()));
    }
    let content = content(object, &secrets, certify, now)?;
    write(client, object, certify, &content).await
}

/// What a Secret is to hold.
#[derive(Default)]
struct Content {
    files: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    kind: &'static str,
}

fn content(object: &EtcdCluster, secrets: &Secrets, certify: &Certify, now: Timestamp) -> Result<Content, Error> {
    match certify.due {
        Due::Authority(side) => {
            let key = KeyPair::generate()?;
            let subject = format!("{} {} {}", object.namespace().unwrap_or_default(), object.name_any(), side.word());
            let hours = object.spec.tls.as_ref().map_or(1, |tls| tls.authority_hours);
            let certificate = issue::authority(&subject, &key, now, hours)?;
            let files =
                [(format!("{}.crt", side.word()), certificate), (format!("{}.key", side.word()), key.serialize_pem())];
            let renewal = object.spec.tls.as_ref().and_then(|tls| tls.renewal.clone()).unwrap_or_default();
            let annotations = BTreeMap::from([(renewal_of(side), renewal)]);
            Ok(Content { files: BTreeMap::from(files), annotations, kind: "Opaque" })
        }
        Due::Trust(side) | Due::Leaf(side) | Due::Forget(side) => {
            let before = secrets.files(object, &side.secret(object)).unwrap_or_default();
            let given = object.spec.tls.as_ref().and_then(|tls| side.given(tls)).is_some();
            let source = if given { secrets.given(side) } else { None };
            let trusted = match &source {
                Some(given) => certificates(&given.trusted),
                None => secrets.signer(object, side).iter().flat_map(|it| certificates(&it.certificate)).collect(),
            };
            let known = certificates(&before.trusted);
            let others = known.iter().filter(|_| !matches!(certify.due, Due::Forget(_)));
            let all = joined(trusted.iter().chain(others));
            let leaf = match (certify.due, source) {
                (Due::Leaf(_), Some(given)) => given,
                (Due::Leaf(_), None) => own(object, secrets, side, ROOT, now)?,
                _ => before,
            };
            let mut content = written(Files { trusted: all, ..leaf });
            if matches!(certify.due, Due::Leaf(_)) {
                content.annotations.insert(AUTHORITY.into(), certify.source.clone());
            }
            Ok(content)
        }
        Due::TrustOfClients => {
            let before = secrets.files(object, &certify.secret).unwrap_or_default();
            let server = secrets.files(object, &Side::Client.secret(object)).unwrap_or_default();
            Ok(written(Files { trusted: server.trusted, ..before }))
        }
        Due::Clients => {
            let server = secrets.files(object, &Side::Client.secret(object)).unwrap_or_default();
            let mut content =
                written(Files { trusted: server.trusted, ..own(object, secrets, Side::Client, CLIENT, now)? });
            content.annotations.insert(AUTHORITY.into(), certify.source.clone());
            Ok(content)
        }
    }
}

/// A certificate from our own authority.
fn own(object: &EtcdCluster, secrets: &Secrets, side: Side, subject: &str, now: Timestamp) -> Result<Files, Error> {
    let signer = secrets.signer(object, side).ok_or_else(|| Error::SecretChanged(authority_secret(object)))?;
    let serves = subject != CLIENT;
    let names = if serves { side.names(object) } else { Vec::new() };
    let hours = object.spec.tls.as_ref().map_or(90 * 24, |tls| tls.certificate_hours);
    let key = KeyPair::generate()?;
    let certificate = issue::leaf(&signer, Purpose { subject, names, serves }, &key, now, hours)?;
    Ok(Files { certificate, key: key.serialize_pem(), trusted: String::new() })
}

fn written(files: Files) -> Content {
    let Files { certificate, key, trusted } = files;
    let files = [("tls.crt", certificate), ("tls.key", key), ("ca.crt", trusted)];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    Content { files: BTreeMap::from(files), annotations: BTreeMap::new(), kind: "kubernetes.io/tls" }
}

/// Whoever changed the Secret meanwhile wins.
async fn write(client: &Client, object: &EtcdCluster, certify: &Certify, content: &Content) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let name = &certify.secret;
    let outcome = match &certify.version {
        None => {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "labels": names::labels(object),
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
                    "labels": names::labels(object),
                    "annotations": content.annotations,
                },
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

/// The Secret in which something of that kind is kept.
pub fn secret_of(object: &EtcdCluster, due: Due) -> String {
    match due {
        Due::Authority(_) => authority_secret(object),
        Due::Trust(side) | Due::Leaf(side) | Due::Forget(side) => side.secret(object),
        Due::Clients | Due::TrustOfClients => clients_secret(object),
    }
}
