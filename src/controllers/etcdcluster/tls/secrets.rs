//! Reads the Secrets of a cluster: what of them may be known, and what is needed to call members.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use super::facts::{Authority, Certificates, Kept, SideFacts, Source, Version};
use super::given::{Files, Needs, check, fits};
use super::issue::Signer;
use super::pem::{certificates, ids};
use super::{Side, authority_secret, clients_secret, member_name, server_name};
use crate::api::EtcdCluster;
use crate::controllers::etcdcluster::error::Error;
use crate::controllers::etcdcluster::facts::Child;
use crate::controllers::etcdcluster::names;
use crate::external::etcd::Credentials;
use crate::runtime::manifest::is_controlled_by;
use crate::runtime::{Class, class_of_kubernetes};

/// Annotation of a Secret with a certificate: the authorities that it comes from.
pub const AUTHORITY: &str = "causeway.example.com/authority";
/// Annotation of the Secret with the authorities: what `spec.tls.renewal` was, for each side.
pub const RENEWAL: &str = "causeway.example.com/renewal";

/// The Secrets as they are. Nothing of it is ever printed.
#[derive(Default)]
pub struct Secrets {
    ours: BTreeMap<String, Secret>,
    given: BTreeMap<Side, Option<Secret>>,
}

impl Secrets {
    /// Reads all that matter to the object.
    pub async fn read(client: &Client, object: &EtcdCluster) -> Result<Self, Error> {
        let names =
            [authority_secret(object), clients_secret(object), Side::Peer.secret(object), Side::Client.secret(object)];
        let api: Api<Secret> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
        let get = async |name: String| -> Result<Option<(String, Secret)>, Error> {
            Ok(get(&api, &name).await?.map(|secret| (name, secret)))
        };
        let ours = futures::future::try_join_all(names.map(get)).await?.into_iter().flatten().collect();
        let mut given = BTreeMap::new();
        for side in Side::ALL {
            if let Some(name) = object.spec.tls.as_ref().and_then(|tls| side.given(tls)) {
                given.insert(side, self::get(&api, name).await?);
            }
        }
        Ok(Self { ours, given })
    }

    /// Those that have names of ours, as children: without their contents.
    pub fn children(&self, object: &EtcdCluster) -> Vec<((String, String), Child)> {
        let child = |(name, secret): (&String, &Secret)| {
            let uid = secret.uid().unwrap_or_default();
            let ours = is_controlled_by(secret, object);
            (("Secret".to_owned(), name.clone()), Child { value: serde_json::Value::Null, uid, ours })
        };
        self.ours.iter().map(child).collect()
    }

    /// What of them may be known.
    pub fn facts(&self, object: &EtcdCluster, now: Timestamp) -> Certificates {
        let side = |side: Side| SideFacts {
            source: self.source(object, side, now),
            kept: self.kept(object, &side.secret(object)),
        };
        Certificates {
            peer: side(Side::Peer),
            client: side(Side::Client),
            for_clients: self.kept(object, &clients_secret(object)),
            authorities: self.own(object, &authority_secret(object)).map(version_of),
        }
    }

    /// What is needed to call members by TLS. What they show to clients, they accept from them.
    pub fn credentials(&self, object: &EtcdCluster) -> Option<Arc<Credentials>> {
        let files = self.files(object, &Side::Client.secret(object))?;
        Some(Arc::new(Credentials {
            trusted: files.trusted,
            server_name: server_name(object),
            identity: Some((files.certificate, files.key)),
        }))
    }

    /// The files of a Secret of ours.
    pub fn files(&self, object: &EtcdCluster, name: &str) -> Option<Files> {
        self.own(object, name).map(files_of)
    }

    /// The files that the user gives.
    pub fn given(&self, side: Side) -> Option<Files> {
        self.given.get(&side)?.as_ref().map(files_of)
    }

    /// The authority of a side.
    pub fn signer(&self, object: &EtcdCluster, side: Side) -> Option<Signer> {
        let secret = self.own(object, &authority_secret(object))?;
        let signer = Signer {
            certificate: text(secret, &format!("{}.crt", side.word())),
            key: text(secret, &format!("{}.key", side.word())),
        };
        (!signer.certificate.is_empty() && !signer.key.is_empty()).then_some(signer)
    }

    /// The version of a Secret of ours.
    pub fn version(&self, object: &EtcdCluster, name: &str) -> Option<Version> {
        self.own(object, name).map(version_of)
    }

    /// A Secret of that name that belongs to the object.
    fn own(&self, object: &EtcdCluster, name: &str) -> Option<&Secret> {
        self.ours.get(name).filter(|secret| is_controlled_by(*secret, object))
    }

    /// Where the certificates of a side come from.
    pub fn source(&self, object: &EtcdCluster, side: Side, now: Timestamp) -> Source {
        if let Some(name) = object.spec.tls.as_ref().and_then(|tls| side.given(tls)) {
            let field = format!("spec.tls.{}.secretName", side.word());
            let Some(files) = self.given(side) else {
                return Source::Unusable(format!("{field}: there is no Secret {name} in this namespace: make it"));
            };
            return match check(&files, &needs(object, side), now) {
                Ok(leaf) => Source::Given { trust: ids(&certificates(&files.trusted)), leaf: leaf.id, ends: leaf.ends },
                Err(why) => Source::Unusable(format!("{field}: Secret {name}: {why}: mend it, or name another")),
            };
        }
        let Some(signer) = self.signer(object, side) else { return Source::None };
        // A key that is not its certificate's would sign what nobody trusts.
        let files = Files { key: signer.key, trusted: signer.certificate.clone(), certificate: signer.certificate };
        let renewal = self.own(object, &authority_secret(object));
        let renewal = renewal.and_then(|secret| secret.annotations().get(&renewal_of(side)).cloned());
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

    fn kept(&self, object: &EtcdCluster, name: &str) -> Option<Kept> {
        let secret = self.own(object, name)?;
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

/// What a given certificate must be good for.
fn needs(object: &EtcdCluster, side: Side) -> Needs {
    match side {
        Side::Peer => {
            let hosts = (0..object.spec.replicas).map(|ordinal| names::host(object, &names::pod(object, ordinal)));
            let mut names: Vec<String> = hosts.collect();
            names.insert(0, member_name(object));
            Needs { names, clients: true }
        }
        Side::Client => {
            let client = object.spec.tls.as_ref().and_then(|tls| tls.client.as_ref());
            let clients = client.is_some_and(|client| client.verify_clients);
            Needs { names: vec![server_name(object)], clients }
        }
    }
}

/// The annotation of one side.
pub fn renewal_of(side: Side) -> String {
    format!("{RENEWAL}-{}", side.word())
}

async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Error> {
    api.get_opt(name).await.map_err(|source| match class_of_kubernetes(&source) {
        Class::Denied => Error::SecretsDenied { verb: "get" },
        _ => Error::Read { what: "Secrets", source },
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
