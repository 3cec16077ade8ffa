//! Names in specs that become part of a URL, or of a child: what Kubernetes cannot take is refused by the field that has it. A
//! request for the Secret `own?fieldManager=x` would read another one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// The pattern of the names of most objects.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names>
const NAME: &str = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$";
/// Where an image is, with a host that may have a port, a tag and a digest.
/// <https://github.com/distribution/reference/blob/v0.6.0/regexp.go>
const IMAGE: &str = "^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[a-z0-9+.-]+:[a-fA-F0-9]+)?$";

/// Fields with the name of something in the cluster, beside all that end in `SecretName`.
const NAMES: [&str; 7] =
    ["secretName", "priorityClassName", "serviceAccountName", "className", "namespace", "fromMember", "master"];

/// Gives every name and every image of a definition's spec the rule that it must keep.
#[must_use]
pub fn with_name_rules(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let versions = definition.spec.versions.iter_mut();
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        if let Some(spec) = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec")) {
            name(spec, "spec");
        }
    }
    definition
}

fn name(schema: &mut JSONSchemaProps, path: &str) {
    for (field, value) in schema.properties.iter_mut().flatten() {
        let path = format!("{path}.{field}");
        // Affinity and the like are Kubernetes' own, and become part of pods as they are.
        if path.contains("affinity") || path.contains("Constraints") {
            continue;
        }
        if value.type_.as_deref() == Some("string") {
            oblige(value, field, &path);
        }
        name(value, &path);
    }
    let inner = format!("{path}[]");
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => name(items, &inner),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(|item| name(item, &inner)),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        name(values, &inner);
    }
}

fn oblige(value: &mut JSONSchemaProps, field: &str, path: &str) {
    let (pattern, what) = match field {
        "image" => (IMAGE, "must be where an image is, such as registry/name:tag, with a name in lower case"),
        _ if is_name(field, path) => {
            (NAME, "must be of lower case letters, digits, - and ., as names in Kubernetes are")
        }
        _ => return,
    };
    if is_obliged(value, pattern) {
        return;
    }
    // Rules have words for people, and a price that is multiplied in lists.
    if path.contains("[]") {
        value.pattern = Some(pattern.to_owned());
        return;
    }
    let rule = ValidationRule {
        rule: format!("self.matches('{pattern}')"),
        message: Some(format!("{path} {what}")),
        ..ValidationRule::default()
    };
    value.x_kubernetes_validations.get_or_insert_default().push(rule);
}

/// Reports whether a field has the name of something in the cluster.
fn is_name(field: &str, path: &str) -> bool {
    NAMES.contains(&field) || field.ends_with("SecretName") || path.ends_with("ecret.name")
}

/// Reports whether it keeps such a rule, or a stricter one, already.
fn is_obliged(value: &JSONSchemaProps, pattern: &str) -> bool {
    let rules = value.x_kubernetes_validations.iter().flatten();
    let positive = |rule: &ValidationRule| rule.rule.starts_with("self.matches('^");
    value.pattern.is_some() || value.enum_.is_some() || (pattern == NAME && rules.into_iter().any(positive))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::definitions::definitions;

    /// Strings of a spec by their paths, and whether something is asked of their letters.
    fn strings(schema: &JSONSchemaProps, path: &str, found: &mut BTreeMap<String, bool>) {
        for (field, value) in schema.properties.iter().flatten() {
            let path = format!("{path}.{field}");
            if value.type_.as_deref() == Some("string") {
                let rules = value.x_kubernetes_validations.iter().flatten();
                let matches = |rule: &ValidationRule| rule.rule.starts_with("self.matches('^");
                found.insert(path.clone(), value.pattern.is_some() || rules.into_iter().any(matches));
            }
            strings(value, &path, found);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            strings(items, &format!("{path}[]"), found);
        }
    }

    #[test]
    fn whatever_names_an_object_or_an_image_has_a_rule() {
        let mut found = BTreeMap::new();
        for definition in definitions() {
            let schema = definition.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
            strings(&schema.properties.unwrap()["spec"], &definition.spec.names.kind, &mut found);
        }
        let names = |path: &&String| {
            let leaf = path.rsplit('.').next().unwrap();
            let kubernetes = path.contains("affinity") || path.contains("Constraints");
            // Neither is asked of Kubernetes: claims of tokens, and backends of the same object.
            let elsewhere = path.ends_with("claims[].name") || path.ends_with("forward.backends[].name");
            !kubernetes
                && !elsewhere
                && (leaf.to_lowercase().ends_with("name") || leaf == "image" || leaf == "fromMember")
        };
        let all: Vec<&String> = found.keys().filter(names).collect();
        assert!(all.len() > 30, "{all:?}");
        let bare: Vec<&&String> = all.iter().filter(|path| !found[**path]).collect();
        assert!(bare.is_empty(), "{bare:?}");
    }

    #[test]
    fn images_are_told_from_other_words() {
        let pattern = regex_lite::Regex::new(IMAGE).unwrap();
        for image in [
            "nginx",
            "redis:7.0.15",
            "docker.io/library/nginx:latest",
            "localhost:5000/a/b__c:v1",
            "Registry.example.com/nothing",
            "quay.io/coreos/etcd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ] {
            assert!(pattern.is_match(image), "{image}");
        }
        for other in ["Delete", "a b", "a:b:c", "", "a/", "https://a/b"] {
            assert!(!pattern.is_match(other), "{other}");
        }
    }
}
