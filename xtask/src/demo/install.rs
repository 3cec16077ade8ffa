//! Applies the operator and the examples in a cluster, and waits for them.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::kubectl::Kubectl;
use crate::host;
use crate::progress::Step;
pub const NAMESPACE: &str = "causeway-system";

/// Renders a kustomization, with the operator's image replaced by `reference`.
pub fn render(kubectl: &Kubectl<'_>, kustomization: &Path, image: &str, reference: &str) -> Result<String> {
    let rendered = kubectl.run(&["kustomize", &kustomization.display().to_string()])?;
    Ok(rendered.replace(&format!("image: {image}\n"), &format!("image: {reference}\n")))
}

/// Applies the operator's objects and waits until the new version of the Deployment runs.
pub fn operator(kubectl: &Kubectl<'_>, manifests: &str, step: &Step) -> Result<()> {
    step.note("applying CRDs, RBAC and the Deployment");
    kubectl.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests)?;
    let ours = "--selector=app.kubernetes.io/part-of=causeway";
    wait(kubectl, &["wait", "crd", ours, "--for=condition=Established", "--timeout=600s"], step)?;
    let rollout = ["-n", NAMESPACE, "rollout", "status", "deployment/causeway", "--timeout=600s"];
    wait(kubectl, &rollout, step).with_context(|| what_happened(kubectl, NAMESPACE))
}

/// Stops the operator; what it created stays.
pub fn stop(kubectl: &Kubectl<'_>) -> Result<()> {
    kubectl.run(&["-n", NAMESPACE, "scale", "deployment/causeway", "--replicas=0"]).map(drop)
}

/// Applies the examples unchanged.
pub fn examples(kubectl: &Kubectl<'_>) -> Result<()> {
    let examples = host::repo_root()?.join("examples");
    for file in ["myapp.yaml", "myingress.yaml", "web.yaml", "etcdcluster.yaml", "redis.yaml", "databasebackup.yaml"] {
        kubectl.run(&["-n", "default", "apply", "-f", &examples.join(file).display().to_string()])?;
    }
    Ok(())
}

/// Waits until the pods of the MyApp run.
pub fn pods_running(kubectl: &Kubectl<'_>, step: &Step) -> Result<()> {
    let ready = ["-n", "default", "wait", "myapp/example-app", "--for=condition=Ready", "--timeout=600s"];
    wait(kubectl, &ready, step).with_context(|| what_happened(kubectl, "default"))
}

/// Sets the number of pods of the MyApp, and waits until the operator has created them.
pub fn scaled(kubectl: &Kubectl<'_>, replicas: u8) -> Result<()> {
    kubectl.run(&["-n", "default", "scale", "myapp/example-app", &format!("--replicas={replicas}")])?;
    let ready = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
    kubectl
        .run(&["-n", "default", "wait", "myapp/example-app", &ready, "--timeout=600s"])
        .map(drop)
        .with_context(|| what_happened(kubectl, "default"))
}

/// Waits until every member of the EtcdCluster is healthy.
pub fn members_healthy(kubectl: &Kubectl<'_>, step: &Step) -> Result<()> {
    let ready = ["-n", "default", "wait", "etcdcluster/prod-etcd", "--for=condition=Ready", "--timeout=600s"];
    wait(kubectl, &ready, step).with_context(|| what_happened(kubectl, "default"))
}

/// Waits until the Redis has a master that all its replicas follow.
pub fn replicas_follow(kubectl: &Kubectl<'_>, step: &Step) -> Result<()> {
    let ready = ["-n", "default", "wait", "redises.example.com/cache", "--for=condition=Ready", "--timeout=600s"];
    wait(kubectl, &ready, step).with_context(|| what_happened(kubectl, "default"))
}

/// Waits until the MyIngress shows `field`, such as `alb.dns`, in its status.
pub fn balancer_shows(kubectl: &Kubectl<'_>, name: &str, field: &str, step: &Step) -> Result<()> {
    let (object, shown) = (format!("myingress/{name}"), format!("--for=jsonpath={{.status.{field}}}"));
    wait(kubectl, &["-n", "default", "wait", &object, &shown, "--timeout=600s"], step)
        .with_context(|| what_happened(kubectl, "default"))
}

/// Waits until every target of the MyIngress is healthy.
pub fn targets_healthy(kubectl: &Kubectl<'_>, name: &str, step: &Step) -> Result<()> {
    let object = format!("myingress/{name}");
    let healthy = ["-n", "default", "wait", &object, "--for=condition=TargetsHealthy", "--timeout=600s"];
    wait(kubectl, &healthy, step).with_context(|| what_happened(kubectl, "default"))
}

/// The DNS name of the MyIngress.
pub fn dns_name(kubectl: &Kubectl<'_>, name: &str) -> Result<String> {
    kubectl.run(&["-n", "default", "get", "myingress", name, "-o", "jsonpath={.status.alb.dns}"])
}

/// Returns the final overview: all objects and pods.
pub fn overview(kubectl: &Kubectl<'_>) -> Result<String> {
    kubectl.run(&[
        "-n",
        "default",
        "get",
        "myapps,myingresses,etcdclusters,redises,databasebackups,databaserestores,pods",
    ])
}

fn wait(kubectl: &Kubectl<'_>, arguments: &[&str], step: &Step) -> Result<()> {
    step.note(format!("kubectl {}", arguments.join(" ")));
    kubectl.run(arguments).map(drop)
}

/// Collects the output of the commands that a user would run first when something does not start.
pub fn what_happened(kubectl: &Kubectl<'_>, namespace: &str) -> String {
    let questions: [&[&str]; 3] = [
        &[
            "-n",
            namespace,
            "get",
            "pods,myapps,myingresses,etcdclusters,redises,databasebackups,databaserestores",
            "-o",
            "wide",
        ],
        &["-n", namespace, "events"],
        &["-n", NAMESPACE, "logs", "deployment/causeway", "--tail=20"],
    ];
    let mut report = String::from("it did not come up; this is what the cluster says:");
    for question in questions {
        let answer = kubectl.run(question).unwrap_or_else(|error| error.to_string());
        let _ = write!(report, "\n$ kubectl {}\n{}", question.join(" "), answer.trim_end());
    }
    report
}
