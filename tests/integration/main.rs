//! Tests against the real cluster and LocalStack. `cargo xtask test` starts both and runs them; each test has its own
//! namespace and its own AWS account, so they run side by side.

mod support;

mod crash;
mod leader;
mod crds;
mod myapp;
mod myingress;
mod smoke;
