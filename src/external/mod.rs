//! The systems outside the cluster: thin clients that add deadlines, counting, classes of errors, and nothing else.

pub mod aws;
pub mod elbv2;
