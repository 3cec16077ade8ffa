//! Recovery of a cluster whose majority is lost for good: it is rebuilt from one member, when its user asks for that.
//!
//! The member that is left skips revisions if it can ([`crate::recovery`]). It then starts alone with
//! `--force-new-cluster`, and takes itself for the whole cluster. After that it is restarted without that flag, and the
//! others join it empty. Nothing else ever gives up a majority.
//! <https://etcd.io/docs/v3.5/op-guide/recovery/>

use kube::ResourceExt;

use causeway_api::etcdcluster::RecoveredRevisions;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::damage::{DamagedPod, Loss};
use super::super::facts::Skip;
use super::super::names;
use super::super::resources::Begin;
use super::unwell::remedy;
use super::{QUORUM_LOST, Step, View, delete_claim, delete_pod};
use crate::recovery::REVISIONS;

/// Reports whether a recovery is asked for that was not done yet.
pub fn is_asked_for(view: &View<'_>) -> bool {
    let done = view.object.status.as_ref().and_then(|status| status.recovered.as_ref());
    view.object.spec.recovery.as_ref().is_some_and(|asked| done != Some(&asked.token))
}

/// Reports whether the cluster could restart from that member: its volume is there, and not known to be empty.
pub fn has_data(view: &View<'_>, ordinal: i32) -> bool {
    let set = &view.observed.set;
    let is_empty = set.pods.get(&ordinal).is_some_and(|pod| pod.loss() == Some(Loss::Empty));
    set.claims.contains_key(&ordinal) && !is_empty
}

/// Reports whether a recovery is asked for from a member that has no data, or does not exist.
pub fn lacks_data(view: &View<'_>) -> bool {
    let asked = view.object.spec.recovery.as_ref().filter(|_| is_asked_for(view));
    let ordinal = asked.map(|asked| names::ordinal_of(view.object, &asked.from_member));
    ordinal.is_some_and(|ordinal| ordinal.is_none_or(|ordinal| !has_data(view, ordinal)))
}

/// The member that is to be alone now, until it has rebuilt the cluster and the volumes of all others are gone. With their
/// data, the others could form a majority of the old cluster beside the new one.
pub fn survivor(view: &View<'_>) -> Option<i32> {
    let forced = view.observed.set.pods.iter().find(|(_, pod)| pod.own.forced).map(|(ordinal, _)| *ordinal);
    if view.observed.quorum.is_some() {
        return forced.filter(|ordinal| view.observed.set.claims.keys().any(|other| other != ordinal));
    }
    let asked = view.object.spec.recovery.as_ref().filter(|_| is_asked_for(view))?;
    let ordinal = names::ordinal_of(view.object, &asked.from_member)?;
    let is_lost = view.has_begun() && view.missing_majority().0 == QUORUM_LOST;
    (has_data(view, ordinal) && (has_started(view) || forced.is_some() || is_lost)).then_some(ordinal)
}

/// How pods start now.
pub fn begin<'a>(view: &View<'a>) -> Begin<'a> {
    match survivor(view) {
        Some(_) => Begin::ForceNewCluster { own_image: view.observed.own_image.as_deref() },
        None => Begin::Usual,
    }
}

/// Reports whether the recovery has started, by the label in the pod template. While pods stop and start, their members do not
/// show that the majority is lost.
pub fn has_started(view: &View<'_>) -> bool {
    let set = view.observed.set.child("StatefulSet", &view.object.name_any());
    set.is_some_and(|set| !set.value["spec"]["template"]["metadata"]["labels"][names::FORCED].is_null())
}

/// Reports whether the recovery that is asked for is over: done, or not needed. This is recorded before anything else is done.
pub fn ends(view: &View<'_>) -> bool {
    is_asked_for(view) && view.observed.quorum.is_some() && !is_pending(view)
}

/// Reports whether it is not known yet if the member that rebuilds the cluster has skipped revisions.
fn is_pending(view: &View<'_>) -> bool {
    view.observed.set.pods.values().any(|pod| pod.own.forced && pod.own.skip == Skip::Pending)
}

/// Reports whether the cluster is another one than the recorded one. Its ID is recorded before anything else is done: only the
/// record says which of two clusters is ours.
pub fn is_another(view: &View<'_>) -> bool {
    let recorded = view.object.status.as_ref().and_then(|status| status.cluster_id.as_ref());
    let seen = view.observed.quorum.as_ref().map(|quorum| format!("{:x}", quorum.cluster_id));
    recorded.zip(seen).is_some_and(|(recorded, seen)| *recorded != seen)
}

/// Reports whether revisions were skipped, or why not; `None` if no member rebuilds the cluster.
pub fn revisions(view: &View<'_>) -> Option<RecoveredRevisions> {
    let pod = view.observed.set.pods.values().find(|pod| pod.own.forced)?;
    let reason = match &pod.own.skip {
        Skip::Done => return Some(RecoveredRevisions { skipped: true, reason: None }),
        Skip::Refused(reason) => reason.clone(),
        _ => "the operator does not know its own image: set its option JOB_IMAGE".into(),
    };
    Some(RecoveredRevisions { skipped: false, reason: Some(reason) })
}

/// Reports whether watchers and caches are safe after a recovery.
pub fn part(view: &View<'_>) -> ExtraCondition {
    let part = |status, reason, message| ExtraCondition { type_: "RevisionsSkipped", status, reason, message };
    let status = view.object.status.as_ref();
    let asked = view.object.spec.recovery.as_ref().filter(|_| !is_asked_for(view));
    match asked.and(status.and_then(|status| status.recovered_revisions.as_ref())) {
        None => part(ConditionStatus::Absent, "NotAsked", String::new()),
        Some(RecoveredRevisions { skipped: true, .. }) => {
            let text = format!(
                "skipped {REVISIONS} revisions, so that none is used twice. Clients that watch or read from an earlier \
                 revision get ErrCompacted"
            );
            part(ConditionStatus::True, "Skipped", text)
        }
        Some(RecoveredRevisions { reason, .. }) => {
            let text = format!(
                "revisions that only the lost members had may be given again, to other writes: restart clients that watch \
                 or cache, then remove spec.recovery. They could not be skipped: {}",
                reason.as_deref().unwrap_or_default()
            );
            part(ConditionStatus::False, "MayRepeat", text)
        }
    }
}

/// The next step of a recovery, once its pods are as they should be.
pub fn step(view: &View<'_>) -> Option<Step> {
    // All stays as it is until another member is named: see `accepted`.
    if view.observed.quorum.is_none() && lacks_data(view) {
        return None;
    }
    let pods = || view.observed.set.pods.iter().filter(|(_, pod)| !pod.terminating);
    if let Some(ordinal) = survivor(view) {
        let name = names::pod(view.object, ordinal);
        if is_pending(view) && view.observed.quorum.is_some() {
            return Some(Step::wait("Recovering", format!("waiting for word of what became of {name}'s revisions")));
        }
        if view.observed.quorum.is_some() {
            let others =
                view.observed.set.claims.iter().filter(|(other, claim)| **other != ordinal && !claim.terminating);
            let why = "its data are those of the cluster that was lost";
            let actions = others.map(|(_, claim)| delete_claim(claim, why)).collect();
            return Some(Step::act(
                actions,
                "Recovering",
                format!("the cluster has restarted from {name}: emptying the others"),
            ));
        }
        let others = || view.observed.set.pods.iter().filter(|(other, _)| **other != ordinal);
        if others().next().is_some() {
            let names: Vec<&str> = others().map(|(_, pod)| pod.name.as_str()).collect();
            let remedy = others().map(|(_, pod)| remedy(pod)).find(|text| !text.is_empty()).unwrap_or_default();
            let text = format!("waiting for {} to stop before {name} restarts the cluster{remedy}", names.join(", "));
            return Some(Step::trouble("Recovering", text));
        }
        let old = pods().filter(|(_, pod)| !pod.own.forced).map(|(_, pod)| delete_pod(pod, "it restarts the cluster"));
        return Some(Step::act(old.collect(), "Recovering", format!("restarting the cluster from {name}")));
    }
    // If it is left as it is, it rebuilds the cluster at every start, without the members that have joined since.
    let old: Vec<Action> = pods()
        .filter(|(_, pod)| pod.own.forced)
        .map(|(_, pod)| delete_pod(pod, "it has restarted the cluster"))
        .collect();
    (!old.is_empty()).then(|| Step::act(old, "Recovering", "starting the recovered member as usual"))
}
