//! The custom resources people write: types, defaults, bounds and validation rules, nothing else.
//!
//! The files under `crds/` are generated from here by `causeway crds`.

pub mod common;
pub mod definitions;
pub mod myapp;
pub mod myingress;

pub use common::{Conditioned, DeletionPolicy};
pub use myapp::{MyApp, MyAppSpec, MyAppStatus};
pub use myingress::{MyIngress, MyIngressSpec, MyIngressStatus};
