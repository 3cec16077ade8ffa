//! What an upgrade of the operator must not change: pods, their volumes and Services, and resources in AWS.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::kubectl::Kubectl;
use crate::localstack::LocalStack;

/// Children whose replacement clients or users notice.
const CHILDREN: &str = "statefulsets,services,persistentvolumeclaims,secrets,cronjobs,poddisruptionbudgets";

/// AWS calls that result from edits of tags and of the number of pods.
const EDITS: [&str; 3] = ["AddTags", "CreateTags", "RegisterTargets"];

/// The uids of all objects in the namespace of the examples, and the newest call to AWS.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By name: the kind that owns the pod, the pod's uid, and the number of container restarts.
    pods: BTreeMap<String, (String, String, u64)>,
    /// The uids, by kind and name.
    children: BTreeMap<String, String>,
    /// The id of the newest call.
    newest_call: u64,
}

impl Snapshot {
    /// The present state.
    pub fn now(kubectl: &Kubectl<'_>, localstack: &LocalStack<'_>) -> Result<Self> {
        let listed = |what: &str| -> Result<Value> {
            Ok(serde_json::from_str(&kubectl.run(&["-n", "default", "get", what, "-o", "json"])?)?)
        };
        let (pods, children) = (listed("pods")?, listed(CHILDREN)?);
        let newest_call = localstack.calls(0)?.last().and_then(|call| call["id"].as_u64()).unwrap_or_default();
        Ok(Self { pods: pods_of(&pods, &children), children: children_of(&children), newest_call })
    }

    /// The changes until `now`, in lines for the report. Pods of kinds in `may_roll` may be replaced, and AWS may get
    /// the calls in [`EDITS`].
    pub fn changes_until(&self, now: &Self, may_roll: &[String], localstack: &LocalStack<'_>) -> Result<Vec<String>> {
        let mut changes = self.replaced(now, may_roll);
        changes.extend(changed_in_aws(&localstack.calls(self.newest_call)?));
        Ok(changes)
    }

    fn replaced(&self, now: &Self, may_roll: &[String]) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, (kind, uid, restarts)) in &self.pods {
            if may_roll.iter().any(|it| it.eq_ignore_ascii_case(kind)) {
                continue;
            }
            match now.pods.get(name) {
                None => changes.push(format!("pod {name} of a {kind} is gone")),
                Some((_, other, _)) if other != uid => changes.push(format!("pod {name} of a {kind} is another one")),
                Some((_, _, more)) if more > restarts => {
                    changes.push(format!("a container of pod {name} of a {kind} was started again"));
                }
                Some(_) => {}
            }
        }
        for (child, uid) in &self.children {
            match now.children.get(child) {
                None => changes.push(format!("{child} is gone")),
                Some(other) if other != uid => changes.push(format!("{child} is another one")),
                Some(_) => {}
            }
        }
        changes
    }
}

/// Pods of our objects, except those of Jobs, which end.
fn pods_of(pods: &Value, children: &Value) -> BTreeMap<String, (String, String, u64)> {
    let owners: BTreeMap<String, String> = items(children)
        .filter(|child| child["kind"] == "StatefulSet")
        .filter_map(|set| Some((text(&set["metadata"]["name"]), owner(set)?.0)))
        .collect();
    items(pods)
        .filter_map(|pod| {
            let (kind, name) = owner(pod)?;
            let kind = match kind.as_str() {
                "Job" => return None,
                "StatefulSet" => owners.get(&name)?.clone(),
                _ => kind,
            };
            let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let restarts = containers.filter_map(|container| container["restartCount"].as_u64()).sum();
            Some((text(&pod["metadata"]["name"]), (kind, text(&pod["metadata"]["uid"]), restarts)))
        })
        .collect()
}

fn children_of(children: &Value) -> BTreeMap<String, String> {
    let named = |child: &Value| {
        (format!("{} {}", text(&child["kind"]), text(&child["metadata"]["name"])), text(&child["metadata"]["uid"]))
    };
    // Children of restores are left out, because they are deleted with their Jobs.
    items(children).filter(|child| owner(child).is_none_or(|(kind, _)| kind != "DatabaseRestore")).map(named).collect()
}

/// Kind and name of the first owner.
fn owner(object: &Value) -> Option<(String, String)> {
    let first = object["metadata"]["ownerReferences"].as_array()?.first()?;
    Some((text(&first["kind"]), text(&first["name"])))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Changes to balancers and their security groups, except [`EDITS`].
fn changed_in_aws(calls: &[Value]) -> BTreeSet<String> {
    let changes = calls.iter().filter(|call| ["elbv2", "ec2"].iter().any(|service| call["service"] == *service));
    let named = changes.map(|call| text(&call["operation"]));
    named
        .filter(|operation| !EDITS.contains(&operation.as_str()) && !operation.starts_with("Describe"))
        .map(|operation| format!("AWS was called for {operation}"))
        .collect()
}

impl LocalStack<'_> {
    /// The calls to AWS after the call `after`, oldest first.
    fn calls(&self, after: u64) -> Result<Vec<Value>> {
        let journal = self.get(&format!("/_causeway/journal?since={after}"))?;
        journal.as_array().cloned().context("the journal is no list")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str, owner: &str, restarts: u64) -> Value {
        json!({
            "metadata": { "name": name, "uid": uid, "ownerReferences": [{ "kind": owner, "name": "cache" }] },
            "status": { "containerStatuses": [{ "restartCount": restarts }] },
        })
    }

    fn snapshot(pods: &[Value], uid_of_service: &str) -> Snapshot {
        let owner = json!([{ "kind": "Redis", "name": "cache" }]);
        let children = json!({ "items": [
            { "kind": "StatefulSet", "metadata": { "name": "cache", "uid": "s", "ownerReferences": owner } },
            { "kind": "Service", "metadata": { "name": "cache", "uid": uid_of_service, "ownerReferences": owner } },
        ] });
        Snapshot {
            pods: pods_of(&json!({ "items": pods }), &children),
            children: children_of(&children),
            newest_call: 0,
        }
    }

    #[test]
    fn replaced_and_deleted_objects_are_reported_but_not_new_ones_or_those_that_may_roll() {
        let before = snapshot(
            &[
                pod("cache-0", "1", "StatefulSet", 0),
                pod("app", "2", "MyApp", 0),
                pod("old", "3", "MyApp", 0),
                pod("ill", "4", "MyApp", 1),
                pod("job", "5", "Job", 0),
            ],
            "1",
        );
        let now = snapshot(
            &[
                pod("cache-0", "6", "StatefulSet", 0),
                pod("cache-1", "7", "StatefulSet", 0),
                pod("app", "2", "MyApp", 0),
                pod("ill", "4", "MyApp", 2),
            ],
            "2",
        );
        let pods_of_apps = ["a container of pod ill of a MyApp was started again", "pod old of a MyApp is gone"];
        let changes = before.replaced(&now, &["redis".to_owned()]);
        assert_eq!(changes, [&pods_of_apps[..], &["Service cache is another one"]].concat());
        assert_eq!(before.replaced(&now, &[])[0], "pod cache-0 of a Redis is another one");
        assert!(before.replaced(&before, &[]).is_empty());
    }

    #[test]
    fn of_aws_only_changes_of_balancers_count() {
        let call = |service: &str, operation: &str| json!({ "service": service, "operation": operation });
        let calls = [
            call("elbv2", "DescribeLoadBalancers"),
            call("elbv2", "AddTags"),
            call("s3", "PutObject"),
            call("ec2", "AuthorizeSecurityGroupIngress"),
        ];
        let changes: Vec<_> = changed_in_aws(&calls).into_iter().collect();
        assert_eq!(changes, ["AWS was called for AuthorizeSecurityGroupIngress"]);
    }
}
