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

pub mod course;
pub mod error;
pub mod facts;
pub mod given;
pub mod issue;
pub mod pem;
pub mod secrets;
pub mod write;

use given::Needs;

/// Processes that show certificates from one source: where those are kept, and what they are to be.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The beginning of the names of the authority's files, and the end of its annotation.
    pub word: &'static str,
    /// The Secret with the authority. No pod mounts it.
    pub authority_secret: String,
    /// The Secret that the processes mount.
    pub secret: String,
    /// The Secret for the user's clients, where there is one.
    pub clients_secret: Option<String>,
    /// The Secret that the user gives, and the field that says so.
    pub given: Option<String>,
    pub field: &'static str,
    /// What a given certificate must be good for.
    pub needs: Needs,
    /// What one of ours is valid for.
    pub names: Vec<String>,
    /// The subject of the authority.
    pub authority: String,
    /// The subject of what processes show.
    pub subject: String,
    /// How long certificates are valid, in hours; nothing while TLS is turned off.
    pub certificate_hours: Option<i32>,
    /// How long authorities are, in hours.
    pub authority_hours: i32,
    /// Another text asks for another authority.
    pub renewal: Option<String>,
    /// Files are there under names that tell their content, too: see [`facts::Kept::content`].
    pub named_by_content: bool,
}

impl Site {
    /// The Secret in which something of that kind is kept.
    pub fn secret_of(&self, need: Need) -> String {
        match need {
            Need::Authority => self.authority_secret.clone(),
            Need::Trust | Need::Leaf | Need::Forget => self.secret.clone(),
            Need::Clients | Need::TrustOfClients => self.clients_secret.clone().unwrap_or_default(),
        }
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Another authority. Nobody trusts it yet.
    Authority,
    /// Processes trust the source, too.
    Trust,
    /// Processes show a certificate from the source.
    Leaf,
    /// Processes trust nobody but the source.
    Forget,
    /// The user's clients trust whom processes trust.
    TrustOfClients,
    /// The user's clients get a certificate.
    Clients,
}
