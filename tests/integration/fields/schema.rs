//! The leaves of a schema.

use serde_json::Value;

/// A field, with the schema of its values.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Where it is in the spec; `[]` is an element of a list, `{}` a value of a map, `{key}` a key of one.
    pub path: Vec<String>,
    pub schema: Value,
}

/// Every field of an object's schema, lists and maps themselves included.
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
    if schema["items"].is_object() {
        collect(&schema["items"], &within("[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        collect(&schema["additionalProperties"], &within("{}"), found);
        let key = serde_json::json!({ "type": "string" });
        found.push(Leaf { path: within("{key}"), schema: key });
    }
}
