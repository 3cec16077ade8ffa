//! TLS of a cluster: which transport members use, with which certificates, and where those come from.
//!
//! ```text
//! NAME-authority ──sign──▶ NAME-peer-tls, NAME-server-tls ──▶ the members' files
//!                          NAME-client-tls                ──▶ the user's clients
//! a given Secret ──copy──▶ NAME-peer-tls, NAME-server-tls
//! ```
//!
//! Members never see the Secret that a user names: a copy that was checked keeps them running, and able to start, when the
//! Secret is deleted or spoilt.

pub mod facts;
pub mod secrets;

use jiff::SignedDuration;
use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_api::etcdcluster::{ClientTlsMode, Tls};
use causeway_databases::tls::user_provided::Needs;
use causeway_databases::tls::{CertificateConfig, lifetime};
use causeway_runtime::consent::ETCDCLUSTER;

use super::names;

/// The subject of the certificates that members and Causeway present. If etcd verifies clients, it takes a client that presents
/// such a certificate for its user root.
const ROOT: &str = "root";
/// Where the Secrets are in the members' file system.
const FILES: &str = "/etc/etcd/tls";

/// The side of a connection from which a member is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The other members.
    Peer,
    /// Clients, of which Causeway is one.
    Client,
}

/// The transport of a member on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Connections without TLS alone.
    #[default]
    Plain,
    /// With and without TLS.
    Both,
    /// Connections with TLS alone.
    Secure,
}

/// One side of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The transport of the member on this side.
    pub mode: Mode,
    /// Label of the certificates that it started with; `None` without TLS.
    pub trust: Option<String>,
}

/// Both sides of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    pub peer: Channel,
    pub client: Channel,
}

impl Side {
    /// Both sides.
    pub const ALL: [Self; 2] = [Self::Peer, Self::Client];

    /// The word for it in names and fields.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Client => "client",
        }
    }

    /// The Secret that the members mount.
    pub fn secret(self, object: &EtcdCluster) -> String {
        match self {
            Self::Peer => format!("{}-peer-tls", object.name_any()),
            Self::Client => format!("{}-server-tls", object.name_any()),
        }
    }

    /// Where members mount that Secret.
    pub fn files(self) -> String {
        format!("{FILES}/{}", self.name())
    }

    /// Returns the transport that the spec asks for.
    pub fn wanted_mode(self, object: &EtcdCluster) -> Mode {
        let tls = object.spec.tls.as_ref();
        match self {
            Self::Peer => tls.and_then(|tls| tls.peer.as_ref()).map_or(Mode::Plain, |_| Mode::Secure),
            Self::Client => tls.and_then(|tls| tls.client.as_ref()).map_or(Mode::Plain, |client| match client.mode {
                ClientTlsMode::Allow => Mode::Both,
                ClientTlsMode::Require => Mode::Secure,
            }),
        }
    }

    /// The Secret that the user gives.
    pub fn user_provided(self, tls: &Tls) -> Option<&String> {
        match self {
            Self::Peer => tls.peer.as_ref()?.secret_name.as_ref(),
            Self::Client => tls.client.as_ref()?.secret_name.as_ref(),
        }
    }

    /// Label of pods with [`Channel::mode`].
    pub fn mode_label(self) -> &'static str {
        match self {
            Self::Peer => "causeway.example.com/peer-transport",
            Self::Client => "causeway.example.com/client-transport",
        }
    }

    /// Label of pods with [`Channel::trust`].
    pub fn trust_label(self) -> &'static str {
        match self {
            Self::Peer => "causeway.example.com/peer-trust",
            Self::Client => "causeway.example.com/client-trust",
        }
    }

    /// Returns the names that a certificate must be valid for.
    pub fn names(self, object: &EtcdCluster) -> Vec<String> {
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let pods = format!("*.{}.{namespace}.svc", names::peers(object));
        let mut all = match self {
            Self::Peer => vec![pods],
            Self::Client => vec![
                name.clone(),
                format!("{name}.{namespace}"),
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{pods}.cluster.local"),
                pods,
            ],
        };
        all.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        all
    }

    /// Where certificates are kept, and what they are to be.
    pub fn config(self, object: &EtcdCluster) -> CertificateConfig {
        let tls = object.spec.tls.as_ref();
        CertificateConfig {
            word: self.name(),
            authority_secret: authority_secret(object),
            secret: self.secret(object),
            clients_secret: (self == Self::Client).then(|| clients_secret(object)),
            user_provided: tls.and_then(|tls| self.user_provided(tls)).cloned(),
            field: match self {
                Self::Peer => "spec.tls.peer.secretName",
                Self::Client => "spec.tls.client.secretName",
            },
            kind: ETCDCLUSTER.kind,
            needs: self.needs(object),
            names: self.names(object),
            authority: format!("{} {} {}", object.namespace().unwrap_or_default(), object.name_any(), self.name()),
            subject: ROOT.to_owned(),
            certificate_lifetime: tls.map(|tls| lifetime(&tls.certificate_duration)),
            authority_lifetime: tls.map_or(SignedDuration::from_hours(1), |tls| lifetime(&tls.authority_duration)),
            renewal: tls.and_then(|tls| tls.renewal.clone()),
            named_by_content: false,
        }
    }

    /// Returns what a given certificate must be good for.
    fn needs(self, object: &EtcdCluster) -> Needs {
        match self {
            Self::Peer => {
                let hosts = (0..object.spec.replicas).map(|ordinal| names::host(object, &names::pod(object, ordinal)));
                let mut names: Vec<String> = hosts.collect();
                names.insert(0, member_name(object));
                Needs { names, clients: true }
            }
            Self::Client => {
                let client = object.spec.tls.as_ref().and_then(|tls| tls.client.as_ref());
                let clients = client.is_some_and(|client| client.verify_clients);
                Needs { names: vec![server_name(object)], clients }
            }
        }
    }
}

impl Mode {
    /// As labels have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "Plain",
            Self::Both => "Both",
            Self::Secure => "Secure",
        }
    }

    /// Reads a label; pods without one use no TLS.
    pub fn from_label(label: Option<&str>) -> Self {
        match label {
            Some("Both") => Self::Both,
            Some("Secure") => Self::Secure,
            _ => Self::Plain,
        }
    }

    /// Reports whether a member with this transport is reached by that scheme.
    pub fn serves(self, scheme: &str) -> bool {
        match self {
            Self::Plain => scheme == "http",
            Self::Both => true,
            Self::Secure => scheme == "https",
        }
    }

    /// Reports whether a member has certificates. With them, it can also call others by TLS, and verify them.
    pub fn has_files(self) -> bool {
        self != Self::Plain
    }
}

impl Transport {
    /// Returns the channel of one side.
    pub fn side(&self, side: Side) -> &Channel {
        match side {
            Side::Peer => &self.peer,
            Side::Client => &self.client,
        }
    }
}

/// The Secret with the authorities. No pod mounts it.
pub fn authority_secret(object: &EtcdCluster) -> String {
    format!("{}-authority", object.name_any())
}

/// The Secret for the user's clients.
pub fn clients_secret(object: &EtcdCluster) -> String {
    format!("{}-client-tls", object.name_any())
}

/// The name by which Causeway checks members.
pub fn server_name(object: &EtcdCluster) -> String {
    format!("{}.{}.svc", object.name_any(), object.namespace().unwrap_or_default())
}

/// A name that is in every member's certificate and in no other certificate.
pub fn member_name(object: &EtcdCluster) -> String {
    names::host(object, &names::pod(object, 0))
}
