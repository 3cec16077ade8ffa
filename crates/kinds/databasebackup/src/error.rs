//! Errors of observing and acting.

use causeway_aws::aws::AwsError;
use causeway_aws::s3::Refusals;
use causeway_backup::transfer;
use causeway_runtime::{Class, Failure, api_message, class_of_kubernetes};

/// The reasons why observing or acting failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read or made.
    #[error(transparent)]
    Transfer(#[from] transfer::Error),
    /// A child could not be deleted.
    #[error("cannot delete {child}: {}", api_message(.source))]
    Delete {
        /// Its kind and name.
        child: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// The record of the backups that count could not be written.
    #[error("cannot write the record of backups in the operator's namespace: {}", api_message(.0))]
    Record(kube::Error),
    /// Jobs are still ending.
    #[error("waiting for running backups to end")]
    JobsRemain,
    /// The replication slot is not dropped yet.
    #[error("waiting for Job {0} to drop the replication slot")]
    SlotRemains(String),
    /// The bucket is to be made, and another account has one of that name.
    #[error(
        "bucket {0} belongs to another account (names of buckets are unique in all of AWS): choose another \
         spec.destination.bucket"
    )]
    BucketTaken(String),
    /// Another object that shares the bucket changed it since we looked.
    #[error("bucket {0} was changed meanwhile")]
    BucketChanged(String),
    /// S3 refused to delete these objects, and deleted the others.
    #[error("{}", in_words(.0))]
    Undeleted(Refusals),
}

/// How many objects S3 refused to delete, and why the first of them.
fn in_words(refusals: &Refusals) -> String {
    let first = refusals.first_key_value().map(|(key, error)| format!(", such as {key}: {error}"));
    format!("S3 refuses to delete {} objects{}", refusals.len(), first.unwrap_or_default())
}

impl From<AwsError> for Error {
    fn from(error: AwsError) -> Self {
        Self::Transfer(error.into())
    }
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::Transfer(error) => error.class(),
            Self::Delete { source, .. } | Self::Record(source) => class_of_kubernetes(source),
            Self::BucketTaken(_) | Self::Undeleted(_) => Class::Denied,
            Self::JobsRemain | Self::SlotRemains(_) => Class::NotYet,
            Self::BucketChanged(_) => Class::Conflict,
        }
    }

    fn needs_person(&self) -> bool {
        match self {
            Self::Transfer(error) => error.needs_person(),
            other => other.class().needs_person(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Transfer(error) => error.reason(),
            Self::Delete { .. } => "DeleteFailed",
            Self::Record(_) => "RecordFailed",
            Self::JobsRemain => "JobsRemain",
            Self::SlotRemains(_) => "SlotRemains",
            Self::BucketChanged(_) => "BucketChanged",
            Self::BucketTaken(_) => "BucketForbidden",
            Self::Undeleted(_) => "AccessDenied",
        }
    }
}
