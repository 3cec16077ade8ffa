//! Why observing or acting failed.

use crate::external::aws::AwsError;
use crate::runtime::{Class, Failure, class_of_kubernetes, said};

/// Why observing or acting failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Children could not be read.
    #[error("cannot read the {what}: {}", said(.source))]
    Read {
        /// What was to be read.
        what: &'static str,
        /// What the API said.
        source: kube::Error,
    },
    /// A child could not be applied.
    #[error("cannot apply {child}: {}", said(.source))]
    Apply {
        /// Its kind and name.
        child: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A Job could not be made.
    #[error("cannot make Job {name}: {}", said(.source))]
    Start {
        /// Its name.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A child could not be deleted.
    #[error("cannot delete {child}: {}", said(.source))]
    Delete {
        /// Its kind and name.
        child: String,
        /// What the API said.
        source: kube::Error,
    },
    /// Somebody else's Job has the name.
    #[error("Job {0} exists and does not belong to this object: delete it, or choose another metadata.name")]
    NameTaken(String),
    /// Jobs are still ending.
    #[error("waiting for running backups to end")]
    JobsRemain,
    /// The bucket is to be made, and another account has one of that name.
    #[error(
        "bucket {0} belongs to another account (names of buckets are unique in all of AWS): choose another \
         spec.destination.bucket"
    )]
    BucketTaken(String),
    /// Another object that shares the bucket changed it since we looked.
    #[error("bucket {0} was changed meanwhile")]
    BucketChanged(String),
    /// AWS refused.
    #[error(transparent)]
    Aws(#[from] AwsError),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. }
            | Self::Apply { source, .. }
            | Self::Start { source, .. }
            | Self::Delete { source, .. } => class_of_kubernetes(source),
            Self::NameTaken(_) | Self::BucketTaken(_) => Class::Denied,
            Self::JobsRemain => Class::Early,
            Self::BucketChanged(_) => Class::Conflict,
            Self::Aws(error) => error.class,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::Start { .. } => "StartFailed",
            Self::Delete { .. } => "DeleteFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::JobsRemain => "JobsRemain",
            Self::BucketChanged(_) => "BucketChanged",
            Self::BucketTaken(_) => "BucketForbidden",
            Self::Aws(error) => match error.class {
                Class::Denied => "AccessDenied",
                Class::Throttled => "Throttled",
                Class::Invalid => "RequestInvalid",
                _ => "AwsUnavailable",
            },
        }
    }
}
