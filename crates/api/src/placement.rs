//! Where members may run, as pods have it; with bounds, so that an object stays small and a wrong value is refused early.

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The longest name with a prefix: a domain, a slash and a name.
const LONGEST: u32 = 317;
/// Terms, expressions and values in a list, and labels in a selector.
const MOST: u32 = 20;
/// Constraints of a pod.
const CONSTRAINTS: u32 = 10;

/// The schema of a pod's affinity.
pub fn affinity(generator: &mut SchemaGenerator) -> Schema {
    bounded(generator.subschema_for::<Affinity>())
}

/// The schema of a pod's constraints.
pub fn constraints(generator: &mut SchemaGenerator) -> Schema {
    let one = bounded(generator.subschema_for::<TopologySpreadConstraint>());
    // As in a pod; two of the same kind could not even be applied.
    let keys = ["topologyKey", "whenUnsatisfiable"];
    json_schema!({
        "type": "array", "items": one, "maxItems": CONSTRAINTS,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
    })
}

/// The schema with bounds down to its last field.
pub fn bounded(schema: Schema) -> Schema {
    let mut value = schema.to_value();
    bound("", &mut value);
    Schema::try_from(value).unwrap_or_default()
}

fn bound(name: &str, value: &mut Value) {
    let Some(schema) = value.as_object_mut() else { return };
    let limits = match schema.get("type").and_then(Value::as_str) {
        Some("string") => words(name).map_or_else(|| json!({ "maxLength": LONGEST }), |words| json!({ "enum": words })),
        Some("array") => json!({ "maxItems": MOST }),
        Some("integer") => json!({ "minimum": 1, "maximum": if name == "weight" { 100 } else { i32::MAX } }),
        Some("object") if !schema.contains_key("properties") => json!({ "maxProperties": MOST }),
        _ => json!({}),
    };
    if let Value::Object(limits) = limits {
        schema.extend(limits);
    }
    for (name, property) in
        schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
    {
        bound(name, property);
    }
    for (key, inner) in ["items", "additionalProperties"].map(|key| (key, schema.get(key).cloned())) {
        if let Some(mut inner) = inner {
            bound(name, &mut inner);
            schema.insert(key.to_owned(), inner);
        }
    }
}

/// Fields that have a few values only.
fn words(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "operator" => Some(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
        "whenUnsatisfiable" => Some(&["DoNotSchedule", "ScheduleAnyway"]),
        "nodeAffinityPolicy" | "nodeTaintsPolicy" => Some(&["Honor", "Ignore"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use crate::EtcdCluster;

    #[test]
    fn placement_of_members_has_bounds_down_to_the_last_field() {
        let definition = serde_json::to_value(EtcdCluster::crd()).unwrap();
        let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let term = &spec["affinity"]["properties"]["podAntiAffinity"]["properties"]["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(term["maxItems"], 20);
        assert_eq!(term["items"]["properties"]["weight"]["maximum"], 100.0);
        let selector = &term["items"]["properties"]["podAffinityTerm"]["properties"]["labelSelector"]["properties"];
        assert_eq!(selector["matchLabels"]["maxProperties"], 20);
        assert_eq!(selector["matchLabels"]["additionalProperties"]["maxLength"], 317);
        assert_eq!(selector["matchExpressions"]["items"]["properties"]["values"]["items"]["maxLength"], 317);
        let constraints = &spec["topologySpreadConstraints"];
        assert_eq!(constraints["maxItems"], 10);
        assert_eq!(constraints["items"]["properties"]["whenUnsatisfiable"]["enum"][0], "DoNotSchedule");
        assert_eq!(constraints["items"]["properties"]["maxSkew"]["minimum"], 1.0);
    }
}
