//! Tests: objects with only what their schema requires, and the leaves of schemas.

use serde_json::{Map, Value, json};

use super::patterns::fits;

/// Texts of which one fits each pattern that a required field has.
const SAMPLES: &[&str] = &[
    "a",
    "2026-11-23T12:00:00Z",
    "Ready",
    "1h",
    "/a",
    "1",
    "200",
    "HTTP",
    "https://a.example.com",
    "arn:aws:acm:us-east-1:000000000000:certificate/a",
    "arn:aws:cognito-idp:us-east-1:000000000000:userpool/a",
    "arn:aws:elasticloadbalancing:us-east-1:000000000000:targetgroup/a/0123456789abcdef",
    "pl-3b927c52",
];

/// A field, an item or a value of a map.
pub struct Leaf {
    /// Where: `[]` is an item of a list, `{}` a value of a map.
    pub path: Vec<String>,
    /// The `OpenAPI` schema of the kind.
    pub schema: Value,
}

/// All that there is below spec and status, lists and objects themselves included.
pub fn leaves(schema: &Value) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(schema, &[], &mut found);
    found
}

fn collect(schema: &Value, path: &[String], found: &mut Vec<Leaf>) {
    let within = |step: &str| path.iter().cloned().chain([step.to_owned()]).collect::<Vec<_>>();
    if !path.is_empty() {
        found.push(Leaf { path: path.to_vec(), schema: schema.clone() });
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        collect(property, &within(name), found);
    }
    for (step, inner) in [("[]", &schema["items"]), ("{}", &schema["additionalProperties"])] {
        if inner.is_object() {
            collect(inner, &within(step), found);
        }
    }
}

/// The least that a schema takes.
pub fn minimal(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    let count = |name: &str| usize::try_from(schema[name].as_u64().unwrap_or(0)).unwrap_or(0);
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut fields: Map<String, Value> =
                required.map(|name| (name.to_owned(), minimal(&schema["properties"][name]))).collect();
            if count("minProperties") > fields.len() {
                fields.insert("key".into(), minimal(&schema["additionalProperties"]));
            }
            fields.into()
        }
        Some("array") => vec![minimal(&schema["items"]); count("minItems")].into(),
        Some("integer" | "number") => json!(schema["minimum"].as_f64().map_or(1, |least| {
            #[expect(clippy::cast_possible_truncation, reason = "bounds of schemas are small")]
            let least = least as i64;
            least.max(1)
        })),
        Some("boolean") => json!(true),
        None if schema["x-kubernetes-int-or-string"] == true => json!(80),
        _ => json!(text(schema, count("minLength"))),
    }
}

fn text(schema: &Value, least: usize) -> String {
    if schema["format"] == "date-time" {
        return "2026-11-23T12:00:00Z".into();
    }
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let longest = SAMPLES.iter().map(|sample| format!("{sample}{}", "a".repeat(least.saturating_sub(sample.len()))));
    longest.into_iter().find(|sample| fits(pattern, sample)).unwrap_or_else(|| panic!("no sample fits {pattern}"))
}

/// The least object that has `value` at `path`.
pub fn with(schema: &Value, path: &[String], value: &Value) -> Value {
    let Some((step, rest)) = path.split_first() else { return value.clone() };
    match step.as_str() {
        "[]" => {
            let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
            (0..least).map(|_| with(&schema["items"], rest, value)).collect()
        }
        "{}" => json!({ "key": with(&schema["additionalProperties"], rest, value) }),
        name => {
            let mut object = minimal(schema);
            // A default may be null, where the field is optional.
            if !object.is_object() {
                let required = Value::Object(schema.as_object().cloned().unwrap_or_default());
                object = minimal(&without_default(required));
            }
            object[name] = with(&schema["properties"][name], rest, value);
            object
        }
    }
}

fn without_default(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("default");
    }
    schema
}
