//! Installs the operator from its bundle, as Operator Lifecycle Manager would.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Local;
use super::install::{self, NAMESPACE};
use crate::chart::Helm;
use crate::olm;
use crate::progress::Step;
use crate::release;

/// The variables of the Subscription. MyApp does not use AWS.
const VARIABLES: [(&str, &str); 3] = [("CLUSTER_NAME", "local"), ("AWS_REGION", "us-east-1"), ("KINDS", "MyApp")];

/// Installs an image `NAME@DIGEST` for some namespaces, then for all, and removes it. Each time it checks that a MyApp
/// is served. `may_list_pods_of` checks the operator's rights in a namespace.
pub fn live(
    local: &Local<'_>,
    helm: &Helm,
    image: &str,
    may_list_pods_of: impl Fn(&str, bool) -> Result<()>,
    step: &Step,
) -> Result<()> {
    let kubectl = &local.kubectl;
    let bundle = olm::bundle(helm, Some(image), &release::version()?)?;
    let ways: [(&[&str], u8); 2] = [(&["default", "kube-public"], 2), (&[], 3)];
    let mut made: Vec<Value> = Vec::new();
    for (served, replicas) in ways {
        step.note(if served.is_empty() {
            "installing the bundle for all namespaces"
        } else {
            "installing the bundle for two"
        });
        let objects = olm::installed::objects(&bundle, NAMESPACE, served, &VARIABLES)?;
        kubectl.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &documents(&objects)?)?;
        let rollout = ["-n", NAMESPACE, "rollout", "status", "deployment/causeway", "--timeout=600s"];
        kubectl.run(&rollout).with_context(|| install::what_happened(kubectl, NAMESPACE))?;
        may_list_pods_of("default", true)?;
        may_list_pods_of("kube-system", served.is_empty())?;
        install::scaled(kubectl, replicas)?;
        made.extend(objects);
    }
    made.retain(|object| object["kind"] != "Namespace");
    kubectl.feed(&["delete", "--ignore-not-found", "--wait", "-f", "-"], &documents(&made)?).map(drop)
}

fn documents(objects: &[Value]) -> Result<String> {
    let texts: Result<Vec<_>, _> = objects.iter().map(serde_saphyr::to_string).collect();
    Ok(texts.context("cannot write YAML")?.join("---\n"))
}
