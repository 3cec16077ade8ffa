//! The facts about a cluster's certificates, without anything that is secret.

use super::Side;

pub use causeway_databases::tls::facts::{SideFacts, Source, StoredCertificate, Version};

/// All that is known of a cluster's certificates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificates {
    pub peer: SideFacts,
    pub client: SideFacts,
    /// The certificate of the user's clients.
    pub for_clients: Option<StoredCertificate>,
    /// The Secret with the authorities.
    pub authorities: Option<Version>,
}

impl Certificates {
    /// Returns the facts about one side.
    pub fn side(&self, side: Side) -> &SideFacts {
        match side {
            Side::Peer => &self.peer,
            Side::Client => &self.client,
        }
    }
}
