//! The last spec that worked: pods that are lost while the present spec brings up none are made from it again. Pure.
//!
//! Kubernetes makes every pod from the template of the `StatefulSet`. When a spec changes that, the template that worked goes
//! into an annotation. Until a pod of the present spec has worked (`status.provenRevision`), two things use it:
//!
//! - While a pod of the present spec does not start, the `StatefulSet` has the template that worked: a pod that is lost
//!   meanwhile comes back. The one that does not start is left alone. As soon as it works, the present template is back.
//! - If no pod is left that could serve, as with a single node, the pods that never started are made again from the
//!   template that worked. Another annotation notes the spec that failed, which is not tried again before it changes or
//!   `kubectl rollout restart` asks for it.
//! - While the spec cannot be accepted at all, pods of an earlier edit that never started come back from the template that
//!   worked.
//! - If the apiserver refuses a pod of the present spec, and would take it as the template that worked has it, the pod is
//!   made from that. The spec is noted as one that failed: no pod is left that would show it. The apiserver is asked again.

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use causeway_runtime::fingerprint;
use causeway_runtime::manifest::{Manifest, hash_annotation};

use super::names::{RESTARTED, REVISION};
use super::{Child, ChildAction, Pod, Set, Step};

/// Annotation of a `StatefulSet`: the pods' template of the last spec that worked.
const WORKED: &str = "causeway.example.com/last-worked";
/// Annotation of a `StatefulSet`: the spec that brought up no pod ([`Failure`]).
const FAILED: &str = "causeway.example.com/failed";
/// The reason while pods of the last spec that worked are back.
const BROUGHT_BACK: &str = "BroughtBack";
/// How long a pod may wait for a node: machines that are added for it take minutes.
const FOR_A_NODE: SignedDuration = SignedDuration::from_mins(5);
/// Words for a pod that is on its way.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// The field that the apiserver writes itself.
const VOLATILE: &str = "creationTimestamp";

/// A spec that brought up no pod.
#[derive(Deserialize, Serialize)]
struct Failure {
    /// The revision of its pods.
    revision: String,
    /// The restart that was asked for last.
    restarted: Option<String>,
    /// The reason why they did not start.
    message: String,
    /// The template that they would be made from, where the apiserver refuses them: it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<Value>,
}

/// A kind's view of its pods.
pub struct Present<'a, N> {
    /// Reports whether a pod was made from an earlier spec.
    pub is_outdated: &'a dyn Fn(&Pod<N>) -> bool,
    /// Reports whether no process of a pod has come as far as its data.
    pub is_untouched: &'a dyn Fn(&Pod<N>) -> bool,
    /// Reports whether a pod does not start because of its data.
    pub has_bad_data: &'a dyn Fn(&Pod<N>) -> bool,
    /// The last revision of which a pod has worked.
    pub proven: Option<&'a str>,
    /// The time of the decision.
    pub now: Timestamp,
}

impl<N> Set<N> {
    /// The `StatefulSet` that is wanted, with the template from which missing pods are to be made. `trouble` says why the
    /// pods do not start.
    pub fn with_last_worked(&self, wanted: Manifest, present: &Present<'_, N>, trouble: Option<String>) -> Manifest {
        let Some(live) = self.child("StatefulSet", wanted.name()).filter(|live| live.ours) else { return wanted };
        let revision = revision_of(&wanted.value["spec"]["template"]).to_owned();
        let Some(worked) = self.last_worked_template(live, &revision, present) else { return wanted };
        let is_new = present.proven != Some(&revision);
        let refused = self.refusal(live, &revision).filter(|_| is_new && !self.is_proven(present.is_outdated));
        let mut wanted = wanted;
        let template = refused.is_some().then(|| wanted.value["spec"]["template"].clone());
        let trouble = trouble.filter(|_| is_new && self.brings_up_nothing(present));
        let failure = refused.or(trouble).map(|message| Failure {
            revision,
            restarted: restart_of(live).map(str::to_owned),
            message,
            template,
        });
        wanted.value["metadata"]["annotations"][WORKED] = worked.to_string().into();
        if failure.is_some() || (is_new && self.is_held(live, &worked, present)) {
            wanted.value["spec"]["template"] = worked;
        }
        if let Some(note) = failure.and_then(|failure| serde_json::to_string(&failure).ok()) {
            wanted.value["metadata"]["annotations"][FAILED] = note.into();
        }
        hashed(wanted)
    }

    /// The `StatefulSet` with the template that worked, while no pod of the template that it has now starts: pods of an earlier
    /// edit would wait for the end of an unrelated mistake. `wanted` returns the one that the spec asks for. If `only` is given,
    /// the template that worked must be of that revision.
    pub fn with_template_that_worked(
        &self,
        wanted: impl FnOnce() -> Manifest,
        present: &Present<'_, N>,
        only: Option<&str>,
    ) -> Option<Manifest> {
        let (_, live) = self.children.iter().find(|((kind, _), live)| kind == "StatefulSet" && live.ours)?;
        let of_live = revision_of(&live.value["spec"]["template"]);
        let worked = worked_template(&live.value).filter(|worked| revision_of(worked) != of_live)?;
        if only.is_some_and(|only| only != revision_of(&worked)) {
            return None;
        }
        let mut pods = self.pods.values().filter(|pod| pod.revision == of_live).peekable();
        pods.peek()?;
        if present.proven == Some(of_live) || !pods.all(|pod| never_starts(pod, present)) {
            return None;
        }
        let mut wanted = wanted();
        for field in ["replicas", "ordinals", "volumeClaimTemplates"] {
            let kept = &live.value["spec"][field];
            if !kept.is_null() {
                wanted.value["spec"][field] = kept.clone();
            }
        }
        wanted.value["metadata"]["annotations"][WORKED] = worked.to_string().into();
        wanted.value["spec"]["template"] = worked;
        Some(hashed(wanted))
    }

    /// Deletes pods that never started, where others are made from the template that worked: they come back at once. Pods of
    /// the present spec are left alone while it is `accepted`: they show what is wrong with it.
    pub fn replace_never_started<A: From<ChildAction>, R: Default>(
        &self,
        object: &impl ResourceExt,
        present: &Present<'_, N>,
        accepted: bool,
    ) -> Option<Step<A, R>> {
        let live = self.child("StatefulSet", &object.name_any()).filter(|live| live.ours)?;
        let of_live = revision_of(&live.value["spec"]["template"]);
        let noted = worked_template(&live.value);
        if present.proven != Some(of_live) && noted.is_none_or(|worked| revision_of(&worked) != of_live) {
            return None;
        }
        let is_due = |pod: &&Pod<N>| {
            let is_earlier = pod.revision != of_live && (!accepted || (present.is_outdated)(pod));
            is_earlier && never_starts(pod, present) && !(present.has_bad_data)(pod)
        };
        let why = "it never started, and the last spec that worked comes back";
        let pods = self.pods.values().filter(is_due).map(|pod| ChildAction::delete_pod(pod, why));
        Step::children(pods, "Replacing", "bringing back what worked")
    }

    /// Says that the spec of that revision is not followed: it brought up no pod, and those of the one before are back.
    pub fn failed(
        &self,
        object: &impl Resource<DynamicType = ()>,
        revision: &str,
        is_outdated: impl Fn(&Pod<N>) -> bool,
    ) -> Option<(&'static str, String)> {
        let failure = self.failure(object, revision).filter(|_| !self.is_proven(is_outdated))?;
        let (namespace, name) = (object.meta().namespace.as_deref().unwrap_or_default(), object.name_any());
        let again = format!("kubectl -n {namespace} rollout restart statefulset/{name}");
        let fix = match failure.template {
            Some(_) => format!(
                "or mend the cause: Causeway follows the spec as soon as the apiserver takes such a pod beside those that there \
                 are. If it would take one only in place of another, as with a quota: {again}"
            ),
            None => format!("or mend the cause, and try the spec again with {again}"),
        };
        let message = format!(
            "no pod of the present spec starts ({}), so pods are made from the last spec that worked: correct the spec; {fix}",
            failure.message
        );
        Some((BROUGHT_BACK, message))
    }

    /// Reports whether pods of a spec that the apiserver refused are asked for again.
    pub fn asks_again(&self, object: &impl ResourceExt) -> bool {
        let live = self.child("StatefulSet", &object.name_any()).filter(|live| live.ours);
        live.is_some_and(|live| refused_template(&live.value).is_some())
    }

    /// Deletes the pods of a spec that failed: their successors are made from the last one that worked.
    pub fn bring_back<A: From<ChildAction>, R: Default>(
        &self,
        object: &impl Resource<DynamicType = ()>,
        revision: &str,
        present: &Present<'_, N>,
    ) -> Option<Step<A, R>> {
        self.failure(object, revision)?;
        let live = self.child("StatefulSet", &object.name_any())?;
        if revision_of(&live.value["spec"]["template"]) == revision {
            return None;
        }
        let why = "it does not start, and the last spec that worked comes back";
        let pods = self.pods.values().filter(|pod| !pod.terminating && !(present.is_outdated)(pod));
        let pods = pods.filter(|pod| is_failing(pod) && (present.is_untouched)(pod));
        Step::children(pods.map(|pod| ChildAction::delete_pod(pod, why)), "Replacing", "bringing back what worked")
    }

    /// The note that the spec of that revision failed, unless a restart was asked for since, or the apiserver takes its pods
    /// by now.
    fn failure(&self, object: &impl ResourceExt, revision: &str) -> Option<Failure> {
        let live = self.child("StatefulSet", &object.name_any()).filter(|live| live.ours)?;
        let failure = failure_of(&live.value).filter(|_| self.acceptable.as_deref() != Some(revision))?;
        (failure.revision == revision && failure.restarted.as_deref() == restart_of(live)).then_some(failure)
    }

    /// Explains why the apiserver refuses a pod of that revision which it would take as the last spec that worked has it.
    fn refusal(&self, live: &Child, revision: &str) -> Option<String> {
        let unmade = self.unmade.as_ref().filter(|unmade| unmade.worked_before)?;
        (revision_of(&live.value["spec"]["template"]) == revision).then(|| unmade.describe().1)
    }

    /// The template of the last spec that worked, if that is another one.
    fn last_worked_template(&self, live: &Child, revision: &str, present: &Present<'_, N>) -> Option<Value> {
        let noted = worked_template(&live.value).filter(|noted| revision_of(noted) != revision);
        let template = &live.value["spec"]["template"];
        let of_live = revision_of(template);
        if of_live == revision || noted.as_ref().is_some_and(|noted| revision_of(noted) == of_live) {
            return noted;
        }
        let mut pods = self.pods.values().filter(|pod| pod.revision == of_live);
        let works = |pod: &Pod<N>| pod.ready || pod.lasts || (noted.is_none() && pod.has_run);
        let has_worked = present.proven == Some(of_live) || pods.any(works);
        if has_worked { Some(without_others(template)) } else { noted }
    }

    /// Reports whether missing pods are to be made from the template that worked: from when a pod of the present spec does not
    /// start until one works, or none is left.
    fn is_held(&self, live: &Child, worked: &Value, present: &Present<'_, N>) -> bool {
        let is_held = revision_of(&live.value["spec"]["template"]) == revision_of(worked);
        let mut fresh = self.pods.values().filter(|pod| !pod.terminating && !(present.is_outdated)(pod));
        !self.is_proven(present.is_outdated)
            && fresh.any(|pod| is_held || (is_failing(pod) && !(present.has_bad_data)(pod)))
    }

    /// Reports whether all pods are of the present spec, and none of them will start or has come as far as its data.
    fn brings_up_nothing(&self, present: &Present<'_, N>) -> bool {
        let fails = |pod: &Pod<N>| !(present.is_outdated)(pod) && never_starts(pod, present);
        !self.pods.is_empty() && self.pods.values().all(fails)
    }
}

/// Reports whether a pod will not start, and has not come as far as its data.
fn never_starts<N>(pod: &Pod<N>, present: &Present<'_, N>) -> bool {
    let has_waited = pod.placed || pod.made.is_some_and(|made| present.now.duration_since(made) >= FOR_A_NODE);
    !pod.terminating && is_failing(pod) && has_waited && (present.is_untouched)(pod)
}

/// A manifest with the hash of what it has now.
fn hashed(mut manifest: Manifest) -> Manifest {
    let hash = fingerprint(&[manifest.value.to_string().as_bytes()], 16);
    manifest.value["metadata"]["annotations"][hash_annotation()] = hash.into();
    manifest
}

/// Reports whether something keeps the pod from starting.
fn is_failing<N>(pod: &Pod<N>) -> bool {
    pod.trouble.as_deref().is_some_and(|word| !ON_ITS_WAY.contains(&word)) && !pod.ready && !pod.runs
}

/// The revision of pods that are made from a template.
pub fn revision_of(template: &Value) -> &str {
    template["metadata"]["labels"][REVISION].as_str().unwrap_or_default()
}

/// The template that worked last, as a `StatefulSet` has it noted.
pub fn worked_template(set: &Value) -> Option<Value> {
    serde_json::from_str(set["metadata"]["annotations"][WORKED].as_str()?).ok()
}

/// The template that the apiserver refused, as a `StatefulSet` has it noted.
pub fn refused_template(set: &Value) -> Option<Value> {
    failure_of(set)?.template
}

fn failure_of(set: &Value) -> Option<Failure> {
    serde_json::from_str(set["metadata"]["annotations"][FAILED].as_str()?).ok()
}

fn restart_of(live: &Child) -> Option<&str> {
    live.value["spec"]["template"]["metadata"]["annotations"][RESTARTED].as_str()
}

/// A template without what kubectl and the apiserver write.
fn without_others(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove(VOLATILE);
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(RESTARTED);
        }
    }
    template
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod_trouble::Unmade;
    use causeway_api::{Redis, RedisSpec};

    fn template(revision: &str) -> Value {
        json!({
            "metadata": { "labels": { REVISION: revision }, "annotations": { RESTARTED: "noon" } },
            "spec": { "containers": [{ "name": "redis", "image": revision }] },
        })
    }

    /// The `StatefulSet` that is applied for a spec `new` while there is this one with these pods.
    fn applied_over(live: &Child, pods: Vec<Pod<()>>) -> Value {
        applied_after("old", live, pods)
    }

    /// The same where that revision has worked last.
    fn applied_after(proven: &str, live: &Child, pods: Vec<Pod<()>>) -> Value {
        let mut set = Set::<()>::default();
        set.children.insert(("StatefulSet".into(), "cache".into()), live.clone());
        set.pods.extend((0..).zip(pods));
        wanted_of(&set, proven, Some("no image".into()))
    }

    fn wanted_of(set: &Set<()>, proven: &str, trouble: Option<String>) -> Value {
        let present = Present {
            is_outdated: &|pod| pod.revision != "new",
            is_untouched: &|pod| !pod.has_run,
            has_bad_data: &|pod| pod.last_words.is_some(),
            proven: Some(proven),
            now: Timestamp::UNIX_EPOCH,
        };
        let wanted = json!({ "metadata": { "name": "cache" }, "spec": { "template": template("new") } });
        let wanted = Manifest::new::<k8s_openapi::api::apps::v1::StatefulSet>(wanted);
        set.with_last_worked(wanted, &present, trouble).value
    }

    fn live(revision: &str) -> Child {
        let value = json!({ "metadata": { "name": "cache" }, "spec": { "template": template(revision) } });
        Child { value, uid: "1".into(), ours: true }
    }

    fn child(value: Value) -> Child {
        Child { value, uid: "1".into(), ours: true }
    }

    fn pod(revision: &str) -> Pod<()> {
        Pod { revision: revision.into(), placed: true, ..Pod::default() }
    }

    fn works(revision: &str) -> Pod<()> {
        Pod { ready: true, runs: true, has_run: true, ..pod(revision) }
    }

    fn fails() -> Pod<()> {
        Pod { trouble: Some("ImagePullBackOff".into()), ..pod("new") }
    }

    fn image(set: &Value) -> &str {
        revision_of(&set["spec"]["template"])
    }

    #[test]
    fn the_working_template_is_used_until_a_new_one_works() {
        let noted = |set: &Value| set["metadata"]["annotations"][WORKED].as_str().map(str::to_owned);
        let first = applied_over(&live("old"), vec![works("old")]);
        let worked: Value = serde_json::from_str(&noted(&first).unwrap()).unwrap();
        assert!(image(&first) == "new" && revision_of(&worked) == "old");
        assert!(worked["metadata"]["annotations"][RESTARTED].is_null(), "kubectl owns that");
        assert_eq!(applied_over(&child(first.clone()), vec![works("new"), works("old")]), first);
        assert_eq!(applied_after("new", &child(first.clone()), vec![works("new")]), first, "it is not written again");
        assert_eq!(
            applied_after("new", &child(first.clone()), vec![fails()]),
            first,
            "the data are of the new version"
        );
        let held = child(applied_over(&child(first), vec![works("old"), fails()]));
        assert_eq!(image(&applied_after("new", &held, vec![works("old"), fails()])), "new");
    }

    #[test]
    fn a_template_that_never_worked_is_no_way_back() {
        let noted = |set: &Value| set["metadata"]["annotations"][WORKED].as_str().map(str::to_owned);
        assert_eq!(noted(&applied_after("none", &live("old"), vec![pod("old")])), None);
        assert!(noted(&applied_over(&live("old"), vec![pod("old")])).is_some(), "it has worked before");
        let mut bad = live("bad");
        bad.value["metadata"]["annotations"][WORKED] = template("old").to_string().into();
        let crashed = Pod { has_run: true, ..pod("bad") };
        let kept = noted(&applied_over(&bad, vec![works("old"), crashed])).unwrap();
        assert_eq!(revision_of(&serde_json::from_str(&kept).unwrap()), "old");
    }

    #[test]
    fn lost_pods_return_with_the_working_template() {
        let first = child(applied_over(&live("old"), vec![works("old"), works("old")]));
        let on_its_way = Pod { trouble: Some("ContainerCreating".into()), ..pod("new") };
        assert_eq!(image(&applied_over(&first, vec![works("old"), on_its_way.clone()])), "new");
        let damaged = Pod { last_words: Some("crc mismatch".into()), ..fails() };
        assert_eq!(image(&applied_over(&first, vec![works("old"), damaged])), "new", "another spec does not help");
        let held = applied_over(&first, vec![works("old"), fails()]);
        assert_eq!(image(&held), "old");
        let held = child(held);
        assert_eq!(image(&applied_over(&held, vec![works("old"), on_its_way])), "old", "it may fail again");
        assert_eq!(image(&applied_over(&held, vec![works("old"), works("new")])), "new");
        assert_eq!(image(&applied_over(&held, vec![works("old"), works("old")])), "new", "it is tried again");
    }

    #[test]
    fn a_spec_is_given_up_without_any_pod() {
        let first = child(applied_over(&live("old"), vec![works("old")]));
        let is_given_up = |pods: Vec<Pod<()>>| {
            let set = applied_over(&first, pods);
            assert!(set["metadata"]["annotations"][FAILED].is_null() || image(&set) == "old");
            !set["metadata"]["annotations"][FAILED].is_null()
        };
        assert!(is_given_up(vec![fails()]) && is_given_up(vec![fails(), fails()]));
        assert!(!is_given_up(vec![fails(), works("old")]));
        assert!(!is_given_up(vec![Pod { terminating: true, ..fails() }]));
        assert!(!is_given_up(vec![Pod { has_run: true, ..fails() }]), "its data may be of the new version");
        assert!(!is_given_up(vec![Pod { placed: false, ..fails() }]), "a node may be added for it");
        let waits = Timestamp::UNIX_EPOCH.checked_sub(FOR_A_NODE).ok();
        assert!(is_given_up(vec![Pod { placed: false, made: waits, ..fails() }]));
        assert!(!is_given_up(Vec::new()));
    }

    #[test]
    fn a_refused_pod_returns_and_the_spec_is_retried() {
        let refused = |worked_before: bool, proven: &str, pods: Vec<Pod<()>>| {
            let mut live = live("new");
            live.value["metadata"]["annotations"][WORKED] = template("old").to_string().into();
            let unmade = Unmade { name: "cache-1".into(), words: "exceeded quota: small".into(), worked_before };
            let mut set = Set::<()> { unmade: Some(unmade), ..Set::default() };
            set.children.insert(("StatefulSet".into(), "cache".into()), live);
            set.pods.extend((0..).zip(pods));
            wanted_of(&set, proven, None)
        };
        let set = refused(true, "old", vec![works("old")]);
        assert_eq!((image(&set), refused_template(&set).as_ref().map(revision_of)), ("old", Some("new")));
        let mut found = Set::<()>::default();
        found.children.insert(("StatefulSet".into(), "cache".into()), child(set));
        let object = Redis::new("cache", RedisSpec::default());
        let complaint = |set: &Set<()>| set.failed(&object, "new", |pod| pod.revision != "new");
        let (_, message) = complaint(&found).unwrap();
        assert!(message.contains("exceeded quota: small") && message.contains("rollout restart"), "{message}");
        found.acceptable = Some("new".into());
        assert_eq!(complaint(&found), None, "it is tried again");
        assert_eq!(image(&refused(true, "old", Vec::new())), "old", "none is left");
        for (worked_before, proven, pods) in
            [(false, "old", vec![works("old")]), (true, "new", Vec::new()), (true, "old", vec![works("new")])]
        {
            let set = refused(worked_before, proven, pods);
            assert_eq!((image(&set), refused_template(&set)), ("new", None), "{worked_before} {proven}");
        }
    }

    #[test]
    fn an_edit_or_a_restart_retries_a_failed_spec() {
        let object = Redis::new("cache", RedisSpec::default());
        let first = child(applied_over(&live("old"), vec![works("old")]));
        let mut set = Set::<()>::default();
        let mut given_up = applied_over(&first, vec![fails()]);
        // Kubernetes keeps what kubectl wrote.
        given_up["spec"]["template"]["metadata"]["annotations"][RESTARTED] = "noon".into();
        set.children.insert(("StatefulSet".into(), "cache".into()), child(given_up.clone()));
        let complaint = |set: &Set<()>, revision: &str| set.failed(&object, revision, |pod| pod.revision != "new");
        let (reason, message) = complaint(&set, "new").unwrap();
        assert!(reason == BROUGHT_BACK && message.contains("no image") && message.contains("rollout restart"));
        assert_eq!(complaint(&set, "newer"), None);
        set.pods.insert(0, works("new"));
        assert_eq!(complaint(&set, "new"), None, "it works by now");
        set.pods.clear();
        given_up["spec"]["template"]["metadata"]["annotations"][RESTARTED] = "evening".into();
        set.children.insert(("StatefulSet".into(), "cache".into()), child(given_up));
        assert_eq!(complaint(&set, "new"), None);
    }
}
