//! Why observing or changing nodes failed.

use crate::controllers::{child_fields, tls};
use crate::external::redis::RedisError;
use crate::runtime::{Class, Failure, class_of_kubernetes, said};

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read.
    #[error("cannot read the {what}: {}", said(.source))]
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
    /// A volume cannot grow.
    #[error(
        "volume claim {name} cannot grow to spec.storage.size: {message}; set allowVolumeExpansion in its storage class, if \
         what provides its volumes can do that. The nodes run on with the volumes that they have"
    )]
    CannotGrow {
        /// The claim.
        name: String,
        /// What the API said.
        message: String,
    },
    /// A password could not be made.
    #[error("cannot make a password: {0}")]
    Random(String),
    /// The pod has no process that could be asked.
    #[error("pod {0} has no address")]
    NoAddress(String),
    /// Whom Services lead to may not be written.
    #[error(
        "cannot write EndpointSlice {name}, by which clients find the nodes: {message}. Apply deploy/base/clusterrole.yaml of \
         this version"
    )]
    SlicesDenied {
        /// The slice.
        name: String,
        /// What the API said.
        message: String,
    },
    /// Whom clients were to be led to is no master any more.
    #[error("{0} is no master any more")]
    NoMaster(String),
    /// Settings that a node refuses.
    #[error("spec.config.{directive} is refused by {node}: {message}; correct or remove it")]
    SettingRefused {
        /// The node.
        node: String,
        /// The directive.
        directive: String,
        /// In Redis's words.
        message: String,
    },
    /// Secrets with certificates could not be read or written.
    #[error(
        "spec.tls needs the right to {verb} Secrets: bind the ClusterRole causeway-database-secrets in this namespace \
         (kubectl create rolebinding causeway-database-secrets --clusterrole=causeway-database-secrets \
         --serviceaccount=causeway-system:causeway)"
    )]
    SecretsDenied {
        /// What is not allowed.
        verb: &'static str,
    },
    /// The files of a certificate are not in a pod yet.
    #[error("{0} cannot load its certificates yet: its files come within a minute")]
    FilesAwaited(String),
    /// A certificate could not be made or kept.
    #[error(transparent)]
    Tls(tls::error::Error),
    /// A node refused, or did not answer.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl From<tls::error::Error> for Error {
    fn from(error: tls::error::Error) -> Self {
        match error {
            tls::error::Error::Denied { verb } => Self::SecretsDenied { verb },
            error => Self::Tls(error),
        }
    }
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. }
            | Self::Apply { source, .. }
            | Self::Change { source, .. }
            | Self::Tls(tls::error::Error::Read(source) | tls::error::Error::Apply { source, .. }) => {
                class_of_kubernetes(source)
            }
            Self::NameTaken(_)
            | Self::CannotGrow { .. }
            | Self::SettingRefused { .. }
            | Self::SecretsDenied { .. }
            | Self::SlicesDenied { .. } => Class::Denied,
            Self::FilesAwaited(_) => Class::Early,
            // Decided about once more, by what there is now.
            Self::Tls(tls::error::Error::Changed(_)) => Class::Conflict,
            Self::Tls(_) | Self::Random(_) => Class::Transient,
            Self::NoAddress(_) | Self::NoMaster(_) => Class::NotFound,
            Self::Redis(error) => error.class(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Change { .. } => "ChangeFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::CannotGrow { .. } => "VolumeCannotGrow",
            Self::NoAddress(_) => "PodWithoutAddress",
            Self::SlicesDenied { .. } => "SlicesDenied",
            Self::NoMaster(_) => "NoMaster",
            Self::Random(_) => "PasswordNotMade",
            Self::SettingRefused { .. } => "ConfigInvalid",
            Self::SecretsDenied { .. } => "SecretsDenied",
            Self::FilesAwaited(_) => "LoadingCertificates",
            Self::Tls(_) => "IssueFailed",
            Self::Redis(_) => "RedisCallFailed",
        }
    }
}
