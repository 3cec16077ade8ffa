//! Shared parts of all integration tests: a scene of its own, the emulator's admin routes, and waiting for conditions.

pub mod account;
pub mod backends;
pub mod certificates;
pub mod chronicle;
pub mod clients;
pub mod ec2;
pub mod emulator;
pub mod figures;
pub mod full;
pub mod interception;
pub mod journal_value;
pub mod kinds;
pub mod operator;
pub mod rewriting;
pub mod role;
pub mod rollout_watch;
pub mod sample;
pub mod scene;
mod served;
pub mod volumes;
pub mod wait;
pub mod witness;

pub use account::Account;
pub use clients::Client;
pub use emulator::Emulator;
pub use interception::{Interception, Moment, Target};
pub use operator::Operator;
pub use scene::Scene;
pub use wait::wait_for;

/// Returns true if all cases run instead of a sample. That takes hours.
pub fn is_thorough() -> bool {
    std::env::var_os("CAUSEWAY_THOROUGH").is_some()
}
