//! The state of an object as the apiserver has it. Pure.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use causeway_api::{Polarity, polarity};
use causeway_runtime::terminal::{make_all_plain, make_plain};

/// A condition, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A single `CamelCase` word.
    pub reason: String,
    /// A sentence for users.
    pub message: String,
    /// Its transition time, as the apiserver has it.
    pub since: String,
}

impl Condition {
    /// Returns true if it indicates trouble. A condition that Causeway does not write does so when it is false.
    pub fn is_trouble(&self) -> bool {
        let bad = if polarity(&self.type_) == Some(Polarity::AbnormalTrue) { "True" } else { "False" };
        self.status == bad
    }
}

/// An object, as it is shown to users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// The name of the kind.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// `True`, `False`, or `Unknown` if the status is missing or about an earlier spec.
    pub ready: String,
    /// A single `CamelCase` word.
    pub reason: String,
    /// A sentence for users.
    pub message: String,
    /// Seconds since its creation.
    pub age_seconds: i64,
    /// All conditions of its status.
    pub conditions: Vec<Condition>,
}

impl Seen {
    /// Reads the state of the object at the time `now`.
    pub fn read(object: &DynamicObject, now: Timestamp) -> Self {
        let conditions = conditions(object);
        let observed = object.data["status"]["observedGeneration"].as_i64();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let (ready, reason, message) = match ready {
            _ if object.metadata.deletion_timestamp.is_some() => {
                let why = ready.map_or("waiting for the deletion of what belongs to it", |it| it.message.as_str());
                ("False", "Deleting", why.to_owned())
            }
            None => ("Unknown", "Unseen", unseen_message(object, "no operator has looked at it yet")),
            Some(_) if observed != object.metadata.generation => {
                ("Unknown", "Unseen", unseen_message(object, "the operator has not looked at the newest spec yet"))
            }
            Some(ready) => (ready.status.as_str(), ready.reason.as_str(), ready.message.clone()),
        };
        let (ready, reason) = (ready.to_owned(), reason.to_owned());
        Self {
            kind: object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            ready,
            reason,
            message,
            age_seconds: object.metadata.creation_timestamp.as_ref().map_or(0, |made| seconds_between(made.0, now)),
            conditions,
        }
    }

    /// Returns the same without control characters, to be shown on a terminal.
    pub fn printable(&self) -> Self {
        let mut shown = self.clone();
        let own = [&mut shown.kind, &mut shown.namespace, &mut shown.name, &mut shown.ready, &mut shown.reason];
        own.into_iter().chain([&mut shown.message]).for_each(make_plain);
        for it in &mut shown.conditions {
            [&mut it.type_, &mut it.status, &mut it.reason, &mut it.message, &mut it.since]
                .into_iter()
                .for_each(make_plain);
        }
        shown
    }

    /// Returns true if the object is ready and no condition indicates trouble.
    pub fn is_well(&self) -> bool {
        self.ready == "True" && !self.conditions.iter().any(Condition::is_trouble)
    }

    /// Returns the object's name for kubectl: `redis/cache`.
    pub fn kubectl_name(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

fn unseen_message(object: &DynamicObject, what: &str) -> String {
    let made = object.metadata.generation.unwrap_or_default();
    format!("{what} (generation {made}): is one running that serves this namespace and this kind?")
}

fn conditions(object: &DynamicObject) -> Vec<Condition> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |value: &Value| Condition {
        type_: text(&value["type"]),
        status: text(&value["status"]),
        reason: text(&value["reason"]),
        message: text(&value["message"]),
        since: text(&value["lastTransitionTime"]),
    };
    object.data["status"]["conditions"].as_array().into_iter().flatten().map(of).collect()
}

/// Returns the object without control characters, to be shown on a terminal.
pub fn printable(object: &DynamicObject) -> DynamicObject {
    let mut shown = object.clone();
    make_all_plain(&mut shown.data);
    shown.metadata.name.iter_mut().for_each(make_plain);
    shown
}

/// Returns kind, namespace and name, for messages.
pub fn title(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the whole seconds from one time to another; 0 if the clocks disagree.
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

/// Formats a duration in its two largest units, as kubectl writes it.
pub fn age(seconds: i64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let (unit, letter) = units[first];
    let whole = seconds / unit;
    match units.get(first + 1) {
        Some((small, next)) if whole < 10 && seconds % unit / small > 0 => {
            format!("{whole}{letter}{}{next}", seconds % unit / small)
        }
        _ => format!("{whole}{letter}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    fn redis(observed: i64, ready: &str) -> DynamicObject {
        object(json!({
            "apiVersion": "example.com/v1", "kind": "Redis",
            "metadata": {
                "name": "cache", "namespace": "shop", "generation": 2, "creationTimestamp": "2026-11-25T07:00:00Z",
            },
            "status": {
                "observedGeneration": observed,
                "conditions": [
                    { "type": "Ready", "status": ready, "reason": "Serving", "message": "well" },
                    { "type": "DataLost", "status": "False", "reason": "NothingLost", "message": "" },
                ],
            },
        }))
    }

    fn instant(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn an_object_is_as_its_newest_status_says() {
        let seen = Seen::read(&redis(2, "True"), instant("2026-11-25T08:02:00Z"));
        assert_eq!(
            (seen.ready.as_str(), seen.reason.as_str(), seen.kubectl_name().as_str()),
            ("True", "Serving", "redis/cache")
        );
        assert!(seen.is_well());
        assert_eq!(age(seen.age_seconds), "1h2m");
        assert!(!Seen::read(&redis(2, "False"), instant("2026-11-25T08:02:00Z")).is_well());
    }

    #[test]
    fn a_status_of_an_earlier_spec_is_not_believed() {
        let seen = Seen::read(&redis(1, "True"), instant("2026-11-25T08:00:00Z"));
        assert_eq!((seen.ready.as_str(), seen.reason.as_str()), ("Unknown", "Unseen"));
        assert!(seen.message.contains("generation 2") && !seen.is_well(), "{}", seen.message);
    }

    #[test]
    fn a_condition_is_trouble_by_what_its_type_means() {
        let condition = |type_: &str, status: &str| Condition {
            type_: type_.into(),
            status: status.into(),
            reason: String::new(),
            message: String::new(),
            since: String::new(),
        };
        for type_ in ["NodeFailureRisk", "UnsignedBackups", "UnrecordedBackups", "Alarm", "Reconciling"] {
            assert!(condition(type_, "True").is_trouble() && !condition(type_, "False").is_trouble(), "{type_}");
        }
        assert!(condition("Stalled", "True").is_trouble() && condition("Quorate", "False").is_trouble());
        assert!(!condition("DataLost", "False").is_trouble() && !condition("Verified", "Unknown").is_trouble());
    }

    #[test]
    fn a_span_has_two_units_at_most() {
        let spans = [(0, "0s"), (59, "59s"), (61, "1m1s"), (600, "10m"), (7_260, "2h1m"), (200_000, "2d7h")];
        for (seconds, text) in spans {
            assert_eq!(age(seconds), text);
        }
    }
}
