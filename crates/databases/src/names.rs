//! Names of the children of a database. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;

use causeway_runtime::fingerprint;

use super::Database;

/// Label of volume claims: the uid of the object that they were made for.
pub const INCARNATION: &str = "causeway.example.com/incarnation";
/// Label of pods: what they were made from.
pub const REVISION: &str = "causeway.example.com/revision";
/// Annotation of volume claims: the ID of the member whose data they hold, in hexadecimal.
pub const MEMBER: &str = "causeway.example.com/member";
/// Annotation of volume claims: the last epoch in which their node was the master.
pub const EPOCH: &str = "causeway.example.com/epoch";
/// Annotation of volume claims that an earlier object of the name left: the uid of the object that uses them now.
pub const ADOPTED: &str = "causeway.example.com/adopted-by";
/// Annotation of a `StatefulSet` that is written to wake its controller, which any change does. The value is the version
/// of the `StatefulSet` before.
pub const HURRIED: &str = "causeway.example.com/hurried";
/// Annotation that `kubectl rollout restart` gives the pods' template: when that was.
/// <https://github.com/kubernetes/kubectl/blob/v0.34.0/pkg/polymorphichelpers/objectrestarter.go>
pub const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
/// Digits of a hash that tell long names apart.
const DIGITS: usize = 8;
/// Name of the volume in the pods, and the beginning of the claims' names.
pub const VOLUME: &str = "data";

/// Name of the headless Service of the pods.
pub fn peers(object: &impl ResourceExt) -> String {
    format!("{}-peers", object.name_any())
}

/// Name of the pod with that ordinal.
pub fn pod(object: &impl ResourceExt, ordinal: i32) -> String {
    format!("{}-{ordinal}", object.name_any())
}

/// Name of the volume claim of the pod with that ordinal.
pub fn claim(object: &impl ResourceExt, ordinal: i32) -> String {
    format!("{VOLUME}-{}", pod(object, ordinal))
}

/// Name of a child that ends with `suffix` and has at most `longest` characters. If it would be too long, the end of the
/// object's name becomes a hash.
pub fn child(object: &impl ResourceExt, suffix: &str, longest: usize) -> String {
    let owner = object.name_any();
    if owner.len() + suffix.len() <= longest {
        return format!("{owner}{suffix}");
    }
    let hash = fingerprint(&[owner.as_bytes()], DIGITS);
    let kept: String = owner.chars().take(longest.saturating_sub(suffix.len() + DIGITS + 1)).collect();
    format!("{}-{hash}{suffix}", kept.trim_end_matches(['-', '.']))
}

/// The ordinal in the name of a pod, or of a claim.
pub fn ordinal_of(object: &impl ResourceExt, name: &str) -> Option<i32> {
    let name =
        name.strip_prefix(&format!("{VOLUME}-")).filter(|rest| rest.starts_with(&object.name_any())).unwrap_or(name);
    let ordinal = name.strip_prefix(&object.name_any())?.strip_prefix('-')?;
    ordinal.parse().ok().filter(|number: &i32| *number >= 0 && number.to_string() == ordinal)
}

/// The labels by which the pods are found.
pub fn selector<D: Database>(object: &D::Object) -> BTreeMap<String, String> {
    BTreeMap::from([(D::LABEL.into(), object.name_any())])
}

/// The same as the apiserver reads it.
pub fn selector_text<D: Database>(object: &D::Object) -> String {
    format!("{}={}", D::LABEL, object.name_any())
}

/// Labels of every child.
pub fn labels<D: Database>(object: &D::Object) -> BTreeMap<String, String> {
    let mut labels = selector::<D>(object);
    labels.insert("app.kubernetes.io/name".into(), D::APP.into());
    labels.insert("app.kubernetes.io/instance".into(), object.name_any());
    labels.insert("app.kubernetes.io/managed-by".into(), "causeway".into());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::{Redis, RedisSpec};

    #[test]
    fn long_names_end_with_a_hash() {
        let named = |name: &str| child(&Redis::new(name, RedisSpec::default()), "-backup", 38);
        assert_eq!(named(&"a".repeat(31)), format!("{}-backup", "a".repeat(31)));
        let (one, other) = (named(&"b".repeat(32)), named(&"b".repeat(46)));
        assert!(one.len() == 38 && other.len() == 38 && one != other, "{one} {other}");
        assert!(!named("payments-production-eu-west-1-etcd").contains("--"));
    }

    #[test]
    fn ordinals_are_read_from_names_whatever_the_object_is_called() {
        let mut object = Redis::new("db", RedisSpec::default());
        for name in ["db", "data", "data-1", "a-0"] {
            object.metadata.name = Some(name.into());
            for ordinal in [0, 7, 11] {
                assert_eq!(ordinal_of(&object, &pod(&object, ordinal)), Some(ordinal), "{name}");
                assert_eq!(ordinal_of(&object, &claim(&object, ordinal)), Some(ordinal), "{name}");
            }
        }
        object.metadata.name = Some("db".into());
        for stranger in ["db", "db-", "db-x", "db-01", "db--1", "web-0", "data-web-0"] {
            assert_eq!(ordinal_of(&object, stranger), None, "{stranger}");
        }
    }
}
