//! Writes the status of a cluster.

use causeway_api::EtcdClusterStatus;
use causeway_api::etcdcluster::{MemberStatus, UnknownMember};
use causeway_databases::etcd::{AlarmKind, Member};
use causeway_databases::names::selector_text;
use causeway_databases::step::numbers;
use causeway_databases::{memory_risk, node_failure, rivals};
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::database::EtcdDatabase;
use super::super::membership::never_started;
use super::super::names;
use super::{UNREACHABLE, View, auth, backup, certificates, children, majority, recovery, space};

/// The status without conditions. What is not known now stays as it was reported last.
pub fn status(view: &View<'_>) -> EtcdClusterStatus {
    let before = view.object.status.clone().unwrap_or_default();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let alive = view.observed.set.pods.values().filter(|pod| !pod.terminating);
    let status = EtcdClusterStatus {
        replicas: count(alive.count()),
        selector: Some(selector_text::<EtcdDatabase>(view.object)),
        volume_size: view.observed.set.volume_size().or_else(|| before.volume_size.clone()),
        auth: auth::record(view),
        downgrade: view.downgrade.clone(),
        proven_revision: children::proven(view).or_else(|| before.proven_revision.clone()),
        ..before
    };
    let status = match &view.object.spec.recovery {
        Some(asked) if recovery::ends(view) => EtcdClusterStatus {
            recovered: Some(asked.token.clone()),
            recovered_revisions: recovery::revisions(view),
            ..status
        },
        _ => status,
    };
    let Some(quorum) = &view.observed.quorum else {
        let answering = |member: &MemberStatus| {
            let ordinal = names::ordinal_of(view.object, &member.name);
            let known = ordinal.and_then(|ordinal| view.observed.statuses.get(&ordinal));
            known.is_some_and(|status| status.leader != 0)
        };
        let members: Vec<MemberStatus> = status
            .members
            .iter()
            .map(|member| MemberStatus { is_healthy: answering(member), is_leader: false, ..member.clone() })
            .collect();
        let ready = members.iter().filter(|member| member.is_healthy && !member.is_learner).count();
        return EtcdClusterStatus { ready_replicas: count(ready), leader: None, members, ..status };
    };
    let leader = view.leader();
    let members: Vec<MemberStatus> =
        view.members.iter().map(|(ordinal, member)| describe(view, *ordinal, member, leader)).collect();
    let versions = members.iter().filter_map(|member| member.version.clone());
    EtcdClusterStatus {
        ready_replicas: count(members.iter().filter(|member| member.is_healthy && !member.is_learner).count()),
        member_count: count(quorum.members.len()),
        current_version: versions.min_by_key(|version| numbers(version)).or_else(|| status.current_version.clone()),
        cluster_id: Some(format!("{:x}", quorum.cluster_id)),
        leader: leader.map(|ordinal| names::pod(view.object, ordinal)),
        members,
        unknown_members: view.strangers().map(describe_unknown).collect(),
        ..status
    }
}

fn describe_unknown(member: &Member) -> UnknownMember {
    UnknownMember {
        id: format!("{:x}", member.id),
        name: Some(member.name.clone()).filter(|name| !name.is_empty()),
        peer_urls: member.peer_urls.clone(),
        has_started: !never_started(member),
        is_learner: member.is_learner,
    }
}

fn describe(view: &View<'_>, ordinal: i32, member: &Member, leader: Option<i32>) -> MemberStatus {
    let name = names::pod(view.object, ordinal);
    let before = view.object.status.iter().flat_map(|status| &status.members).find(|known| known.name == name);
    let status = view.observed.status_of(ordinal, member);
    MemberStatus {
        id: format!("{:x}", member.id),
        version: status.map(|status| status.version.clone()).or_else(|| before.and_then(|known| known.version.clone())),
        is_healthy: view.is_healthy(ordinal),
        is_learner: member.is_learner,
        is_leader: leader == Some(ordinal),
        name,
    }
}

fn is_full(view: &View<'_>) -> bool {
    let mut alarms = view.observed.quorum.iter().flat_map(|quorum| &quorum.alarms);
    alarms.any(|alarm| alarm.kind == AlarmKind::NoSpace)
}

/// Conditions besides Ready, Reconciling and Stalled: whether there is a majority, whether all members are well, and alarms.
pub fn parts(view: &View<'_>) -> Vec<ExtraCondition> {
    if view.observed.quorum.is_none() {
        let (reason, message) = if view.has_begun() {
            view.missing_majority()
        } else {
            ("Bootstrapping", "the members have not found each other yet".into())
        };
        let status = if reason == UNREACHABLE { ConditionStatus::Unknown } else { ConditionStatus::False };
        let lost = ExtraCondition { type_: "Quorate", status, reason, message };
        let (quorate, members) = match auth::quorate(view) {
            Some(quorate) => (quorate, "Causeway may not ask for the list of members"),
            None if reason == UNREACHABLE => (lost, "Causeway cannot reach the members"),
            None => (lost, "no majority agrees on the members"),
        };
        let members = ExtraCondition {
            type_: "AllMembersReady",
            status: if quorate.status == ConditionStatus::Unknown { quorate.status } else { ConditionStatus::False },
            reason: quorate.reason,
            message: members.into(),
        };
        let mut parts = vec![certificates::part(view), quorate, members];
        parts.push(recovery::part(view));
        parts.extend(backup::part(view));
        parts.extend(auth::part(view));
        return parts;
    }
    let (voters, strangers) = (view.votes(), view.strangers().count());
    let ours = if strangers == 0 { String::new() } else { format!("; {strangers} members are not Causeway's") };
    let healthy = view.voters().filter(|voter| view.is_healthy(*voter)).count();
    let silent: Vec<String> = view
        .members
        .keys()
        .filter(|ordinal| !view.is_healthy(**ordinal))
        .map(|ordinal| names::pod(view.object, *ordinal))
        .collect();
    let all = silent.is_empty() && strangers == 0 && view.members.values().all(|member| !member.is_learner);
    let text = match (all, silent.as_slice()) {
        (true, _) => format!("all {} members answer and vote", view.members.len()),
        (false, []) if strangers > 0 => format!("{strangers} members are not Causeway's: it cannot ask them"),
        (false, []) => "a member does not vote yet".into(),
        (false, silent) => format!("{} not well{ours}", silent.join(", ")),
    };
    let (corrupt, full) = (space::is_corrupt(view), is_full(view));
    // A majority answered a moment after members were asked one by one: then some of them were choosing a leader.
    let counted = if healthy < majority(voters) {
        format!("a majority of {voters} voting members answers{ours}")
    } else {
        format!("{healthy} of {voters} voting members are healthy{ours}")
    };
    let (reason, message) = if corrupt {
        (space::CORRUPT, "a majority answers, but it refuses writes: data of members differ (condition Alarm)".into())
    } else {
        ("QuorumHealthy", counted)
    };
    let pods = view.voters().filter_map(|voter| view.observed.set.pods.get(&voter));
    let mut parts = vec![
        certificates::part(view),
        rivals::part::<EtcdDatabase>(view.object, &view.observed.set.rivals),
        memory_risk::part(space::outgrows_memory(view)),
        node_failure::part(pods, majority(voters), "the majority is lost"),
        ExtraCondition { type_: "Quorate", status: (!corrupt).into(), reason, message },
        ExtraCondition {
            type_: "AllMembersReady",
            status: all.into(),
            reason: if all { "AllReady" } else { "MembersNotReady" },
            message: text,
        },
        ExtraCondition {
            type_: "Alarm",
            status: ConditionStatus::only_if(corrupt || full),
            reason: if corrupt { space::CORRUPT } else { "NoSpace" },
            message: match () {
                () if space::differ(view).is_some() => "data differ, and etcd does not know which member's are damaged",
                () if corrupt => "data of a member differ from the others': it is replaced",
                () => "no space is left, and writes are refused",
            }
            .into(),
        },
    ];
    parts.push(recovery::part(view));
    parts.extend(backup::part(view));
    parts.extend(auth::part(view));
    parts
}
