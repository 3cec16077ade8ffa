//! The context in which the actions of a listener and of its rules are built.

use std::collections::BTreeMap;

use causeway_aws::elbv2::Protocol;

use super::Inputs;
use super::backends::Named;

/// A week in seconds, the longest stickiness and the longest session.
pub const WEEK: u32 = 604_800;

/// The listener that requests come from, and the backends that they may go to.
pub struct Listening<'a> {
    /// The protocol that clients speak.
    pub protocol: Protocol,
    /// The port of the listener.
    pub port: u16,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// The object's backends by name.
    pub backends: &'a BTreeMap<String, Named>,
    /// The input besides the objects.
    pub context: &'a Inputs<'a>,
}
