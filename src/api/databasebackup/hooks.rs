//! SQL statements that run around a backup.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::Duration;

/// SQL statements that run around a backup.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hooks {
    /// Statements that run before the dump, one after the other in one session, such as `CALL shop.pause_imports()` or
    /// `INSERT INTO shop.audit VALUES ('backup')`. If one fails, nothing is dumped and the backup fails with `HookFailed`. The
    /// session ends before the dump begins: its locks and temporary tables go with it. Left out, none run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 4096)))]
    #[x_kube(validation = (r"self.all(it, it.matches('[^ \t\r\n;]') && !it.contains('\u0000'))", "spec.hooks.before must be SQL statements, such as CALL shop.pause(): remove those that are empty, and NUL characters"))]
    pub before: Vec<String>,

    /// Statements that run when the dump has ended, one after the other in a session of their own, such as
    /// `CALL shop.resume_imports()`: also if the dump failed, or one of `before`. If one fails, the rest of the list does not
    /// run, the backup counts all the same, and the event `HookFailed` says so. Left out, none run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 4096)))]
    #[x_kube(validation = (r"self.all(it, it.matches('[^ \t\r\n;]') && !it.contains('\u0000'))", "spec.hooks.after must be SQL statements, such as CALL shop.resume(): remove those that are empty, and NUL characters"))]
    pub after: Vec<String>,

    /// How long each of the two lists may take as a whole, before it is ended and has failed: 1s to 1h, 300s unless given.
    /// `spec.retry.deadline` must have room for both and the dump.
    #[serde(default = "five_minutes")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('1h')", "spec.hooks.timeout must be 1s to 1h, such as 5m"))]
    pub timeout: Duration,
}

impl Hooks {
    /// Whether neither list has a statement.
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
