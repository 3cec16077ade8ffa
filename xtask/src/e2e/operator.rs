//! The installed operator: its options, its version, whether it is ready, and its plan for an object.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::aws::text;
use super::place::Named;
use crate::demo::install::NAMESPACE;
use crate::demo::kubectl::Kubectl;

/// The Deployment's name, both with the documented chart and with kustomize.
const DEPLOYMENT: &str = "deployment/causeway";

/// The options in the environment of its containers. Variables of a webhook, such as IRSA's, are not included.
pub fn options(kubectl: &Kubectl<'_>) -> Result<BTreeMap<String, String>> {
    let read = |what: &str| -> Result<Value> {
        Ok(serde_json::from_str(&kubectl.run(&["-n", NAMESPACE, "get", what, "-o", "json"])?)?)
    };
    let container = read(DEPLOYMENT)?["spec"]["template"]["spec"]["containers"][0].clone();
    let mut options = BTreeMap::new();
    for source in container["envFrom"].as_array().into_iter().flatten() {
        if let Some(name) = source["configMapRef"]["name"].as_str() {
            let map = read(&format!("configmap/{name}"))?;
            options
                .extend(map["data"].as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))));
        }
    }
    let own = container["env"].as_array().into_iter().flatten();
    options.extend(own.filter(|it| it["value"].is_string()).map(|it| (text(&it["name"]), text(&it["value"]))));
    Ok(options)
}

/// Fails unless the options match the cluster and region that the user named, and include the run's namespace.
pub fn must_be_of(options: &BTreeMap<String, String>, named: &Named) -> Result<()> {
    must_be_called(options, named)?;
    let option = |name: &str| options.get(name).map(String::as_str).filter(|value| !value.is_empty());
    // Without the option, the region is that of EKS's webhook or of the node.
    if let Some(region) = option("AWS_REGION").filter(|region| *region != named.region) {
        bail!("the operator's AWS_REGION is {region}, not {}", named.region);
    }
    if let Some(namespaces) = option("WATCH_NAMESPACE") {
        bail!("the operator serves the namespaces {namespaces} only, and the run makes one of its own");
    }
    Ok(())
}

/// Fails unless the operator uses the cluster name that the user gave.
pub fn must_be_called(options: &BTreeMap<String, String>, named: &Named) -> Result<()> {
    match options.get("CLUSTER_NAME") {
        Some(name) if *name == named.cluster => Ok(()),
        Some(other) => bail!("the operator's CLUSTER_NAME is {other}, not {}", named.cluster),
        None => bail!("the operator's CLUSTER_NAME is not set, and {} was named", named.cluster),
    }
}

/// The bucket of backups that name none themselves.
pub fn bucket(options: &BTreeMap<String, String>, named: &Named, account: &str) -> String {
    let given = options.get("BACKUP_BUCKET").filter(|bucket| !bucket.is_empty());
    given.cloned().unwrap_or_else(|| format!("causeway-{}-{account}-{}", named.cluster, named.region))
}

/// Fails unless a replica is ready.
pub fn must_be_ready(kubectl: &Kubectl<'_>) -> Result<()> {
    let numbers = "jsonpath={.status.readyReplicas} of {.spec.replicas}";
    let ready = kubectl.run(&["-n", NAMESPACE, "get", DEPLOYMENT, "-o", numbers])?;
    if ready.starts_with(' ') {
        bail!(
            "the operator is not running: 0{ready} replicas are ready (kubectl -n {NAMESPACE} rollout status {DEPLOYMENT})"
        );
    }
    Ok(())
}

/// The program's version.
pub fn version(kubectl: &Kubectl<'_>) -> Result<String> {
    Ok(kubectl.run(&["-n", NAMESPACE, "exec", DEPLOYMENT, "--", "causeway", "--version"])?.trim().to_owned())
}

/// The operator's plan for an object that does not exist yet, in one line. It runs `causeway plan` in the operator's
/// pod and with its rights.
pub fn plan(kubectl: &Kubectl<'_>, object: &Value) -> Result<String> {
    let arguments = ["-n", NAMESPACE, "exec", "-i", DEPLOYMENT, "--", "causeway", "plan", "-f", "-", "-o", "json"];
    let output = kubectl.output(&arguments, &object.to_string())?;
    let complained = String::from_utf8_lossy(&output.stderr);
    let plan: Value = serde_json::from_slice(&output.stdout).with_context(|| complained.trim().to_owned())?;
    // Exit code 2 means that there are changes.
    if output.status.code() != Some(2) {
        let object = &plan["objects"][0];
        bail!("causeway plan: {} {} {}", text(&object["result"]["message"]), object["checks"], complained.trim());
    }
    summary(&plan)
}

fn summary(plan: &Value) -> Result<String> {
    let object = plan["objects"].get(0).context("causeway plan names no object")?;
    let changes = object["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let aws = changes.iter().filter(|change| change["system"] == "aws").count();
    if aws == 0 {
        bail!("causeway plan finds nothing to do for a new object: {object}");
    }
    Ok(format!("causeway plan: {aws} calls of AWS would make the balancer"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> Named {
        Named { region: "eu-west-1".to_owned(), cluster: "prod".to_owned() }
    }

    fn options_of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_operator_is_the_one_that_was_named() {
        let said = |pairs: &[(&str, &str)]| must_be_of(&options_of(pairs), &names()).map_err(|it| it.to_string());
        assert_eq!(said(&[("CLUSTER_NAME", "prod"), ("AWS_REGION", "eu-west-1")]), Ok(()));
        assert_eq!(said(&[("CLUSTER_NAME", "prod")]), Ok(()));
        assert_eq!(said(&[("CLUSTER_NAME", "prod"), ("WATCH_NAMESPACE", "")]), Ok(()));
        for (pairs, wanted) in [
            (vec![], "CLUSTER_NAME is not set, and prod was named"),
            (vec![("CLUSTER_NAME", "stage")], "CLUSTER_NAME is stage, not prod"),
            (vec![("CLUSTER_NAME", "prod"), ("AWS_REGION", "us-east-1")], "AWS_REGION is us-east-1, not eu-west-1"),
            (vec![("CLUSTER_NAME", "prod"), ("WATCH_NAMESPACE", "shop")], "serves the namespaces shop only"),
        ] {
            let said = said(&pairs).unwrap_err();
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn backups_are_where_the_operator_keeps_them() {
        assert_eq!(bucket(&options_of(&[]), &names(), "111122223333"), "causeway-prod-111122223333-eu-west-1");
        assert_eq!(bucket(&options_of(&[("BACKUP_BUCKET", "b")]), &names(), "111122223333"), "b");
    }

    #[test]
    fn a_plan_is_one_line() {
        let plan = json!({ "objects": [{ "changes": [{ "system": "aws" }, { "system": "kubernetes" }] }] });
        assert_eq!(summary(&plan).unwrap(), "causeway plan: 1 calls of AWS would make the balancer");
        assert!(summary(&json!({ "objects": [{ "changes": [] }] })).is_err());
    }
}
