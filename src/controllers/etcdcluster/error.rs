//! Why observing or changing a cluster failed.

use crate::controllers::{child_fields, tls};
use crate::external::etcd::EtcdError;
use crate::runtime::{Class, Failure, class_of_kubernetes, said};

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read.
    #[error("cannot read the cluster's {what}: {}", said(.source))]
    Read {
        /// What of them.
        what: &'static str,
        /// What the API said.
        source: kube::Error,
    },
    /// A child could not be applied.
    #[error("cannot apply {kind} {name}: {}{}", said(.source), child_fields::fix(&said(.source)))]
    Apply {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A child could not be changed or deleted.
    #[error("cannot change {name}: {}", said(.source))]
    Change {
        /// Kind and name.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// Something that is not ours has the name of a child.
    #[error("{0} exists and does not belong to this object: delete it, or choose another metadata.name")]
    NameTaken(String),
    /// The `DatabaseBackup` could not be changed.
    #[error("cannot change the DatabaseBackup: {}", said(.0))]
    Backup(#[source] kube::Error),
    /// The apiserver refuses the pods that the spec asks for.
    #[error("the apiserver refuses the StatefulSet: {0}")]
    Refused(String),
    /// A volume cannot grow.
    #[error(
        "volume claim {name} cannot grow to spec.storageSize: {message}; set allowVolumeExpansion in its storage class, if \
         what provides its volumes can do that. The members run on with the volumes that they have"
    )]
    CannotGrow {
        /// The claim.
        name: String,
        /// What the API said.
        message: String,
    },
    /// Secrets cannot be read or written.
    #[error(
        "spec.tls and spec.auth need the right to {verb} Secrets: bind the ClusterRole causeway-database-secrets in this namespace \
         (kubectl create rolebinding causeway-database-secrets --clusterrole=causeway-database-secrets \
         --serviceaccount=causeway-system:causeway)"
    )]
    SecretsDenied {
        /// What is not allowed.
        verb: &'static str,
    },
    /// No password could be made.
    #[error("cannot make a password: {0}")]
    Random(String),
    /// A Secret changed between deciding and acting.
    #[error("Secret {0} changed meanwhile")]
    SecretChanged(String),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[source] rcgen::Error),
    /// A manifest could not be made.
    #[error("cannot make a manifest: {0}")]
    Manifest(#[from] serde_json::Error),
    /// Pods changed between deciding and acting.
    #[error("the members' pods changed meanwhile")]
    PodsChanged,
    /// A member refused, or did not answer.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

impl From<tls::error::Error> for Error {
    fn from(error: tls::error::Error) -> Self {
        match error {
            tls::error::Error::Denied { verb } => Self::SecretsDenied { verb },
            tls::error::Error::Read(source) => Self::Read { what: "Secrets", source },
            tls::error::Error::Apply { name, source } => Self::Apply { kind: "Secret".into(), name, source },
            tls::error::Error::Changed(name) => Self::SecretChanged(name),
            tls::error::Error::Issue(error) => Self::Issue(error),
            tls::error::Error::Manifest(error) => Self::Manifest(error),
        }
    }
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. }
            | Self::Apply { source, .. }
            | Self::Change { source, .. }
            | Self::Backup(source) => class_of_kubernetes(source),
            Self::NameTaken(_) | Self::CannotGrow { .. } | Self::SecretsDenied { .. } => Class::Denied,
            // Decided about once more: what of the spec can be done without it goes on.
            Self::SecretChanged(_) | Self::PodsChanged | Self::Refused(_) => Class::Conflict,
            Self::Issue(_) | Self::Manifest(_) | Self::Random(_) => Class::Transient,
            Self::Etcd(error) => error.class(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Change { .. } => "ChangeFailed",
            Self::Backup(_) => "BackupFailed",
            Self::Refused(_) => "SpecRefused",
            Self::NameTaken(_) => "NameTaken",
            Self::CannotGrow { .. } => "VolumeCannotGrow",
            Self::SecretsDenied { .. } => "SecretsDenied",
            Self::SecretChanged(_) | Self::PodsChanged => "Conflict",
            Self::Issue(_) | Self::Manifest(_) | Self::Random(_) => "IssueFailed",
            Self::Etcd(_) => "EtcdCallFailed",
        }
    }
}
