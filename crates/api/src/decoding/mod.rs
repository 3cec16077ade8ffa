//! Tests: whatever a schema takes, Rust reads. One object that cannot be decoded fails every list of its kind.

mod apiserver;
mod fixtures;
mod objects;
mod patterns;
mod times;
mod values;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::causewaypolicy::CausewayPolicy;
use super::definitions::definitions;
use super::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};
use objects::{Leaf, leaves, minimal, with};
pub use times::{TIMES, is_date_time};

/// Reads an object as a watch does, from its text.
fn decode<K: DeserializeOwned>(text: &str) -> Result<(), String> {
    serde_json::from_str::<K>(text).map(drop).map_err(|error| error.to_string())
}

fn decoder(kind: &str) -> fn(&str) -> Result<(), String> {
    match kind {
        "MyApp" => decode::<MyApp>,
        "MyIngress" => decode::<MyIngress>,
        "EtcdCluster" => decode::<EtcdCluster>,
        "Redis" => decode::<Redis>,
        "DatabaseBackup" => decode::<DatabaseBackup>,
        "DatabaseRestore" => decode::<DatabaseRestore>,
        "CausewayPolicy" => decode::<CausewayPolicy>,
        other => panic!("a kind without a decoder: {other}"),
    }
}

/// The schema of each kind, as the API server has it.
fn schemas() -> Vec<(String, Value)> {
    let schema =
        |definition: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
            let version = definition.spec.versions.into_iter().next().expect("a version");
            let schema = version.schema.and_then(|it| it.open_api_v3_schema).expect("a schema");
            (definition.spec.names.kind, serde_json::to_value(schema).expect("JSON"))
        };
    definitions().into_iter().map(schema).collect()
}

/// The object around a spec or status, as clients send it.
fn object(schema: &Value, kind: &str, part: &str, value: Value) -> Value {
    let mut object = minimal(schema);
    object["apiVersion"] = json!("example.com/v1");
    object["kind"] = json!(kind);
    object["metadata"] = json!({ "name": "sample", "namespace": "default" });
    object[part] = value;
    object
}

/// Returns what the schema takes at a leaf and Rust does not read, in words.
fn unreadable(kind: &str, schema: &Value, leaf: &Leaf, tried: &mut BTreeMap<&'static str, usize>) -> Vec<String> {
    let (part, path) = leaf.path.split_first().expect("spec or status");
    let within = &schema["properties"][part];
    let mut found = Vec::new();
    for (what, candidate) in values::candidates(&leaf.schema) {
        // A value that its own schema refuses is refused wherever it is.
        if !candidate.is_null() && apiserver::alone(&leaf.schema, &candidate).is_none() {
            *tried.entry("refused").or_default() += 1;
            continue;
        }
        let sent = object(schema, kind, part, with(within, path, &candidate));
        let Some(stored) = apiserver::stored(schema, sent) else {
            *tried.entry("refused").or_default() += 1;
            continue;
        };
        *tried.entry("accepted").or_default() += 1;
        if let Err(error) = decoder(kind)(&stored.to_string()) {
            found.push(format!("{kind} {}: {what} {candidate}: {error}", leaf.path.join(".")));
        }
    }
    found
}

#[test]
fn what_a_schema_takes_is_read() {
    let mut tried = BTreeMap::new();
    let mut found = Vec::new();
    for (kind, schema) in schemas() {
        for leaf in leaves(&schema) {
            found.extend(unreadable(&kind, &schema, &leaf, &mut tried));
        }
    }
    assert!(tried["accepted"] > 5000 && tried["refused"] > 5000, "{tried:?}");
    assert!(found.is_empty(), "{} of {tried:?}:\n{}", found.len(), found.join("\n"));
}

/// Otherwise the test above tries nothing.
#[test]
fn an_object_with_required_fields_only_is_read() {
    for (kind, schema) in schemas() {
        let sent = object(&schema, &kind, "spec", minimal(&schema["properties"]["spec"]));
        let stored = apiserver::stored(&schema, sent.clone());
        let stored = stored.unwrap_or_else(|| panic!("{kind} is refused: {sent}"));
        decoder(&kind)(&stored.to_string()).unwrap_or_else(|error| panic!("{kind}: {error}: {stored}"));
    }
}

/// An integer without bounds, or a time in any form, is what the test above finds only where Rust's type is narrower.
#[test]
fn every_integer_has_bounds_and_every_time_one_form() {
    for (kind, schema) in schemas() {
        for Leaf { path, schema } in leaves(&schema) {
            let at = format!("{kind} {}", path.join("."));
            let narrow =
                schema["format"].as_str().is_some_and(|format| format.contains("int") && !format.contains("64"));
            if narrow || schema["x-kubernetes-int-or-string"] == true {
                assert!(schema["minimum"].is_number() && schema["maximum"].is_number(), "{at}: {schema}");
            }
            if schema["format"] == "date-time" {
                assert!(schema["pattern"].is_string(), "{at}: {schema}");
            }
            assert_ne!(schema["type"], "number", "{at}: fractions are written in many ways");
            assert_ne!(schema["x-kubernetes-preserve-unknown-fields"], true, "{at}: anything would be taken");
        }
    }
}

/// `kubectl explain` prints the descriptions.
#[test]
fn every_field_is_described() {
    let mut bare = Vec::new();
    for (kind, schema) in schemas() {
        for Leaf { path, schema } in leaves(&schema) {
            let is_field = path.last().is_some_and(|step| step != "[]" && step != "{}");
            if is_field && schema["description"].as_str().is_none_or(str::is_empty) {
                bare.push(format!("{kind} {}", path.join(".")));
            }
        }
    }
    assert!(bare.is_empty(), "{}", bare.join("\n"));
}
