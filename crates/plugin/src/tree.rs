//! Shows one object in detail: its conditions, its children in the cluster, and its resources in AWS. Pure.

use std::fmt::Write;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use causeway_runtime::terminal::{self, plain};

use super::reading::Found;
use super::seen::{Seen, age, printable, seconds_between};

/// The greatest depth of children: a `CronJob` has Jobs, and those have pods.
const DEEPEST: usize = 4;

/// Shows the object and everything that belongs to it.
pub fn tree(seen: &Seen, object: &DynamicObject, parts: &Found, now: Timestamp) -> String {
    let (seen, object) = (&seen.printable(), &printable(object));
    let parts = &Found {
        objects: parts.objects.iter().map(printable).collect(),
        refused: parts.refused.iter().map(|line| plain(line).into_owned()).collect(),
    };
    let mut out =
        format!("{} -n {}, {} old\n", terminal::strong(&seen.kubectl_name()), seen.namespace, age(seen.age_seconds));
    let _ =
        writeln!(out, "  Ready {} {}: {}", terminal::health(seen.is_well(), &seen.ready), seen.reason, seen.message);
    for condition in seen.conditions.iter().filter(|condition| condition.type_ != "Ready") {
        let since = condition.since.parse::<Timestamp>().map_or(0, |since| seconds_between(since, now));
        let status = terminal::health(!condition.is_trouble(), &condition.status);
        let (type_, reason, message) = (&condition.type_, &condition.reason, &condition.message);
        let _ = writeln!(out, "  {type_} {status} {reason} for {}: {message}", age(since));
    }
    for line in status_lines(&object.data["status"]) {
        let _ = writeln!(out, "  {line}");
    }
    branch(&mut out, object.uid().as_deref().unwrap_or_default(), parts, 1);
    for line in &parts.refused {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// Lists what the object's status says about things that are not objects in the cluster.
fn status_lines(status: &Value) -> Vec<String> {
    let items = |field: &str| status[field].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    };
    let mut lines = Vec::new();
    let alb = &status["alb"];
    if !alb.is_null() {
        lines.push(format!("load balancer {} {}: {}", text(&alb["name"]), text(&alb["state"]), text(&alb["dns"])));
    }
    for listener in items("listeners") {
        let (port, protocol, rules) = (&listener["port"], text(&listener["protocol"]), &listener["rules"]);
        lines.push(format!("listener {port} {protocol}, {rules} rules"));
    }
    for group in items("targetGroups") {
        let why = group["message"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        let (healthy, total) = (&group["healthy"], &group["total"]);
        lines.push(format!("backend {}, {healthy} of {total} targets are healthy{why}", text(&group["backend"])));
    }
    for node in items("nodes") {
        let data = if node["inSync"] == true || node["role"] == "master" { "all data" } else { "behind" };
        lines.push(format!("node {} {}, {data}, {} keys", text(&node["name"]), text(&node["role"]), node["keys"]));
    }
    for member in items("members") {
        let role = match (&member["isLeader"], &member["isLearner"]) {
            (Value::Bool(true), _) => "leader",
            (_, Value::Bool(true)) => "learner",
            _ => "follower",
        };
        let health = if member["isHealthy"] == true { "healthy" } else { "not healthy" };
        lines.push(format!("member {} {role}, {health}, version {}", text(&member["name"]), text(&member["version"])));
    }
    for backup in items("recent") {
        let proven = if backup["verified"] == true { ", proven" } else { "" };
        let (id, source, bytes) = (text(&backup["id"]), text(&backup["source"]), &backup["storedBytes"]);
        let reasons: Vec<String> = backup["keptBy"].as_array().into_iter().flatten().map(text).collect();
        let kept = if reasons.is_empty() { String::new() } else { format!(", kept by {}", reasons.join(", ")) };
        lines.push(format!("backup {id} of {source}, {bytes} bytes{proven}{kept}"));
    }
    lines
}

/// Shows the objects that this one controls, and the objects that those control.
fn branch(out: &mut String, uid: &str, parts: &Found, depth: usize) {
    let is_of = |part: &&DynamicObject| {
        part.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
    };
    let mut children: Vec<&DynamicObject> = parts.objects.iter().filter(is_of).collect();
    children.sort_by_key(|part| part.name_any());
    for child in children.into_iter().filter(|_| depth < DEEPEST) {
        let kind = child.types.as_ref().map(|types| types.kind.to_lowercase()).unwrap_or_default();
        // A Deployment keeps its former `ReplicaSet`s without pods; they are of no interest.
        if kind == "replicaset" && child.data["spec"]["replicas"] == 0 {
            continue;
        }
        let (well, text) = health(&kind, &child.data);
        let indent = "  ".repeat(depth);
        let _ = writeln!(out, "{indent}{kind}/{} {}", child.name_any(), terminal::health(well, &text));
        branch(out, child.uid().as_deref().unwrap_or_default(), parts, depth + 1);
    }
}

/// Returns true if a child is healthy, with a short description of its state.
fn health(kind: &str, data: &Value) -> (bool, String) {
    let (spec, status) = (&data["spec"], &data["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    match kind {
        "statefulset" | "deployment" | "replicaset" => {
            let (ready, all) = (number(&status["readyReplicas"]), number(&spec["replicas"]));
            (ready >= all, format!("{ready} of {all} ready"))
        }
        "pod" => pod(spec, status),
        "persistentvolumeclaim" => {
            let phase = status["phase"].as_str().unwrap_or("Pending");
            (phase == "Bound", format!("{phase} {}", status["capacity"]["storage"].as_str().unwrap_or_default()))
        }
        "job" => {
            let (done, failed) = (number(&status["succeeded"]), number(&status["failed"]));
            let running = number(&status["active"]);
            let word = if done > 0 {
                "succeeded"
            } else if running > 0 {
                "running"
            } else {
                "not done"
            };
            (done > 0 || failed == 0, if failed > 0 { format!("{word}, {failed} tries failed") } else { word.into() })
        }
        "cronjob" => {
            let suspended = if spec["suspend"] == true { ", suspended" } else { "" };
            (spec["suspend"] != true, format!("{}{suspended}", spec["schedule"].as_str().unwrap_or_default()))
        }
        "poddisruptionbudget" => {
            let (healthy, least) = (number(&status["currentHealthy"]), number(&status["desiredHealthy"]));
            (healthy >= least, format!("{healthy} healthy, {least} must be"))
        }
        _ => (true, spec["type"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the state of a pod, with what keeps its containers from running.
fn pod(spec: &Value, status: &Value) -> (bool, String) {
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    let node = spec["nodeName"].as_str().map_or_else(|| "no node".into(), |node| format!("node {node}"));
    let containers = status["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let restarts: i64 = containers.iter().filter_map(|container| container["restartCount"].as_i64()).sum();
    let waits = containers.iter().find_map(|container| container["state"]["waiting"]["reason"].as_str());
    let ready = containers.iter().filter(|container| container["ready"] == true).count();
    let well = phase == "Succeeded" || (!containers.is_empty() && ready == containers.len());
    let why = waits.map_or_else(String::new, |reason| format!(", {reason}"));
    let again = if restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
    (well, format!("{phase}, {ready} of {} containers ready, {node}{again}{why}", containers.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use causeway_runtime::terminal::uncoloured;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn text_of_others_neither_controls_the_terminal_nor_forges_lines() {
        let lines_of = |text: &str| {
            let group = json!({ "backend": text, "healthy": 0, "total": 1, "message": text });
            let ready = json!({ "type": "Ready", "status": text, "reason": text, "message": text });
            let other =
                json!({ "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text });
            let object = object(json!({
                "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress", "metadata": { "name": text, "namespace": "shop", "uid": "r" },
                "status": {
                    "conditions": [ready, other], "targetGroups": [group],
                    "alb": { "name": text, "state": text, "dns": text },
                    "recent": [{ "id": text, "source": text, "storedBytes": text, "keptBy": [text] }],
                    "members": [{ "name": text, "version": text }], "nodes": [{ "name": text, "role": text, "keys": text }],
                    "listeners": [{ "port": text, "protocol": text, "rules": text }],
                },
            }));
            let owner = json!([{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "r", "controller": true }]);
            let waits = json!([{ "state": { "waiting": { "reason": text } } }]);
            let part = super::tests::object(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": text, "ownerReferences": owner },
                "spec": { "nodeName": text }, "status": { "phase": text, "containerStatuses": waits },
            }));
            let found = Found { objects: vec![part], refused: vec![text.to_owned()] };
            let now = Timestamp::UNIX_EPOCH;
            uncoloured(&tree(&Seen::read(&object, now), &object, &found, now))
        };
        let usual = lines_of("x").lines().count();
        for hostile in ["x\n  Ready True", "x\r\u{1b}[2K", "\u{9b}1A\u{202e}x", "x\u{2028}\u{7f}"] {
            let shown = lines_of(hostile);
            assert_eq!(shown.lines().count(), usual, "{shown}");
            assert!(shown.lines().all(|line| *line == *plain(line)), "{shown:?}");
        }
    }

    #[test]
    fn a_tree_shows_only_the_parts_of_an_object() {
        let now = "2026-11-25T08:00:00Z".parse().expect("a time");
        let owned = |uid: &str, by: &str, name: &str| {
            json!({ "name": name, "uid": uid, "ownerReferences": [{
                "apiVersion": "v1", "kind": "X", "name": "x", "uid": by, "controller": true }] })
        };
        let redis = object(json!({
            "apiVersion": "example.com/v1", "kind": "Redis",
            "metadata": {
                "name": "cache", "namespace": "shop", "uid": "r", "generation": 1,
                "creationTimestamp": "2026-11-25T07:00:00Z",
            },
            "status": {
                "observedGeneration": 1,
                "conditions": [
                    { "type": "Ready", "status": "True", "reason": "Serving", "message": "cache-0 serves" },
                    { "type": "Replicated", "status": "False", "reason": "Syncing", "message": "cache-1 is behind",
                      "lastTransitionTime": "2026-11-25T07:59:00Z" },
                ],
                "nodes": [{ "name": "cache-0", "role": "master", "inSync": false, "keys": 7 }],
            },
        }));
        let parts = [
            json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": owned("s", "r", "cache"),
                "spec": { "replicas": 2 }, "status": { "readyReplicas": 1 } }),
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": owned("p", "s", "cache-1"),
                "spec": { "nodeName": "node-1" },
                "status": { "phase": "Pending", "containerStatuses": [
                    { "ready": false, "restartCount": 3, "state": { "waiting": { "reason": "ImagePullBackOff" } } }] } }),
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": owned("q", "other", "web-1"), "status": {} }),
        ];
        let found = Found { objects: parts.map(object).into(), refused: vec!["cannot list jobs: forbidden".into()] };
        let seen = Seen::read(&redis, now);
        insta::assert_snapshot!(uncoloured(&tree(&seen, &redis, &found, now)), @r"
        redis/cache -n shop, 1h old
          Ready True Serving: cache-0 serves
          Replicated False Syncing for 1m: cache-1 is behind
          node cache-0 master, all data, 7 keys
          statefulset/cache 1 of 2 ready
            pod/cache-1 Pending, 0 of 1 containers ready, node node-1, 3 restarts, ImagePullBackOff
          cannot list jobs: forbidden
        ");
    }
}
