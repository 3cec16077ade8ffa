//! What the actions of a listener and of its rules have in common.

use std::collections::BTreeMap;

use super::Inputs;
use super::backends::Named;
use crate::external::elbv2::Protocol;

/// A week, the longest that clients stay with anything.
pub const WEEK: u32 = 604_800;

/// Where requests come from, and where they may go.
pub struct Listening<'a> {
    /// What clients speak.
    pub protocol: Protocol,
    /// The port on which they do.
    pub port: u16,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// The object's backends by name.
    pub backends: &'a BTreeMap<String, Named>,
    /// What is known beside the objects.
    pub context: &'a Inputs<'a>,
}
