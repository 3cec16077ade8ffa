//! Bad and borderline values of a field.

use std::fmt;

use serde_json::{Map, Value, json};

use super::schema::Leaf;

/// A spec with one field changed.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The whole path of the field.
    pub leaf: String,
    /// The name that a refusal must mention.
    pub field: String,
    /// The names of the fields around it: a refusal may be about a field that is missing beside it.
    pub parents: Vec<String>,
    /// The change, in words.
    pub what: &'static str,
    pub spec: Value,
}

impl Mutation {
    /// Reports whether these words name the field.
    pub fn is_named_in(&self, words: &str) -> bool {
        words.contains(&self.field) || self.parents.iter().any(|parent| words.contains(parent))
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.leaf, self.what)
    }
}

/// Every mutation of `good` at one field.
pub fn mutations(leaf: &Leaf, good: &Value) -> Vec<Mutation> {
    let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    let mut names = path.iter().filter(|step| !step.starts_with(['[', '{'])).rev().map(|step| (*step).to_owned());
    let (field, parents) = (names.next().unwrap_or_default(), names.collect::<Vec<_>>());
    let values = values(&leaf.schema);
    let specs = values.into_iter().filter_map(|(what, value)| Some((what, with(good, &path, value)?)));
    specs
        .map(|(what, spec)| Mutation {
            leaf: path.join("."),
            field: field.clone(),
            parents: parents.clone(),
            what,
            spec,
        })
        .collect()
}

/// The spec with `value` at `path`; `None` removes the field. Returns `None` where the value cannot be a key of a map.
/// In a list, only the first item that has the field is changed.
fn with(spec: &Value, path: &[&str], value: Option<Value>) -> Option<Value> {
    match path {
        [] => value,
        ["{key}"] => Some(json!({ value?.as_str()?: "value" })),
        ["{}", rest @ ..] => Some(json!({ "key": with(&Value::Null, rest, value)? })),
        ["[]", rest @ ..] => {
            let mut items = spec.as_array().cloned().unwrap_or_default();
            let index = items.iter().position(|item| has(item, rest)).unwrap_or(0);
            let changed = with(items.get(index).unwrap_or(&Value::Null), rest, value);
            let changed = changed.or_else(|| rest.is_empty().then_some(Value::Null))?;
            match items.get_mut(index) {
                Some(item) => *item = changed,
                None => items.push(changed),
            }
            Some(Value::Array(items))
        }
        [name, rest @ ..] => {
            let mut fields: Map<String, Value> = spec.as_object().cloned().unwrap_or_default();
            match with(&spec[*name], rest, value) {
                Some(changed) => fields.insert((*name).to_owned(), changed),
                None if rest.is_empty() => fields.remove(*name),
                None => return None,
            };
            Some(Value::Object(fields))
        }
    }
}

/// Returns true if `spec` has a value at `path`.
fn has(spec: &Value, path: &[&str]) -> bool {
    match path {
        [] => !spec.is_null(),
        ["[]", rest @ ..] => spec.as_array().is_some_and(|items| items.iter().any(|item| has(item, rest))),
        ["{}" | "{key}", ..] => spec.is_object(),
        [name, rest @ ..] => has(&spec[*name], rest),
    }
}

/// Integers that the API server can store, but that do not fit into every integer type of Rust. A stored value that
/// cannot be decoded fails every list of its kind.
const WIDE: [i64; 10] =
    [1 << 8, 1 << 15, 1 << 16, 2_147_483_647, 1 << 31, 1 << 32, -1, -2_147_483_649, (1 << 53) + 1, i64::MIN];

/// Values to try; `None` is the field left out.
fn values(schema: &Value) -> Vec<(&'static str, Option<Value>)> {
    let mut values = vec![("absent", None), ("null", Some(Value::Null))];
    let some = |what, value| (what, Some(value));
    if schema["type"] == "integer" || schema["x-kubernetes-int-or-string"] == true {
        values.extend(WIDE.map(|number| some("beyond a type of Rust", json!(number))));
    }
    match schema["type"].as_str().unwrap_or_default() {
        "string" => {
            let longest = schema["maxLength"].as_u64();
            values.extend([
                some("empty", json!("")),
                some("64 KB", json!("x".repeat(65_536))),
                some("unicode", json!("схема-🚀-\u{202e}")),
                some("newline", json!("one\ntwo")),
                some("shell", json!("\"; rm -rf / $(reboot) `id`")),
                some("NUL", json!("a\u{0}b")),
                some("a number", json!(7)),
                some("an object", json!({ "a": 1 })),
            ]);
            if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("h)?(")) {
                values.extend(
                    ["0s", "1s", "90m", "24h", "999999h", "1d", "-1s"].map(|text| some("a duration", json!(text))),
                );
            }
            values.extend(
                schema["enum"].as_array().into_iter().flatten().map(|one| some("one of its words", one.clone())),
            );
            for (what, length) in [("longest - 1", -1), ("longest", 0), ("longest + 1", 1)] {
                let length = longest.and_then(|longest| longest.checked_add_signed(length));
                values.extend(length.map(|length| some(what, json!("x".repeat(usize::try_from(length).unwrap_or(0))))));
            }
        }
        "integer" | "number" => {
            for (what, bound) in [("least", "minimum"), ("greatest", "maximum")] {
                let Some(bound) = schema[bound].as_f64() else { continue };
                for (step, value) in [-1.0, 0.0, 1.0].into_iter().enumerate() {
                    let what = if step == 1 { what } else { "beside a bound" };
                    #[expect(clippy::cast_possible_truncation, reason = "bounds of fields are small")]
                    values.push(some(what, json!((bound + value) as i64)));
                }
            }
            values.extend([
                some("huge", json!(i64::MAX)),
                some("a fraction", json!(1.5)),
                some("a whole fraction", json!(1.0)),
                some("a string", json!("1")),
            ]);
        }
        "boolean" => values.extend([
            some("true", json!(true)),
            some("false", json!(false)),
            some("a string", json!("true")),
            some("a number", json!(1)),
        ]),
        "array" => {
            let item = |index: u64| json!(format!("{}{index}", prefix(schema)));
            for (what, bound) in [("fewest", "minItems"), ("most", "maxItems")] {
                let Some(bound) = schema[bound].as_u64() else { continue };
                for count in [bound.saturating_sub(1), bound, bound + 1] {
                    values.push(some(what, (0..count).map(item).collect()));
                }
            }
            values.extend([
                some("empty", json!([])),
                some("twice the same", json!([item(1), item(1)])),
                some("a string", json!("a")),
                some("an object", json!({})),
            ]);
        }
        "object" => {
            let pairs = |count: u64| -> Value {
                (0..count).map(|index| (format!("key{index}"), json!("v"))).collect::<Map<_, _>>().into()
            };
            if let Some(most) = schema["maxProperties"].as_u64() {
                values.extend([most - 1, most, most + 1].map(|count| some("about the most keys", pairs(count))));
            }
            values.extend([some("empty", json!({})), some("a string", json!("a")), some("a list", json!([]))]);
        }
        _ => {}
    }
    values
}

/// The prefix of a list's elements. Where a rule asks for ids, they look like ids: otherwise only the rule would be
/// tried.
fn prefix(schema: &Value) -> &'static str {
    let rules = schema["x-kubernetes-validations"].to_string();
    if rules.contains("subnet-") {
        "subnet-"
    } else if rules.contains("sg-") {
        "sg-"
    } else {
        "item"
    }
}
