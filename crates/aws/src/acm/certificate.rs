//! Certificates as plain data.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// A certificate that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The ARN of the certificate.
    pub arn: String,
    /// Hosts that it covers. The first label may be `*`. AWS returns only the first hundred.
    pub names: BTreeSet<String>,
    /// The time at which it expires.
    pub expires: Option<Timestamp>,
}
