//! Tests against the real cluster and LocalStack. `cargo xtask test` starts both and runs them; each test has its own
//! namespace and its own AWS account, so they run side by side.

mod support;

mod myapp;
mod crash;
mod smoke;
