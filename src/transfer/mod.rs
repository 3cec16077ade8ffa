//! What the kinds share whose Jobs move databases to S3 and back: `DatabaseBackup` and `DatabaseRestore`. Not a kind.
//!
//! Each kind decides by itself what its Jobs do. Here is what is the same: how children are read and made, what the pods of a
//! Job said, which manifest in S3 is believed, the records in the operator's own namespace by which backups count, and the key that signs them.

mod children;
mod documents;
mod error;
mod outcomes;
mod records;
mod signing;
mod tags;

pub use children::{apply, get, list, start};
pub use documents::{Disbelief, document, key_of};
pub use error::Error;
pub use outcomes::{explain, is_of, outcome, pods};
pub use records::Records;
pub use signing::Signing;
pub use tags::{CAUSEWAY, CLUSTER, MANAGED_BY, OFFERED, READABLE, is_ours, lets_read};
