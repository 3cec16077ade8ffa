//! Reads the Secrets of a cluster: the facts about them that are not secret, and the credentials to call members with.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::Credentials;
use causeway_databases::tls::secrets as shared;

use super::facts::Certificates;
use super::{Side, authority_secret, clients_secret, server_name};
use crate::error::Error;
use crate::facts::Child;

/// The Secrets as they are. Nothing of it is ever printed.
pub struct Secrets(shared::Secrets);

impl Secrets {
    /// Reads the Secrets that matter to the object.
    pub async fn read(client: &Client, object: &EtcdCluster) -> Result<Self, Error> {
        let configs = Side::ALL.map(|side| side.config(object));
        Ok(Self(shared::Secrets::read(client, object, &configs).await?))
    }

    /// Those that have names of ours, as children: without their contents.
    pub fn children(&self) -> Vec<((String, String), Child)> {
        self.0.children()
    }

    /// The facts about them that are not secret.
    pub fn facts(&self, object: &EtcdCluster, now: Timestamp) -> Certificates {
        Certificates {
            peer: self.0.facts(&Side::Peer.config(object), now),
            client: self.0.facts(&Side::Client.config(object), now),
            for_clients: self.0.stored_certificate(&clients_secret(object)),
            authorities: self.0.version(&authority_secret(object)),
        }
    }

    /// The credentials to call members with. Members accept as a client's certificate the one that they present to clients.
    pub fn credentials(&self, object: &EtcdCluster) -> Option<Arc<Credentials>> {
        let files = self.0.files(&Side::Client.secret(object))?;
        Some(Arc::new(Credentials {
            trusted: files.trusted,
            server_name: server_name(object),
            identity: Some((files.certificate, files.key)),
        }))
    }
}
