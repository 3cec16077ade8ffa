//! `MyApp`: pods that print a banner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::conditioned;

/// A set of identical pods that print a banner and then wait, or run a command.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "demo.rtfm.co.ua",
    version = "v1",
    kind = "MyApp",
    plural = "myapps",
    shortname = "ma",
    category = "causeway",
    namespaced,
    status = "MyAppStatus",
    doc = "Pods that print a banner. The first is called `<name>-pod`, the next `<name>-pod-1`, and so on.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 56", "metadata.name must have at most 56 characters: pods are called <name>-pod-99")
)]
#[serde(rename_all = "camelCase")]
pub struct MyAppSpec {
    /// Container image of the pods, such as `busybox:1.37`. It must have a shell at `/bin/sh`. A pod requests 10m CPU
    /// and 16Mi memory, and its memory limit is 256Mi.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = (r"!self.matches('\\s')", "spec.image must not contain white space: write it as registry/name:tag"))]
    pub image: String,

    /// Text that each pod prints to its log when it starts, such as `Hello`. It is passed to the container as data, and
    /// never executed or expanded.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    #[x_kube(validation = (r"!self.contains('\u0000')", "spec.banner must not contain a NUL character: remove it"))]
    pub banner: String,

    /// Number of pods: 0 to 100, 1 unless given.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,

    /// Program and arguments that run after the banner was printed, such as `["sleep", "60"]`. Left out, the pods wait
    /// until they are stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,

    /// Stops all changes except deletion; `false` unless given. The pods keep running as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

fn one() -> i32 {
    1
}

/// Observed state of the pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MyAppStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Number of pods that exist.
    #[serde(default)]
    pub replicas: i32,

    /// Number of pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Number of pods with the current image, banner and command.
    #[serde(default)]
    pub updated_replicas: i32,

    /// Label selector of the pods, for the scale subresource and autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// `Ready` always; `Reconciling` and `Stalled` only while abnormal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

conditioned!(MyAppStatus, []);
