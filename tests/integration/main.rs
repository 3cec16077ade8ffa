//! Tests against the real cluster and LocalStack. `cargo xtask test` starts both and runs them; each test has its own
//! namespace and its own AWS account, so they run side by side.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

/// The operator's allocator. glibc's took a twentieth of the tests' time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod support;

mod backup;
mod crash;
mod crds;
mod etcd;
mod faults;
mod fields;
mod history;
mod leader;
mod leadership;
mod lost_nodes;
mod myapp;
mod myingress;
mod plugin;
mod readiness;
mod redis;
mod security;
mod soak;
mod traffic;
