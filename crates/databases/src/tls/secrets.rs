//! Reads the Secrets of a database: the facts about them that are not secret, and the files to call its processes with.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};

use causeway_runtime::consent::{is_given, not_shared};
use causeway_runtime::manifest::is_controlled_by;
use causeway_runtime::{Class, class_of_kubernetes};

use super::CertificateConfig;
use super::facts::{Authority, SideFacts, Source, StoredCertificate, Version};
use super::issue::Signer;
use super::pem::{certificates, ids};
use super::user_provided::{Files, check, fits};
use crate::{Child, Error};

/// Annotation of a Secret with a certificate: the authorities that it comes from.
pub const AUTHORITY: &str = "causeway.example.com/authority";
/// Annotation of the Secret of the user's clients: when it was written last.
pub const WRITTEN: &str = "causeway.example.com/written";
/// Annotation of the Secret with an authority: what `spec.tls.renewal` was, for each configuration.
const RENEWAL: &str = "causeway.example.com/renewal";

/// The keys of a certificate, its private key, and the authorities to trust.
const FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
/// The longest `ca.crt` that is kept, in bytes: about eighty authorities.
const LONGEST_TRUST: usize = 128 * 1024;
/// The longest of all other values, in bytes.
const LONGEST: usize = 32 * 1024;
/// The longest annotation that is kept, in bytes.
const LONGEST_ANNOTATION: usize = 4096;
/// The most keys that are kept, besides [`FILES`].
const MOST_KEYS: usize = 100;

/// The Secrets as they are. Nothing of it is ever printed.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Those with names of ours, and whether they belong to the object.
    ours: BTreeMap<String, (Secret, bool)>,
    user_provided: BTreeMap<String, Secret>,
}

impl Secrets {
    /// Reads the Secrets that matter to the object.
    pub async fn read(
        client: &Client,
        object: &impl Resource<DynamicType = ()>,
        configs: &[CertificateConfig],
    ) -> Result<Self, Error> {
        let mut names: Vec<&String> = configs
            .iter()
            .flat_map(|config| [Some(&config.authority_secret), Some(&config.secret), config.clients_secret.as_ref()])
            .flatten()
            .collect();
        names.sort();
        names.dedup();
        let user_provided: Vec<&String> = configs.iter().filter_map(|config| config.user_provided.as_ref()).collect();
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let all = names.iter().chain(&user_provided).map(|name| get(&api, name));
        let mut read = futures::future::try_join_all(all).await?.into_iter();
        let mut secrets = Self::default();
        for (name, secret) in names.iter().zip(read.by_ref().take(names.len())) {
            if let Some(secret) = secret {
                let belongs = is_controlled_by(&secret, object);
                secrets.ours.insert((*name).clone(), (secret, belongs));
            }
        }
        let found = user_provided.iter().zip(read).filter_map(|(name, secret)| Some(((*name).clone(), secret?)));
        secrets.user_provided.extend(found);
        Ok(secrets)
    }

    /// Those that have names of ours, as children by kind and name: without their contents.
    pub fn children(&self) -> Vec<((String, String), Child)> {
        let child = |(name, (secret, ours)): (&String, &(Secret, bool))| {
            (("Secret".to_owned(), name.clone()), Child::bare(secret, *ours))
        };
        self.ours.iter().map(child).collect()
    }

    /// The facts about them that are not secret.
    pub fn facts(&self, config: &CertificateConfig, now: Timestamp) -> SideFacts {
        SideFacts { source: self.source(config, now), kept: self.stored_certificate(&config.secret) }
    }

    /// The files of a Secret of ours.
    pub fn files(&self, name: &str) -> Option<Files> {
        self.own(name).map(files_of)
    }

    /// The files that the user gives, if their Secret permits that.
    pub fn user_provided(&self, config: &CertificateConfig) -> Option<Files> {
        self.user_secret(config).filter(|secret| is_given(secret.metadata.labels.as_ref(), config.kind)).map(files_of)
    }

    /// The Secret that the user names, whether or not it permits its use.
    fn user_secret(&self, config: &CertificateConfig) -> Option<&Secret> {
        self.user_provided.get(config.user_provided.as_ref()?)
    }

    /// The authority of a configuration.
    pub fn signer(&self, config: &CertificateConfig) -> Option<Signer> {
        let secret = self.own(&config.authority_secret)?;
        let signer = Signer {
            certificate: text(secret, &format!("{}.crt", config.word)),
            key: text(secret, &format!("{}.key", config.word)),
        };
        (!signer.certificate.is_empty() && !signer.key.is_empty()).then_some(signer)
    }

    /// The version of a Secret of ours.
    pub fn version(&self, name: &str) -> Option<Version> {
        self.own(name).map(version_of)
    }

    /// A Secret of that name that belongs to the object.
    pub(super) fn own(&self, name: &str) -> Option<&Secret> {
        self.ours.get(name).filter(|(_, ours)| *ours).map(|(secret, _)| secret)
    }

    /// Where the certificates of a configuration come from.
    pub fn source(&self, config: &CertificateConfig, now: Timestamp) -> Source {
        if let Some(name) = &config.user_provided {
            let field = config.field;
            let Some(secret) = self.user_secret(config) else {
                return Source::Unusable(format!("{field}: there is no Secret {name} in this namespace: make it"));
            };
            let Some(files) = self.user_provided(config) else {
                let namespace = secret.namespace().unwrap_or_default();
                return Source::Unusable(format!("{field}: {}", not_shared(&namespace, name, config.kind)));
            };
            return match check(&files, &config.needs, now) {
                Ok(leaf) => Source::Given { trust: ids(&certificates(&files.trusted)), leaf: leaf.id, ends: leaf.ends },
                Err(why) => Source::Unusable(format!("{field}: Secret {name}: {why}: mend it, or name another")),
            };
        }
        let Some(signer) = self.signer(config) else { return Source::None };
        // A key that does not belong to its certificate would sign certificates that no process trusts.
        let files = Files { key: signer.key, trusted: signer.certificate.clone(), certificate: signer.certificate };
        let renewal = self.own(&config.authority_secret);
        let renewal = renewal.and_then(|secret| secret.annotations().get(&renewal_of(config)).cloned());
        match (certificates(&files.certificate).pop(), fits(&files)) {
            (Some(certificate), Ok(())) => Source::Authority(Authority {
                id: certificate.facts.id,
                begins: certificate.facts.begins,
                ends: certificate.facts.ends,
                renewal,
            }),
            _ => Source::None,
        }
    }

    /// Reads a Secret of ours.
    pub fn stored_certificate(&self, name: &str) -> Option<StoredCertificate> {
        let secret = self.own(name)?;
        let files = files_of(secret);
        let leaf = certificates(&files.certificate).into_iter().next().map(|certificate| certificate.facts);
        Some(StoredCertificate {
            version: version_of(secret),
            trust: ids(&certificates(&files.trusted)),
            authority: secret.annotations().get(AUTHORITY).cloned().unwrap_or_default(),
            leaf: leaf.filter(|_| fits(&files).is_ok()),
            written: secret.annotations().get(WRITTEN).and_then(|at| at.parse().ok()),
        })
    }
}

/// The annotation of one configuration.
pub fn renewal_of(config: &CertificateConfig) -> String {
    format!("{RENEWAL}-{}", config.word)
}

async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Error> {
    let secret = api.get_opt(name).await.map_err(|source| match class_of_kubernetes(&source) {
        Class::Denied => Error::SecretsDenied { verb: "get" },
        _ => Error::Read { what: "Secrets", source },
    });
    secret.map(|secret| secret.map(lean))
}

/// A Secret without what is not needed, for it is kept as long as its object. A value that is longer than any chain of
/// certificates is emptied, so it is no certificate.
fn lean(mut secret: Secret) -> Secret {
    secret.metadata.managed_fields = None;
    if let Some(annotations) = &mut secret.metadata.annotations {
        annotations.retain(|_, value| value.len() <= LONGEST_ANNOTATION);
    }
    if let Some(data) = &mut secret.data {
        if data.len() > MOST_KEYS {
            data.retain(|key, _| FILES.contains(&key.as_str()));
        }
        for (key, value) in data {
            let most = if key == FILES[2] { LONGEST_TRUST } else { LONGEST };
            if value.0.len() > most {
                value.0 = Vec::new();
            }
        }
    }
    secret
}

fn files_of(secret: &Secret) -> Files {
    let [certificate, key, trusted] = FILES.map(|key| text(secret, key));
    Files { certificate, key, trusted }
}

fn version_of(secret: &Secret) -> Version {
    Version { uid: secret.uid().unwrap_or_default(), version: secret.resource_version().unwrap_or_default() }
}

fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn of_a_large_secret_only_certificates_are_kept() {
        let many = (0..200).map(|at| (format!("k{at}"), ByteString(vec![0; 5_000])));
        let files =
            [("tls.crt".to_owned(), ByteString(vec![b'x'; 2_000])), ("ca.crt".into(), ByteString(vec![b'x'; 900_000]))];
        let mut secret = Secret { data: Some(many.chain(files).collect()), ..Secret::default() };
        secret.metadata.annotations = Some([("a".to_owned(), "x".repeat(200_000)), ("b".into(), "c".into())].into());
        let secret = lean(secret);
        let data = secret.data.as_ref().expect("data");
        let sizes: Vec<_> = data.iter().map(|(key, value)| (key.as_str(), value.0.len())).collect();
        assert_eq!(sizes, [("ca.crt", 0), ("tls.crt", 2_000)]);
        assert_eq!(secret.annotations().len(), 1);
    }
}
