//! The objects in a bucket as plain data.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::aws::AwsError;

/// A call deletes at most this many objects.
pub const DELETED_AT_ONCE: usize = 1000;

/// An object in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The key of the object.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// The time at which it was written.
    pub modified: Timestamp,
}

/// The objects under a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects, sorted by key.
    pub objects: Vec<Object>,
    /// True if there is more than was read.
    pub cut: bool,
}

/// An upload that was begun and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The key that the object would have.
    pub key: String,
    /// The id of the upload.
    pub id: String,
    /// The time at which it was begun.
    pub begun: Timestamp,
}

/// The errors of objects that S3 refused to delete, by key. It deleted the others.
pub type Refusals = BTreeMap<String, AwsError>;

/// Stands in for the code where Object Lock holds a version: AWS's is that of a missing right, and other S3s have others.
pub const LOCKED: &str = "ObjectLocked";
