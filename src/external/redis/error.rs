//! Why a call of a node failed.

use crate::runtime::Class;

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("redis {operation}: {message}")]
pub struct RedisError {
    /// The name of the call.
    pub operation: &'static str,
    /// What went wrong.
    pub trouble: Trouble,
    /// In the server's words, or what happened to the connection.
    pub message: String,
}

/// What went wrong, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The connection is refused: the process is gone, or a firewall rejects packets.
    Gone,
    /// The connection ended before the answer: somebody closed it, or the process has just died.
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
    /// An error of a call.
    #[must_use]
    pub fn new(operation: &'static str, trouble: Trouble, message: impl Into<String>) -> Self {
        Self { operation, trouble, message: message.into() }
    }

    /// The answer belongs to another call.
    pub(super) fn unexpected(operation: &'static str) -> Self {
        Self::new(operation, Trouble::Refused, "the answer belongs to another call")
    }

    /// What is to be done about it.
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
