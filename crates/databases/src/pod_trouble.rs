//! Explains why a pod of a database does not run: in Kubernetes' own words, and with the field of the spec that can fix it.
//! Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// The words of a pod's status about its trouble, besides the one word for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The container that is in trouble, where it is not the database's own.
    pub container: Option<String>,
    /// The image of the container in trouble.
    pub image: Option<String>,
    /// Kubernetes' own words.
    pub words: Option<String>,
    /// The node that it is on.
    pub node: Option<String>,
    /// How the container ended last.
    pub death: Option<Death>,
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It took more memory than it may.
    OutOfMemory,
    /// With that exit code.
    Exit(i32),
}

/// A pod that is not made because the apiserver refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmade {
    /// The name of the pod.
    pub name: String,
    /// In the apiserver's words.
    pub words: String,
    /// The apiserver would take it as the last spec that worked has it.
    pub worked_before: bool,
}

/// Which fields of a kind decide about its pods.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// The image of the database itself.
    pub image: &'static str,
    /// Containers beside it, and the field that each comes from.
    pub others: &'static [(&'static str, &'static str)],
    /// Which pods may share a node.
    pub apart: &'static str,
    /// Where volumes come from.
    pub storage: &'static str,
}

/// The kubelet's or scheduler's word for why a pod does not run, with the evidence. A container of the database that fails is
/// looked at first; then init containers, because all others wait for them; then the container of the database that
/// waits; then the others.
pub fn read(pod: &Pod, database: &str) -> (Option<String>, Evidence) {
    let status = pod.status.as_ref();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let first = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let all = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(|container| container.name == database);
    let is_in_trouble = |container: &&ContainerStatus| {
        waiting(container).is_some_and(|word| word != "PodInitializing" && word != "ContainerCreating")
    };
    let before = first.iter().find(|container| waiting(container).is_some_and(|word| word != "PodInitializing"));
    let fails = own.iter().copied().find(is_in_trouble);
    let own = own.into_iter().find(|container| waiting(container).is_some());
    let others = || others.into_iter().find(is_in_trouble);
    if let Some(container) = fails.or(before).or(own).or_else(others) {
        let evidence = Evidence {
            container: Some(container.name.clone()).filter(|name| name != database),
            image: image_of(pod, &container.name),
            words: words_of(container),
            node,
            death: death_of(container),
        };
        return (waiting(container).map(str::to_owned), evidence);
    }
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let unscheduled = conditions.iter().find(|it| it.type_ == "PodScheduled" && it.status == "False");
    let words = unscheduled.and_then(|it| it.message.clone());
    (unscheduled.and_then(|it| it.reason.clone()), Evidence { words, node, ..Evidence::default() })
}

/// The kubelet's message about what keeps a container from being started. Its other messages change at every try.
fn words_of(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let lasting = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError", "InvalidImageName"];
    waiting.message.clone().filter(|_| waiting.reason.as_deref().is_some_and(|reason| lasting.contains(&reason)))
}

fn death_of(container: &ContainerStatus) -> Option<Death> {
    let ended = container.last_state.as_ref()?.terminated.as_ref()?;
    Some(if ended.reason.as_deref() == Some("OOMKilled") { Death::OutOfMemory } else { Death::Exit(ended.exit_code) })
}

fn waiting(container: &ContainerStatus) -> Option<&str> {
    container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// The image as the spec names it: the status may have another name for it.
fn image_of(pod: &Pod, container: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.find(|it| it.name == container)?.image.clone()
}

impl Fields {
    /// Reason and sentence for an image that cannot be pulled, a pod without a node, and a container beside the database that
    /// does not stay up; `None` for all else. The words do not change at every try.
    pub fn describe(&self, pod: &str, word: &str, evidence: &Evidence) -> Option<(&'static str, String)> {
        let container = evidence.container.as_deref();
        let field = container.map(|name| self.others.iter().find(|(other, _)| *other == name).map(|(_, field)| *field));
        match word {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                let image = evidence.image.as_ref().map_or_else(|| "its image".into(), |name| format!("image {name}"));
                let describe = match (container, field) {
                    (Some(name), Some(Some(field))) => {
                        format!("pod {pod} cannot pull {image} of its container {name}: check {field}.image")
                    }
                    (Some(name), _) => format!(
                        "pod {pod} cannot pull {image} of its container {name}, which Causeway did not add: see kubectl describe \
                         pod {pod}"
                    ),
                    (None, _) => format!("pod {pod} cannot pull {image}: check {}", self.image),
                };
                Some(("ImagePullFailed", describe))
            }
            "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => {
                let name = container?;
                let Some(Some(field)) = field else {
                    return Some(("ContainerCrashing", describe_foreign(pod, name, evidence)));
                };
                let describe = format!(
                    "container {name} of pod {pod} does not stay up: check {field}, and see kubectl logs {pod} -c {name}"
                );
                Some(("ContainerCrashing", describe))
            }
            "Unschedulable" => {
                let Some(words) = &evidence.words else {
                    return Some((
                        "Unschedulable",
                        format!("pod {pod} fits on no node: see kubectl describe pod {pod}"),
                    ));
                };
                // The rest is about preemption.
                let words = words.split(" preemption:").next().unwrap_or(words).trim_end_matches(['.', ' ']);
                let fields = self.that_place(words);
                let fix = if fields.is_empty() {
                    format!("see kubectl describe pod {pod}")
                } else {
                    format!("check {}", fields.join(", "))
                };
                Some(("Unschedulable", format!("pod {pod} fits on no node: {words}: {fix}")))
            }
            _ => None,
        }
    }

    /// Describes a database's container that does not stay up: where it is, how it ended, what it said last, and what to do.
    /// The words do not change at every try.
    pub fn crash(&self, pod: &str, evidence: &Evidence, api_message: Option<&str>) -> String {
        let place = evidence.node.as_ref().map_or_else(String::new, |node| format!(" on node {node}"));
        if let Some(words) = &evidence.words {
            return format!("pod {pod}{place} cannot be started: {words}: see kubectl describe pod {pod}");
        }
        let code = match evidence.death {
            Some(Death::OutOfMemory) => {
                return format!(
                    "pod {pod}{place} takes more memory than it may (OOMKilled): raise spec.resources.limits.memory"
                );
            }
            Some(Death::Exit(code)) => format!(" (exit code {code})"),
            None => String::new(),
        };
        let api_message = api_message.map_or_else(String::new, |api_message| format!(": it said \"{api_message}\""));
        format!(
            "pod {pod}{place} does not stay up{code}{api_message}. Check {} and spec.config; kubectl logs {pod} --previous has all \
             that it said",
            self.image
        )
    }

    /// Fields that the scheduler's words are about.
    /// <https://github.com/kubernetes/kubernetes/tree/v1.34.0/pkg/scheduler/framework/plugins>
    fn that_place(&self, words: &str) -> Vec<&'static str> {
        let all = [
            ("node affinity/selector", "spec.nodeSelector and spec.affinity"),
            ("untolerated taint", "spec.tolerations"),
            ("pod affinity rules", "spec.affinity"),
            ("anti-affinity rules", self.apart),
            ("topology spread constraints", "spec.topologySpreadConstraints"),
            ("Insufficient", "spec.resources"),
            ("PersistentVolumeClaim", self.storage),
            ("persistent volumes", self.storage),
            ("volume node affinity", self.storage),
        ];
        let mut fields: Vec<&'static str> = Vec::new();
        for (_, field) in all.into_iter().filter(|(part, _)| words.contains(part)) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    }
}

/// A container that fails and that the spec does not name, such as one that a webhook injects.
fn describe_foreign(pod: &str, name: &str, evidence: &Evidence) -> String {
    let container = format!("container {name} of pod {pod}, which Causeway did not add,");
    if let Some(words) = &evidence.words {
        return format!("{container} cannot be started: {words}: see kubectl describe pod {pod}");
    }
    let end = match evidence.death {
        Some(Death::OutOfMemory) => " (OOMKilled)".to_owned(),
        Some(Death::Exit(code)) => format!(" (exit code {code})"),
        None => String::new(),
    };
    format!("{container} does not stay up{end}: see kubectl logs {pod} -c {name} --previous")
}

impl Unmade {
    /// Returns a reason, and a sentence about the refusal.
    pub fn describe(&self) -> (&'static str, String) {
        let Self { name, words, .. } = self;
        let fix = match words.as_str() {
            words if words.contains("PriorityClass") => "check spec.priorityClassName",
            words if words.contains("exceeded quota") || words.contains("failed quota") => {
                "check spec.resources, or raise the ResourceQuota of the namespace"
            }
            words if words.contains("usage per") || words.contains("limit to request ratio") => {
                "check spec.resources, or change the LimitRange of the namespace"
            }
            words if words.contains("PodSecurity") => {
                "let the namespace's label pod-security.kubernetes.io/enforce allow it"
            }
            words if words.contains("webhook") => "mend that webhook, or what it asks for",
            _ => "correct what it names",
        };
        ("PodRefused", format!("pod {name} cannot be made: {words}: {fix}"))
    }
}

/// Adds a pod's trouble to a complaint about `spec.config`: a person who corrects only the one would meet the other next.
pub fn beside((reason, text): Cause, trouble: Option<Cause>) -> Cause {
    match trouble {
        Some((_, pod)) if reason == "ConfigInvalid" && !text.contains(&pod) => {
            (reason, format!("{text}. Besides, {pod}"))
        }
        _ => (reason, text),
    }
}

/// Reason and message.
type Cause = (&'static str, String);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FIELDS: Fields = Fields {
        image: "spec.version and spec.image",
        others: &[("exporter", "spec.exporter")],
        apart: "spec.spread and spec.affinity",
        storage: "spec.storage",
    };

    fn describe(status: &Value) -> Option<(&'static str, String)> {
        let containers = json!([{ "name": "redis", "image": "redis:9" }, { "name": "exporter", "image": "e:1" }]);
        let pod = json!({ "metadata": {}, "spec": { "containers": containers }, "status": status });
        let (word, evidence) = read(&serde_json::from_value(pod).expect("a pod"), "redis");
        FIELDS.describe("cache-0", &word?, &evidence)
    }

    fn waits(container: &str, word: &str) -> Value {
        json!({ "name": container, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": word } } })
    }

    #[test]
    fn a_failed_image_pull_is_reported_with_its_field() {
        let own =
            describe(&json!({ "containerStatuses": [waits("exporter", "X"), waits("redis", "ImagePullBackOff")] }));
        let words = "pod cache-0 cannot pull image redis:9: check spec.version and spec.image";
        assert_eq!(own, Some(("ImagePullFailed", words.into())));
        let beside = describe(&json!({ "containerStatuses": [waits("exporter", "InvalidImageName")] }));
        let words = "pod cache-0 cannot pull image e:1 of its container exporter: check spec.exporter.image";
        assert_eq!(beside, Some(("ImagePullFailed", words.into())));
        let injected = describe(&json!({ "containerStatuses": [waits("mesh", "ErrImagePull")] }));
        assert!(injected.is_some_and(|(_, describe)| describe.contains("Causeway did not add")));
        let starts = describe(&json!({ "containerStatuses": [waits("exporter", "ContainerCreating")] }));
        assert_eq!(starts, None);
    }

    #[test]
    fn a_crashing_container_is_reported_with_the_remedy() {
        let crash = |state: &Value, last: &Value| {
            let container = json!({ "name": "redis", "image": "", "imageID": "", "ready": false, "restartCount": 3,
                "state": { "waiting": state }, "lastState": { "terminated": last } });
            let pod = json!({ "metadata": {}, "spec": { "nodeName": "n2", "containers": [] },
                "status": { "containerStatuses": [container] } });
            let (word, evidence) = read(&serde_json::from_value(pod).expect("a pod"), "redis");
            assert!(word.is_some());
            FIELDS.crash("cache-0", &evidence, Some("Fatal error"))
        };
        let looping = json!({ "reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container" });
        assert_eq!(
            crash(&looping, &json!({ "exitCode": 1, "reason": "Error" })),
            "pod cache-0 on node n2 does not stay up (exit code 1): it said \"Fatal error\". Check spec.version and \
             spec.image and spec.config; kubectl logs cache-0 --previous has all that it said"
        );
        let memory = crash(&looping, &json!({ "exitCode": 137, "reason": "OOMKilled" }));
        assert!(memory.ends_with("raise spec.resources.limits.memory"), "{memory}");
        let lacks = json!({ "reason": "CreateContainerConfigError", "message": "secret \"own\" not found" });
        let describe = crash(&lacks, &json!({ "exitCode": 0 }));
        assert!(describe.contains("cannot be started: secret \"own\" not found"), "{describe}");
    }

    #[test]
    fn a_foreign_container_that_crashes_is_named_with_its_logs() {
        let crashes = |name: &str| {
            let mut container = waits(name, "CrashLoopBackOff");
            container["lastState"] = json!({ "terminated": { "exitCode": 3 } });
            container
        };
        let runs = json!({ "name": "redis", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": {} } });
        let words = "container mesh of pod cache-0, which Causeway did not add, does not stay up (exit code 3): see kubectl logs \
                     cache-0 -c mesh --previous";
        let expected = Some(("ContainerCrashing", words.to_owned()));
        assert_eq!(describe(&json!({ "containerStatuses": [runs, crashes("mesh")] })), expected);
        let beside = json!({ "initContainerStatuses": [crashes("mesh")], "containerStatuses": [runs] });
        assert_eq!(describe(&beside), expected, "as a native sidecar");
        let before = json!({ "initContainerStatuses": [crashes("mesh")],
            "containerStatuses": [waits("redis", "PodInitializing")] });
        assert_eq!(describe(&before), expected, "the database waits for it");
        let own = json!({ "initContainerStatuses": [crashes("mesh")], "containerStatuses": [crashes("redis")] });
        assert_eq!(describe(&own), None, "the database itself fails, too");
        let mut lacks = waits("mesh", "CreateContainerConfigError");
        lacks["state"]["waiting"]["message"] = "secret \"own\" not found".into();
        let (_, message) = describe(&json!({ "containerStatuses": [runs, lacks] })).expect("words");
        assert!(message.contains("secret \"own\" not found"), "{message}");
    }

    #[test]
    fn an_unscheduled_pod_is_reported_with_its_fields() {
        let status = |message: &str| {
            json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": message }] })
        };
        let preempts = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        let (reason, words) = describe(&status(&format!(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. {preempts}"
        )))
        .expect("words");
        assert_eq!(reason, "Unschedulable");
        assert_eq!(
            words,
            "pod cache-0 fits on no node: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node \
             affinity/selector: check spec.nodeSelector and spec.affinity, spec.resources"
        );
        let (_, apart) = describe(&status("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."))
            .expect("words");
        assert!(apart.ends_with("check spec.spread and spec.affinity"), "{apart}");
        let (_, strange) = describe(&status("something new")).expect("words");
        assert!(strange.ends_with("see kubectl describe pod cache-0"), "{strange}");
    }

    #[test]
    fn a_pod_that_is_refused_is_reported_with_its_field() {
        let describe = |words: &str| {
            let refused = Unmade { name: "db-0".into(), words: words.into(), worked_before: false };
            refused.describe().1
        };
        let class = describe("pods \"db-0\" is forbidden: no PriorityClass with name absent was found");
        assert!(
            class.contains("no PriorityClass with name absent") && class.contains("spec.priorityClassName"),
            "{class}"
        );
        assert!(describe("exceeded quota: small, requested: cpu=1").contains("spec.resources"));
        assert!(describe("violates PodSecurity \"restricted\"").contains("pod-security.kubernetes.io/enforce"));
    }
}
