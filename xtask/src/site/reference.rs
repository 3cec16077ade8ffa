//! Writes a page for each kind, with every field of its definition. Pure.

use serde_json::Value;

use crate::crds;

/// Fields that have the type of a pod's field:
/// <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>
const OF_PODS: &[&str] =
    &["affinity", "tolerations", "topologySpreadConstraints", "resources", "nodeSelector", "imagePullSecrets"];

/// The kind of a definition, the name of its page, and the text.
pub fn page(definition: &Value) -> (String, String, String) {
    let (api, kind) = crds::api_of(definition);
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let head =
        format!("# Fields of {kind}\n\n`apiVersion: {api}`, `kind: {kind}`\n\n{}\n", cell(&schema["description"]));
    let parts = ["spec", "status"].map(|part| (part, &schema["properties"][part]));
    let parts = parts.into_iter().filter(|(_, schema)| !schema.is_null()).map(|(part, schema)| {
        let rules = rules(schema).into_iter().map(|rule| format!("- {rule}\n")).collect::<Vec<_>>().concat();
        let rows = rows(schema, "").concat();
        format!("\n## {part}\n\n{rules}\n| field | type | |\n|---|---|---|\n{rows}")
    });
    let text = head + &parts.collect::<String>();
    let name = format!("fields-{}.md", kind.to_lowercase());
    (kind, name, text)
}

/// A row for each field, followed by rows for the fields within it.
fn rows(schema: &Value, path: &str) -> Vec<String> {
    let required = |name: &str| schema["required"].as_array().into_iter().flatten().any(|it| it == name);
    let mut all = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let mut notes = vec![cell(&field["description"])];
        if required(name) {
            notes.push("Required.".into());
        }
        if !field["default"].is_null() {
            notes.push(format!("Default: `{}`.", cell(&Value::String(field["default"].to_string()))));
        }
        notes.extend(rules(field));
        notes.retain(|note| !note.is_empty());
        all.push(format!("| `{path}` | {} | {} |\n", kind_of(field), notes.join(" ")));
        if OF_PODS.contains(&name.as_str()) {
            continue;
        }
        all.extend(rows(field, &path));
        all.extend(rows(&field["items"], &format!("{path}[]")));
        all.extend(rows(&field["additionalProperties"], &format!("{path}.*")));
    }
    all
}

/// Its type, bounds and allowed values.
fn kind_of(field: &Value) -> String {
    let name = match (field["type"].as_str(), &field["x-kubernetes-int-or-string"]) {
        (Some("array"), _) => format!("list of {}", field["items"]["type"].as_str().unwrap_or("anything")),
        (Some("object"), _) if !field["additionalProperties"].is_null() => "map".into(),
        (Some(name), _) => name.into(),
        (None, Value::Bool(true)) => "integer or string".into(),
        (None, _) => "anything".into(),
    };
    let values: Vec<_> =
        field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(|it| format!("`{it}`")).collect();
    let bounds: Vec<_> = [
        ("minimum", "from "),
        ("maximum", "to "),
        ("minLength", "letters from "),
        ("maxLength", "letters to "),
        ("minItems", "entries from "),
        ("maxItems", "entries to "),
    ]
    .iter()
    .filter_map(|(key, word)| field[*key].as_f64().map(|bound| format!("{word}{bound}")))
    .collect();
    [name, values.join(", "), bounds.join(", ")].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(": ")
}

/// The validation rules, in the words of the API server.
fn rules(schema: &Value) -> Vec<String> {
    let all = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    all.filter_map(|rule| rule["message"].as_str())
        .map(|text| format!("Refused otherwise: *{}*", cell(&Value::from(text))))
        .collect()
}

/// A text that fits into one table cell.
fn cell(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_row_with_its_description() {
        for definition in crds::parsed().unwrap() {
            let (kind, _, text) = page(&definition);
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let (spec, status) = text.split_once("\n## status\n").unwrap();
            for (part, text) in [("spec", spec), ("status", status)] {
                for (name, field) in schema["properties"][part]["properties"].as_object().into_iter().flatten() {
                    let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
                    let row = row.unwrap_or_else(|| panic!("{kind} has no row for {part}.{name}"));
                    assert!(row.contains(&cell(&field["description"])), "{row}");
                }
            }
            assert!(
                text.lines().filter(|line| line.starts_with("| ")).all(|line| line
                    .replace("\\|", "")
                    .matches('|')
                    .count()
                    == 4),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_row_tells_type_bounds_default_and_rules() {
        let schema = serde_json::json!({
            "required": ["port"],
            "properties": {
                "port": { "type": "integer", "minimum": 1, "maximum": 65535, "description": "The port,\nor | none." },
                "mode": { "type": "string", "enum": ["A", "B"], "default": "A", "x-kubernetes-validations": [{ "rule": "x", "message": "cannot change" }] },
                "all": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
                "resources": { "type": "object", "properties": { "limits": { "type": "object" } } },
            },
        });
        let expected = "| `all` | list of object |  |\n| `all[].name` | string |  |\n\
                        | `mode` | string: `A`, `B` | Default: `\"A\"`. Refused otherwise: *cannot change* |\n\
                        | `port` | integer: from 1, to 65535 | The port, or \\| none. Required. |\n| `resources` | object |  |\n";
        assert_eq!(rows(&schema, "").concat(), expected);
    }
}
