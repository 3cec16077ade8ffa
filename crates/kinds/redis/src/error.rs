//! Errors of observing and changing nodes.

use std::time::Duration;

use causeway_databases::error::ENDPOINTS_RETRY;
use causeway_databases::redis::RedisError;
use causeway_runtime::{Class, Failure};

/// An error of observing or changing nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read or changed.
    #[error(transparent)]
    Children(#[from] causeway_databases::Error),
    /// The apiserver refused a child. That is remembered, and everything else goes on.
    #[error(transparent)]
    SetAside(causeway_databases::Error),
    /// The pod has no process that could be asked.
    #[error("pod {0} has no address")]
    NoAddress(String),
    /// The operator may not write the `EndpointSlice`s of Services.
    #[error(
        "cannot write EndpointSlice {name}, by which clients find the nodes: {message}. Apply deploy/base/clusterrole.yaml of \
         this version"
    )]
    SlicesDenied {
        /// The name of the slice.
        name: String,
        /// The answer of the API.
        message: String,
    },
    /// The node to which clients were to be led is no master any more.
    #[error("{0} is no master any more")]
    NoMaster(String),
    /// Settings that a node refuses.
    #[error("spec.config.{directive} is refused by {node}: {message}; correct or remove it")]
    SettingRefused {
        /// The name of the node's pod.
        node: String,
        /// The directive that was refused.
        directive: String,
        /// The answer, in Redis's words.
        message: String,
    },
    /// The files of a certificate are not in a pod yet.
    #[error("{0} cannot load its certificates yet: its files come within a minute")]
    FilesAwaited(String),
    /// A node refused, or did not answer.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Children(error) => error.class(),
            // Observe and decide again: whatever else the spec asks for goes on.
            Self::SetAside(_) => Class::Conflict,
            Self::SettingRefused { .. } => Class::Denied,
            // Clients find no node meanwhile, and no watch tells when the right is there.
            Self::SlicesDenied { .. } => Class::Transient,
            Self::FilesAwaited(_) => Class::NotYet,
            Self::NoAddress(_) | Self::NoMaster(_) => Class::NotFound,
            Self::Redis(error) => error.class(),
        }
    }

    fn needs_person(&self) -> bool {
        match self {
            Self::Children(error) => error.needs_person(),
            Self::SlicesDenied { .. } => true,
            _ => self.class().needs_person(),
        }
    }

    fn longest_delay(&self) -> Option<Duration> {
        match self {
            Self::Children(error) => error.longest_delay(),
            Self::SlicesDenied { .. } => Some(ENDPOINTS_RETRY),
            _ => None,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Children(error) | Self::SetAside(error) => error.reason(),
            Self::NoAddress(_) => "PodWithoutAddress",
            Self::SlicesDenied { .. } => "SlicesDenied",
            Self::NoMaster(_) => "NoMaster",
            Self::SettingRefused { .. } => "ConfigInvalid",
            Self::FilesAwaited(_) => "LoadingCertificates",
            Self::Redis(_) => "RedisCallFailed",
        }
    }
}
