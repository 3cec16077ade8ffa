//! The patch of each command that changes an object. It always sets a documented field or annotation. Pure.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Error, kinds};

/// A new value of this annotation of a `DatabaseBackup` starts a backup.
const BACKUP_NOW: &str = "causeway.example.com/backup-now";

/// A change that a command requests.
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
        /// The name of the member.
        from: String,
        /// The time that distinguishes this recovery from earlier ones.
        token: Timestamp,
    },
}

/// A merge patch, and a description of it.
#[derive(Debug, PartialEq)]
pub struct Patch {
    /// A merge patch to make before: it removes `spec.switchover`, whose value was carried out once. The operator must
    /// forget that ([`has_forgotten_switchover`]) before the same value means anything again.
    pub removal: Option<Value>,
    /// The merge patch; `None` if nothing is to be changed.
    pub body: Option<Value>,
    /// A description of the change.
    pub done: String,
}

/// Makes the patch for the change.
pub fn patch(change: &Change, object: &DynamicObject) -> Result<Patch, Error> {
    let name = object.name_any();
    let (body, done) = match change {
        Change::Suspend(suspend) => {
            let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
            if !kinds::kind_named(&kind).is_some_and(kinds::suspends) {
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
            let to = to.clone().or_else(|| replica(object)).ok_or(Error::NoReplica(name))?;
            return Ok(switchover(object, &to));
        }
        Change::Recover { from, token } => (
            json!({ "spec": { "recovery": { "fromMember": from, "token": token.to_string() } } }),
            format!("Causeway rebuilds it from the data of {from}, if its majority is lost"),
        ),
    };
    Ok(Patch { removal: None, body: Some(body), done })
}

/// Makes the pod `to` the master. Causeway carries out each value of the field once.
fn switchover(object: &DynamicObject, to: &str) -> Patch {
    let (asked, status) = (&object.data["spec"]["switchover"]["master"], &object.data["status"]);
    let carried_out = &status["switchedTo"];
    // While another value waits, the field is set even to the pod that is the master: that calls the other one off.
    let waits = asked.is_string() && asked != carried_out;
    let unchanged = |done| Patch { removal: None, body: None, done };
    if status["master"] == to && (!waits || asked == to) {
        return unchanged(format!("{to} is the master already: nothing was changed"));
    }
    if waits && asked == to {
        return unchanged(format!(
            "spec.switchover.master is {to} already, and Causeway has not switched over yet: nothing was changed; see: \
             kubectl causeway why redis/{}",
            object.name_any()
        ));
    }
    let removal =
        (status["master"] != to && carried_out == to).then(|| json!({ "spec": { "switchover": Value::Null } }));
    let body = Some(json!({ "spec": { "switchover": { "master": to } } }));
    Patch { removal, body, done: format!("Causeway makes {to} the master") }
}

/// Returns true if the operator has seen that `spec.switchover` was removed.
pub fn has_forgotten_switchover(object: &DynamicObject) -> bool {
    object.data["status"]["switchedTo"].is_null()
}

/// Returns the replica with the highest offset, among those that are in sync with the master.
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
        assert_eq!(made.body, Some(json!({ "spec": { "switchover": { "master": "cache-2" } } })));
        let refusal = patch(&Change::Switchover(None), &redis(&json!([]))).unwrap_err().to_string();
        assert!(refusal.contains("--to"), "{refusal}");
    }

    /// Makes the patch that makes cache-1 the master, where the spec asks for `asked`, `carried_out` was done before,
    /// and `master` leads.
    fn to_cache_1(asked: Option<&str>, carried_out: Option<&str>, master: &str) -> Patch {
        let mut object = redis(&json!([]));
        object.data["spec"] = json!({ "switchover": asked.map(|master| json!({ "master": master })) });
        object.data["status"] = json!({ "switchedTo": carried_out, "master": master });
        patch(&Change::Switchover(Some("cache-1".into())), &object).unwrap()
    }

    #[test]
    fn a_repeated_value_is_removed_before_it_is_set_again() {
        for asked in [Some("cache-1"), None] {
            let made = to_cache_1(asked, Some("cache-1"), "cache-0");
            assert_eq!(made.removal, Some(json!({ "spec": { "switchover": null } })), "{asked:?}");
            assert_eq!(made.body, Some(json!({ "spec": { "switchover": { "master": "cache-1" } } })));
        }
        let made = to_cache_1(Some("cache-2"), Some("cache-2"), "cache-0");
        assert!(made.removal.is_none() && made.body.is_some(), "another value needs no removal: {made:?}");
        let forgotten = |status: Value| {
            let mut object = redis(&json!([]));
            object.data["status"] = status;
            has_forgotten_switchover(&object)
        };
        assert!(!forgotten(json!({ "switchedTo": "cache-1" })) && forgotten(json!({})));
    }

    #[test]
    fn nothing_is_promised_where_nothing_is_to_be_done() {
        for (asked, carried_out) in
            [(Some("cache-1"), Some("cache-1")), (None, None), (Some("cache-2"), Some("cache-2"))]
        {
            let made = to_cache_1(asked, carried_out, "cache-1");
            assert!(made.body.is_none() && made.done.contains("the master already"), "{made:?}");
        }
        let made = to_cache_1(Some("cache-1"), None, "cache-0");
        assert!(made.body.is_none() && made.done.contains("why redis/cache"), "{made:?}");
        let made = to_cache_1(Some("cache-2"), None, "cache-1");
        assert!(made.removal.is_none() && made.body.is_some(), "it calls off what waits: {made:?}");
    }

    #[test]
    fn only_kinds_with_the_field_are_suspended() {
        let made = patch(&Change::Suspend(true), &redis(&json!([]))).unwrap();
        assert_eq!(made.body, Some(json!({ "spec": { "suspend": true } })));
        let restore = json!({ "apiVersion": "example.com/v1", "kind": "DatabaseRestore", "metadata": { "name": "a" } });
        let restore = serde_json::from_value(restore).unwrap();
        assert!(patch(&Change::Suspend(true), &restore).unwrap_err().to_string().contains("DatabaseRestore"));
    }
}
