//! TLS of databases: what `EtcdCluster` and `Redis` do alike about certificates. No kind of its own.
//!
//! ```text
//! Secret with the authority ──sign──▶ the processes' Secret ──▶ the processes' files
//!                                     the clients' Secret   ──▶ the user's clients
//! a given Secret ────────────copy──▶ the processes' Secret
//! ```
//!
//! Processes never see the Secret that a user names: a copy that was checked keeps them running, and able to start, when
//! the Secret is deleted or spoilt.

pub mod facts;
pub mod issue;
pub mod pem;
pub mod rotation;
pub mod secrets;
pub mod user_provided;
pub mod write;

use jiff::SignedDuration;

use user_provided::Needs;

use causeway_api::Duration;

/// The certificates of processes that have them from one source: where they are kept, and what they are to be.
#[derive(Clone, Debug, Default)]
pub struct CertificateConfig {
    /// The beginning of the names of the authority's files, and the end of its annotation.
    pub word: &'static str,
    /// The Secret with the authority. No pod mounts it.
    pub authority_secret: String,
    /// The Secret that the processes mount.
    pub secret: String,
    /// The Secret for the user's clients, where there is one.
    pub clients_secret: Option<String>,
    /// The Secret that the user gives, and the field that says so.
    pub user_provided: Option<String>,
    pub field: &'static str,
    /// The kind whose use that Secret must permit, as `causeway.example.com/usable-by` has it.
    pub kind: &'static str,
    /// The demands on a given certificate.
    pub needs: Needs,
    /// The names that one of ours is valid for.
    pub names: Vec<String>,
    /// The subject of the authority.
    pub authority: String,
    /// The subject of the processes' certificates.
    pub subject: String,
    /// How long certificates are valid; `None` while TLS is turned off.
    pub certificate_lifetime: Option<SignedDuration>,
    /// How long authorities are valid.
    pub authority_lifetime: SignedDuration,
    /// Another text asks for another authority.
    pub renewal: Option<String>,
    /// The files also exist under names with a hash of their content: see [`facts::StoredCertificate::content`].
    pub named_by_content: bool,
}

/// The longest time that clients take to read a changed Secret. The kubelet looks once a minute, and may have it in a
/// cache for as long.
/// <https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod>
pub const CLIENTS_DELAY: SignedDuration = SignedDuration::from_mins(2);

/// How long something is valid that Causeway issues.
pub fn lifetime(duration: &Duration) -> SignedDuration {
    SignedDuration::from_secs(duration.signed_seconds())
}

impl CertificateConfig {
    /// The Secret in which something of that kind is kept.
    pub fn secret_of(&self, need: RotationStep) -> String {
        match need {
            RotationStep::Authority => self.authority_secret.clone(),
            RotationStep::Trust | RotationStep::Leaf | RotationStep::Forget => self.secret.clone(),
            RotationStep::Clients | RotationStep::TrustOfClients => self.clients_secret.clone().unwrap_or_default(),
        }
    }
}

/// A step of a change of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// Another authority. No process trusts it yet.
    Authority,
    /// Processes trust the source, too.
    Trust,
    /// Processes present a certificate from the source.
    Leaf,
    /// Processes trust only the source.
    Forget,
    /// The user's clients trust the same authorities as processes.
    TrustOfClients,
    /// The user's clients get a certificate.
    Clients,
}
