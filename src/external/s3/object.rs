//! The objects in a bucket as plain data.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::external::aws::AwsError;

/// A call deletes at most this many objects.
pub const DELETED_AT_ONCE: usize = 1000;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Timestamp,
}

/// The objects under a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by key.
    pub objects: Vec<Object>,
    /// Whether there is more than was read.
    pub cut: bool,
}

/// An upload that was begun and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The key that the object would have.
    pub key: String,
    /// Its ID.
    pub id: String,
    /// When it was begun.
    pub begun: Timestamp,
}

/// Why S3 refused to delete objects, by their keys. It deleted the others.
pub type Refusals = BTreeMap<String, AwsError>;

/// Stands in for the code where Object Lock holds a version: AWS's is that of a missing right, and other S3s have others.
pub const LOCKED: &str = "ObjectLocked";
