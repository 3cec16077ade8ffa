//! Tags of buckets: which cluster owns a bucket, and which clusters may use it. Pure.

use causeway_aws::s3::Tags;

/// Tag of a bucket: the cluster that may use it for backups.
pub const OFFERED: &str = "causeway.example.com/backups";
/// Tag of a bucket: the cluster that may restore from it, but not write into it.
pub const READABLE: &str = "causeway.example.com/restores";
/// Tag of a bucket that we created: the cluster's name.
pub const CLUSTER: &str = "causeway.example.com/cluster";
/// Tag of everything that we created.
pub const MANAGED_BY: &str = "ManagedBy";
pub const CAUSEWAY: &str = "causeway";

/// Reports whether tags say that this cluster made the bucket.
pub fn is_ours(tags: &Tags, cluster: &str) -> bool {
    let says = |key, value| tags.get(key).is_some_and(|it| it == value);
    says(CLUSTER, cluster) && says(MANAGED_BY, CAUSEWAY)
}

/// Reports whether tags let this cluster restore from the bucket.
pub fn lets_read(tags: &Tags, cluster: &str) -> bool {
    is_ours(tags, cluster) || [OFFERED, READABLE].iter().any(|key| tags.get(*key).is_some_and(|it| it == cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_admits_its_own_and_named_clusters() {
        let tags = |all: &[(&str, &str)]| all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let made = tags(&[(CLUSTER, "prod"), (MANAGED_BY, CAUSEWAY)]);
        assert!(lets_read(&made, "prod") && !lets_read(&made, "other"));
        let lost = tags(&[(CLUSTER, "lost"), (MANAGED_BY, CAUSEWAY), (READABLE, "prod")]);
        assert!(lets_read(&lost, "prod") && !is_ours(&lost, "prod"));
        assert!(lets_read(&tags(&[(OFFERED, "prod")]), "prod") && !lets_read(&tags(&[]), "prod"));
    }
}
