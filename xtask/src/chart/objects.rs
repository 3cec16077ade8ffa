//! Rendered objects.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use serde_json::Value;

/// Objects by kind, namespace and name.
pub type Objects = BTreeMap<String, Value>;

/// Parses a text of several documents into objects.
pub fn parse(text: &str) -> Result<Objects> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow!("this is not YAML: {error}"))?;
    Ok(documents.into_iter().filter(Value::is_object).map(|object| (name_of(&object), object)).collect())
}

fn name_of(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}
