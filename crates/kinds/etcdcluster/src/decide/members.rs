//! Members that are to be added, promoted, replaced or removed: one step at a time.

use causeway_databases::ChildAction;
use causeway_databases::etcd::{AlarmKind, Member};

use super::super::action::Action;
use super::super::damage::{DamagedPod, Loss};
use super::super::facts::{Claim, Pod};
use super::super::names;
use super::super::tls::Mode;
use super::unwell::remedy;
use super::{Step, View, by_urgency, delete_claim, delete_pod, downgrade, leadership, rollout, space, strangers};

/// The next step of the members, if they need one.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let present = || view.members.keys().last().map_or(0, |last| last + 1);
    let wanted = if accepted { view.object.spec.replicas } else { present() };
    let newcomer = newcomer(view);
    let joins = newcomer.and_then(|(ordinal, member)| joining(view, ordinal, member, wanted, accepted));
    // Voters need not wait for a learner.
    let (joins, waits) = if learner(newcomer).is_some() { by_urgency(joins) } else { (joins, None) };
    marks(view)
        .or_else(|| readdress(view))
        .or(joins)
        .or_else(|| rollout::mend(view, accepted))
        .or_else(|| damaged(view, newcomer))
        .or(waits)
        .or_else(|| gap(view, wanted))
        .or_else(|| space::differ(view))
        .or_else(|| leftover(view))
        .or_else(|| smaller(view, wanted))
        .or_else(|| larger(view, wanted))
}

/// Notes on each volume claim which member's data it holds. This shows later whether that member was removed.
fn marks(view: &View<'_>) -> Option<Step> {
    let unmarked = view.members.iter().filter_map(|(ordinal, member)| {
        let claim = view.observed.set.claims.get(ordinal).filter(|claim| !claim.terminating)?;
        let runs = view.is_healthy(*ordinal) && view.observed.set.pods.get(ordinal).is_some_and(|pod| !pod.terminating);
        let is_noted = claim.member == Some(member.id);
        ((runs && !is_noted) || (is_noted && !claim.is_deletable())).then(|| ChildAction::MarkClaim {
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            member: member.id,
        })
    });
    Step::children(unmarked, "Applying", "noting whose data the volumes hold")
}

/// Corrects the peer URL of a member that another client changed. It is the same member, and its data are as good as before.
fn readdress(view: &View<'_>) -> Option<Step> {
    let is_astray = |(ordinal, member): &(&i32, &&Member)| {
        let at = |url: &String| names::ordinal_at(view.object, std::slice::from_ref(url)) == Some(**ordinal);
        !member.peer_urls.iter().all(at)
    };
    let (ordinal, member) = view.members.iter().find(is_astray)?;
    let by_tls = match view.observed.set.pods.get(ordinal)?.own.transport.peer.mode {
        Mode::Plain => false,
        Mode::Secure => true,
        Mode::Both => view.transport().peer.mode == Mode::Secure,
    };
    let name = names::pod(view.object, *ordinal);
    let message = format!("{name} is to be reached by its peers where it is, not at {}", member.peer_urls.join(", "));
    let action = Action::UpdatePeer {
        name,
        id: member.id,
        peer_url: names::peer_url(view.object, *ordinal, by_tls),
        pods: view.observed.set.pods.values().map(|pod| (pod.name.clone(), pod.uid.clone())).collect(),
        via: view.via()?,
    };
    Some(Step::act(vec![action], "Applying", message))
}

/// A member that has not started yet, or does not vote yet.
fn newcomer<'a>(view: &View<'a>) -> Option<(i32, &'a Member)> {
    let (ordinal, member) =
        view.members.iter().find(|(_, member)| member.is_learner || member.client_urls.is_empty())?;
    Some((*ordinal, member))
}

fn learner(newcomer: Option<(i32, &Member)>) -> Option<(i32, &Member)> {
    newcomer.filter(|(_, member)| member.is_learner)
}

/// The next step of a newcomer. No other member is added or removed meanwhile, unless it lost its data.
fn joining(view: &View<'_>, ordinal: i32, member: &Member, wanted: i32, accepted: bool) -> Option<Step> {
    let name = names::pod(view.object, ordinal);
    if member.is_learner && ordinal >= wanted {
        return remove(view, ordinal, member, "spec.replicas is smaller");
    }
    let claim = view.observed.set.claims.get(&ordinal).filter(|claim| !claim.terminating);
    if let Some(claim) = claim.filter(|claim| claim.member.is_some_and(|id| id != member.id)) {
        return Some(wipe(view, ordinal, claim, "it holds data of a member that was removed"));
    }
    let pod = view.observed.set.pods.get(&ordinal).filter(|pod| !pod.terminating);
    if member.is_learner && view.is_healthy(ordinal) && has_caught_up(view, ordinal, member) {
        let action = Action::Promote { name, id: member.id, via: view.via()? };
        return Some(Step::act(vec![action], "MemberJoining", "letting a member vote that has caught up"));
    }
    let message = format!("{name} joins: {} of {} members are healthy", healthy(view), view.members.len());
    let has_started = !member.client_urls.is_empty();
    let loss = pod.and_then(Pod::loss).filter(|_| !view.is_healthy(ordinal));
    if matches!(loss, Some(Loss::Damaged(_))) || (loss == Some(Loss::Empty) && has_started) {
        // A learner has no vote and can always go; a voter goes only while the others can do without it.
        return if member.is_learner { remove(view, ordinal, member, "its data are lost") } else { None };
    }
    let fails = |pod: &&Pod| !pod.ready && pod.trouble.is_some() && view.is_outdated(pod) && !view.must_stay(pod);
    if let Some(pod) = pod.filter(|pod| accepted && fails(pod)) {
        let why = "it does not start, and was made from an earlier spec";
        return Some(Step::act(vec![delete_pod(pod, why)], "MemberJoining", message));
    }
    if let Some(pod) = pod.filter(|pod| downgrade::is_shut_out(pod)) {
        let cancel = Action::CancelDowngrade { why: downgrade::SHUTS_OUT, via: view.via()? };
        let actions = vec![cancel, delete_pod(pod, "it may join now")];
        return Some(Step::act(actions, "MemberJoining", message));
    }
    if let Some(pod) = pod
        && pod.trouble.as_deref() == Some("CrashLoopBackOff")
        && pod.loss() == Some(Loss::Empty)
        && !view.must_stay(pod)
    {
        // It started before it was allowed to, and would wait for minutes in the kubelet's back-off.
        return Some(Step::act(vec![delete_pod(pod, "it may start now")], "MemberJoining", message));
    }
    Some(match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
        None => Step::wait("MemberJoining", message),
    })
}

/// etcd promotes only learners that have nine tenths of the leader's log.
fn has_caught_up(view: &View<'_>, ordinal: i32, member: &Member) -> bool {
    let index = |ordinal: i32, member: &Member| Some(view.observed.status_of(ordinal, member)?.raft_index);
    let leader = view.leader().and_then(|leader| index(leader, view.members.get(&leader)?));
    // If a stranger leads, the leader's index is not known.
    let furthest = || view.observed.statuses.values().map(|status| status.raft_index).max();
    let leader = leader.or_else(furthest);
    index(ordinal, member).zip(leader).is_some_and(|(own, leader)| own >= leader / 10 * 9)
}

/// A voter that lost its data, or whose data differ from the others': it is removed, and comes back empty.
fn damaged(view: &View<'_>, newcomer: Option<(i32, &Member)>) -> Option<Step> {
    let corrupt = |member: &Member| {
        let mut alarms = view.observed.quorum.iter().flat_map(|quorum| &quorum.alarms);
        alarms.any(|alarm| alarm.kind == AlarmKind::Corrupt && alarm.member == member.id)
    };
    let found = view.members.iter().filter(|(_, member)| !member.is_learner).find_map(|(ordinal, member)| {
        let pod = view.observed.set.pods.get(ordinal)?;
        let why = match pod.loss().filter(|_| !view.is_healthy(*ordinal)) {
            // One that has never started may have met settings from before it was added.
            Some(Loss::Empty) if member.client_urls.is_empty() => return None,
            Some(Loss::Empty) => "its volume is empty".to_owned(),
            Some(Loss::Damaged(evidence)) => format!("its data are damaged: {evidence}"),
            None if corrupt(member) => "its data differ from the others'".to_owned(),
            None => return None,
        };
        Some((*ordinal, *member, why))
    });
    let (ordinal, member, why) = found?;
    if view.can_remove(ordinal) {
        // It comes back as a learner, and etcd allows a single one at a time. A learner has acknowledged nothing.
        return match learner(newcomer).filter(|(learner, _)| !view.is_healthy(*learner)) {
            Some((learner, member)) => remove(view, learner, member, "a voting member must be replaced first"),
            None => remove(view, ordinal, member, &why),
        };
    }
    let name = names::pod(view.object, ordinal);
    let others = view.unwell(view.unhealthy_voters_without(ordinal));
    Some(Step::wait(
        "MemberDamaged",
        format!("{name} cannot be replaced ({why}) before a majority of the others is healthy: waiting for {others}"),
    ))
}

/// An ordinal below the last without a member: it was removed to be replaced.
fn gap(view: &View<'_>, wanted: i32) -> Option<Step> {
    let last = *view.members.keys().last()?;
    let ordinal = (0..last).find(|ordinal| !view.members.contains_key(ordinal)).filter(|ordinal| *ordinal < wanted)?;
    let claim = view.observed.set.claims.get(&ordinal);
    if let Some(claim) = claim {
        // Whatever the volume holds, it belongs to no member any more.
        if claim.terminating {
            let pod = view.observed.set.pods.get(&ordinal);
            let message = format!("volume claim {} goes away{}", claim.name, pod.map_or_else(String::new, remedy));
            // The claim stays as long as a pod uses it.
            let pod = pod.filter(|pod| !pod.terminating);
            let actions = pod.map(|pod| delete_pod(pod, "its volume is replaced")).into_iter().collect();
            return Some(Step::act(actions, "MemberReplacing", message));
        }
        let has_stale_id = claim.member.is_some();
        let removed_before_noted =
            view.observed.set.pods.get(&ordinal).is_some_and(|pod| matches!(pod.loss(), Some(Loss::Damaged(_))));
        if has_stale_id || removed_before_noted {
            return Some(wipe(view, ordinal, claim, "it holds data of a member that was removed"));
        }
    }
    let away: Vec<i32> = view.voters().filter(|voter| is_away(view, *voter)).collect();
    if away.is_empty() {
        return add(view, ordinal, "MemberReplacing");
    }
    // etcd adds no member while a voter is away, but removes some. If that voter is not wanted back, members go from the last
    // one on, as far as a majority of the others is healthy: that may end before it is its turn.
    if away.iter().any(|voter| *voter >= wanted) {
        let removal = space::differ(view).or_else(|| leftover(view)).or_else(|| without_last(view, wanted));
        if let (Some(step), _) = by_urgency(removal) {
            return Some(step);
        }
    }
    let name = names::pod(view.object, ordinal);
    let message = format!("before {name} is added again, waiting for {}", view.unwell(away));
    Some(match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
        None => Step::wait("MemberReplacing", message),
    })
}

/// Reports whether etcd would refuse to add a member because of this voter: it does so while one is not connected. One that
/// only Causeway cannot reach is connected if its kubelet finds it ready, because the readiness probe is a read by a majority.
/// <https://etcd.io/docs/v3.5/op-guide/runtime-configuration/#strict-reconfiguration-check-mode-strict-reconfig-check>
fn is_away(view: &View<'_>, ordinal: i32) -> bool {
    let serves = |pod: &Pod| pod.ready && !pod.terminating && pod.lost_node.is_none();
    !view.is_healthy(ordinal) && !view.observed.set.pods.get(&ordinal).is_some_and(serves)
}

/// Volumes of members that were removed: a later member must not meet their data.
fn leftover(view: &View<'_>) -> Option<Step> {
    let last = *view.members.keys().last()?;
    let id_is_known = |claim: &Claim| view.members.values().any(|member| claim.member == Some(member.id));
    let actions: Vec<Action> = view
        .observed
        .set
        .claims
        .iter()
        .filter(|(ordinal, claim)| {
            **ordinal > last && !view.observed.set.pods.contains_key(ordinal) && !claim.terminating
        })
        .filter(|(_, claim)| claim.is_deletable() && !id_is_known(claim))
        .map(|(_, claim)| delete_claim(claim, "its member was removed"))
        .collect();
    if actions.is_empty() {
        // One on a lost node may never stop: see `left_on_lost_node`.
        let mut pods = view.observed.set.pods.iter();
        let (_, pod) = pods.find(|(ordinal, pod)| **ordinal > last && pod.lost_node.is_none())?;
        return Some(Step::wait("Scaling", format!("waiting for pod {} to stop", pod.place())));
    }
    Some(Step::act(actions, "Scaling", "removing volumes of members that were removed"))
}

/// A pod of a removed member on a lost node. Nothing but growth waits for it, so this comes last.
pub fn left_on_lost_node(view: &View<'_>) -> Option<Step> {
    let last = *view.members.keys().last()?;
    let mut pods = view.observed.set.pods.iter();
    let (_, pod) = pods.find(|(ordinal, pod)| **ordinal > last && pod.lost_node.is_some())?;
    let (count, wanted) = (view.members.len(), view.object.spec.replicas);
    let message = format!("{count} of {wanted} members; waiting for pod {} to stop{}", pod.name, remedy(pod));
    Some(Step::trouble("NodeLost", message))
}

/// One member less: removed from the cluster first, then its pod stops.
fn smaller(view: &View<'_>, wanted: i32) -> Option<Step> {
    if i32::try_from(view.members.len()).is_ok_and(|count| count <= wanted) {
        return None;
    }
    without_last(view, wanted)
}

/// The last member goes, once a majority of the others is healthy, and after it has handed leadership over.
fn without_last(view: &View<'_>, wanted: i32) -> Option<Step> {
    let (ordinal, member) = view.members.iter().next_back()?;
    let message = format!("{} of {wanted} wanted members", view.members.len());
    if !view.can_remove(*ordinal) {
        let others = view.unwell(view.unhealthy_voters_without(*ordinal));
        let message = format!("{message}: before the next is removed, waiting for {others}");
        return Some(Step::wait("Scaling", message));
    }
    if view.leader() == Some(*ordinal) {
        return Some(leadership::hand_over(view, *ordinal, |_| true).unwrap_or_else(|| Step::wait("Scaling", message)));
    }
    remove(view, *ordinal, member, "spec.replicas is smaller")
}

/// One member more, once all others are well.
fn larger(view: &View<'_>, wanted: i32) -> Option<Step> {
    let next = view.members.keys().last()? + 1;
    if next >= wanted {
        return None;
    }
    if let Some(pod) = view.observed.set.pods.get(&next) {
        if pod.lost_node.is_some() {
            return None;
        }
        // Its volume may hold data of a member that was removed; that is looked after once the pod is gone.
        return Some(Step::wait("Scaling", format!("pod {} goes away first", pod.name)));
    }
    if let Some(claim) = view.observed.set.claims.get(&next) {
        if claim.terminating {
            return Some(Step::wait("Scaling", format!("volume claim {} goes away first", claim.name)));
        }
        if claim.member.is_some() || !claim.is_deletable() {
            return Some(wipe(view, next, claim, "it holds data of a member that was removed"));
        }
    }
    if let Some(sick) = view.voters().find(|voter| !view.is_healthy(*voter)) {
        let message = format!(
            "{} of {wanted} members; before the next is added, waiting for {}",
            view.members.len(),
            view.unwell([sick])
        );
        return Some(Step::wait("Scaling", message));
    }
    add(view, next, "Scaling")
}

fn add(view: &View<'_>, ordinal: i32, reason: &'static str) -> Option<Step> {
    let name = names::pod(view.object, ordinal);
    if let Some(message) = view.observed.set.foreign.get(&ordinal) {
        return Some(Step::trouble("NameTaken", message.clone()));
    }
    if view.strangers().any(|member| member.is_learner) {
        // etcd allows a single learner at a time.
        return strangers::trouble(view);
    }
    if let Some(cancel) = downgrade::cancel(view, downgrade::SHUTS_OUT) {
        return Some(Step::act(vec![cancel], reason, format!("before {name} is added, etcd's downgrade is cancelled")));
    }
    let message = format!("adding {name}");
    let by_tls = view.transport().peer.mode == Mode::Secure;
    let action = Action::AddLearner { name, peer_url: names::peer_url(view.object, ordinal, by_tls), via: view.via()? };
    Some(Step::act(vec![action], reason, message))
}

fn remove(view: &View<'_>, ordinal: i32, member: &Member, why: &str) -> Option<Step> {
    let name = names::pod(view.object, ordinal);
    let message = format!("removing {name}: {why}");
    let action = Action::Remove { name, id: member.id, why: why.to_owned(), via: view.via()? };
    Some(Step::act(vec![action], "MemberRemoving", message))
}

/// Deletes the volume and the pod that holds on to it.
fn wipe(view: &View<'_>, ordinal: i32, claim: &Claim, why: &str) -> Step {
    if !claim.is_deletable() {
        let message = format!(
            "volume claim {} holds what an earlier object left, and no member of this one has used it: if that is not \
             needed, delete it (kubectl delete pvc {})",
            claim.name, claim.name
        );
        return Step::trouble("NameTaken", message);
    }
    let pod = view.observed.set.pods.get(&ordinal).filter(|pod| !pod.terminating);
    let mut actions = vec![delete_claim(claim, why)];
    actions.extend(pod.map(|pod| delete_pod(pod, "its volume is replaced")));
    Step::act(actions, "MemberReplacing", format!("emptying {}: {why}", claim.name))
}

fn healthy(view: &View<'_>) -> usize {
    view.members.keys().filter(|ordinal| view.is_healthy(**ordinal)).count()
}
