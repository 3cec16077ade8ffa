//! Makes authorities and certificates of members and of their clients.

use kube::Client;

use super::Side;
use super::facts::Version;
use crate::api::EtcdCluster;
use crate::controllers::etcdcluster::error::Error;
use crate::controllers::etcdcluster::names;
use crate::controllers::tls::{Need, write};

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

impl Due {
    /// It is due on that side.
    pub fn of(need: Need, side: Side) -> Self {
        match need {
            Need::Authority => Self::Authority(side),
            Need::Trust => Self::Trust(side),
            Need::Leaf => Self::Leaf(side),
            Need::Forget => Self::Forget(side),
            Need::TrustOfClients => Self::TrustOfClients,
            Need::Clients => Self::Clients,
        }
    }

    /// The side, and what is due there.
    pub fn parts(self) -> (Side, Need) {
        match self {
            Self::Authority(side) => (side, Need::Authority),
            Self::Trust(side) => (side, Need::Trust),
            Self::Leaf(side) => (side, Need::Leaf),
            Self::Forget(side) => (side, Need::Forget),
            Self::TrustOfClients => (Side::Client, Need::TrustOfClients),
            Self::Clients => (Side::Client, Need::Clients),
        }
    }
}

/// Carries it out; a conflict where the Secrets are not what they were any more.
pub async fn certify(client: &Client, object: &EtcdCluster, certify: &Certify) -> Result<(), Error> {
    let (side, need) = certify.due.parts();
    let Certify { secret, version, source, why, .. } = certify.clone();
    let asked = write::Certify { secret, version, source, need, why };
    Ok(write::certify(client, object, &names::labels(object), &side.site(object), &asked).await?)
}
