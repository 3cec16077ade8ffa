//! Goes through a chronicle write by write, and finds each `Ready` that was not true.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::chronicle::{Entry, Moment};

/// Checks that all that an object of that name and spec asks for is there and rolled out; the error says what is not.
pub type Truth = fn(name: &str, spec: &Value, moment: &Moment) -> Result<(), String>;

/// The condition `Ready`.
pub fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

/// Every status of objects of that kind that claims `Ready` for a generation that was not yet rolled out. No observer
/// sees all objects at the same moment, so it is enough that the generation was rolled out at any moment since it was
/// asked for.
pub fn lies(chronicle: &[Entry], kind: &str, truth: Truth) -> Vec<String> {
    let mut moment = Moment::new();
    let mut specs: BTreeMap<(String, i64), Value> = BTreeMap::new();
    let mut rolled_out: BTreeSet<(String, i64)> = BTreeSet::new();
    let (mut lies, mut claims) = (Vec::new(), 0);
    for entry in chronicle {
        let before = match &entry.object {
            Some(object) => moment.insert(entry.key.clone(), object.clone()),
            None => moment.remove(&entry.key),
        };
        let ours = entry.key.0 == kind;
        if let Some(object) = entry.object.as_ref().filter(|_| ours) {
            let generation = object["metadata"]["generation"].as_i64().expect("a generation");
            specs.insert((entry.key.1.clone(), generation), object["spec"].clone());
        }
        for (key, spec) in &specs {
            if !rolled_out.contains(key) && truth(&key.0, spec, &moment).is_ok() {
                rolled_out.insert(key.clone());
            }
        }
        let Some(object) = entry.object.as_ref().filter(|_| ours) else { continue };
        let claim = ready(object);
        if claim["status"] != "True" || before.is_some_and(|before| before["status"] == object["status"]) {
            continue;
        }
        claims += 1;
        let generation = claim["observedGeneration"].as_i64().expect("a generation");
        assert_eq!(object["status"]["observedGeneration"].as_i64(), Some(generation), "the same generation");
        let key = (entry.key.1.clone(), generation);
        if !rolled_out.contains(&key) {
            let why = truth(&key.0, &specs[&key], &moment).expect_err("it was not rolled out");
            lies.push(format!("version {}: {} is Ready for generation {generation}: {why}", entry.version, key.0));
        }
    }
    assert!(claims > 0, "nothing was ever Ready");
    lies
}

/// Checks that `live` has what `wanted` asks for.
pub fn has(what: &str, live: &Value, wanted: &Value) -> Result<(), String> {
    let met = match (live, wanted) {
        (_, Value::Null) => true,
        (Value::Object(live), Value::Object(wanted)) => {
            return wanted.iter().try_for_each(|(key, wanted)| {
                has(&format!("{what}.{key}"), live.get(key).unwrap_or(&Value::Null), wanted)
            });
        }
        // An absent map equals an empty one.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        _ => live == wanted,
    };
    if met { Ok(()) } else { Err(format!("{what} is {live}, and {wanted} was asked for")) }
}

/// Exactly `count` pods have that label. All are ready, none is being deleted, and each is as `like` says.
pub fn pods_serve(
    moment: &Moment,
    label: (&str, &str),
    count: i64,
    like: impl Fn(&Value) -> Result<(), String>,
) -> Result<(), String> {
    let is_of = |pod: &&Value| pod["metadata"]["labels"][label.0] == label.1;
    let pods: Vec<&Value> =
        moment.iter().filter(|((kind, _), _)| kind == "Pod").map(|(_, pod)| pod).filter(is_of).collect();
    if i64::try_from(pods.len()) != Ok(count) {
        return Err(format!("{} pods, and {count} were asked for", pods.len()));
    }
    for pod in pods {
        let name = &pod["metadata"]["name"];
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Err(format!("pod {name} is being deleted"));
        }
        if ready(pod)["status"] != "True" {
            return Err(format!("pod {name} is not ready"));
        }
        like(&pod["spec"]).map_err(|why| format!("pod {name}: {why}"))?;
    }
    Ok(())
}

/// The container of that name.
pub fn container(pod: &Value, name: &str) -> Value {
    let all = pod["containers"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|container| container["name"] == name).unwrap_or_default()
}
