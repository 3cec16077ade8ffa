//! Errors of reading and changing children.

use std::time::Duration;

use causeway_runtime::consent::account::grant;
use causeway_runtime::{Class, Failure, api_message, class_of_kubernetes};

use super::child_fields;

/// The longest pause after a failure to write endpoints: until then clients find no node.
pub const ENDPOINTS_RETRY: Duration = Duration::from_secs(4);

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

impl Error {
    fn is_about_endpoints(&self) -> bool {
        matches!(self, Self::Apply { kind, .. } if kind == "EndpointSlice")
    }
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } => class_of_kubernetes(source),
            Self::Apply { source, .. } | Self::Change { source, .. } => match class_of_kubernetes(source) {
                // Clients find no node meanwhile, and no watch tells when the policy or the right that refuses changes.
                Class::Invalid | Class::Denied if self.is_about_endpoints() => Class::Transient,
                class => class,
            },
            Self::NameTaken(_) | Self::CannotGrow { .. } | Self::SecretsDenied { .. } => Class::Denied,
            // Observe and decide again.
            Self::SecretChanged(_) => Class::Conflict,
            Self::Issue(_) | Self::Manifest(_) | Self::Random => Class::Transient,
        }
    }

    fn needs_person(&self) -> bool {
        match self {
            Self::Apply { source, .. } | Self::Change { source, .. } => class_of_kubernetes(source).needs_person(),
            _ => self.class().needs_person(),
        }
    }

    fn longest_delay(&self) -> Option<Duration> {
        self.is_about_endpoints().then_some(ENDPOINTS_RETRY)
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(kind: &str, code: u16) -> Error {
        let status = Status { code, message: "a policy denied the request".into(), ..Status::default() };
        Error::Apply { kind: kind.into(), name: "cache".into(), source: kube::Error::Api(Box::new(status)) }
    }

    #[test]
    fn a_refused_child_is_tried_again_and_needs_a_person() {
        for (code, class) in [(403, Class::Denied), (422, Class::Invalid)] {
            for (kind, class) in [("StatefulSet", class), ("EndpointSlice", Class::Transient)] {
                let error = refused(kind, code);
                assert_eq!((error.class(), error.needs_person()), (class, true), "{kind} {code}");
            }
        }
        assert!(!refused("EndpointSlice", 503).needs_person());
        let longest = ["EndpointSlice", "StatefulSet"].map(|kind| refused(kind, 500).longest_delay());
        assert_eq!(longest, [Some(ENDPOINTS_RETRY), None]);
    }
}
