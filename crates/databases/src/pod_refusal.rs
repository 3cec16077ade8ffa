//! Asks the apiserver why a `StatefulSet`'s pod is not made: the controller reports that only in events, and tries again in
//! a back-off that grows to a quarter of an hour. A pod that is refused is asked for a second time as the last spec that
//! worked has it; and while pods of that spec are back, the spec that was refused is asked for again.
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set.go>

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::last_worked::{refused_template, revision_of, worked_template};
use super::pod_trouble::Unmade;

/// How long a pod must be missing before the apiserver is asked: if a pod can be made, that takes only moments.
const DRY_RUN_DELAY: Duration = Duration::from_secs(2);
/// How long an answer counts.
const HOLDS: Duration = Duration::from_secs(5);
/// How long to wait for the apiserver. If it is slower, it is asked again later.
const DEADLINE: Duration = Duration::from_secs(1);
/// A pod about which the apiserver was not asked for this long is forgotten.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// Pods that are missing, by the uid of their `StatefulSet`.
pub struct Refusals {
    client: Client,
    missing: Mutex<HashMap<String, Absence>>,
}

/// The state of a pod that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The apiserver refuses it.
    Refused(Unmade),
    /// The apiserver refused it before, and would take it now.
    Accepted(String),
    /// No pod is missing, and the apiserver would take those of the spec with that revision, which it refused before.
    SpecAccepted(String),
}

/// A pod that is missing.
#[derive(Clone)]
struct Absence {
    name: String,
    /// The revision that it would be made from.
    revision: String,
    since: Instant,
    asked: Option<(Instant, Answer)>,
    /// It was refused before.
    was_refused: bool,
}

/// The apiserver's answer to a pod.
#[derive(Clone)]
enum Answer {
    /// With these words; and whether it would take the pod as the last spec that worked has it.
    Refuses(String, bool),
    Takes,
    /// The answer says nothing about the pod.
    Unknown,
}

impl Refusals {
    /// Creates a memory of missing pods that asks through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, missing: Mutex::default() }
    }

    /// The first pod that has been missing for a while, if the apiserver would refuse it, or did so until now. `there` are the
    /// ordinals of all pods; while none is missing and no spec was refused, the apiserver is not asked.
    pub async fn look(&self, set: Option<&Value>, there: &BTreeSet<i32>) -> Option<Missing> {
        let set = set?;
        let metadata = &set["metadata"];
        let uid = metadata["uid"].as_str()?.to_owned();
        let absent = first_missing(set, there);
        let refused = if absent.is_none() { refused_template(set) } else { None };
        let (ordinal, template) = match (absent, refused, there.first()) {
            (Some(ordinal), ..) => (ordinal, set["spec"]["template"].clone()),
            (None, Some(template), Some(first)) => (*first, template),
            _ => {
                self.locked().remove(&uid);
                return None;
            }
        };
        let name = format!("{}-{ordinal}", metadata["name"].as_str()?);
        let revision = revision_of(&template).to_owned();
        let missing = {
            let mut all = self.locked();
            // No controller looks for pods of sets that are gone.
            all.retain(|_, it| it.asked.as_ref().map_or(it.since, |(at, _)| *at).elapsed() < FORGOTTEN);
            let begun = || Absence {
                name: name.clone(),
                revision: revision.clone(),
                since: Instant::now(),
                asked: None,
                was_refused: false,
            };
            let missing = all.entry(uid.clone()).or_insert_with(begun);
            if missing.name != name || missing.revision != revision {
                *missing = begun();
            }
            missing.clone()
        };
        let found = |answer, was_refused| match absent {
            Some(_) => conclude(name.clone(), answer, was_refused),
            None => matches!(answer, Answer::Takes).then(|| Missing::SpecAccepted(revision.clone())),
        };
        if let Some((_, answer)) = missing.asked.filter(|(at, _)| at.elapsed() < HOLDS) {
            return found(answer, false);
        }
        if absent.is_some() && missing.since.elapsed() < DRY_RUN_DELAY {
            return None;
        }
        let answer = self.ask(set, &name, &template).await;
        let mut was_refused = false;
        if let Some(missing) = self.locked().get_mut(&uid) {
            was_refused = missing.was_refused;
            missing.was_refused =
                matches!(answer, Answer::Refuses(..)) || (was_refused && matches!(answer, Answer::Unknown));
            missing.asked = Some((Instant::now(), answer.clone()));
        }
        found(answer, was_refused)
    }

    /// Asks whether the pod of that name would be refused; and if so, whether it would be without the last change of the spec.
    async fn ask(&self, set: &Value, name: &str, template: &Value) -> Answer {
        let namespace = set["metadata"]["namespace"].as_str().unwrap_or_default();
        let answer = self.try_pod(namespace, &pod(set, name, template)).await;
        let Answer::Refuses(words, _) = answer else { return answer };
        let Some(worked) = worked_template(set).filter(|worked| revision_of(worked) != revision_of(template)) else {
            return Answer::Refuses(words, false);
        };
        let before = self.try_pod(namespace, &pod(set, name, &worked)).await;
        Answer::Refuses(words, matches!(before, Answer::Takes))
    }

    /// Asks whether such a pod would be refused; nothing is made.
    /// <https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run>
    async fn try_pod(&self, namespace: &str, pod: &Value) -> Answer {
        let Ok(pod) = serde_json::from_value::<Pod>(pod.clone()) else { return Answer::Unknown };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        // A failover must not wait for an explanation.
        match timeout(DEADLINE, api.create(&parameters, &pod)).await {
            Ok(Ok(_)) => Answer::Takes,
            // The apiserver looks for the name after everything else.
            Ok(Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Answer::Takes,
            Ok(Err(kube::Error::Api(status))) if is_refusal(status.code, &status.message) => {
                Answer::Refuses(status.message.clone(), false)
            }
            _ => Answer::Unknown,
        }
    }

    fn locked(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Absence>> {
        self.missing.lock()
    }
}

/// Concludes from the answer to a pod that is missing.
fn conclude(name: String, answer: Answer, was_refused: bool) -> Option<Missing> {
    match answer {
        Answer::Refuses(words, worked_before) => Some(Missing::Refused(Unmade { name, words, worked_before })),
        Answer::Takes if was_refused => Some(Missing::Accepted(name)),
        Answer::Takes | Answer::Unknown => None,
    }
}

/// Reports whether the controller of `StatefulSet`s would get the same answer. That we may not make pods says nothing about it.
fn is_refusal(code: u16, message: &str) -> bool {
    match code {
        403 => !message.contains("cannot create resource"),
        400 | 422 => !message.contains("does not support dry run"),
        500 => message.contains("webhook"),
        _ => false,
    }
}

fn first_missing(set: &Value, there: &BTreeSet<i32>) -> Option<i32> {
    let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
    let first = number(&set["spec"]["ordinals"]["start"]).unwrap_or(0);
    let count = number(&set["spec"]["replicas"])?;
    (first..first.checked_add(count)?).find(|ordinal| !there.contains(ordinal))
}

/// The pod as the controller would make it from that template, as far as the apiserver could refuse it.
fn pod(set: &Value, name: &str, template: &Value) -> Value {
    let mut spec = template["spec"].clone();
    let claims = set["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.extend(claims.iter().map(|claim| {
        let volume = claim["metadata"]["name"].as_str().unwrap_or_default();
        json!({ "name": volume, "persistentVolumeClaim": { "claimName": format!("{volume}-{name}") } })
    }));
    spec["volumes"] = volumes.into();
    let (labels, annotations) = (&template["metadata"]["labels"], &template["metadata"]["annotations"]);
    let metadata = &set["metadata"];
    // The pod has the owner of the set, for admission policies that let the operator's account make no other pods.
    let owners = &metadata["ownerReferences"];
    json!({
        "metadata": { "name": name, "labels": labels, "annotations": annotations, "ownerReferences": owners }, "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Value {
        json!({
            "metadata": { "name": "db", "namespace": "shop", "uid": "1" },
            "spec": {
                "replicas": 2, "ordinals": { "start": 1 },
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [] } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
            },
        })
    }

    #[test]
    fn the_first_missing_pod_is_tried() {
        assert_eq!(first_missing(&set(), &BTreeSet::from([1])), Some(2));
        assert_eq!(first_missing(&set(), &BTreeSet::from([1, 2])), None);
        let pod = pod(&set(), "db-2", &set()["spec"]["template"]);
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-2");
        assert_eq!(pod["metadata"]["labels"]["a"], "b");
    }

    #[test]
    fn acceptance_is_reported_only_after_a_refusal() {
        assert_eq!(conclude("db-0".into(), Answer::Takes, false), None);
        assert_eq!(conclude("db-0".into(), Answer::Takes, true), Some(Missing::Accepted("db-0".into())));
        assert_eq!(conclude("db-0".into(), Answer::Unknown, true), None);
        assert!(matches!(
            conclude("db-0".into(), Answer::Refuses("quota".into(), false), true),
            Some(Missing::Refused(_))
        ));
    }

    #[test]
    fn what_says_nothing_of_the_pod_is_no_refusal() {
        assert!(is_refusal(403, "pods \"db-0\" is forbidden: no PriorityClass with name absent was found"));
        assert!(!is_refusal(403, "pods is forbidden: User \"x\" cannot create resource \"pods\" in API group \"\""));
        assert!(!is_refusal(400, "admission webhook \"x\" does not support dry run"));
        assert!(!is_refusal(409, "pods \"db-0\" already exists"));
        assert!(!is_refusal(500, "etcdserver: request timed out"));
    }
}
