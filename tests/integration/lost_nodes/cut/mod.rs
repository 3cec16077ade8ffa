//! A node that is cut off and comes back. What ran there went on meanwhile.

mod etcd;
mod leader;
pub mod redis;
