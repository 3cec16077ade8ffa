//! The page for those who come from another controller is complete, and names only fields that exist.

use std::collections::{BTreeMap, BTreeSet};

use kube::CustomResourceExt;
use serde_json::Value;

use crate::MyIngress;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coming-from-lbc.md"));
const ANNOTATIONS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lbc-annotations.txt"));

/// Returns what the page says of each annotation.
fn rows() -> BTreeMap<&'static str, &'static str> {
    let row = |line: &'static str| {
        let (name, field) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        Some((name, field))
    };
    PAGE.split("## Paths of an Ingress").next().unwrap_or_default().lines().filter_map(row).collect()
}

/// The schema of a field such as `listeners[].port`, if there is one.
fn schema<'a>(spec: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(spec, |schema, step| {
        let name = step.trim_end_matches("[]");
        let field = &schema["properties"][name];
        let found = if step.ends_with("[]") { &field["items"] } else { field };
        (!found.is_null()).then_some(found)
    })
}

#[test]
fn the_page_has_every_annotation_and_no_other() {
    let listed: BTreeSet<&str> = ANNOTATIONS.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(listed.len() > 60, "{}", listed.len());
    assert_eq!(rows().into_keys().collect::<BTreeSet<_>>(), listed);
}

#[test]
fn the_fields_that_the_page_begins_with_exist() {
    let crd = serde_json::to_value(MyIngress::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    for (annotation, api_message) in rows() {
        let first = api_message.strip_prefix('`').and_then(|api_message| api_message.split('`').next());
        let long = api_message.split('`').filter(|word| word.contains("[]."));
        assert!(
            first.is_some() || api_message.contains("**missing**") || api_message.contains("[]."),
            "{annotation}: {api_message}"
        );
        for path in first.into_iter().chain(long) {
            assert!(schema(spec, path).is_some(), "{annotation}: there is no field {path}");
        }
    }
}
