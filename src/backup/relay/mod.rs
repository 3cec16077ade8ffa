//! Between the two containers of a pod that takes backups. One talks to databases and has their passwords, often in an image
//! that a user names; the other one talks to S3. So nobody has both, and a user's image never has credentials for S3.
//!
//! The one that dumps listens at a socket in a directory that both see ([`serve`]); the other one asks for one database after
//! the other ([`Relayed`]). What comes over the socket is not trusted: its size is bounded, and it is data and words, nothing
//! else.

mod client;
mod frame;
mod server;

pub use client::{Receipt, Relayed};
pub use server::serve;

/// Where the socket is in pods.
pub const SOCKET: &str = "/run/causeway/dump.sock";
/// Variable with its path.
pub const SOCKET_VARIABLE: &str = "CAUSEWAY_DUMP_SOCKET";

#[cfg(test)]
mod tests;
