//! Errors of reading or changing something.

use causeway_aws::aws::AwsError;
use causeway_runtime::{Class, Failure, api_message, class_of_kubernetes};

/// The reasons why reading or changing something failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read.
    #[error("cannot read the {what}: {}", api_message(.source))]
    Read {
        /// The thing that was to be read.
        what: &'static str,
        /// The answer of the API server.
        source: kube::Error,
    },
    /// A child could not be applied.
    #[error("cannot apply {child}: {}", api_message(.source))]
    Apply {
        /// Its kind and name.
        child: String,
        /// The answer of the API server.
        source: kube::Error,
    },
    /// A Job could not be created.
    #[error("cannot make Job {name}: {}", api_message(.source))]
    Start {
        name: String,
        /// The answer of the API server.
        source: kube::Error,
    },
    /// An object of another owner has the name. Contains the object's kind and name.
    #[error("{0} exists and does not belong to this object: delete it, or choose another metadata.name")]
    NameTaken(String),
    /// The plan of a Job is not what this operator wrote, and cannot be corrected. Contains the object's kind and name.
    #[error(
        "{0} holds another plan than this object's, and cannot be changed: another client wrote it; look who may write ConfigMaps in this namespace, and delete it"
    )]
    PlanChanged(String),
    /// AWS returned an error.
    #[error(transparent)]
    Aws(#[from] AwsError),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } | Self::Apply { source, .. } | Self::Start { source, .. } => {
                class_of_kubernetes(source)
            }
            Self::NameTaken(_) | Self::PlanChanged(_) => Class::Denied,
            Self::Aws(error) => error.class,
        }
    }

    fn needs_person(&self) -> bool {
        let unsigned = matches!(self, Self::Aws(error) if error.unsigned_reason().is_some());
        unsigned || self.class().needs_person()
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Start { .. } => "StartFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::PlanChanged(_) => "PlanChanged",
            Self::Aws(error) => match (error.unsigned_reason(), error.class) {
                (Some(unsigned), _) => unsigned.reason(),
                (None, Class::Denied) => "AccessDenied",
                (None, Class::Throttled) => "Throttled",
                (None, Class::Invalid) => "RequestInvalid",
                (None, _) => "AwsUnavailable",
            },
        }
    }
}
