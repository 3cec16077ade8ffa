//! Whose something in AWS is: five tags, set in the create call itself.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::api::MyIngress;
use crate::api::common::PREFIX;
use crate::external::elbv2::Pairs;
use crate::runtime::fingerprint;

/// An object as (namespace, name).
pub type ObjectKey = (String, String);

/// Whom something in AWS belongs to: an object, or a group of objects that share a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the Kubernetes cluster.
    pub cluster: String,
    /// The object's or the group's namespace.
    pub namespace: String,
    /// The object's or the group's name.
    pub name: String,
    /// The object's uid: another object of the same name is another owner. A group's never changes.
    pub uid: String,
}

/// Whom to wake about something in AWS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concerned {
    /// This object.
    Object(ObjectKey),
    /// The members of this group.
    Group(ObjectKey),
    /// The members of this group but one.
    GroupBut(ObjectKey, ObjectKey),
}

impl Owner {
    /// The owner that an object of this cluster is, or the group that it is in.
    pub fn of(cluster: &str, object: &MyIngress) -> Self {
        match group_of(object) {
            None => Self {
                cluster: cluster.into(),
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
                uid: object.uid().unwrap_or_default(),
            },
            Some((namespace, name)) => Self {
                cluster: cluster.into(),
                uid: format!(
                    "{GROUP_UID}{}",
                    fingerprint(&[cluster.as_bytes(), namespace.as_bytes(), name.as_bytes()], 16)
                ),
                namespace,
                name,
            },
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

    /// Whom to wake about what belongs to this owner.
    pub fn concerned(&self) -> Concerned {
        let place = (self.namespace.clone(), self.name.clone());
        if self.uid.starts_with(GROUP_UID) { Concerned::Group(place) } else { Concerned::Object(place) }
    }
}

/// Begins the uid of a group, which no object's uid does.
const GROUP_UID: &str = "group-";

/// The group that an object is in, as (namespace, name).
pub fn group_of(object: &MyIngress) -> Option<ObjectKey> {
    let group = object.spec.group.as_ref()?;
    let namespace = group.namespace.clone().unwrap_or_else(|| object.namespace().unwrap_or_default());
    Some((namespace, group.name.clone()))
}

/// Whom to wake about something with these tags, where they name an owner in this cluster.
pub fn concerned_by(cluster: &str, tags: &Pairs) -> Option<Concerned> {
    owner_of(cluster, tags).map(|owner| owner.concerned())
}

/// The owner in this cluster that these tags name.
pub fn owner_of(cluster: &str, tags: &Pairs) -> Option<Owner> {
    if tags.get(&key("cluster")).map(String::as_str) != Some(cluster) {
        return None;
    }
    Some(Owner {
        cluster: cluster.into(),
        namespace: tags.get(&key("namespace"))?.clone(),
        name: tags.get(&key("name"))?.clone(),
        uid: tags.get(&key("uid")).cloned().unwrap_or_default(),
    })
}

/// The tag that says which member of a group wants a rule or a target group.
pub fn member_tag(member: &ObjectKey) -> (String, String) {
    (key("member"), format!("{}/{}", member.0, member.1))
}

/// The member that such a tag names.
pub fn member_of(tags: &Pairs) -> Option<ObjectKey> {
    let (namespace, name) = tags.get(&key("member"))?.split_once('/')?;
    Some((namespace.into(), name.into()))
}

/// The tag by which the owner of a balancer in AWS lets an object take it over.
pub fn adoption_tag(owner: &Owner) -> (String, String) {
    (key("adopt"), format!("{}/{}/{}", owner.cluster, owner.namespace, owner.name))
}

/// The tag key that names the cluster, and its value.
pub fn cluster_tag(cluster: &str) -> (String, String) {
    (key("cluster"), cluster.into())
}

/// The tag key that names an owner, and its value.
pub fn uid_tag(owner: &Owner) -> (String, String) {
    (key("uid"), owner.uid.clone())
}

fn key(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MyIngressSpec;

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

    #[test]
    fn members_of_a_group_are_one_owner_and_all_are_woken() {
        let member = |name: &str| {
            let spec = serde_json::json!({ "group": { "name": "shared" } });
            let mut object = MyIngress::new(name, serde_json::from_value::<MyIngressSpec>(spec).unwrap());
            object.metadata.namespace = Some("shop".into());
            object.metadata.uid = Some(format!("uid-of-{name}"));
            Owner::of("prod", &object)
        };
        assert_eq!(member("a"), member("b"));
        let group = Concerned::Group(("shop".into(), "shared".into()));
        assert_eq!(concerned_by("prod", &member("a").tags()), Some(group));
        assert_eq!(concerned_by("prod", &owner().tags()), Some(Concerned::Object(("shop".into(), "web".into()))));
        assert_eq!(concerned_by("test", &owner().tags()), None);
    }
}
