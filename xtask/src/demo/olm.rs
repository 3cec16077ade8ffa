//! The operator by its bundle for Operator Lifecycle Manager, as that would install it.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Local;
use super::install::{self, NAMESPACE};
use crate::chart::Helm;
use crate::olm::{self, installed::Mode};
use crate::progress::Step;
use crate::release;

/// What a Subscription says. MyApp needs nothing of AWS.
const VARIABLES: [(&str, &str); 3] = [("CLUSTER_NAME", "local"), ("AWS_REGION", "us-east-1"), ("KINDS", "MyApp")];

/// Installs an image `NAME@DIGEST` for some namespaces, then for all, and removes it. Each time a MyApp is served, and
/// `may_list_pods_of` says whether the operator has rights in a namespace.
pub fn live(
    local: &Local<'_>,
    helm: &Helm,
    image: &str,
    may_list_pods_of: impl Fn(&str, bool) -> Result<()>,
    step: &Step,
) -> Result<()> {
    let kubectl = &local.kubectl;
    let bundle = olm::bundle(helm, Some(image), &release::version()?)?;
    let served = ["default", "kube-public"];
    let modes = [(Mode::MultiNamespace(&served), "2", false), (Mode::AllNamespaces, "3", true)];
    for (mode, replicas, everywhere) in modes {
        step.note(format!("installing the bundle for {mode:?}"));
        let objects = olm::installed::objects(&bundle, NAMESPACE, mode, &VARIABLES)?;
        kubectl.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &documents(&objects)?)?;
        let rollout = ["-n", NAMESPACE, "rollout", "status", "deployment/causeway", "--timeout=180s"];
        kubectl.run(&rollout).with_context(|| install::what_happened(kubectl, NAMESPACE))?;
        may_list_pods_of("default", true)?;
        may_list_pods_of("kube-system", everywhere)?;
        kubectl.run(&["-n", "default", "scale", "myapp/example-app", &format!("--replicas={replicas}")])?;
        let ready = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
        kubectl
            .run(&["-n", "default", "wait", "myapp/example-app", &ready, "--timeout=120s"])
            .with_context(|| install::what_happened(kubectl, "default"))?;
    }
    let mut left: Vec<Value> = Vec::new();
    for (mode, ..) in modes {
        left.extend(olm::installed::objects(&bundle, NAMESPACE, mode, &VARIABLES)?);
    }
    left.retain(|object| object["kind"] != "Namespace");
    kubectl.feed(&["delete", "--ignore-not-found", "--wait", "-f", "-"], &documents(&left)?).map(drop)
}

fn documents(objects: &[Value]) -> Result<String> {
    let texts: Result<Vec<_>, _> = objects.iter().map(serde_saphyr::to_string).collect();
    Ok(texts.context("cannot write YAML")?.join("---\n"))
}
