//! Compares rendered objects one by one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use serde_json::Value;

/// Labels that the chart adds to all objects, and that no selector uses.
const LABELS_OF_THE_CHART: [&str; 5] = [
    "helm.sh/chart",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/name",
];

/// Annotations that exist in only one of the two ways to install.
const ANNOTATIONS_OF_THE_CHART: [&str; 2] = ["helm.sh/resource-policy", "checksum/options"];

/// kustomize's name for the ConfigMap of options, before the hash.
const HASHED: &str = "causeway-options-";

/// Objects by kind, namespace and name.
pub type Objects = BTreeMap<String, Value>;

/// Parses a text of several documents into objects.
pub fn parse(text: &str) -> Result<Objects> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow!("this is not YAML: {error}"))?;
    Ok(documents.into_iter().filter(Value::is_object).map(|object| (name_of(&object), object)).collect())
}

/// The objects without labels, annotations and names that depend on the way they were rendered.
pub fn normalized(objects: Objects) -> Objects {
    let normal = |(_, mut object)| {
        normalize(&mut object);
        (name_of(&object), object)
    };
    objects.into_iter().map(normal).collect()
}

fn name_of(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

fn normalize(object: &mut Value) {
    remove(object, "/metadata", "labels", &LABELS_OF_THE_CHART);
    for metadata in ["/metadata", "/spec/template/metadata"] {
        remove(object, metadata, "annotations", &ANNOTATIONS_OF_THE_CHART);
    }
    without_hash(object);
}

/// Removes keys of a map in the metadata, and the map too if it becomes empty.
fn remove(object: &mut Value, metadata: &str, map: &str, keys: &[&str]) {
    let Some(metadata) = object.pointer_mut(metadata).and_then(Value::as_object_mut) else { return };
    let Some(values) = metadata.get_mut(map).and_then(Value::as_object_mut) else { return };
    for key in keys {
        values.remove(*key);
    }
    if values.is_empty() {
        metadata.remove(map);
    }
}

fn without_hash(value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with(HASHED) => HASHED.trim_end_matches('-').clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(without_hash),
        Value::Object(fields) => fields.values_mut().for_each(without_hash),
        _ => {}
    }
}

/// The differences between two sets of objects, one per line.
pub fn differences(one: &Objects, other: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    for name in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
        compare(name, one.get(name), other.get(name), &mut found);
    }
    found
}

fn compare(place: &str, one: Option<&Value>, other: Option<&Value>, found: &mut Vec<String>) {
    match (one, other) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            for key in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                compare(&format!("{place}.{key}"), left.get(key), right.get(key), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for at in 0..left.len().max(right.len()) {
                compare(&format!("{place}[{at}]"), left.get(at), right.get(at), found);
            }
        }
        // One way may write 1, and the other 1.0.
        (Some(Value::Number(left)), Some(Value::Number(right))) if left.as_f64() == right.as_f64() => {}
        (Some(left), Some(right)) if left != right => found.push(format!("{place}: {left} and {right}")),
        (Some(left), None) => found.push(format!("{place}: {} and nothing", brief(left))),
        (None, Some(right)) => found.push(format!("{place}: nothing and {}", brief(right))),
        _ => {}
    }
}

fn brief(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "kind: Deployment\nmetadata: {name: a, namespace: shop, labels: {app.kubernetes.io/name: a}}\n\
                        spec: {template: {spec: {containers: [{image: b}], volumes: causeway-options-5d8g2f77kh}}}\n\
                        ---\nkind: Role\nmetadata: {name: r}\n";
    const CHART: &str = "# a remark\n---\nkind: Deployment\n\
                         metadata: {name: a, namespace: shop, labels: {helm.sh/chart: c-1, app.kubernetes.io/name: a}}\n\
                         spec: {template: {metadata: {annotations: {checksum/options: x}}, \
                         spec: {containers: [{image: b}], volumes: causeway-options}}}\n";

    #[test]
    fn ways_of_rendering_do_not_differ_but_objects_do() {
        let (base, chart) = (normalized(parse(BASE).unwrap()), normalized(parse(CHART).unwrap()));
        assert_eq!(
            differences(&base, &chart),
            [
                "Deployment shop/a.spec.template.metadata: nothing and {}",
                r#"Role /r: {"kind":"Role","metadata":{"name":"r"}} and nothing"#
            ]
        );
        let other = normalized(parse(&CHART.replace("image: b", "image: c")).unwrap());
        assert_eq!(
            differences(&chart, &other),
            [r#"Deployment shop/a.spec.template.spec.containers[0].image: "b" and "c""#]
        );
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let bound = |number: &str| parse(&format!("kind: S\nmaximum: {number}")).unwrap();
        assert!(differences(&bound("1"), &bound("1.0")).is_empty());
        assert_eq!(differences(&bound("1"), &bound("2")), ["S /.maximum: 1 and 2"]);
    }

    #[test]
    fn labels_that_select_are_compared() {
        let selects =
            |label: &str| parse(&format!("kind: S\nspec: {{selector: {{app.kubernetes.io/name: {label}}}}}")).unwrap();
        let (one, other) = (normalized(selects("a")), normalized(selects("b")));
        assert_eq!(differences(&one, &other).len(), 1);
    }
}
