//! Reads the Secrets of a database: what of them may be known, and what is needed to call its processes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};

use super::Site;
use super::error::Error;
use super::facts::{Authority, Kept, SideFacts, Source, Version};
use super::given::{Files, check, fits};
use super::issue::Signer;
use super::pem::{certificates, ids};
use crate::runtime::manifest::is_controlled_by;
use crate::runtime::{Class, class_of_kubernetes};

/// Annotation of a Secret with a certificate: the authorities that it comes from.
pub const AUTHORITY: &str = "causeway.example.com/authority";
/// Annotation of the Secret with an authority: what `spec.tls.renewal` was, for each site.
const RENEWAL: &str = "causeway.example.com/renewal";

/// The Secrets as they are. Nothing of it is ever printed.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Those with names of ours, and whether they belong to the object.
    ours: BTreeMap<String, (Secret, bool)>,
    given: BTreeMap<String, Secret>,
}

impl Secrets {
    /// Reads all that matter to the object.
    pub async fn read(
        client: &Client,
        object: &impl Resource<DynamicType = ()>,
        sites: &[Site],
    ) -> Result<Self, Error> {
        let mut names: Vec<&String> = sites
            .iter()
            .flat_map(|site| [Some(&site.authority_secret), Some(&site.secret), site.clients_secret.as_ref()])
            .flatten()
            .collect();
        names.sort();
        names.dedup();
        let given: Vec<&String> = sites.iter().filter_map(|site| site.given.as_ref()).collect();
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let all = names.iter().chain(&given).map(|name| get(&api, name));
        let mut read = futures::future::try_join_all(all).await?.into_iter();
        let mut secrets = Self::default();
        for (name, secret) in names.iter().zip(read.by_ref().take(names.len())) {
            if let Some(secret) = secret {
                let belongs = is_controlled_by(&secret, object);
                secrets.ours.insert((*name).clone(), (secret, belongs));
            }
        }
        let found = given.iter().zip(read).filter_map(|(name, secret)| Some(((*name).clone(), secret?)));
        secrets.given.extend(found);
        Ok(secrets)
    }

    /// Those that have names of ours: their uids, and whether they belong to the object.
    pub fn children(&self) -> impl Iterator<Item = (&String, String, bool)> {
        self.ours.iter().map(|(name, (secret, ours))| (name, secret.uid().unwrap_or_default(), *ours))
    }

    /// What of them may be known.
    pub fn facts(&self, site: &Site, now: Timestamp) -> SideFacts {
        SideFacts { source: self.source(site, now), kept: self.kept(&site.secret) }
    }

    /// The files of a Secret of ours.
    pub fn files(&self, name: &str) -> Option<Files> {
        self.own(name).map(files_of)
    }

    /// The files that the user gives.
    pub fn given(&self, site: &Site) -> Option<Files> {
        self.given.get(site.given.as_ref()?).map(files_of)
    }

    /// The authority of a site.
    pub fn signer(&self, site: &Site) -> Option<Signer> {
        let secret = self.own(&site.authority_secret)?;
        let signer = Signer {
            certificate: text(secret, &format!("{}.crt", site.word)),
            key: text(secret, &format!("{}.key", site.word)),
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

    /// Where the certificates of a site come from.
    pub fn source(&self, site: &Site, now: Timestamp) -> Source {
        if let Some(name) = &site.given {
            let field = site.field;
            let Some(files) = self.given(site) else {
                return Source::Unusable(format!("{field}: there is no Secret {name} in this namespace: make it"));
            };
            return match check(&files, &site.needs, now) {
                Ok(leaf) => Source::Given { trust: ids(&certificates(&files.trusted)), leaf: leaf.id, ends: leaf.ends },
                Err(why) => Source::Unusable(format!("{field}: Secret {name}: {why}: mend it, or name another")),
            };
        }
        let Some(signer) = self.signer(site) else { return Source::None };
        // A key that is not its certificate's would sign what nobody trusts.
        let files = Files { key: signer.key, trusted: signer.certificate.clone(), certificate: signer.certificate };
        let renewal = self.own(&site.authority_secret);
        let renewal = renewal.and_then(|secret| secret.annotations().get(&renewal_of(site)).cloned());
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

    /// What a Secret of ours holds.
    pub fn kept(&self, name: &str) -> Option<Kept> {
        let secret = self.own(name)?;
        let files = files_of(secret);
        let leaf = certificates(&files.certificate).into_iter().next().map(|certificate| certificate.facts);
        Some(Kept {
            version: version_of(secret),
            trust: ids(&certificates(&files.trusted)),
            authority: secret.annotations().get(AUTHORITY).cloned().unwrap_or_default(),
            leaf: leaf.filter(|_| fits(&files).is_ok()),
        })
    }
}

/// The annotation of one site.
pub fn renewal_of(site: &Site) -> String {
    format!("{RENEWAL}-{}", site.word)
}

async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Error> {
    api.get_opt(name).await.map_err(|source| match class_of_kubernetes(&source) {
        Class::Denied => Error::Denied { verb: "get" },
        _ => Error::Read(source),
    })
}

fn files_of(secret: &Secret) -> Files {
    Files { certificate: text(secret, "tls.crt"), key: text(secret, "tls.key"), trusted: text(secret, "ca.crt") }
}

fn version_of(secret: &Secret) -> Version {
    Version { uid: secret.uid().unwrap_or_default(), version: secret.resource_version().unwrap_or_default() }
}

fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok()).unwrap_or_default()
}
