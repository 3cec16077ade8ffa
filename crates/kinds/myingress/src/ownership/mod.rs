//! The owner of a resource in AWS: six tags name it, set in the create call itself.

pub mod names;

use std::collections::BTreeMap;

use kube::ResourceExt;

use causeway_api::MyIngress;
use causeway_api::common::PREFIX;
use causeway_aws::elbv2::Pairs;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::fingerprint;

/// Tag with the name of the cluster.
/// The tag that names Causeway to other tools.
pub const MANAGED_BY: &str = "ManagedBy";
const CLUSTER: &str = "causeway.example.com/cluster";
/// Tag with the uid of the cluster, which distinguishes it from others of its name. Resources from before this tag
/// existed lack it, and get it.
pub const CLUSTER_UID: &str = "causeway.example.com/cluster-uid";
/// Tag with the owner's uid.
const UID: &str = "causeway.example.com/uid";

/// An object as (namespace, name).
pub type ObjectKey = (String, String);

/// The owner of something in AWS: an object, or a group of objects that share a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The Kubernetes cluster.
    pub cluster: Cluster,
    /// The object's or the group's namespace.
    pub namespace: String,
    /// The object's or the group's name.
    pub name: String,
    /// The object's uid, so another object of the same name is another owner. A group's uid never changes.
    pub uid: String,
}

/// The objects to wake when something in AWS changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concerned {
    Object(ObjectKey),
    /// The members of this group.
    Group(ObjectKey),
    /// The members of this group but one.
    GroupBut(ObjectKey, ObjectKey),
}

impl Owner {
    /// The owner for an object of this cluster: the object itself, or the group that it is in.
    pub fn of_object(cluster: &Cluster, object: &MyIngress) -> Self {
        match group_of(object) {
            None => Self {
                cluster: cluster.clone(),
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
                uid: object.uid().unwrap_or_default(),
            },
            Some((namespace, name)) => Self {
                cluster: cluster.clone(),
                uid: format!(
                    "{GROUP_UID}{}",
                    fingerprint(&[cluster.name.as_bytes(), namespace.as_bytes(), name.as_bytes()], 16)
                ),
                namespace,
                name,
            },
        }
    }

    /// The tags of everything that belongs to this owner.
    pub fn tags(&self) -> Pairs {
        let mut tags = BTreeMap::from([
            (CLUSTER.into(), self.cluster.name.clone()),
            (key("namespace"), self.namespace.clone()),
            (key("name"), self.name.clone()),
            (UID.into(), self.uid.clone()),
            (MANAGED_BY.into(), "causeway".into()),
        ]);
        tags.extend(self.cluster.uid.clone().map(|uid| (CLUSTER_UID.into(), uid)));
        tags
    }

    /// Reports whether something with these tags belongs to this owner. Only cluster and uid count. The other tags are
    /// for people to read; they are repaired like any other tag.
    pub fn owns(&self, tags: &Pairs) -> bool {
        self.is_named_by(tags) && is_of(&self.cluster, tags)
    }

    /// Reports whether these tags name this owner, possibly in another cluster with the same name.
    pub fn is_named_by(&self, tags: &Pairs) -> bool {
        !self.uid.is_empty() && tags.get(UID) == Some(&self.uid) && has_name_of(&self.cluster, tags)
    }

    /// Reports whether the owner is a group.
    pub fn is_group(&self) -> bool {
        self.uid.starts_with(GROUP_UID)
    }

    /// The objects to wake when something of this owner changes.
    pub fn concerned(&self) -> Concerned {
        let place = (self.namespace.clone(), self.name.clone());
        if self.is_group() { Concerned::Group(place) } else { Concerned::Object(place) }
    }
}

/// Prefix of a group's uid. No object's uid begins like this.
const GROUP_UID: &str = "group-";

/// The group that an object is in, as (namespace, name).
pub fn group_of(object: &MyIngress) -> Option<ObjectKey> {
    let group = object.spec.group.as_ref()?;
    let namespace = group.namespace.clone().unwrap_or_else(|| object.namespace().unwrap_or_default());
    Some((namespace, group.name.clone()))
}

/// Reports whether these tags have the name of that cluster. Another cluster may have the same name.
fn has_name_of(cluster: &Cluster, tags: &Pairs) -> bool {
    tags.get(CLUSTER) == Some(&cluster.name)
}

/// Reports whether something with these tags belongs to that cluster. Tags without a cluster's uid are from before that
/// tag existed, and count as its own.
fn is_of(cluster: &Cluster, tags: &Pairs) -> bool {
    has_name_of(cluster, tags) && tags.get(CLUSTER_UID).is_none_or(|uid| Some(uid) == cluster.uid.as_ref())
}

/// The uid of the other cluster of the same name that something with these tags belongs to.
pub fn rival_of<'a>(cluster: &Cluster, tags: &'a Pairs) -> Option<&'a String> {
    tags.get(CLUSTER_UID).filter(|uid| has_name_of(cluster, tags) && Some(*uid) != cluster.uid.as_ref())
}

/// The uid of the owner that these tags name, whichever cluster it is in.
pub fn uid_named_by(tags: &Pairs) -> Option<&String> {
    tags.get(UID)
}

/// Name and uid of the cluster that these tags name.
pub fn cluster_named_by(tags: &Pairs) -> Option<(&String, &String)> {
    tags.get(CLUSTER).zip(tags.get(CLUSTER_UID))
}

/// Reports whether these tags say for sure that something belongs to that cluster, and not to another of the same name.
pub fn is_surely_of(cluster: &Cluster, tags: &Pairs) -> bool {
    tags.contains_key(CLUSTER_UID) && is_of(cluster, tags)
}

/// The objects to wake about something with these tags, if they name an owner in this cluster or in another one of the
/// same name: a rival's resources may have to be reported by the objects here.
pub fn concerned_by(cluster: &Cluster, tags: &Pairs) -> Option<Concerned> {
    named_by(cluster, tags).map(|owner| owner.concerned())
}

/// The owner in this cluster that these tags name.
pub fn owner_of(cluster: &Cluster, tags: &Pairs) -> Option<Owner> {
    named_by(cluster, tags).filter(|_| is_of(cluster, tags))
}

fn named_by(cluster: &Cluster, tags: &Pairs) -> Option<Owner> {
    if !has_name_of(cluster, tags) {
        return None;
    }
    Some(Owner {
        cluster: cluster.clone(),
        namespace: tags.get(&key("namespace"))?.clone(),
        name: tags.get(&key("name"))?.clone(),
        uid: tags.get(UID).cloned().unwrap_or_default(),
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
    (key("adopt"), format!("{}/{}/{}", owner.cluster.name, owner.namespace, owner.name))
}

/// The tag by which the owner of a security group lets balancers of the cluster in to what it protects.
pub fn letting_in_tag(owner: &Owner) -> (String, String) {
    (key("let-in"), owner.cluster.name.clone())
}

/// The description that marks a rule in a security group that is not ours as made for this owner. AWS takes 255
/// characters of a limited set, and all characters of the mark belong to it.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_UserIdGroupPair.html>
pub fn entry_mark(owner: &Owner) -> String {
    let Owner { namespace, name, uid, .. } = owner;
    format!("{UID}={uid} {namespace}/{name}").chars().take(255).collect()
}

/// The tag key that names the cluster, and its value.
pub fn cluster_tag(cluster: &Cluster) -> (String, String) {
    (CLUSTER.into(), cluster.name.clone())
}

/// The tag key that names an owner, and its value.
pub fn uid_tag(owner: &Owner) -> (String, String) {
    (UID.into(), owner.uid.clone())
}

fn key(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::MyIngressSpec;

    fn owner() -> Owner {
        Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "u-1".into() }
    }

    #[test]
    fn an_owner_owns_what_carries_its_tags() {
        assert!(owner().owns(&owner().tags()));
    }

    #[test]
    fn a_namesake_cluster_or_successor_owns_nothing() {
        let other = Owner { cluster: "test".into(), ..owner() };
        let successor = Owner { uid: "u-2".into(), ..owner() };
        assert!(!other.owns(&owner().tags()));
        assert!(!successor.owns(&owner().tags()));
    }

    #[test]
    fn the_keys_begin_as_all_of_ours_do() {
        for (tag, name) in [(CLUSTER, "cluster"), (CLUSTER_UID, "cluster-uid"), (UID, "uid")] {
            assert_eq!(tag, key(name));
        }
    }

    /// The same owner in a cluster of the same name with this uid.
    fn in_cluster(uid: Option<&str>) -> Owner {
        let cluster = Cluster { name: "prod".into(), uid: uid.map(str::to_owned) };
        Owner { cluster, ..owner() }
    }

    #[test]
    fn resources_of_a_namesake_cluster_are_its_own() {
        let (ours, theirs) = (in_cluster(Some("a")), in_cluster(Some("b")));
        assert!(ours.owns(&ours.tags()) && is_surely_of(&ours.cluster, &ours.tags()));
        assert!(!ours.owns(&theirs.tags()) && ours.is_named_by(&theirs.tags()));
        assert_eq!(owner_of(&ours.cluster, &theirs.tags()), None);
        assert_eq!(rival_of(&ours.cluster, &theirs.tags()), Some(&"b".to_owned()));
        assert_eq!(rival_of(&ours.cluster, &ours.tags()), None);
        assert!(concerned_by(&ours.cluster, &theirs.tags()).is_some(), "there is something to tell");
    }

    #[test]
    fn a_resource_without_cluster_uid_belongs_to_its_finder() {
        let (before, now) = (in_cluster(None), in_cluster(Some("a")));
        assert!(now.owns(&before.tags()) && !is_surely_of(&now.cluster, &before.tags()));
        assert_eq!(rival_of(&now.cluster, &before.tags()), None);
    }

    #[test]
    fn a_cluster_without_uid_owns_nothing_that_carries_one() {
        let (unknown, known) = (in_cluster(None), in_cluster(Some("a")));
        assert!(!unknown.owns(&known.tags()));
        assert_eq!(rival_of(&unknown.cluster, &known.tags()), Some(&"a".to_owned()));
    }

    #[test]
    fn a_cluster_of_another_name_is_no_rival() {
        let other = Owner { cluster: Cluster { name: "test".into(), uid: Some("b".into()) }, ..owner() };
        assert_eq!(rival_of(&in_cluster(Some("a")).cluster, &other.tags()), None);
    }

    #[test]
    fn an_owner_without_uid_owns_nothing() {
        let unknown = Owner { uid: String::new(), ..owner() };
        assert!(!unknown.owns(&unknown.tags()));
    }

    #[test]
    fn members_of_a_group_are_one_owner_and_woken_together() {
        let member = |name: &str| {
            let spec = serde_json::json!({ "group": { "name": "shared" } });
            let mut object = MyIngress::new(name, serde_json::from_value::<MyIngressSpec>(spec).unwrap());
            object.metadata.namespace = Some("shop".into());
            object.metadata.uid = Some(format!("uid-of-{name}"));
            Owner::of_object(&"prod".into(), &object)
        };
        assert_eq!(member("a"), member("b"));
        let group = Concerned::Group(("shop".into(), "shared".into()));
        assert_eq!(concerned_by(&"prod".into(), &member("a").tags()), Some(group));
        assert_eq!(
            concerned_by(&"prod".into(), &owner().tags()),
            Some(Concerned::Object(("shop".into(), "web".into())))
        );
        assert_eq!(concerned_by(&"test".into(), &owner().tags()), None);
    }
}
