//! Whether a label selector matches an object's labels. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Follows Kubernetes, with two exceptions: an unknown operator, and `In` without values, match everything. It is not
/// known what they were meant to select, and a policy must not miss it.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements>
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|it| {
            let value = labels.get(&it.key);
            let values: Vec<&String> = it.values.iter().flatten().collect();
            let listed = value.is_some_and(|value| values.contains(&value));
            match it.operator.as_str() {
                "In" => listed || values.is_empty(),
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => true,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn namespaces_are_selected_as_kubernetes_does() {
        let labels = BTreeMap::from([("tenant".to_owned(), "a".to_owned())]);
        let selected = |selector: Value| selects(&serde_json::from_value(selector).unwrap(), &labels);
        let by = |operator: &str, key: &str, values: Value| {
            selected(json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }))
        };
        assert!(selected(json!({})));
        assert!(
            selected(json!({ "matchLabels": { "tenant": "a" } }))
                && !selected(json!({ "matchLabels": { "tenant": "b" } }))
        );
        assert!(
            by("In", "tenant", json!(["a", "b"])) && !by("In", "tenant", json!(["b"])) && !by("In", "x", json!(["a"]))
        );
        assert!(
            by("NotIn", "tenant", json!(["b"]))
                && by("NotIn", "x", json!(["a"]))
                && !by("NotIn", "tenant", json!(["a"]))
        );
        assert!(by("Exists", "tenant", json!(null)) && !by("Exists", "x", json!(null)));
        assert!(by("DoesNotExist", "x", json!(null)) && !by("DoesNotExist", "tenant", json!(null)));
        assert!(by("In", "x", json!([])), "it selects what it was to select");
        assert!(by("Like", "x", json!(["a"])), "what is not known is not allowed to go past the policy");
    }
}
