//! Attacks, as a tenant or a pod of another namespace performs them: each of them fails.

mod exporter;
