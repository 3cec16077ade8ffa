//! Objects for tests.

use causeway_api::{DeletionPolicy, Redis, RedisSpec};

/// The sample, with that many replicas.
pub fn redis(replicas: i32) -> Redis {
    let spec = RedisSpec {
        replicas,
        version: "7.0.15".into(),
        deletion_policy: DeletionPolicy::Retain,
        ..RedisSpec::default()
    };
    let mut object = Redis::new("cache", spec);
    object.metadata.namespace = Some("shop".into());
    object.metadata.uid = Some("uid".into());
    object
}
