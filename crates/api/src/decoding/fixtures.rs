//! Tests: objects as releases have stored them. Every later version reads them without loss, and its schema takes them.
//!
//! A directory below `tests/fixtures/api` is a release: its files never change. A release with new fields gets a new one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::apiserver;
use super::objects::leaves;
use super::schemas;
use crate::causewaypolicy::CausewayPolicy;
use crate::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};

/// An object of a release.
struct Fixture {
    file: String,
    object: Value,
}

impl Fixture {
    fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap()
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn fixtures() -> Vec<Fixture> {
    let releases = entries(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/api"));
    let files = releases.iter().flat_map(|release| entries(release));
    let read = |path: PathBuf| Fixture {
        file: path.display().to_string(),
        object: serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap(),
    };
    files.map(read).collect()
}

/// The object as the present types write it after they have read it.
fn again<K: DeserializeOwned + Serialize>(object: Value) -> Value {
    let read: K = serde_json::from_value(object).unwrap();
    serde_json::to_value(read).unwrap()
}

fn through_rust(fixture: &Fixture) -> Value {
    let object = fixture.object.clone();
    match fixture.kind() {
        "MyApp" => again::<MyApp>(object),
        "MyIngress" => again::<MyIngress>(object),
        "EtcdCluster" => again::<EtcdCluster>(object),
        "Redis" => again::<Redis>(object),
        "DatabaseBackup" => again::<DatabaseBackup>(object),
        "DatabaseRestore" => again::<DatabaseRestore>(object),
        "CausewayPolicy" => again::<CausewayPolicy>(object),
        other => panic!("{}: {other} is no kind", fixture.file),
    }
}

/// Paths of what was there and is not, or is something else.
fn add_lost_paths(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(fields), Value::Object(others)) => {
            for (name, value) in fields {
                add_lost_paths(value, others.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"), found);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                add_lost_paths(item, other, &format!("{path}[{index}]"), found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{path}: {before} became {after}")),
    }
}

#[test]
fn objects_of_every_release_are_read_and_written_without_loss() {
    for fixture in fixtures() {
        let mut found = Vec::new();
        add_lost_paths(&fixture.object, &through_rust(&fixture), "", &mut found);
        assert!(found.is_empty(), "{}:\n{}", fixture.file, found.join("\n"));
    }
}

#[test]
fn the_schema_takes_objects_of_every_release_as_they_are() {
    let schemas = schemas();
    for fixture in fixtures() {
        let (_, schema) = schemas.iter().find(|(kind, _)| kind == fixture.kind()).unwrap();
        let stored = apiserver::stored(schema, fixture.object.clone());
        let stored = stored.unwrap_or_else(|| panic!("{} is refused", fixture.file));
        let mut found = Vec::new();
        add_lost_paths(&fixture.object, &stored, "", &mut found);
        assert!(found.is_empty(), "{} has fields that the schema lacks:\n{}", fixture.file, found.join("\n"));
    }
}

/// Reports whether something is at that path; `[]` is any item, `{}` any value.
fn has(value: &Value, path: &[String]) -> bool {
    let Some((step, rest)) = path.split_first() else { return !value.is_null() };
    match step.as_str() {
        "[]" => value.as_array().is_some_and(|items| items.iter().any(|item| has(item, rest))),
        "{}" => value.as_object().is_some_and(|values| values.values().any(|value| has(value, rest))),
        name => has(&value[name], rest),
    }
}

/// Otherwise the tests above say nothing about the others. Affinity and constraints are Kubernetes' own.
#[test]
fn every_field_is_in_an_object_of_a_release() {
    let fixtures = fixtures();
    let mut missing = BTreeSet::new();
    for (kind, schema) in schemas() {
        for leaf in leaves(&schema) {
            let is_ours = !leaf.path.iter().any(|step| step == "affinity" || step == "topologySpreadConstraints");
            let mut objects = fixtures.iter().filter(|it| it.kind() == kind);
            if is_ours && !objects.any(|it| has(&it.object, &leaf.path)) {
                missing.insert(format!("{kind} {}", leaf.path.join(".")));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
