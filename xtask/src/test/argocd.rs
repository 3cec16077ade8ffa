//! Tests Argo CD's script with objects in every state. [`crate::demo::install_and_try`] tests it with real objects of
//! an installed operator.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::report::Outcome;
use crate::argocd;
use crate::progress::Step;

/// Checks all states.
pub fn check(_: &Step) -> Result<Outcome> {
    for (what, object, expected) in cases() {
        let (status, message) = argocd::health(&object)?;
        if (status.as_str(), message.as_str()) != expected {
            bail!("{what}: {status}: {message}; {expected:?} was expected");
        }
    }
    Ok(Outcome::Passed)
}

type Case = (&'static str, Value, (&'static str, &'static str));

fn cases() -> Vec<Case> {
    let object = |spec: Value, conditions: Value| json!({ "metadata": { "generation": 2 }, "spec": spec, "status": { "conditions": conditions } });
    let condition = |kind: &str, status: &str, message: &str| json!({ "type": kind, "status": status, "message": message, "observedGeneration": 2 });
    let phase = |phase: &str| json!({ "metadata": { "generation": 1 }, "spec": {}, "status": { "phase": phase, "message": "see" } });
    let ready = condition("Ready", "True", "it serves");
    let older = json!({ "type": "Ready", "status": "True", "message": "it served", "observedGeneration": 1 });
    let unseen = ("Progressing", "the operator has not looked at it yet");
    vec![
        ("no status", json!({ "metadata": { "generation": 1 }, "spec": {} }), unseen),
        ("an earlier generation", object(json!({}), json!([older])), unseen),
        ("ready", object(json!({}), json!([ready])), ("Healthy", "it serves")),
        (
            "on its way",
            object(json!({}), json!([condition("Ready", "False", "2 of 3 members answer")])),
            ("Progressing", "2 of 3 members answer"),
        ),
        (
            "stalled",
            object(json!({}), json!([condition("Ready", "False", "no"), condition("Stalled", "True", "no quorum")])),
            ("Degraded", "no quorum"),
        ),
        (
            "ready, and without backups",
            object(json!({}), json!([ready, condition("BackupOverdue", "True", "cache has none")])),
            ("Degraded", "cache has none"),
        ),
        (
            "ready, and backups came",
            object(json!({}), json!([ready, condition("BackupOverdue", "False", "all came")])),
            ("Healthy", "it serves"),
        ),
        (
            "ready, and its backups are not signed",
            object(json!({}), json!([ready, condition("UnsignedBackups", "True", "no rights")])),
            ("Degraded", "no rights"),
        ),
        (
            "ready, and a node holds all pods",
            object(json!({}), json!([ready, condition("NodeFailureRisk", "True", "cache-0, cache-1 are on node-1")])),
            ("Healthy", "it serves"),
        ),
        (
            "suspended",
            object(json!({ "suspend": true }), json!([ready])),
            ("Suspended", "spec.suspend: the operator leaves it as it is"),
        ),
        ("a restore at work", phase("Running"), unseen),
        ("a restore that is done", phase("Succeeded"), ("Healthy", "see")),
        ("a restore that only looked", phase("Planned"), ("Healthy", "see")),
        ("a restore that failed", phase("Failed"), ("Degraded", "see")),
    ]
}
