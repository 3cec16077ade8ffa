//! The facts about certificates, without anything that is secret.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use causeway_runtime::fingerprint;

/// The facts about one [`super::CertificateConfig`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideFacts {
    /// Where certificates come from.
    pub source: Source,
    /// The certificate that the processes have, or will have when they start.
    pub kept: Option<StoredCertificate>,
}

/// Where certificates come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Source {
    /// There is no source yet.
    #[default]
    None,
    /// An authority of ours.
    Authority(Authority),
    /// A Secret of the user.
    Given {
        /// The authorities that it trusts.
        trust: BTreeSet<String>,
        /// The ID of its certificate.
        leaf: String,
        ends: Timestamp,
    },
    /// A Secret of the user that cannot be used, and why: field and fix.
    Unusable(String),
}

/// An authority of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Authority {
    pub id: String,
    pub begins: Timestamp,
    pub ends: Timestamp,
    /// The value of `spec.tls.renewal` when it was made.
    pub renewal: Option<String>,
}

/// A version of a Secret of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub uid: String,
    pub version: String,
}

/// A Secret of ours with a certificate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredCertificate {
    pub version: Version,
    /// The authorities that are trusted.
    pub trust: BTreeSet<String>,
    /// The authorities that the certificate comes from, as [`Source::id`] has them.
    pub authority: String,
    /// The certificate; `None` where it or its key cannot be read.
    pub leaf: Option<Leaf>,
    /// When the user's clients were last given something else; `None` in the Secrets of processes.
    pub written: Option<Timestamp>,
}

/// The certificate that processes present.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub id: String,
    pub begins: Timestamp,
    pub ends: Timestamp,
    pub names: BTreeSet<String>,
}

impl Source {
    /// The authorities that must be trusted.
    pub fn trust(&self) -> BTreeSet<String> {
        match self {
            Self::None | Self::Unusable(_) => BTreeSet::new(),
            Self::Authority(authority) => BTreeSet::from([authority.id.clone()]),
            Self::Given { trust, .. } => trust.clone(),
        }
    }

    /// A hash of all of them.
    pub fn id(&self) -> String {
        id_of(&self.trust())
    }

    /// The label of pods that trust only this source and have a certificate from it: see [`StoredCertificate::label`].
    pub fn label(&self) -> String {
        label(&self.id(), &self.id())
    }
}

impl StoredCertificate {
    /// Returns for how long clients may still have what was there before, if they take that long to read a change.
    pub fn unread_for(&self, delay: SignedDuration, now: Timestamp) -> Option<Duration> {
        let rest = (self.written? + delay).duration_since(now);
        Duration::try_from(rest).ok().filter(|rest| !rest.is_zero())
    }

    /// A hash of the authorities that processes trust if they start now, and of those that signed their certificate. It is a
    /// label of their pods.
    pub fn label(&self) -> String {
        label(&id_of(&self.trust), &self.authority)
    }

    /// A hash of the content of the files; `None` if they cannot be used.
    pub fn content(&self) -> Option<String> {
        self.leaf.as_ref().map(|leaf| content(&self.trust, &leaf.id))
    }
}

/// Returns [`StoredCertificate::content`] for such files.
pub fn content(trust: &BTreeSet<String>, leaf: &str) -> String {
    fingerprint(&[id_of(trust).as_bytes(), leaf.as_bytes()], 16)
}

fn label(trust: &str, authority: &str) -> String {
    fingerprint(&[trust.as_bytes(), authority.as_bytes()], 16)
}

/// A hash of several certificates.
fn id_of(certificates: &BTreeSet<String>) -> String {
    let parts: Vec<&[u8]> = certificates.iter().map(String::as_bytes).collect();
    fingerprint(&parts, 16)
}
