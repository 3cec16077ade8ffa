//! Errors of reading and changing children.

use super::child_fields;
use crate::consent::account::grant;
use crate::runtime::{Class, Failure, api_message, class_of_kubernetes};

/// An error of reading or changing children.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read.
    #[error("cannot read the {what}: {}", api_message(.source))]
    Read {
        /// The kind of children, in the plural.
        what: &'static str,
        /// The error of the API.
        source: kube::Error,
    },
    /// A child could not be applied.
    #[error("cannot apply {kind} {name}: {}{}", api_message(.source), child_fields::fix(&api_message(.source)))]
    Apply {
        /// The kind of the child.
        kind: String,
        /// The name of the child.
        name: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// A child could not be changed or deleted.
    #[error("cannot change {name}: {}", api_message(.source))]
    Change {
        /// The kind and name of the child.
        name: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// Something that is not ours has the name of a child.
    #[error("{0} exists and does not belong to this object: delete it, or choose another metadata.name")]
    NameTaken(String),
    /// A volume cannot grow.
    #[error(
        "volume claim {name} cannot grow to {field}: {message}; set allowVolumeExpansion in its storage class, if the \
         provisioner supports it, or set {field} back to what the volumes have (status.volumeSize). The pods keep running"
    )]
    CannotGrow {
        /// The name of the claim.
        name: String,
        /// The field that says how large it is to be.
        field: &'static str,
        /// The message of the API.
        message: String,
    },
    /// Secrets cannot be read or written.
    #[error(
        "spec.tls and spec.auth need the right to {verb} Secrets: bind the ClusterRole causeway-database-secrets in this namespace \
         ({})",
        grant(None, "causeway-database-secrets")
    )]
    SecretsDenied {
        /// The verb that is not allowed.
        verb: &'static str,
    },
    /// A Secret changed between deciding and acting.
    #[error("Secret {0} changed meanwhile")]
    SecretChanged(String),
    /// No password could be made.
    #[error("cannot make a password: the system has no random numbers")]
    Random,
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// A manifest could not be made.
    #[error("cannot make a manifest: {0}")]
    Manifest(#[from] serde_json::Error),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } | Self::Apply { source, .. } | Self::Change { source, .. } => {
                class_of_kubernetes(source)
            }
            Self::NameTaken(_) | Self::CannotGrow { .. } | Self::SecretsDenied { .. } => Class::Denied,
            // Observe and decide again.
            Self::SecretChanged(_) => Class::Conflict,
            Self::Issue(_) | Self::Manifest(_) | Self::Random => Class::Transient,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Change { .. } => "ChangeFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::CannotGrow { .. } => "VolumeCannotGrow",
            Self::SecretsDenied { .. } => "SecretsDenied",
            Self::SecretChanged(_) => "Conflict",
            Self::Issue(_) | Self::Manifest(_) => "IssueFailed",
            Self::Random => "PasswordNotMade",
        }
    }
}
