//! The systems outside the cluster: thin clients that add deadlines, rate limits, metrics and classes of errors, and
//! nothing else.

pub mod acm;
pub mod aws;
pub mod budget;
pub mod connect;
mod denial;
pub mod ec2;
pub mod elbv2;
#[cfg(test)]
mod refused_calls;
pub mod s3;
mod signing;
pub mod wafv2;

pub use signing::Unsigned;
