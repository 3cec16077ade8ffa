//! The snapshot's assets with an index. Without it every object would search all assets for its own, and the cost of a
//! sweep would grow with the square of their number.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};

use causeway_aws::elbv2::Pairs;
use causeway_runtime::cluster::Cluster;

use crate::drift::rivals;
use crate::ownership::{Owner, cluster_named_by, uid_named_by};
use crate::region::assets::{Assets, GroupMember, Member};

/// This many queries after a change search all assets. While there are many changes, an index would be built for each
/// of them.
const LOOKS: u32 = 8;

/// Assets, and an index of them that is valid until they change.
#[derive(Default)]
pub struct Indexed {
    assets: Assets,
    index: OnceCell<Index>,
    /// Queries since the last change.
    asked: Cell<u32>,
}

struct Index {
    /// By the uid of an owner, ARNs and ids of the resources whose tags have that uid.
    by_uid: HashMap<String, Vec<String>>,
    /// Names of balancers.
    names: BTreeSet<String>,
    /// Names and uids of all clusters that some tags name.
    clusters: BTreeSet<(String, String)>,
}

impl Indexed {
    /// Everything that belongs to the owner.
    pub fn owned_by(&self, owner: &Owner) -> Assets {
        let Some(index) = self.index() else { return self.assets.owned_by(owner) };
        let ids = index.ids(owner);
        let security_groups = picked(&self.security_groups, ids, |it| owner.owns(&it.tags));
        let entries = self.entries.iter().filter(|entry| security_groups.contains_key(&entry.from)).cloned();
        Assets {
            entries: if security_groups.is_empty() { BTreeSet::new() } else { entries.collect() },
            balancers: picked(&self.balancers, ids, |it| owner.owns(&it.tags)),
            groups: picked(&self.groups, ids, |it| owner.owns(&it.tags)),
            security_groups,
        }
    }

    /// ARNs of the owner's balancers.
    pub fn balancers_of(&self, owner: &Owner) -> Vec<&String> {
        let own = |(_, it): &(&String, &Member)| owner.owns(&it.tags);
        let found = match self.index() {
            Some(index) => {
                index.ids(owner).iter().filter_map(|id| self.balancers.get_key_value(id)).filter(own).collect()
            }
            None => self.balancers.iter().filter(own).collect::<Vec<_>>(),
        };
        found.into_iter().map(|(arn, _)| arn).collect()
    }

    /// ARNs of the owner's target groups.
    pub fn groups_of(&self, owner: &Owner) -> Vec<&String> {
        let own = |(_, it): &(&String, &GroupMember)| owner.owns(&it.tags);
        let found = match self.index() {
            Some(index) => index.ids(owner).iter().filter_map(|id| self.groups.get_key_value(id)).filter(own).collect(),
            None => self.groups.iter().filter(own).collect::<Vec<_>>(),
        };
        found.into_iter().map(|(arn, _)| arn).collect()
    }

    /// The names among these that a balancer has, no matter which owner it has.
    pub fn taken_names(&self, names: &[String]) -> BTreeSet<String> {
        let Some(index) = self.index() else {
            let taken = self.balancers.values().map(|member| &member.balancer.name);
            return taken.filter(|name| names.contains(name)).cloned().collect();
        };
        names.iter().filter(|name| index.names.contains(*name)).cloned().collect()
    }

    /// Returns a resource of another cluster of the same name that keeps this owner from changing anything.
    pub fn rival(&self, owner: &Owner, owns: bool) -> Option<rivals::Rival> {
        let no_rival = self.index().is_some_and(|index| !index.names_rival(&owner.cluster));
        if no_rival { None } else { rivals::rival(&self.assets, owner, owns) }
    }

    fn index(&self) -> Option<&Index> {
        let asked = self.asked.get();
        if asked < LOOKS {
            self.asked.set(asked + 1);
            return None;
        }
        Some(self.index.get_or_init(|| Index::new(&self.assets)))
    }
}

impl Deref for Indexed {
    type Target = Assets;

    fn deref(&self) -> &Assets {
        &self.assets
    }
}

impl DerefMut for Indexed {
    /// The caller may change the assets, so the index is dropped.
    fn deref_mut(&mut self) -> &mut Assets {
        self.index.take();
        self.asked.set(0);
        &mut self.assets
    }
}

impl Index {
    fn new(assets: &Assets) -> Self {
        let mut index = Self { by_uid: HashMap::new(), names: BTreeSet::new(), clusters: BTreeSet::new() };
        for (arn, member) in &assets.balancers {
            index.add(arn, &member.tags);
            index.names.insert(member.balancer.name.clone());
            rivals::tagged_parts(member).for_each(|(tags, _)| index.add_cluster(tags));
        }
        assets.groups.iter().for_each(|(arn, member)| index.add(arn, &member.tags));
        assets.security_groups.iter().for_each(|(id, group)| index.add(id, &group.tags));
        index
    }

    fn add(&mut self, id: &str, tags: &Pairs) {
        if let Some(uid) = uid_named_by(tags) {
            self.by_uid.entry(uid.clone()).or_default().push(id.to_owned());
        }
        self.add_cluster(tags);
    }

    fn add_cluster(&mut self, tags: &Pairs) {
        if let Some((name, uid)) = cluster_named_by(tags)
            && !self.clusters.iter().any(|(known, its_uid)| known == name && its_uid == uid)
        {
            self.clusters.insert((name.clone(), uid.clone()));
        }
    }

    /// Ids of all resources with the owner's uid. Some may belong to others, so the caller must check the tags.
    fn ids(&self, owner: &Owner) -> &[String] {
        self.by_uid.get(&owner.uid).map_or(&[], Vec::as_slice)
    }

    fn names_rival(&self, cluster: &Cluster) -> bool {
        self.clusters.iter().any(|(name, uid)| *name == cluster.name && Some(uid) != cluster.uid.as_ref())
    }
}

fn picked<T: Clone>(all: &BTreeMap<String, T>, ids: &[String], own: impl Fn(&T) -> bool) -> BTreeMap<String, T> {
    let found = ids.iter().filter_map(|id| all.get_key_value(id));
    found.filter(|(_, it)| own(it)).map(|(id, it)| (id.clone(), it.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::ec2::SecurityGroup;
    use causeway_aws::elbv2::{Balancer, State, TargetGroup};

    fn owner(cluster_uid: &str, number: usize) -> Owner {
        let cluster = Cluster { name: "prod".into(), uid: Some(cluster_uid.into()) };
        Owner { cluster, namespace: "shop".into(), name: format!("web-{number}"), uid: format!("u-{number}") }
    }

    /// A balancer, a target group and a security group with these tags.
    fn add(assets: &mut Assets, number: usize, tags: &Pairs) {
        let balancer = Balancer {
            arn: format!("lb-{number}"),
            name: format!("name-{number}"),
            dns: String::new(),
            zone_id: None,
            scheme: None,
            state: State::Active,
            vpc: "vpc".into(),
            ip_address_type: None,
            subnets: BTreeSet::new(),
            security_groups: BTreeSet::new(),
        };
        assets.balancers.insert(balancer.arn.clone(), Member::new(balancer, tags.clone()));
        let (arn, balancers) = (format!("tg-{number}"), BTreeSet::new());
        let group = TargetGroup { name: arn.clone(), arn: arn.clone(), kind: None, health_check: None, balancers };
        assets.groups.insert(arn, GroupMember { group, tags: tags.clone(), attributes: None, fresh: false });
        let (id, none) = (format!("sg-{number}"), BTreeSet::new);
        let (name, vpc, tags) = (id.clone(), "vpc".into(), tags.clone());
        let group = SecurityGroup { name, id: id.clone(), vpc, tags, ingress: none(), egress: none() };
        assets.security_groups.insert(id, group);
    }

    /// Compares the answers of a search of all assets with those from the index.
    fn answers<T: PartialEq + std::fmt::Debug>(indexed: &Indexed, ask: impl Fn(&Indexed) -> T) -> T {
        let first = ask(indexed);
        for _ in 0..=LOOKS {
            assert_eq!(ask(indexed), first);
        }
        assert!(indexed.index.get().is_some(), "there is no index after {LOOKS} questions");
        first
    }

    fn all_answers(
        indexed: &mut Indexed,
        owner: &Owner,
    ) -> (Assets, Vec<String>, BTreeSet<String>, Option<rivals::Rival>) {
        let names = ["name-1".to_owned(), "name-9".to_owned()];
        let all = (
            answers(indexed, |it| it.owned_by(owner)),
            answers(indexed, |it| it.balancers_of(owner).into_iter().cloned().collect()),
            answers(indexed, |it| it.taken_names(&names)),
            answers(indexed, |it| it.rival(owner, false)),
        );
        assert_eq!(all.0, indexed.assets.owned_by(owner));
        all
    }

    #[test]
    fn the_index_answers_as_a_look_at_everything_does() {
        let mut indexed = Indexed::default();
        for number in 0..4 {
            add(&mut indexed, number, &owner("a", number).tags());
        }
        add(&mut indexed, 4, &Pairs::new());
        let (own, balancers, taken, rival) = all_answers(&mut indexed, &owner("a", 2));
        assert_eq!((own.balancers.len(), own.groups.len(), own.security_groups.len()), (1, 1, 1));
        assert_eq!((balancers, taken.len(), rival), (vec!["lb-2".to_owned()], 1, None));
        assert!(all_answers(&mut indexed, &owner("a", 7)).0.is_empty());
    }

    #[test]
    fn a_change_is_seen_at_once() {
        let mut indexed = Indexed::default();
        add(&mut indexed, 1, &owner("a", 1).tags());
        all_answers(&mut indexed, &owner("a", 1));
        indexed.balancers.values_mut().for_each(|member| member.tags.clear());
        let (own, balancers, ..) = all_answers(&mut indexed, &owner("a", 1));
        assert_eq!((own.balancers.len(), own.groups.len(), balancers.len()), (0, 1, 0));
    }

    #[test]
    fn another_cluster_of_the_same_name_is_found() {
        let mut indexed = Indexed::default();
        add(&mut indexed, 1, &owner("b", 1).tags());
        let (own, _, _, rival) = all_answers(&mut indexed, &owner("a", 1));
        assert!(own.is_empty());
        assert_eq!(rival.unwrap().uid, "b");
    }
}
