//! Builds the pods. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Capabilities, Container, EnvVar, Pod, PodSpec, SecurityContext};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use causeway_api::MyApp;
use causeway_runtime::{fingerprint, requirements, restricted_context};

/// Label by which an object's pods are found.
pub const APP_LABEL: &str = "causeway.example.com/app";
/// Annotation with the hash of what a pod was made from.
pub const REVISION: &str = "causeway.example.com/revision";
/// Annotation with the image that a pod was admitted with, if a webhook changed it.
pub const ADMITTED: &str = "causeway.example.com/admitted-image";
/// Name of the pods' container.
pub const CONTAINER: &str = "app";

/// Prints the banner from the environment, so it is never parsed as shell code. Then it runs the command, or waits.
/// A shell that is the first process of a container ignores every signal without a trap. Images choose the signal that
/// stops them: nginx SIGQUIT, httpd SIGWINCH, haproxy SIGUSR1.
const SCRIPT: &str = r#"printf '%s\n' "$BANNER"
if [ "$#" -gt 0 ]; then exec "$@"; fi
trap 'exit 0' TERM INT QUIT HUP USR1 USR2 WINCH
while :; do sleep 3600 & wait "$!"; done"#;

/// Pods that have not stopped after this many seconds are killed.
const STOP_SECONDS: i64 = 2;
/// An unprivileged user that owns no files in any image.
const USER: i64 = 65_532;
/// The memory limit of a pod, whatever its image is.
const MOST_MEMORY: &str = "256Mi";

/// Name of the pod with that index: `<name>-pod`, `<name>-pod-1`, …
pub fn pod_name(object: &MyApp, index: i32) -> String {
    match index {
        0 => format!("{}-pod", object.name_any()),
        _ => format!("{}-pod-{index}", object.name_any()),
    }
}

/// Label selector of the object's pods.
pub fn selector(object: &MyApp) -> String {
    format!("{APP_LABEL}={}", object.name_any())
}

/// Labels of the object's pods.
pub fn labels(object: &MyApp) -> BTreeMap<String, String> {
    BTreeMap::from([
        (APP_LABEL.into(), object.name_any()),
        ("app.kubernetes.io/name".into(), object.name_any()),
        ("app.kubernetes.io/managed-by".into(), "causeway".into()),
    ])
}

/// Hashes what the pods are made from. Pods with another revision are replaced.
pub fn revision(object: &MyApp) -> String {
    // A struct of strings and numbers cannot fail to serialize.
    let text = serde_json::to_vec(&pod_spec(object)).unwrap_or_default();
    fingerprint(&[&text], 16)
}

/// The pod with that index.
pub fn pod(object: &MyApp, index: i32) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(pod_name(object, index)),
            namespace: object.namespace(),
            labels: Some(labels(object)),
            annotations: Some(BTreeMap::from([(REVISION.into(), revision(object))])),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(object)),
        status: None,
    }
}

/// The image of a pod's container.
pub fn image_of(pod: &Pod) -> Option<&str> {
    let container = pod.spec.as_ref()?.containers.iter().find(|container| container.name == CONTAINER)?;
    container.image.as_deref()
}

/// Restricted by Kubernetes' Pod Security Standards.
/// <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
fn pod_spec(object: &MyApp) -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(STOP_SECONDS),
        security_context: Some(restricted_context(USER)),
        containers: vec![Container {
            name: CONTAINER.into(),
            image: Some(object.spec.image.clone()),
            command: Some(["/bin/sh", "-c", SCRIPT, "sh"].map(String::from).to_vec()),
            args: (!object.spec.command.is_empty()).then(|| object.spec.command.clone()),
            env: Some(vec![EnvVar {
                name: "BANNER".into(),
                value: Some(literal(&object.spec.banner)),
                value_from: None,
            }]),
            resources: Some(requirements(None, ("10m", "16Mi"), MOST_MEMORY)),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".into()]) }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

/// Keeps the kubelet from expanding `$(…)` in an environment value.
/// <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::MyAppSpec;

    fn app(name: &str, banner: &str) -> MyApp {
        let mut app = MyApp::new(
            name,
            MyAppSpec {
                image: "nginx:latest".into(),
                banner: banner.into(),
                replicas: 3,
                command: Vec::new(),
                suspend: false,
            },
        );
        app.metadata.namespace = Some("default".into());
        app.metadata.uid = Some("uid-1".into());
        app
    }

    #[test]
    fn pods_are_named_after_the_object() {
        let names: Vec<String> = (0..3).map(|index| pod_name(&app("example-app", ""), index)).collect();
        assert_eq!(names, ["example-app-pod", "example-app-pod-1", "example-app-pod-2"]);
    }

    #[test]
    fn the_banner_is_data() {
        let banner = "\"; rm -rf / $(HOME) `id` $BANNER\n'";
        let pod = pod(&app("x", banner), 0);
        let container = &pod.spec.unwrap().containers[0];
        assert_eq!(container.command.as_ref().unwrap()[2], SCRIPT);
        let value = container.env.as_ref().unwrap()[0].value.clone().unwrap();
        assert_eq!(value.replace("$$", "$"), banner);
        assert!(!value.replace("$$", "").contains('$'));
    }

    #[test]
    fn the_revision_follows_image_banner_and_command_but_not_replicas() {
        let base = app("x", "hello");
        let mut scaled = base.clone();
        scaled.spec.replicas = 9;
        assert_eq!(revision(&base), revision(&scaled));
        let mut commanded = base.clone();
        commanded.spec.command = vec!["sleep".into(), "1".into()];
        let mut other_image = base.clone();
        other_image.spec.image = "nginx:1".into();
        for changed in [app("x", "bye"), commanded, other_image] {
            assert_ne!(revision(&base), revision(&changed));
        }
    }

    #[test]
    fn every_container_has_a_limit_of_memory() {
        assert_eq!(causeway_runtime::without_memory(&pod_spec(&app("x", ""))), [""; 0]);
    }

    #[test]
    fn the_pod_stays_as_it_was_reviewed() {
        insta::assert_yaml_snapshot!(pod(&app("example-app", "This pod was created by MyApp operator 🚀"), 1));
    }
}
