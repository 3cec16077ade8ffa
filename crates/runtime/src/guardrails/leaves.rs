//! The fields of a kind, for tests that must know of each.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "support of tests")]

use std::collections::BTreeSet;

use kube::CustomResourceExt;
use serde_json::Value;

/// The fields at the ends of the schema of a kind's spec: `listeners[].port`. A map is one field.
pub fn leaves_of<K: CustomResourceExt>() -> BTreeSet<String> {
    let definition = serde_json::to_value(K::crd()).unwrap();
    let mut all = BTreeSet::new();
    leaves("", &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], &mut all);
    all
}

fn leaves(path: &str, schema: &Value, into: &mut BTreeSet<String>) {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let mut inner: Vec<(String, &Value)> = fields
        .map(|(name, field)| (if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, field))
        .collect();
    inner.extend(schema["items"].is_object().then(|| (format!("{path}[]"), &schema["items"])));
    if inner.is_empty() {
        into.insert(path.to_owned());
    }
    for (path, schema) in inner {
        leaves(&path, schema, into);
    }
}
