//! Why reading or changing something failed.

use crate::external::aws::AwsError;
use crate::runtime::{Class, Failure, api_message, class_of_kubernetes};

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read.
    #[error("cannot read the {what}: {}", api_message(.source))]
    Read {
        /// What was to be read.
        what: &'static str,
        /// What the API said.
        source: kube::Error,
    },
    /// A child could not be applied.
    #[error("cannot apply {child}: {}", api_message(.source))]
    Apply {
        /// Its kind and name.
        child: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A Job could not be made.
    #[error("cannot make Job {name}: {}", api_message(.source))]
    Start {
        /// Its name.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// Somebody else's child has the name; its kind and name.
    #[error("{0} exists and does not belong to this object: delete it, or choose another metadata.name")]
    NameTaken(String),
    /// AWS refused.
    #[error(transparent)]
    Aws(#[from] AwsError),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } | Self::Apply { source, .. } | Self::Start { source, .. } => {
                class_of_kubernetes(source)
            }
            Self::NameTaken(_) => Class::Denied,
            Self::Aws(error) => error.class,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Start { .. } => "StartFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::Aws(error) => match error.class {
                Class::Denied => "AccessDenied",
                Class::Throttled => "Throttled",
                Class::Invalid => "RequestInvalid",
                _ => "AwsUnavailable",
            },
        }
    }
}
