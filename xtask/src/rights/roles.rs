//! The roles of the operator's account in `deploy/base`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chart::objects;
use crate::host;

/// Roles for others: users, and clients that read metrics.
const OF_OTHERS: [&str; 4] = ["causeway-admin", "causeway-edit", "causeway-metrics-reader", "causeway-view"];
#[derive(Clone, Debug)]
pub struct Role {
    pub name: String,
    /// True if it applies only in the operator's own namespace.
    pub own: bool,
    pub rules: Vec<Rule>,
}

/// One rule of it: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// One verb on one resource, possibly restricted to one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub verb: String,
    /// For example `pods/status` or `statefulsets.apps`.
    pub resource: String,
    /// The only object to which it applies.
    pub object: Option<String>,
    /// The role that grants it.
    pub role: String,
    /// True if it applies only in the operator's own namespace.
    pub own: bool,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        write!(f, "{} {}{object} ({})", self.verb, self.resource, self.role)
    }
}

/// A resource with its group, as in `statefulsets.apps`.
pub fn resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Role {
    /// All rights that it grants.
    pub fn grants(&self) -> BTreeSet<Grant> {
        let mut grants = BTreeSet::new();
        for rule in &self.rules {
            let objects: Vec<Option<String>> = match rule.resource_names.as_slice() {
                [] => vec![None],
                names => names.iter().cloned().map(Some).collect(),
            };
            for (group, name) in
                rule.api_groups.iter().flat_map(|group| rule.resources.iter().map(move |it| (group, it)))
            {
                for (verb, object) in rule.verbs.iter().flat_map(|verb| objects.iter().map(move |it| (verb, it))) {
                    grants.insert(Grant {
                        verb: verb.clone(),
                        resource: resource(group, name),
                        object: object.clone(),
                        role: self.name.clone(),
                        own: self.own,
                    });
                }
            }
        }
        grants
    }
}

/// The roles to which the operator's account is bound, by us or by users who let it read Secrets.
pub fn of_operator() -> Result<Vec<Role>> {
    let folder = host::repo_root()?.join("deploy/base");
    let mut roles = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for object in objects::parse(&text).with_context(|| path.display().to_string())?.values() {
            roles.extend(role(object).with_context(|| path.display().to_string())?);
        }
    }
    roles.sort_by(|one, other| one.name.cmp(&other.name));
    match roles.len() {
        0 => bail!("{} has no role of the operator", folder.display()),
        _ => Ok(roles),
    }
}

fn role(object: &Value) -> Result<Option<Role>> {
    let own = match object["kind"].as_str() {
        Some("Role") => true,
        Some("ClusterRole") => false,
        _ => return Ok(None),
    };
    let name = object["metadata"]["name"].as_str().context("a role has a name")?.to_owned();
    if OF_OTHERS.contains(&name.as_str()) {
        return Ok(None);
    }
    let rules = serde_json::from_value(object["rules"].clone()).with_context(|| format!("the rules of {name}"))?;
    Ok(Some(Role { name, own, rules }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_own_roles_are_found() {
        let roles = of_operator().unwrap();
        let names: Vec<_> = roles.iter().map(|role| (role.name.as_str(), role.own)).collect();
        let wanted = [
            ("causeway", false),
            ("causeway-backup-records", true),
            ("causeway-database-secrets", false),
            ("causeway-leader-election", true),
            ("causeway-secrets", false),
        ];
        assert_eq!(names, wanted);
        let leases: Vec<String> = roles[3].grants().iter().map(ToString::to_string).collect();
        assert!(
            leases.contains(&"update leases.coordination.k8s.io causeway-databases (causeway-leader-election)".into())
        );
        assert!(leases.contains(&"create leases.coordination.k8s.io (causeway-leader-election)".into()), "{leases:?}");
    }
}
