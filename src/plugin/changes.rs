//! The patch of each command that changes an object. It always sets a documented field or annotation. Pure.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Error, kinds};

/// A new value of this annotation of a `DatabaseBackup` starts a backup.
const BACKUP_NOW: &str = "causeway.example.com/backup-now";

/// A requested change.
#[derive(Clone, Debug)]
pub enum Change {
    /// Suspend the object, or resume it.
    Suspend(bool),
    /// Start a backup, with this time as the annotation's value.
    BackupNow(Timestamp),
    /// Move the master role to this pod, or to any replica that has all data.
    Switchover(Option<String>),
    /// Start the cluster again with the data of one member.
    Recover {
        /// The member.
        from: String,
        /// Distinguishes this recovery from earlier ones.
        token: Timestamp,
    },
}

/// A merge patch, and a description of it.
#[derive(Debug, PartialEq)]
pub struct Patch {
    /// The merge patch.
    pub body: Value,
    /// Says what it does.
    pub done: String,
}

/// The patch for the change.
pub fn patch(change: &Change, object: &DynamicObject) -> Result<Patch, Error> {
    let name = object.name_any();
    let (body, done) = match change {
        Change::Suspend(suspend) => {
            let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
            if !kinds::named(&kind).is_some_and(kinds::suspends) {
                return Err(Error::NotSuspendable { kind });
            }
            let done = if *suspend { "suspended: Causeway changes nothing until it is resumed" } else { "resumed" };
            (json!({ "spec": { "suspend": suspend } }), done.to_owned())
        }
        Change::BackupNow(at) => (
            json!({ "metadata": { "annotations": { BACKUP_NOW: at.to_string() } } }),
            format!("requested a backup; see: kubectl causeway status databasebackup/{name}"),
        ),
        Change::Switchover(to) => {
            let to = to.clone().or_else(|| replica(object)).ok_or_else(|| Error::NoReplica(name.clone()))?;
            (json!({ "spec": { "switchover": { "master": to } } }), format!("Causeway makes {to} the master"))
        }
        Change::Recover { from, token } => (
            json!({ "spec": { "recovery": { "fromMember": from, "token": token.to_string() } } }),
            format!("Causeway rebuilds it from the data of {from}, if its majority is lost"),
        ),
    };
    Ok(Patch { body, done })
}

/// The replica with the highest offset, among those that are in sync with the master.
fn replica(object: &DynamicObject) -> Option<String> {
    let nodes = object.data["status"]["nodes"].as_array()?;
    let able = nodes.iter().filter(|node| node["role"] == "replica" && node["ready"] == true && node["inSync"] == true);
    let best = able.max_by_key(|node| node["offset"].as_i64().unwrap_or_default())?;
    best["name"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(nodes: &Value) -> DynamicObject {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Redis", "metadata": { "name": "cache" }, "status": { "nodes": nodes },
        });
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn the_replica_that_is_furthest_takes_over() {
        let node = |name: &str, role: &str, in_sync: bool, offset: i64| json!({ "name": name, "role": role, "ready": in_sync, "inSync": in_sync, "offset": offset });
        let nodes = json!([
            node("cache-0", "master", true, 90),
            node("cache-1", "replica", true, 70),
            node("cache-2", "replica", true, 80),
            node("cache-3", "replica", false, 99),
        ]);
        let made = patch(&Change::Switchover(None), &redis(&nodes)).unwrap();
        assert_eq!(made.body, json!({ "spec": { "switchover": { "master": "cache-2" } } }));
        let refusal = patch(&Change::Switchover(None), &redis(&json!([]))).unwrap_err().to_string();
        assert!(refusal.contains("--to"), "{refusal}");
    }

    #[test]
    fn only_kinds_with_the_field_are_suspended() {
        assert_eq!(patch(&Change::Suspend(true), &redis(&json!([]))).unwrap().body["spec"]["suspend"], true);
        let restore = json!({ "apiVersion": "example.com/v1", "kind": "DatabaseRestore", "metadata": { "name": "a" } });
        let restore = serde_json::from_value(restore).unwrap();
        assert!(patch(&Change::Suspend(true), &restore).unwrap_err().to_string().contains("DatabaseRestore"));
    }
}
