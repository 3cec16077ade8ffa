//! Why Secrets with certificates could not be read or written.

use crate::runtime::said;

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Secrets cannot be read or written.
    #[error("not allowed to {verb} Secrets")]
    Denied {
        /// What is not allowed.
        verb: &'static str,
    },
    /// They could not be read.
    #[error("cannot read Secrets: {}", said(.0))]
    Read(#[source] kube::Error),
    /// One could not be written.
    #[error("cannot apply Secret {name}: {}", said(.source))]
    Apply {
        /// Its name.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// One changed between deciding and acting.
    #[error("Secret {0} changed meanwhile")]
    Changed(String),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// A manifest could not be made.
    #[error("cannot make a manifest: {0}")]
    Manifest(#[from] serde_json::Error),
}
