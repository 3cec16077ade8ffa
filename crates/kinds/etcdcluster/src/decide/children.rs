//! Services, settings and pods: what is missing or differs is applied.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde_json::Value;

use causeway_databases::etcd::Member;
use causeway_databases::foreign::{self, NAME_TAKEN};
use causeway_databases::last_worked::Present;
use causeway_databases::network::surplus;
use causeway_databases::refusals::{self, ChildKey};
use causeway_runtime::manifest::{Manifest, hash_annotation};

use super::super::damage::DamagedPod;
use super::super::database::EtcdDatabase;
use super::super::facts::{Node, Pod};
use super::super::names;
use super::super::resources::{self, Begin, Shape};
use super::super::settings::{AT_FIRST_START, Start};
use super::super::tls::{Mode, Side};
use super::{CORRECTION_INTERVAL, Step, View, recovery};

/// The words of an etcd that refuses its settings, before it opens its data.
/// <https://github.com/etcd-io/etcd/blob/v3.6.0/server/etcdmain/etcd.go> (`startEtcdOrProxyV2`)
const REFUSED_SETTINGS: &str = "failed to verify flags";

/// Takes children back that lost their owner.
pub fn take_back(view: &View<'_>) -> Option<Step> {
    let actions = foreign::take_back::<EtcdDatabase>(view.object, &view.observed.set.children, &view.observed.refused);
    Step::children(actions, "Applying", "taking children back that lost their owner")
}

/// If something else has a child's name, a cluster does not begin. Once it has begun, only a child without which no member can
/// be helped stops it. Others, and pods and volumes, are reported and left alone ([`others`], [`taken_names`]).
pub fn foreign(view: &View<'_>) -> Option<Step> {
    let set = &view.observed.set;
    let beginning = set.foreign.values().next().filter(|_| !view.has_begun()).cloned();
    let beginning = beginning.map(|message| Step::stalled(NAME_TAKEN, message));
    let is_needed = |kind: &str| !view.has_begun() || ["StatefulSet", "ConfigMap", "Secret"].contains(&kind);
    let step = beginning.or_else(|| foreign::stops(view.object, &set.children, is_needed))?;
    Some(Step { again: step.again.min(CORRECTION_INTERVAL), ..step })
}

/// Children of other owners, while everything else goes on.
pub fn others(view: &View<'_>) -> Option<(&'static str, String)> {
    foreign::report(view.object, &view.observed.set.children)
}

/// A foreign pod or volume claim of a name that we need, once the cluster has begun.
pub fn taken_names(view: &View<'_>) -> Option<(&'static str, String)> {
    view.observed.set.foreign.values().next().map(|message| (NAME_TAKEN, message.clone()))
}

/// Applies children that are missing or differ. A spec that cannot be accepted changes none, except for the settings of
/// members without data: which of them may start follows the members in any case.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let start = start(view);
    let mut wanted = Vec::new();
    if accepted {
        wanted.extend(resources::around(view.object, &view.observed.set.rules));
        wanted.extend(settings(view, &start));
        wanted.push(pods(view, &start));
    } else {
        wanted.extend(restarted(view, &start));
    }
    let set = &view.observed.set;
    let is_going = accepted && set.is_going(&view.object.name_any());
    if is_going {
        wanted.retain(|child| child.kind() != "StatefulSet");
    }
    wanted.retain(|child| !view.observed.refused.contains_key(&(child.kind().to_owned(), child.name().to_owned())));
    let surplus = surplus::<EtcdDatabase>(view.object, set).filter(|_| accepted);
    let actions = wanted.into_iter().filter_map(|child| set.unless_met(child)).chain(surplus);
    let message = match () {
        () if is_going => set.describe_going(),
        () if view.has_begun() => "bringing the children up to date".into(),
        () => "creating the children".into(),
    };
    let waiting = is_going.then(|| Step::wait("Applying", message.clone()));
    Step::children(actions, "Applying", message).or(waiting)
}

/// The pods. What rebuilds a cluster from a member is neither what worked before nor replaced by that.
fn pods(view: &View<'_>, start: &Start) -> Manifest {
    let shape = shape(view, start);
    let pods = resources::pods(view.object, shape, view.transport());
    if shape.begin.forces_new_cluster() || recovery::has_started(view) {
        return pods;
    }
    let trouble = view.pod_trouble().map(|(_, text)| text);
    with_present(view, |present| view.observed.set.with_last_worked(pods, present, trouble))
}

/// Replaces pods of an earlier edit that never started, whatever the settings of the present spec are.
pub fn replace_never_started(view: &View<'_>, accepted: bool) -> Option<Step> {
    if recovery::begin(view).forces_new_cluster() || recovery::has_started(view) {
        return None;
    }
    let (set, only) = (&view.observed.set, accepted.then(|| view.revision().as_str()));
    let pods = || resources::pods(view.object, shape(view, &start(view)), view.transport());
    let worked = with_present(view, |present| set.with_template_that_worked(pods, present, only));
    let is_refused =
        |child: &Manifest| view.observed.refused.contains_key(&(child.kind().to_owned(), child.name().to_owned()));
    let worked = worked.filter(|child| !is_refused(child));
    Step::children(worked.and_then(|child| set.unless_met(child)), "Replacing", "bringing back what worked")
        .or_else(|| with_present(view, |present| set.replace_never_started(view.object, present, accepted)))
}

/// Hash of what pods are made from, once one of them works. Those that rebuild a cluster from a member prove no spec.
pub fn proven(view: &View<'_>) -> Option<String> {
    let rebuilds = recovery::begin(view).forces_new_cluster() || recovery::has_started(view);
    (!rebuilds && view.is_proven()).then(|| view.revision().clone())
}

/// Says that the spec is not followed: it brought up no pod, and those of the last one that worked are back.
pub fn failed(view: &View<'_>) -> Option<(&'static str, String)> {
    view.observed.set.failed(view.object, view.revision(), |pod| view.is_outdated(pod))
}

/// Brings back pods of the last spec that worked where none of the present one starts.
pub fn bring_back(view: &View<'_>) -> Option<Step> {
    with_present(view, |present| view.observed.set.bring_back(view.object, view.revision(), present))
}

fn with_present<T>(view: &View<'_>, then: impl FnOnce(&Present<'_, Node>) -> T) -> T {
    let refuses_settings = |pod: &Pod| pod.last_words.as_ref().is_some_and(|words| words.contains(REFUSED_SETTINGS));
    then(&Present {
        is_outdated: &|pod| view.is_outdated(pod),
        is_untouched: &|pod| !pod.has_run || refuses_settings(pod),
        has_bad_data: &|pod| pod.loss().is_some(),
        proven: view.object.status.as_ref().and_then(|status| status.proven_revision.as_deref()),
        now: view.now,
    })
}

/// The `ConfigMap`. While pods of an earlier spec are there, it keeps the settings that these accepted: pods of lower versions
/// of the operator read them whenever they start.
fn settings(view: &View<'_>, start: &Start) -> Option<Manifest> {
    let keeps = view.observed.set.pods.values().any(|pod| view.is_outdated(pod)) && written_start(view).is_some();
    if keeps { restarted(view, start) } else { Some(resources::config_map(view.object, start, view.transport())) }
}

/// The live `ConfigMap`, in which only the settings of members without data are changed.
fn restarted(view: &View<'_>, start: &Start) -> Option<Manifest> {
    let live = view.observed.set.child("ConfigMap", &view.object.name_any())?;
    let written = written_start(view)?;
    if written == *start {
        return None;
    }
    let fresh = resources::config_map(view.object, start, view.transport());
    let mut child = Manifest { value: live.value.clone(), ..fresh.clone() };
    for key in AT_FIRST_START {
        child.value["data"][key] = fresh.value["data"][key].clone();
    }
    for volatile in ["resourceVersion", "creationTimestamp", "uid", "generation", "managedFields"] {
        if let Some(metadata) = child.value["metadata"].as_object_mut() {
            metadata.remove(volatile);
        }
    }
    // This does not match the spec: as soon as that is accepted and all pods are made from it, all of it is applied.
    child.value["metadata"]["annotations"][hash_annotation()] = Value::String("kept".into());
    Some(child)
}

/// How members without data may start, as our `ConfigMap` has it.
pub fn written_start(view: &View<'_>) -> Option<Start> {
    let live = view.observed.set.child("ConfigMap", &view.object.name_any()).filter(|live| live.ours)?;
    let data: BTreeMap<String, String> = serde_json::from_value(live.value["data"].clone()).ok()?;
    Start::from_settings(&data)
}

/// How members without data may start. Only a member that has never started finds its name in the list. A member whose
/// volume was emptied must not start: it would come back without its votes and acknowledged entries, and Raft relies on
/// both.
fn start(view: &View<'_>) -> Start {
    let object = view.object;
    let by_tls = Side::Peer.wanted_mode(object) == Mode::Secure;
    if view.observed.quorum.is_some() {
        let entry = |(ordinal, member): (&i32, &&Member)| {
            let url = member.peer_urls.first().cloned().unwrap_or_default();
            let has_started = !member.client_urls.is_empty();
            let name = if has_started { masked(member.id) } else { names::pod(object, *ordinal) };
            (name, url)
        };
        // A member that joins must know all members, including those that are not ours.
        let stranger = |member: &Member| {
            let id = member.id;
            member.peer_urls.iter().map(move |url| (masked(id), url.clone())).collect::<Vec<_>>()
        };
        let strangers = view.strangers().flat_map(stranger);
        return Start { begins: false, members: view.members.iter().map(entry).chain(strangers).collect() };
    }
    if view.has_begun() {
        let known = object.status.iter().flat_map(|status| &status.members);
        let recorded = || {
            let entry = |member: &causeway_api::etcdcluster::MemberStatus| {
                let ordinal = names::ordinal_of(object, &member.name)?;
                Some((masked(u64::from_str_radix(&member.id, 16).ok()?), names::peer_url(object, ordinal, by_tls)))
            };
            Start { begins: false, members: known.filter_map(entry).collect() }
        };
        return written_start(view).filter(|start| !start.begins).unwrap_or_else(recorded);
    }
    if let Some(last) = earlier_volumes(view) {
        // Members with data start from their data; no member may bootstrap another cluster beside them.
        let entry = |ordinal| (format!("member-{ordinal}"), names::peer_url(object, ordinal, by_tls));
        return Start { begins: false, members: (0..=last).map(entry).collect() };
    }
    written_start(view).unwrap_or_else(|| {
        let entry = |ordinal| (names::pod(object, ordinal), names::peer_url(object, ordinal, by_tls));
        Start { begins: true, members: (0..object.spec.replicas).map(entry).collect() }
    })
}

/// A name that no pod has.
fn masked(id: u64) -> String {
    format!("member-{id:x}")
}

/// The last ordinal of volumes that an earlier object of this name left.
pub fn earlier_volumes(view: &View<'_>) -> Option<i32> {
    view.observed
        .set
        .claims
        .iter()
        .filter(|(_, claim)| !claim.ours && !claim.terminating)
        .map(|(ordinal, _)| *ordinal)
        .max()
}

/// Which pods there must be.
fn shape<'a>(view: &View<'a>, start: &Start) -> Shape<'a> {
    match recovery::survivor(view) {
        Some(ordinal) => Shape { first: ordinal, replicas: 1, begin: recovery::begin(view) },
        // The others come after it has been restarted as usual: before, their new volumes would be taken for those of
        // the lost cluster.
        None => match view.observed.set.pods.iter().find(|(_, pod)| pod.own.forced) {
            Some((ordinal, _)) => Shape { first: *ordinal, replicas: 1, begin: Begin::Usual },
            None => Shape { first: 0, replicas: replicas(view, start), begin: Begin::Usual },
        },
    }
}

/// How many pods there must be: as many as the members need, whatever the spec says. More come after a member was
/// added, fewer after one was removed.
fn replicas(view: &View<'_>, start: &Start) -> i32 {
    let needed = |ordinals: BTreeSet<i32>| ordinals.last().map(|last| last + 1);
    if view.observed.quorum.is_some() {
        return needed(view.members.keys().copied().collect()).unwrap_or(1);
    }
    if view.has_begun() {
        let known = view.object.status.iter().flat_map(|status| &status.members);
        let known = needed(known.filter_map(|member| names::ordinal_of(view.object, &member.name)).collect());
        let volumes = || needed(view.observed.set.claims.keys().copied().collect());
        return known.or_else(volumes).unwrap_or(view.object.spec.replicas);
    }
    i32::try_from(start.members.len()).unwrap_or(view.object.spec.replicas)
}

/// Grows volumes that are full, before their members are waited for.
pub fn relieve(view: &View<'_>, accepted: bool) -> Option<Step> {
    grow_those(view, |ordinal| accepted && is_full(view, ordinal))
}

/// Grows volumes. This comes last: a storage class that cannot do it must not hold up anything else.
pub fn grow(view: &View<'_>, accepted: bool) -> Option<Step> {
    grow_those(view, |_| accepted)
}

fn grow_those(view: &View<'_>, whose: impl Fn(i32) -> bool) -> Option<Step> {
    let set = &view.observed.set;
    let is_refused = |ordinal: i32| {
        set.claims.get(&ordinal).is_some_and(|claim| view.observed.refused.contains_key(&refusals::claim(&claim.name)))
    };
    set.grow(view.object.spec.volume_size(), |ordinal| whose(ordinal) && !is_refused(ordinal))
}

fn is_full(view: &View<'_>, ordinal: i32) -> bool {
    view.observed.set.pods.get(&ordinal).is_some_and(Pod::has_no_space)
        || view.observed.undefragmented.contains(&names::pod(view.object, ordinal))
}

/// Reports children that the apiserver refuses, although everything else goes on. A volume that cannot grow is reported if its
/// member is out of space, or if nothing else is left to do.
pub fn report_refused(view: &View<'_>, rests: bool) -> Option<(&'static str, String)> {
    let is_urgent = |child: &ChildKey| {
        let mut claims = view.observed.set.claims.iter();
        let claim = claims.find(|(_, claim)| refusals::claim(&claim.name) == *child);
        rests || claim.is_none_or(|(ordinal, _)| is_full(view, *ordinal))
    };
    let (_, refusal) = view.observed.refused.iter().find(|(child, _)| is_urgent(child))?;
    Some((refusal.reason, refusal.message.clone()))
}
