//! What Lifecycle Manager creates from a bundle, for clusters without it.
//!
//! It creates the account and binds `permissions` in the operator's namespace and in those that the `OperatorGroup`
//! selects (in the whole cluster if it selects all). It binds `clusterPermissions` in the whole cluster. It writes the
//! selected namespaces into an annotation of the pod:
//! <https://olm.operatorframework.io/docs/advanced-tasks/operator-scoping-with-operatorgroups/>

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Files, PACKAGE, TARGETS};

/// The objects that run the operator of a bundle in the namespace `own`. `served` are the namespaces that the
/// `OperatorGroup` selects; empty means all. `variables` are those of the Subscription.
pub fn objects(files: &Files, own: &str, served: &[&str], variables: &[(&str, &str)]) -> Result<Vec<Value>> {
    let csv = files.get("manifests/causeway.clusterserviceversion.yaml").context("a bundle has a CSV")?;
    let csv: Value = serde_saphyr::from_str(csv).context("the CSV is no YAML")?;
    let install = &csv["spec"]["install"]["spec"];
    let account = json!({ "kind": "ServiceAccount", "name": PACKAGE, "namespace": own });
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": own } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": PACKAGE, "namespace": own } }),
    ];
    let mut everywhere = vec![("cluster", &install["clusterPermissions"][0]["rules"])];
    let within = &install["permissions"][0]["rules"];
    if served.is_empty() {
        everywhere.push(("served", within));
    } else {
        let namespaces: BTreeSet<&str> = served.iter().copied().chain([own]).collect();
        for namespace in namespaces {
            objects.extend(bound("Role", &format!("{own}-{PACKAGE}"), Some(namespace), within, &account));
        }
    }
    for (what, rules) in everywhere {
        objects.extend(bound("ClusterRole", &format!("{own}-{PACKAGE}-{what}"), None, rules, &account));
    }
    let beside = files.iter().filter(|(name, _)| name.starts_with("manifests/") && name.matches('.').count() == 2);
    for (name, text) in beside.filter(|(name, _)| !name.contains("clusterserviceversion")) {
        let mut object: Value = serde_saphyr::from_str(text).with_context(|| format!("{name} is no YAML"))?;
        if !name.ends_with(".clusterrole.yaml") {
            object["metadata"]["namespace"] = json!(own);
        }
        objects.push(object);
    }
    let given = &install["deployments"][0];
    let mut spec = given["spec"].clone();
    let template = &mut spec["template"];
    template["metadata"]["annotations"] = json!({ TARGETS: served.join(",") });
    let environment = template["spec"]["containers"][0]["env"].as_array_mut().context("the operator has options")?;
    environment.extend(variables.iter().map(|(name, value)| json!({ "name": name, "value": value })));
    objects.push(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": given["name"], "namespace": own, "labels": given["label"] },
        "spec": spec,
    }));
    Ok(objects)
}

/// A role and its binding.
fn bound(kind: &str, name: &str, namespace: Option<&str>, rules: &Value, account: &Value) -> [Value; 2] {
    let metadata = match namespace {
        Some(namespace) => json!({ "name": name, "namespace": namespace }),
        None => json!({ "name": name }),
    };
    let group = "rbac.authorization.k8s.io";
    [
        json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules }),
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": kind, "name": name },
            "subjects": [account],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "
spec:
  install:
    spec:
      permissions: [{ rules: [{ resources: [pods] }] }]
      clusterPermissions: [{ rules: [{ resources: [nodes] }] }]
      deployments: [{ name: causeway, spec: { template: { spec: { containers: [{ env: [] }] } } } }]
";

    /// The scopes in which rights to pods are bound, and the annotation.
    fn scope(served: &[&str]) -> (BTreeSet<String>, String) {
        let files = Files::from([("manifests/causeway.clusterserviceversion.yaml".to_owned(), CSV.to_owned())]);
        let objects = objects(&files, "ops", served, &[]).unwrap();
        let on_pods = objects.iter().filter(|it| it["rules"][0]["resources"] == json!(["pods"]));
        let place = |it: &Value| it["metadata"]["namespace"].as_str().unwrap_or("everywhere").to_owned();
        let deployment = objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let targets = deployment["spec"]["template"]["metadata"]["annotations"][TARGETS].as_str().unwrap().to_owned();
        (on_pods.map(place).collect(), targets)
    }

    #[test]
    fn every_install_mode_says_where_the_operator_has_rights_and_what_it_serves() {
        let sets = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        assert_eq!(scope(&["ops"]), (sets(&["ops"]), "ops".into()));
        assert_eq!(scope(&["shop"]), (sets(&["ops", "shop"]), "shop".into()));
        assert_eq!(scope(&["a", "b"]), (sets(&["a", "b", "ops"]), "a,b".into()));
        assert_eq!(scope(&[]), (sets(&["everywhere"]), String::new()));
    }
}
