//! Whose a balancer is: five tags, set in the create call itself.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::api::MyIngress;
use crate::api::common::PREFIX;
use crate::external::elbv2::Pairs;

/// The object that a balancer belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the Kubernetes cluster.
    pub cluster: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid: another object of the same name is another owner.
    pub uid: String,
}

impl Owner {
    /// The owner that an object of this cluster is.
    pub fn of(cluster: &str, object: &MyIngress) -> Self {
        Self {
            cluster: cluster.into(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        }
    }

    /// The tags that say so.
    pub fn tags(&self) -> Pairs {
        BTreeMap::from([
            (key("cluster"), self.cluster.clone()),
            (key("namespace"), self.namespace.clone()),
            (key("name"), self.name.clone()),
            (key("uid"), self.uid.clone()),
            ("ManagedBy".into(), "causeway".into()),
        ])
    }

    /// Whether something with these tags belongs to this owner: cluster and uid say who it is. The other three are
    /// for people to read; they are repaired like any other tag.
    pub fn owns(&self, tags: &Pairs) -> bool {
        !self.uid.is_empty()
            && tags.get(&key("cluster")) == Some(&self.cluster)
            && tags.get(&key("uid")) == Some(&self.uid)
    }
}

/// The owner's namespace and name, where the tags name an owner in this cluster.
pub fn object_of(cluster: &str, tags: &Pairs) -> Option<(String, String)> {
    if tags.get(&key("cluster")).map(String::as_str) != Some(cluster) {
        return None;
    }
    Some((tags.get(&key("namespace"))?.clone(), tags.get(&key("name"))?.clone()))
}

fn key(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "u-1".into() }
    }

    #[test]
    fn an_owner_owns_what_carries_its_tags() {
        assert!(owner().owns(&owner().tags()));
    }

    #[test]
    fn another_cluster_or_a_successor_of_the_same_name_owns_nothing() {
        let other = Owner { cluster: "test".into(), ..owner() };
        let successor = Owner { uid: "u-2".into(), ..owner() };
        assert!(!other.owns(&owner().tags()));
        assert!(!successor.owns(&owner().tags()));
    }

    #[test]
    fn an_owner_without_uid_owns_nothing() {
        let nobody = Owner { uid: String::new(), ..owner() };
        assert!(!nobody.owns(&nobody.tags()));
    }
}
