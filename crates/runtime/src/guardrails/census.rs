//! Counts objects and the storage that they ask for, to enforce limits of policies. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

/// The objects of all served kinds.
#[derive(Debug, Default)]
pub struct Census(BTreeMap<&'static str, Kind>);

#[derive(Debug, Default)]
struct Kind {
    /// The namespaces whose list has not arrived yet; `None` stands for all.
    unlisted: BTreeSet<Option<String>>,
    /// By namespace, then by name.
    objects: HashMap<String, BTreeMap<String, Asked>>,
}

/// The facts about an object that limits depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    uid: Option<String>,
    made: Option<Timestamp>,
    /// The storage of all its volumes, in thousandths of a byte.
    storage: i128,
}

/// The rank of an object in its namespace: the oldest is first, and objects of the same age are ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The name of the kind.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// Its rank among objects of its kind; 1 is the oldest.
    pub place: usize,
    /// The storage of its own volumes, in thousandths of a byte.
    pub own: i128,
    /// The storage of its own volumes and those of all older databases, of whatever kind.
    pub sum: i128,
}

impl Census {
    /// Expects lists of that kind in these namespaces, or in all if there are none.
    pub fn expect(&mut self, kind: &'static str, namespaces: &[String]) {
        let each = namespaces.iter().cloned().map(Some);
        let all = namespaces.is_empty().then_some(None);
        self.0.entry(kind).or_default().unlisted = each.chain(all).collect();
    }

    /// Records that the kind was listed in that namespace, or in all.
    pub fn record_list(&mut self, kind: &'static str, namespace: Option<&str>) {
        self.0.entry(kind).or_default().unlisted.remove(&namespace.map(str::to_owned));
    }

    /// Records an object and the storage that it asks for; `None` if the object cannot be decoded. Returns true if it
    /// asks for less than before.
    pub fn record_object(&mut self, kind: &'static str, object: &impl Resource, storage: Option<i128>) -> bool {
        let of_kind = self.0.entry(kind).or_default();
        let objects = of_kind.objects.entry(object.namespace().unwrap_or_default()).or_default();
        let before = objects.get(&object.name_any()).map_or(0, |before| before.storage);
        let made = object.creation_timestamp().map(|time| time.0);
        let storage = storage.unwrap_or(before);
        objects.insert(object.name_any(), Asked { uid: object.uid(), made, storage });
        storage < before
    }

    /// Removes an object that was deleted. One of its name that was made since is still there.
    pub fn remove_object(&mut self, kind: &'static str, object: &impl Resource) {
        let namespace = object.namespace().unwrap_or_default();
        let Some(objects) = self.0.get_mut(kind).and_then(|kind| kind.objects.get_mut(&namespace)) else { return };
        let name = object.name_any();
        if objects.get(&name).is_some_and(|there| there.uid == object.uid()) {
            objects.remove(&name);
        }
    }

    /// Returns the rank of an object; fails if it is not known.
    pub fn standing_of(&self, kind: &str, object: &impl Resource) -> Result<Standing, String> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        // Limits count the objects of one namespace, so others that cannot be listed do not matter.
        let is_here = |unlisted: &Option<String>| unlisted.as_ref().is_none_or(|unlisted| *unlisted == namespace);
        if let Some((kind, _)) = self.0.iter().find(|(_, kind)| kind.unlisted.iter().any(is_here)) {
            return Err(format!("objects of kind {kind} were not counted yet"));
        }
        let here = |kind: &str| self.0.get(kind).and_then(|kind| kind.objects.get(&namespace));
        let Some(own) = here(kind).and_then(|objects| objects.get(&name)) else {
            return Err(format!("{kind} {name} was not counted yet"));
        };
        let (mut place, mut sum) = (0, 0_i128);
        for (other_kind, objects) in self.0.keys().filter_map(|kind| Some((*kind, here(kind)?))) {
            let upto = |(other, asked): &(&String, &Asked)| rank(asked, other, other_kind) <= rank(own, &name, kind);
            for (_, asked) in objects.iter().filter(upto) {
                sum = sum.saturating_add(asked.storage);
                place += usize::from(other_kind == kind);
            }
        }
        Ok(Standing { kind: kind.to_owned(), namespace, place, own: own.storage, sum })
    }
}

/// Returns the sort key: older objects first, then by name. An object without a creation time comes last: only a plan
/// has such objects.
fn rank<'a>(asked: &Asked, name: &'a str, kind: &'a str) -> (bool, Option<Timestamp>, &'a str, &'a str) {
    (asked.made.is_none(), asked.made, name, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::{EtcdCluster, Redis};
    use serde_json::json;

    fn redis(namespace: &str, name: &str, made: u32) -> Redis {
        let metadata = json!({ "namespace": namespace, "name": name, "creationTimestamp": format!("2026-01-01T00:00:{made:02}Z") });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
    }

    fn etcd(name: &str, made: u32) -> EtcdCluster {
        let metadata = redis("shop", name, made).metadata;
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "version": "3.5.9" } })).unwrap()
    }

    #[test]
    fn objects_stand_by_age_then_name_and_databases_add_up() {
        let mut census = Census::default();
        census.expect("Redis", &["shop".into(), "bank".into()]);
        census.expect("EtcdCluster", &[]);
        let all = [redis("shop", "b", 1), redis("shop", "a", 1), redis("shop", "young", 9), redis("bank", "a", 0)];
        for object in &all {
            census.record_object("Redis", object, Some(10));
        }
        census.record_object("EtcdCluster", &etcd("kept", 5), Some(100));
        census.record_list("Redis", Some("shop"));
        assert!(census.standing_of("Redis", &all[0]).is_err(), "the other kind is still to be listed");
        census.record_list("EtcdCluster", None);
        assert!(census.standing_of("Redis", &all[0]).is_ok(), "another namespace does not matter");
        assert!(census.standing_of("Redis", &all[3]).is_err(), "this one is still to be listed");
        census.record_list("Redis", Some("bank"));
        let stands = |census: &Census, object: &Redis| {
            let standing = census.standing_of("Redis", object).unwrap();
            (standing.place, standing.own, standing.sum)
        };
        assert_eq!(stands(&census, &all[1]), (1, 10, 10));
        assert_eq!(stands(&census, &all[0]), (2, 10, 20), "of the same age, by name");
        assert_eq!(stands(&census, &all[2]), (3, 10, 130), "after the etcd that is older");
        assert_eq!(stands(&census, &all[3]), (1, 10, 10), "each namespace for itself");
        let mut future = redis("shop", "aa", 1);
        future.metadata.creation_timestamp = None;
        census.record_object("Redis", &future, Some(10));
        assert_eq!(stands(&census, &future), (4, 10, 140), "what is not made yet comes last");
        assert_eq!(census.standing_of("EtcdCluster", &etcd("kept", 5)).unwrap().sum, 120);
        assert!(census.standing_of("Redis", &redis("shop", "new", 9)).is_err(), "who was not seen stands nowhere");
    }

    #[test]
    fn what_goes_or_shrinks_makes_room() {
        let mut census = Census::default();
        let (old, young) = (redis("shop", "old", 1), redis("shop", "young", 2));
        assert!(!census.record_object("Redis", &old, Some(10)));
        assert!(!census.record_object("Redis", &young, Some(10)));
        assert!(!census.record_object("Redis", &old, Some(20)));
        assert!(!census.record_object("Redis", &old, None), "what cannot be decoded asks for what it asked for");
        assert_eq!(census.standing_of("Redis", &young).unwrap().sum, 30);
        assert!(census.record_object("Redis", &old, Some(5)));
        assert_eq!(census.standing_of("Redis", &young).unwrap().sum, 15);
        census.remove_object("Redis", &old);
        assert_eq!(census.standing_of("Redis", &young).unwrap().place, 1);
    }

    /// A new list shows the second before it shows that the first is gone.
    #[test]
    fn an_object_made_again_while_the_watch_failed_is_counted() {
        let mut census = Census::default();
        let with_uid = |uid: &str| {
            let mut object = redis("shop", "a", 1);
            object.metadata.uid = Some(uid.to_owned());
            object
        };
        let (first, second) = (with_uid("1"), with_uid("2"));
        census.record_object("Redis", &first, Some(10));
        census.record_object("Redis", &second, Some(10));
        census.remove_object("Redis", &first);
        assert_eq!(census.standing_of("Redis", &second).map(|standing| standing.place), Ok(1));
        census.remove_object("Redis", &second);
        assert!(census.standing_of("Redis", &second).is_err());
    }
}
