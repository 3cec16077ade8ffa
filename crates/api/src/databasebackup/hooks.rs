//! SQL statements that run around a backup.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// SQL statements that run around a backup.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hooks {
    /// Statements that run before the dump, in this order and in one session, such as `CALL shop.pause_imports()` or
    /// `INSERT INTO shop.audit VALUES ('backup')`. If one fails, nothing is dumped and the backup fails with
    /// `HookFailed`. The session ends before the dump starts, so its locks and temporary tables do not last. Left out,
    /// none run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 4096)))]
    #[x_kube(validation = (r"self.all(it, it.matches('[^ \t\r\n;]') && !it.contains('\u0000'))", "spec.hooks.before must be SQL statements, such as CALL shop.pause(): remove those that are empty, and NUL characters"))]
    pub before: Vec<String>,

    /// Statements that run after the dump, in this order and in a session of their own, such as
    /// `CALL shop.resume_imports()`. They also run if the dump or a statement of `before` failed. If one fails, the
    /// rest of the list does not run, the backup still counts, and the event `HookFailed` reports it. Left out, none
    /// run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 4096)))]
    #[x_kube(validation = (r"self.all(it, it.matches('[^ \t\r\n;]') && !it.contains('\u0000'))", "spec.hooks.after must be SQL statements, such as CALL shop.resume(): remove those that are empty, and NUL characters"))]
    pub after: Vec<String>,

    /// How long each of the two lists may take as a whole before Causeway ends it and it counts as failed, such as
    /// `2m`: 1s to 1h; 300s unless given. `spec.retry.deadline` must leave enough time for both lists and the dump.
    #[serde(default = "five_minutes")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('1h')", "spec.hooks.timeout must be 1s to 1h, such as 5m"))]
    pub timeout: Duration,
}

impl Hooks {
    /// Reports whether neither list has a statement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

fn five_minutes() -> Duration {
    Duration::from_seconds(300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let hooks: Hooks = serde_json::from_str(r#"{ "before": ["CHECKPOINT"] }"#).unwrap();
        assert_eq!((hooks.after.len(), hooks.timeout.seconds()), (0, 300));
        let written = serde_json::to_value(&hooks).unwrap();
        assert_eq!(written, serde_json::json!({ "before": ["CHECKPOINT"], "timeout": "300s" }));
    }
}
