//! JSON of an object, without what is not needed, and no larger than a bound. Tenants decide how large
//! their objects are, and values take up to twenty times the memory of their text.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The most memory that the values of an object may take, in bytes.
pub const MOST: usize = 1 << 20;
/// The bytes that a value takes at least, with its key.
const EACH: usize = 64;
/// The longest annotation that is kept. Causeway's own are shorter, and no spec may ask for longer ones on children.
const ANNOTATION: usize = 4096;
/// Metadata that say which object it is: the API server bounds them.
const IDENTITY: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// An object's JSON.
pub struct Bounded {
    /// The fields that were kept.
    pub value: Value,
    /// True if all of it fit, but for long annotations and managed fields, which are always left out.
    pub fits: bool,
}

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let room = Room { left: Cell::new(MOST), full: Cell::new(false) };
        let value = At { room: &room, place: Place::Object }.deserialize(deserializer)?;
        Ok(Self { value, fits: !room.full.get() })
    }
}

/// The bytes that are left for an object.
struct Room {
    left: Cell<usize>,
    /// True once something did not fit. From then on only the object's identity is kept.
    full: Cell<bool>,
}

impl Room {
    /// Takes room for a value whose text, with its key, has that many bytes.
    fn take(&self, text: usize) {
        match self.left.get().checked_sub(text + EACH) {
            Some(left) => self.left.set(left),
            None => self.full.set(true),
        }
    }
}

/// Where in an object a value is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Object,
    Metadata,
    Annotations,
    Elsewhere,
}

#[derive(Clone, Copy)]
struct At<'a> {
    room: &'a Room,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.room.take(value.len());
        Ok(if self.room.full.get() { Value::Null } else { value.into() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while !self.room.full.get() {
            self.room.take(0);
            let Some(item) = items.next_element_seed(At { place: Place::Elsewhere, ..self })? else {
                return Ok(kept.into());
            };
            // A part that did not fit may be half of an item.
            if !self.room.full.get() {
                kept.push(item);
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let place = match (self.place, key.as_str()) {
                (Place::Object, "metadata") => Place::Metadata,
                (Place::Metadata, "annotations") => Place::Annotations,
                (Place::Metadata, key) if IDENTITY.contains(&key) => {
                    let value = entries.next_value()?;
                    kept.insert(key.to_owned(), value);
                    continue;
                }
                // The API server accepts times in managed fields that no type here can hold. Nothing needs them.
                (Place::Metadata, "managedFields") => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => Place::Elsewhere,
            };
            if self.place == Place::Annotations {
                if let Short(Some(value)) = entries.next_value()? {
                    self.room.take(key.len() + value.len());
                    if !self.room.full.get() {
                        kept.insert(key, value.into());
                    }
                }
                continue;
            }
            if self.room.full.get() && place != Place::Metadata {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            self.room.take(key.len());
            let value = entries.next_value_seed(At { place, ..self })?;
            if !self.room.full.get() || place == Place::Metadata {
                kept.insert(key, value);
            }
        }
        Ok(kept.into())
    }
}

/// The text of an annotation, unless it is long.
struct Short(Option<String>);

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Short;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the text of an annotation")
            }

            fn visit_str<E>(self, value: &str) -> Result<Short, E> {
                Ok(Short((value.len() <= ANNOTATION).then(|| value.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounded(object: &Value) -> Bounded {
        serde_json::from_str(&object.to_string()).expect("any JSON is read")
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        let object = json!({
            "apiVersion": "v1", "kind": "X", "metadata": { "name": "a", "annotations": { "a": "b" }, "finalizers": ["x"] },
            "spec": { "managedFields": [1, -1, 0.5, null, true, "é", {}], "annotations": { "long": "x".repeat(5000) } },
        });
        let bounded = bounded(&object);
        assert!(bounded.fits);
        assert_eq!(bounded.value, object);
    }

    #[test]
    fn managed_fields_and_long_annotations_are_left_out() {
        let object = json!({ "metadata": {
            "annotations": { "a": "x".repeat(4096), "b": "x".repeat(255_000) }, "managedFields": [{ "f:a": {} }], "name": "a",
        } });
        let bounded = bounded(&object);
        assert!(bounded.fits);
        let kept = json!({ "metadata": { "annotations": { "a": "x".repeat(4096) }, "name": "a" } });
        assert_eq!(bounded.value, kept);
    }

    #[test]
    fn an_oversized_object_keeps_its_identity() {
        let many: Map<String, Value> = (0..30_000).map(|at| (format!("l{at}"), "x".into())).collect();
        let owners = vec![json!({ "name": "x", "uid": "y" }); 30_000];
        for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
            let mut object =
                json!({ "metadata": { "name": "a", "uid": "1", "resourceVersion": "7" }, "spec": { "x": 1 } });
            object["metadata"][field] = match field {
                "finalizers" => vec!["example.com/x"; 30_000].into(),
                "ownerReferences" => owners.clone().into(),
                _ => many.clone().into(),
            };
            let Bounded { value, fits } = bounded(&object);
            assert!(!fits, "{field}");
            let metadata = &value["metadata"];
            assert_eq!(
                (&metadata["name"], &metadata["uid"], &metadata["resourceVersion"]),
                (&"a".into(), &"1".into(), &"7".into())
            );
            assert_eq!(value.get("spec"), None);
        }
    }

    #[test]
    fn values_larger_than_their_text_do_not_fit() {
        for item in [json!({}), json!([]), json!(1), json!({ "a": 1 })] {
            let object = json!({ "metadata": { "name": "a" }, "spec": { "items": vec![item; 100_000] } });
            assert!(!bounded(&object).fits);
        }
        assert!(!bounded(&json!({ "metadata": { "name": "a" }, "spec": "x".repeat(MOST) })).fits);
    }
}
