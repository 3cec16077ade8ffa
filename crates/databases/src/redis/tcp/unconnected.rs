//! Failures to connect to a node.

use crate::redis::Request;
use crate::redis::error::{RedisError, Trouble};
use crate::redis::reply::error_of;

/// A failure to connect.
pub enum Unconnected {
    /// Nothing listens there, or no answer came.
    Redis(redis::RedisError),
    /// Something answers that does not speak TLS, or whose certificate is not accepted.
    Stranger(String),
}

impl Unconnected {
    /// Describes it as the error of that call.
    pub fn describe(self, request: &Request) -> RedisError {
        match self {
            Self::Redis(error) => error_of(request.name(), &error),
            // Something answers, but does not prove to be the node: that is no sign that the node is gone.
            Self::Stranger(message) => RedisError::new(request.name(), Trouble::Refused, format!("TLS: {message}")),
        }
    }
}

impl From<redis::RedisError> for Unconnected {
    fn from(error: redis::RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<std::io::Error> for Unconnected {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::InvalidData => Self::Stranger(error.to_string()),
            _ => Self::Redis(error.into()),
        }
    }
}
