//! The link between the two containers of a pod that takes backups. One talks to databases and has their passwords, often in
//! an image that a user names. The other one talks to S3. So no container has both, and a user's image never has credentials
//! for S3.
//!
//! The container that dumps listens at a socket in a directory that both mount ([`serve`]). The other one asks for one
//! database after the other ([`Relayed`]). What comes over the socket is not trusted: its size is bounded, and it is taken
//! only as data and as text.

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
