//! Parts that the kinds share whose Jobs move databases to S3 and back: `DatabaseBackup` and `DatabaseRestore`. It is not a
//! kind itself.
//!
//! Each kind decides what its Jobs do. Here is the common part: reading and creating children, the reports of a Job's
//! pods, which manifest in S3 is trusted, the records of valid backups in the operator's own namespace, and the key
//! that signs them.

mod children;
mod documents;
mod error;
mod outcomes;
mod records;
mod signing;
mod stuck;
mod tags;

pub use children::{apply, get, list, start};
pub use documents::{Disbelief, document, key_of};
pub use error::Error;
pub use outcomes::{explain, is_of, last_try, outcome, pods};
pub use records::Records;
pub use signing::Signing;
pub use stuck::{PATIENCE, stuck};
pub use tags::{CAUSEWAY, CLUSTER, MANAGED_BY, OFFERED, READABLE, is_ours, lets_read};
