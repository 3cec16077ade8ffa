//! Decodes objects of our kinds one by one, so that one that cannot be decoded does not affect the others.
//!
//! A list fails as a whole if a single item of it fails. The schemas of `crds/` accept nothing that the types refuse,
//! and a test looks for exceptions. But a cluster may have the schema of another version, or none that it enforces. So
//! every item is read as JSON first. If the type refuses a field, that field is cut out. The rest still says which
//! object it is, which group it is in and what happens when it is deleted.
//!
//! `kube::core::DeserializeGuard` keeps the metadata alone, so that after a restart nothing could be deleted with the
//! object, new pods would get no traffic from it, and all groups of its namespace would stand still. Nor does it bound
//! the memory that an object takes.

mod bounded;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use bounded::{Bounded, MOST};

/// The annotation that describes what was cut, in memory only. A key with a space cannot come from the API server.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/#syntax-and-character-set>
const MARK: &str = "causeway.example.com/not decoded";

/// The most fields to cut out of one object; each costs another attempt.
const CUTS: usize = 64;

/// The longest part of the decoder's message that is kept. The message repeats the value, which may be huge.
const LONGEST_TEXT: usize = 300;

/// An object as the API server returned it.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// The object. If something had to be cut, [`undecodable`] says what and why.
    Object(K),
    /// Nothing but the metadata could be decoded.
    Lost {
        /// The metadata of the object, which is kept.
        metadata: Box<ObjectMeta>,
        /// The field, and why it cannot be decoded.
        problem: String,
    },
}

impl<K> Decoded<K> {
    /// The object, if any of it could be decoded.
    pub fn object(self) -> Option<K> {
        match self {
            Self::Object(object) => Some(object),
            Self::Lost { .. } => None,
        }
    }
}

/// The events of a watch, without objects of which nothing could be decoded. The store keeps them as they were.
pub fn decoded<K>(event: Result<Event<Decoded<K>>, watcher::Error>) -> Option<Result<Event<K>, watcher::Error>> {
    let event = match event {
        Ok(Event::Apply(object)) => Event::Apply(object.object()?),
        Ok(Event::InitApply(object)) => Event::InitApply(object.object()?),
        Ok(Event::Delete(object)) => Event::Delete(object.object()?),
        Ok(Event::Init) => Event::Init,
        Ok(Event::InitDone) => Event::InitDone,
        Err(error) => return Some(Err(error)),
    };
    Some(Ok(event))
}

/// Which field of the object could not be decoded, and why; `None` for an object that was decoded as a whole.
pub fn undecodable(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(MARK).map(String::as_str)
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Bounded { mut value, fits } = Bounded::deserialize(deserializer)?;
        let mut first = (!fits).then(|| format!("spec: the object takes more than {} KiB of memory", MOST >> 10));
        let tries = if fits { CUTS } else { 0 };
        for _ in 0..tries {
            let (path, error) = match serde_path_to_error::deserialize::<_, K>(&value) {
                Ok(mut object) => {
                    if let Some(problem) = first {
                        object.meta_mut().annotations.get_or_insert_default().insert(MARK.into(), problem);
                    }
                    return Ok(Self::Object(object));
                }
                Err(error) => (error.path().clone(), error.into_inner()),
            };
            first.get_or_insert_with(|| described(&path, &error));
            if !cut(&mut value, &path) {
                break;
            }
        }
        let metadata = PartialObjectMeta::<K>::deserialize(&value).map_err(D::Error::custom)?.metadata;
        Ok(Self::Lost { metadata: Box::new(metadata), problem: first.unwrap_or_default() })
    }
}

/// The field's path as in a manifest, and what is wrong with it.
fn described(path: &Path, error: &serde_json::Error) -> String {
    let mut problem = error.to_string();
    if problem.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|end| problem.is_char_boundary(*end)).unwrap_or_default();
        problem.truncate(end);
        problem.push('…');
    }
    format!("{path}: {problem}")
}

/// Removes the value at the path. Returns false if that is the object itself or its metadata.
fn cut(value: &mut Value, path: &Path) -> bool {
    let steps: Vec<&Segment> = path.iter().filter(|step| !matches!(step, Segment::Enum { .. })).collect();
    let Some((last, parents)) = steps.split_last() else { return false };
    if matches!(steps[0], Segment::Map { key } if key == "metadata") {
        return false;
    }
    let mut place = value;
    for step in parents {
        let next = match (step, place) {
            (Segment::Map { key }, Value::Object(map)) => map.get_mut(key),
            (Segment::Seq { index }, Value::Array(items)) => items.get_mut(*index),
            _ => None,
        };
        let Some(next) = next else { return false };
        place = next;
    }
    match (last, place) {
        (Segment::Map { key }, Value::Object(map)) => map.remove(key).is_some(),
        (Segment::Seq { index }, Value::Array(items)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

impl<K: Resource> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }
    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }
    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }
    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }
    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.meta(),
            Self::Lost { metadata, .. } => metadata,
        }
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Object(object) => object.meta_mut(),
            Self::Lost { metadata, .. } => metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use causeway_api::MyIngress;

    fn decoded(spec: &Value) -> Decoded<MyIngress> {
        let object = json!({
            "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress", "metadata": { "name": "web", "uid": "1" }, "spec": spec,
        });
        serde_json::from_value(object).expect("an object decodes, whatever is in it")
    }

    fn problem(object: &Decoded<MyIngress>) -> Option<&str> {
        undecodable(object.meta())
    }

    #[test]
    fn a_good_object_is_decoded_as_it_is() {
        let object = decoded(&json!({ "subnets": ["subnet-a"], "group": { "name": "shared" } }));
        assert_eq!(problem(&object), None);
        assert_eq!(object.object().and_then(|it| it.spec.group).map(|group| group.name), Some("shared".into()));
    }

    #[test]
    fn undecodable_fields_are_cut_and_named() {
        let object = decoded(&json!({
            "group": { "name": "shared" },
            "deletionPolicy": "Retain",
            "backends": [{ "name": "a", "service": "a", "port": 80 }, { "name": "b", "service": "b", "port": 2_147_483_648_u64 }],
            "inboundCidrs": 5,
        }));
        let problem = problem(&object).expect("a problem").to_owned();
        assert!(problem.starts_with("spec.backends[1].port: "), "{problem}");
        let object = object.object().expect("the rest");
        assert_eq!(object.spec.group.map(|group| group.name), Some("shared".into()));
        assert_eq!(object.spec.deletion_policy, causeway_api::DeletionPolicy::Retain);
        assert_eq!(object.spec.backends.first().map(|backend| backend.name.as_str()), Some("a"));
    }

    #[test]
    fn an_emptied_object_keeps_its_name() {
        let object = decoded(&json!("nonsense"));
        let Decoded::Lost { metadata, problem } = &object else { panic!("{object:?}") };
        assert_eq!(metadata.name.as_deref(), Some("web"));
        assert!(problem.starts_with("spec: "), "{problem}");
    }

    #[test]
    fn an_impossible_time_in_managed_fields_is_ignored() {
        let fields = json!([{ "manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z" }]);
        let object = json!({ "metadata": { "name": "web", "managedFields": fields }, "spec": {} });
        let object: Decoded<MyIngress> = serde_json::from_value(object).expect("an object");
        assert_eq!(problem(&object), None);
    }

    #[test]
    fn a_list_with_one_bad_item_has_all_the_others() {
        let item = |name: &str, port: u64| json!({ "metadata": { "name": name }, "spec": { "backends": [{ "name": "a", "service": "a", "port": port }] } });
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {},
            "items": [item("a", 80), item("b", 2_147_483_648), item("c", 80)],
        });
        let list: kube::core::ObjectList<Decoded<MyIngress>> = serde_json::from_value(list).expect("a list");
        let bad: Vec<bool> = list.items.iter().map(|item| problem(item).is_some()).collect();
        assert_eq!(bad, [false, true, false]);
    }

    #[test]
    fn an_oversized_object_keeps_only_its_name() {
        let object = decoded(&json!({ "inboundCidrs": vec!["x"; 100_000] }));
        let Decoded::Lost { metadata, problem } = &object else { panic!("it was decoded") };
        assert_eq!(metadata.name.as_deref(), Some("web"));
        assert!(problem.contains("1024 KiB"), "{problem}");
    }

    #[test]
    fn the_message_about_a_huge_value_is_short() {
        let object = decoded(&json!({ "scheme": "x".repeat(100_000) }));
        assert!(problem(&object).is_some_and(|problem| problem.len() < 400));
    }
}
