//! A node that is cut off and comes back: what ran there went on meanwhile.

mod etcd;
mod leader;
pub mod redis;
