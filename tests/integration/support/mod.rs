//! What every integration test stands on: a scene of its own, AWS's admin routes, and waiting for conditions.

pub mod emulator;
pub mod interception;
pub mod operator;
pub mod role;
pub mod scene;
pub mod wait;

pub use emulator::Emulator;
pub use interception::{Interception, Moment};
pub use operator::Operator;
pub use scene::Scene;
pub use wait::wait_for;
