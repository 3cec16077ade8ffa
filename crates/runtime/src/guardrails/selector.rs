//! Matches label selectors with labels, and finds those that can match none. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// The label with the name of a namespace.
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name>
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Follows Kubernetes, with an exception: requirements that no labels can meet, or that have no meaning, match
/// everything. It is not known what they were meant to select, and a policy must not miss it.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements>
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let contradicted = contradictory_keys(selector);
    let is_meant = |key: &str| !contradicted.contains(key);
    let equal = |(key, value): (&String, &String)| {
        labels.get(key) == Some(value) || problem_of_label(key, value).is_some() || !is_meant(key)
    };
    selector.match_labels.iter().flatten().all(equal)
        && selector
            .match_expressions
            .iter()
            .flatten()
            .all(|it| problem_of_requirement(it).is_some() || !is_meant(&it.key) || meets(it, labels.get(&it.key)))
}

fn meets(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|it| it == value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        _ => value.is_none(),
    }
}

/// Returns the first requirement that has no meaning or that no labels can meet: the field after
/// `spec.namespaceSelector.`, and the reason.
pub fn problem(selector: &LabelSelector) -> Option<String> {
    let of_labels = selector.match_labels.iter().flatten().find_map(|(key, value)| {
        let why = problem_of_label(key, value)?;
        Some(format!("matchLabels: {why}"))
    });
    let of_expressions = || {
        selector.match_expressions.iter().flatten().enumerate().find_map(|(at, it)| {
            let why = problem_of_requirement(it)?;
            Some(format!("matchExpressions[{at}]: {why}"))
        })
    };
    let of_both = || {
        let key = contradictory_keys(selector).into_iter().next()?;
        Some(format!("the requirements of key {key} contradict each other, so that no namespace is selected"))
    };
    of_labels.or_else(of_expressions).or_else(of_both)
}

fn problem_of_key(key: &str) -> Option<String> {
    (!is_key(key)).then(|| format!("{key:?} is no key of a label, such as team or example.com/team"))
}

fn problem_of_label(key: &str, value: &str) -> Option<String> {
    let of_key = problem_of_key(key);
    if of_key.is_some() {
        return of_key;
    }
    if !is_value(value) {
        return Some(format!("{value:?} is no value of a label: at most 63 letters, digits and _ . -"));
    }
    // Kubernetes sets this label to the name of each namespace.
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_wrong = key == NAME_LABEL && !is_word(value, in_name, "-");
    is_wrong.then(|| format!("{value:?} is no name of a namespace, which has lower-case letters, digits and hyphens"))
}

fn problem_of_requirement(requirement: &LabelSelectorRequirement) -> Option<String> {
    let (operator, values) = (requirement.operator.as_str(), requirement.values.as_deref().unwrap_or_default());
    let fix = match (operator, values.is_empty()) {
        ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {
            let wrong = values.iter().find_map(|value| problem_of_label(&requirement.key, value));
            return wrong.or_else(|| problem_of_key(&requirement.key));
        }
        ("In" | "NotIn", true) => "needs values",
        ("Exists" | "DoesNotExist", false) => "takes no values",
        _ => "is none of In, NotIn, Exists, DoesNotExist",
    };
    Some(format!("operator {operator} {fix}"))
}

/// Returns the keys with requirements that no value meets, and no absence either.
fn contradictory_keys(selector: &LabelSelector) -> BTreeSet<&str> {
    let labels = selector.match_labels.iter().flatten();
    let expressions = || selector.match_expressions.iter().flatten();
    let keys = labels.map(|(key, _)| key.as_str()).chain(expressions().map(|it| it.key.as_str()));
    keys.filter(|key| !can_be_met(selector, key)).collect()
}

fn can_be_met(selector: &LabelSelector, key: &str) -> bool {
    let equal = selector.match_labels.as_ref().and_then(|labels| labels.get(key));
    let expressions = || selector.match_expressions.iter().flatten().filter(|it| it.key == key);
    let is_met = |value: Option<&String>| {
        equal.is_none_or(|equal| value == Some(equal))
            && expressions().all(|it| problem_of_requirement(it).is_some() || meets(it, value))
    };
    // Only values that a requirement names can be told from others. One that none names is longer than all of them.
    let named: Vec<&String> =
        equal.into_iter().chain(expressions().flat_map(|it| it.values.iter().flatten())).collect();
    let other = named.iter().map(|it| it.as_str()).collect::<String>() + "x";
    is_met(None) || is_met(Some(&other)) || named.into_iter().any(|value| is_met(Some(value)))
}

/// Returns true if the text can be the key of a label.
fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    let in_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    domain.is_none_or(|domain| domain.len() <= 253 && is_word(domain, in_domain, ".-"))
        && name.len() <= 63
        && is_word(name, |c| c.is_ascii_alphanumeric(), "_.-")
}

/// Returns true if the text can be the value of a label.
fn is_value(text: &str) -> bool {
    text.is_empty() || text.len() <= 63 && is_word(text, |c| c.is_ascii_alphanumeric(), "_.-")
}

/// Returns true if the text has such characters at its ends, and also those of `within` between them.
fn is_word(text: &str, at_ends: impl Fn(char) -> bool, within: &str) -> bool {
    text.starts_with(&at_ends) && text.ends_with(&at_ends) && text.chars().all(|c| at_ends(c) || within.contains(c))
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
        assert!(by("In", "a key", json!(["a"])) && by("In", "x", json!(["a value"])), "no label can be meant");
        assert!(selected(json!({ "matchLabels": { "tenant": "a", "a key": "a" } })), "the rest of it holds");
        assert!(!selected(json!({ "matchLabels": { "tenant": "b", "a key": "a" } })), "the rest of it holds");
    }

    #[test]
    fn a_selector_that_can_select_nothing_is_told() {
        let problem = |selector: Value| problem(&serde_json::from_value(selector).unwrap());
        let long = "k".repeat(64);
        let (domain, part) = (format!("{}/k", "d".repeat(254)), |key: &str| json!({ "matchLabels": { (key): "a" } }));
        for key in ["a key", "a\nkey", "", "/a", "a/", "a/b/c", "-a", "a-", "A.b/c", "schlüssel", &long, &domain] {
            assert!(problem(part(key)).is_some_and(|it| it.starts_with("matchLabels: ")), "{key}");
            let expression = json!({ "matchExpressions": [{ "key": key, "operator": "DoesNotExist" }] });
            assert!(problem(expression).is_some_and(|it| it.starts_with("matchExpressions[0]: ")), "{key}");
        }
        for value in ["a value", "a\n", "-", "a/b", &long] {
            assert!(problem(json!({ "matchLabels": { "a": value } })).is_some(), "{value}");
            for operator in ["In", "NotIn"] {
                let values = json!(["good", value]);
                let expression =
                    json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] });
                assert!(problem(expression).is_some(), "{value}");
            }
        }
        for name in ["Shop", "shop.a", "", "shop_a"] {
            assert!(problem(json!({ "matchLabels": { (NAME_LABEL): name } })).is_some(), "{name}");
        }
        let by = |operator: &str, values: Value| json!({ "key": "a", "operator": operator, "values": values });
        let none = json!(null);
        for (label, expressions) in [
            (json!({ "a": "1" }), json!([by("In", json!(["2"]))])),
            (json!({ "a": "1" }), json!([by("NotIn", json!(["1"]))])),
            (json!({ "a": "1" }), json!([by("DoesNotExist", none.clone())])),
            (none.clone(), json!([by("In", json!(["1"])), by("In", json!(["2", "3"]))])),
            (none.clone(), json!([by("Exists", none.clone()), by("DoesNotExist", none.clone())])),
            (none.clone(), json!([by("In", json!(["1", "2"])), by("NotIn", json!(["2", "1"]))])),
        ] {
            let selector = json!({ "matchLabels": label, "matchExpressions": expressions });
            assert!(problem(selector.clone()).is_some_and(|it| it.contains("contradict")), "{selector}");
            assert!(selects(&serde_json::from_value(selector).unwrap(), &BTreeMap::new()), "it selects what it may");
        }
        for good in [
            json!({}),
            json!({ "matchLabels": { "kubernetes.io/metadata.name": "shop", "empty": "" } }),
            json!({ "matchLabels": { "a": "1" }, "matchExpressions": [by("In", json!(["1", "2"])), by("Exists", none.clone())] }),
            json!({ "matchExpressions": [by("NotIn", json!(["1"])), by("DoesNotExist", none.clone())] }),
            json!({ "matchExpressions": [by("NotIn", json!(["1"])), by("Exists", none)] }),
        ] {
            assert_eq!(problem(good.clone()), None, "{good}");
        }
    }
}
