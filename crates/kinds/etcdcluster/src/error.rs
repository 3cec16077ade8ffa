//! Errors of observing and changing a cluster.

use causeway_databases::etcd::EtcdError;
use causeway_runtime::{Class, Failure, api_message, class_of_kubernetes};

/// An error of observing or changing a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read or changed.
    #[error(transparent)]
    Children(#[from] causeway_databases::Error),
    /// The `DatabaseBackup` could not be changed.
    #[error("cannot change the DatabaseBackup: {}", api_message(.0))]
    Backup(#[source] kube::Error),
    /// The apiserver refused a child. That is remembered, and everything else goes on.
    #[error(transparent)]
    SetAside(causeway_databases::Error),
    /// Pods changed between deciding and acting.
    #[error("the members' pods changed meanwhile")]
    PodsChanged,
    /// A member is not defragmented beside another one that serves no client: it may be defragmented still, which goes on when
    /// the caller that asked for it is gone.
    #[error("no member is defragmented while another one serves no reads: {0}")]
    OthersBusy(#[source] EtcdError),
    /// A member refused, or did not answer.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Children(error) => error.class(),
            Self::Backup(source) => class_of_kubernetes(source),
            // Observe and decide again: whatever else the spec asks for goes on.
            Self::PodsChanged | Self::SetAside(_) => Class::Conflict,
            Self::Etcd(error) | Self::OthersBusy(error) => error.class(),
        }
    }

    fn needs_person(&self) -> bool {
        match self {
            Self::Children(error) => error.needs_person(),
            _ => self.class().needs_person(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Children(error) | Self::SetAside(error) => error.reason(),
            Self::Backup(_) => "BackupFailed",
            Self::PodsChanged => "Conflict",
            Self::Etcd(_) | Self::OthersBusy(_) => "EtcdCallFailed",
        }
    }
}
