//! Errors of calls to nodes.

use causeway_runtime::Class;

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("redis {operation}: {message}")]
pub struct RedisError {
    /// The name of the call.
    pub operation: &'static str,
    /// The kind of failure.
    pub trouble: Trouble,
    /// In the server's words, or what happened to the connection.
    pub message: String,
}

/// The kinds of failures that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The connection is refused: the process is gone, or a firewall rejects packets.
    Gone,
    /// The connection ended before the answer: another client closed it, or the process has just died.
    Broken,
    /// No answer came in time; the call may have had its effect, or may have it later.
    Unanswered,
    /// The node reads its data, and answers nothing else meanwhile.
    Loading,
    /// The node runs a script for so long that it answers nothing else meanwhile.
    Busy,
    /// The password is not the node's.
    Unauthenticated,
    /// This process must not change anything.
    NotLeading,
    /// The node refused, or said something unexpected.
    Refused,
}

impl RedisError {
    /// Describes a failed call of that operation.
    #[must_use]
    pub fn new(operation: &'static str, trouble: Trouble, message: impl Into<String>) -> Self {
        Self { operation, trouble, message: message.into() }
    }

    /// Describes an answer that belongs to another call.
    pub(super) fn unexpected_answer(operation: &'static str) -> Self {
        Self::new(operation, Trouble::Refused, "the answer belongs to another call")
    }

    /// Returns the class, which decides the retry.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.trouble {
            // The node is not as it was observed: look again.
            Trouble::Gone | Trouble::Broken => Class::NotFound,
            Trouble::Loading | Trouble::Busy => Class::NotYet,
            _ => Class::Transient,
        }
    }
}
