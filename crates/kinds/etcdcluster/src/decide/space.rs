//! Alarms. After NOSPACE, Causeway compacts history, defragments members, and disarms the alarm. It disarms CORRUPT only
//! once the member that etcd names was replaced.
//! <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>

use kube::ResourceExt;

use causeway_databases::etcd::{Alarm, AlarmKind, Status};
use causeway_databases::memory_risk;
use causeway_runtime::Health;

use super::super::action::Action;
use super::super::facts::Pod;
use super::super::names;
use super::defrag::LEAST;
use super::{RESYNC_INTERVAL, Step, View};

/// etcd's own default for quota-backend-bytes.
const DEFAULT_QUOTA: i64 = 2 * 1024 * 1024 * 1024;

/// The reason while writes are refused.
const NO_SPACE: &str = "NoSpace";

/// The reason while data of members differ, and writes are refused.
pub const CORRUPT: &str = "Corrupt";

/// This many new revisions are not worth another compaction.
const FEW: i64 = 1000;

/// Disarms alarms of members that are gone: they would stay forever, and an alarm CORRUPT stops all writes.
pub fn stale(view: &View<'_>) -> Option<Step> {
    let quorum = view.observed.quorum.as_ref()?;
    let gone = |alarm: &&Alarm| !quorum.members.iter().any(|member| member.id == alarm.member);
    let stale: Vec<Alarm> =
        quorum.alarms.iter().filter(gone).filter(|alarm| !names_no_member(alarm)).copied().collect();
    let reason = if stale.iter().any(is_of_data) { CORRUPT } else { NO_SPACE };
    (!stale.is_empty()).then(|| disarm(&stale, view, reason, "its member was removed"))
}

fn is_of_data(alarm: &Alarm) -> bool {
    alarm.kind == AlarmKind::Corrupt
}

/// Reports whether etcd found different data and does not know which member's are damaged. It then names member 0.
/// <https://github.com/etcd-io/etcd/blob/v3.5.35/server/etcdserver/corrupt.go#L208>
fn names_no_member(alarm: &Alarm) -> bool {
    is_of_data(alarm) && alarm.member == 0
}

/// Reports whether data of members differ, and writes are refused.
pub fn is_corrupt(view: &View<'_>) -> bool {
    view.observed.quorum.iter().flat_map(|quorum| &quorum.alarms).any(is_of_data)
}

/// Returns the step if etcd does not know which member's data are damaged. If writes went on, the members would differ ever
/// more.
pub fn differ(view: &View<'_>) -> Option<Step> {
    view.observed.quorum.as_ref()?.alarms.iter().find(|alarm| names_no_member(alarm))?;
    let (namespace, cluster) = (view.object.namespace().unwrap_or_default(), view.object.name_any());
    let etcdctl = format!("kubectl -n {namespace} exec {} -- etcdctl", names::pod(view.object, 0));
    let message = format!(
        "the data of members differ (alarm CORRUPT), and etcd does not know which member's are damaged: writes are refused, \
         and Causeway leaves the alarm on. Compare them: {etcdctl} endpoint hashkv --cluster. Delete the volume and the pod of \
         the member whose hash differs from the majority's, and Causeway replaces it: kubectl -n {namespace} delete pvc \
         data-{cluster}-N --wait=false; kubectl -n {namespace} delete pod {cluster}-N. When all hashes are equal, end the \
         alarm: {etcdctl} alarm disarm"
    );
    Some(Step::stalled(CORRUPT, message))
}

/// Reports whether writes are refused, and the status does not say so yet. It is written first, for defragmentation takes
/// seconds.
pub fn is_new(view: &View<'_>, step: &Step) -> bool {
    let conditions = view.object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    // Any reason counts: a failure on the way is reported under a reason of its own, which each try must not replace.
    let known = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "False");
    !known && matches!(&step.health, Health::Progressing(cause) if cause.reason == NO_SPACE)
}

/// The step, whose health says so if writes are refused while something else goes on.
pub fn describe(view: &View<'_>, step: Step) -> Step {
    let mut alarms = view.observed.quorum.iter().flat_map(|quorum| &quorum.alarms);
    let Health::Progressing(cause) = &step.health else { return step };
    if cause.reason == NO_SPACE || !alarms.any(|alarm| alarm.kind == AlarmKind::NoSpace) {
        return step;
    }
    let message = format!("no space is left, and writes are refused; {}", cause.message);
    Step { health: Health::progressing(NO_SPACE, message), ..step }
}

/// The next step out of an alarm; `None` if pods are to be replaced first.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let alarms = &view.observed.quorum.as_ref()?.alarms;
    let via = view.via()?;
    let full: Vec<Alarm> = alarms.iter().filter(|alarm| alarm.kind == AlarmKind::NoSpace).copied().collect();
    // etcd refuses to compact while data differ.
    if full.is_empty() || is_corrupt(view) {
        return None;
    }
    let leader = view.leader()?;
    let status = view.observed.statuses.get(&leader)?;
    let compact = || {
        let action = Action::Compact { revision: status.revision, via: via.clone() };
        Some(Step::act(vec![action], NO_SPACE, "no space is left: forgetting old revisions"))
    };
    // Users delete keys meanwhile, and each deletion is a revision: compacting up to the very last one might never end.
    let Some(done) = view.observed.compacted.filter(|done| done.revision + FEW >= status.revision) else {
        return compact();
    };
    let quota = quota(view);
    let enough = quota / 10 * 9;
    // All hold the same keys, so the lowest value that one of them reports is nearest to the truth.
    let voters =
        view.observed.statuses.values().filter(|status| !status.is_learner && status.revision >= done.revision);
    let in_use = voters.map(|status| status.db_in_use).min().unwrap_or(status.db_in_use);
    // One that could not be defragmented does not keep the others from it. It is tried again later.
    let has_failed = |ordinal: i32| view.observed.undefragmented.contains(&names::pod(view.object, ordinal));
    // The others first: the leader serves as long as it can.
    let next = |fits: &dyn Fn(&Status) -> bool| {
        let fits = |ordinal: &i32| !has_failed(*ordinal) && view.observed.statuses.get(ordinal).is_some_and(fits);
        // A learner cannot be defragmented.
        let others = view.voters().filter(|ordinal| *ordinal != leader);
        others.chain([leader]).find(fits)
    };
    let give_back = |ordinal: i32| {
        let name = names::pod(view.object, ordinal);
        let message = format!("no space is left: giving back what {name} does not use");
        let via = view.observed.endpoint(ordinal)?;
        let action = Action::Defragment { name, via, others: view.other_voters(ordinal) };
        Some(Step::act(vec![action], NO_SPACE, message))
    };
    if in_use > enough {
        if done.revision < status.revision {
            return compact();
        }
        if !done.measured
            && let Some(any) = next(&|_| true)
        {
            return give_back(any);
        }
        let message = format!(
            "no space is left: {} MiB of {} are in use. Delete keys, or set spec.config.quota-backend-bytes higher (at most \
             8589934592)",
            in_use >> 20,
            quota >> 20
        );
        return Some(Step { again: RESYNC_INTERVAL / 4, ..Step::wait(NO_SPACE, message) });
    }
    let is_bloated = |status: &Status| status.db_size > enough;
    if let Some(bloated) = next(&is_bloated) {
        return give_back(bloated);
    }
    // Its next write would raise the alarm again.
    if let Some(ordinal) = view.voters().find(|ordinal| view.observed.statuses.get(ordinal).is_some_and(is_bloated)) {
        let name = names::pod(view.object, ordinal);
        let message = format!(
            "no space is left: {name} could not be defragmented. That takes room on its volume for a copy of what is in \
             use, and at most a minute. Set spec.storage.size larger; kubectl -n {} logs {name} has etcd's words",
            view.object.namespace().unwrap_or_default()
        );
        return Some(Step { again: RESYNC_INTERVAL / 4, ..Step::wait(NO_SPACE, message) });
    }
    // These may have a lower quota than the spec's until they are replaced, and that may wait for another member for long.
    let outdated: Vec<u64> = full.iter().map(|alarm| alarm.member).filter(|id| runs_earlier_spec(view, *id)).collect();
    let wastes = |status: &Status| status.db_size - status.db_in_use >= LEAST.max(status.db_size / 10);
    let may_help = |status: &Status| outdated.contains(&status.member_id) && wastes(status);
    if let Some(wasteful) = next(&may_help) {
        return give_back(wasteful);
    }
    if accepted && done.disarmed && !outdated.is_empty() {
        return None;
    }
    Some(disarm(&full, view, NO_SPACE, "there is space again"))
}

/// Reports whether the member of that ID answers and was started with an earlier spec. A process keeps the quota that it was
/// started with, and raises the alarm again at the next write if that is too low: then only another pod helps.
/// <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>
fn runs_earlier_spec(view: &View<'_>, id: u64) -> bool {
    let is_outdated = |ordinal: &i32| view.observed.set.pods.get(ordinal).is_some_and(|pod| view.is_outdated(pod));
    let mut members = view.members.iter();
    members.any(|(ordinal, member)| member.id == id && view.is_healthy(*ordinal) && is_outdated(ordinal))
}

fn disarm(alarms: &[Alarm], view: &View<'_>, reason: &'static str, why: &'static str) -> Step {
    let via = view.via();
    let actions = alarms.iter().filter_map(|alarm| Some(Action::Disarm { alarm: *alarm, why, via: via.clone()? }));
    Step::act(actions.collect(), reason, format!("ending an alarm: {why}"))
}

fn quota(view: &View<'_>) -> i64 {
    let user_provided = view.object.spec.config.get("quota-backend-bytes").and_then(|text| text.parse().ok());
    user_provided.filter(|quota| *quota > 0).unwrap_or(DEFAULT_QUOTA)
}

/// The danger that a member's data outgrow the memory limit which its pod has, before etcd refuses writes.
pub fn outgrows_memory(view: &View<'_>) -> Option<String> {
    let quota = u64::try_from(quota(view)).ok()?;
    let is_low = |pod: &&Pod| pod.own.memory_limit.is_some_and(|limit| limit <= quota);
    let pod = view.observed.set.pods.values().find(is_low)?;
    let given = view.object.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let is_from_spec = given.is_some_and(|limits| limits.contains_key("memory"));
    Some(format!(
        "spec.config.quota-backend-bytes lets the data of {} grow to {} MiB, but its memory limit is {} MiB, from {}: the kernel kills \
         the member before etcd refuses writes. Set spec.resources.limits.memory higher, or spec.config.quota-backend-bytes to a part \
         of the limit",
        pod.name,
        quota >> 20,
        pod.own.memory_limit.unwrap_or_default() >> 20,
        memory_risk::origin(is_from_spec)
    ))
}

#[cfg(test)]
mod tests {
    use std::cell::OnceCell;
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;
    use crate::facts::{Compaction, Node, Observed, Quorum, Set};
    use crate::fixtures::cluster;
    use causeway_api::{EtcdCluster, EtcdClusterStatus};
    use causeway_databases::etcd::{Member, Status};

    /// Returns the action for a single member that is full, at that revision, with so much in use.
    fn next_action(revision: i64, db_in_use: i64, compacted: impl Into<Option<Compaction>>) -> Option<Action> {
        step_at(&cluster(1), revision, db_in_use, compacted).0.actions.into_iter().next()
    }

    /// The step, and whether it is news to the status.
    fn step_at(
        object: &EtcdCluster,
        revision: i64,
        db_in_use: i64,
        compacted: impl Into<Option<Compaction>>,
    ) -> (Step, bool) {
        let member = Member { id: 1, peer_urls: vec![names::peer_url(object, 0, false)], ..Member::default() };
        let status =
            Status { member_id: 1, leader: 1, revision, db_size: DEFAULT_QUOTA, db_in_use, ..Status::default() };
        let pod = Pod { address: Some("10.0.0.1".into()), ..Pod::default() };
        let observed = Observed {
            set: Set { pods: BTreeMap::from([(0, pod)]), ..Set::default() },
            statuses: BTreeMap::from([(0, status)]),
            quorum: Some(Quorum {
                cluster_id: 1,
                members: vec![member],
                alarms: vec![Alarm { kind: AlarmKind::NoSpace, member: 1 }],
            }),
            compacted: compacted.into(),
            ..Observed::default()
        };
        let (members, now) = (observed.members(object), Timestamp::UNIX_EPOCH);
        let (transport, revision) = (OnceCell::new(), OnceCell::new());
        let view =
            View { object, written: object, downgrade: None, observed: &observed, members, now, transport, revision };
        let step = step(&view, true).unwrap();
        let is_new = is_new(&view, &step);
        (step, is_new)
    }

    #[test]
    fn a_limit_below_the_quota_is_told_with_its_origin() {
        let told = |resources: serde_json::Value, quota: Option<&str>, limit: u64| {
            let mut object = cluster(1);
            object.spec.resources = serde_json::from_value(resources).unwrap();
            object.spec.config.extend(quota.map(|text| ("quota-backend-bytes".to_owned(), text.to_owned())));
            let own = Node { memory_limit: Some(limit << 20), ..Node::default() };
            let pod = Pod { name: "prod-etcd-0".into(), own, ..Pod::default() };
            let observed =
                Observed { set: Set { pods: BTreeMap::from([(0, pod)]), ..Set::default() }, ..Observed::default() };
            let (transport, revision) = (OnceCell::new(), OnceCell::new());
            let (object, members, now) = (&object, BTreeMap::new(), Timestamp::UNIX_EPOCH);
            let view = View {
                object,
                written: object,
                downgrade: None,
                observed: &observed,
                members,
                now,
                transport,
                revision,
            };
            outgrows_memory(&view)
        };
        let requests = || serde_json::json!({ "requests": { "memory": "64Mi" } });
        let limits = || serde_json::json!({ "limits": { "memory": "512Mi" } });
        let others = told(requests(), None, 512).unwrap();
        for words in ["prod-etcd-0", "2048 MiB", "512 MiB", "LimitRange", "spec.resources.limits.memory"] {
            assert!(others.contains(words), "{others}");
        }
        assert!(told(limits(), None, 512).unwrap().contains("from spec.resources"));
        assert_eq!(told(limits(), Some("268435456"), 512), None);
        assert_eq!(told(serde_json::Value::Null, None, 10240), None);
    }

    fn compaction_at(revision: i64, measured: bool) -> Compaction {
        Compaction { revision, measured, disarmed: false }
    }

    /// Under load, compaction and defragmentation take seconds, in which writes are refused.
    #[test]
    fn refused_writes_are_reported_once_before_any_action() {
        let mut object = cluster(1);
        assert!(step_at(&object, 7000, 1, None).1);
        let ready = |reason: &str| Condition {
            type_: "Ready".into(),
            status: if reason == "Serving" { "True" } else { "False" }.into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        for (reason, expected) in [("Serving", true), ("NoSpace", false), ("EtcdCallFailed", false)] {
            object.status = Some(EtcdClusterStatus { conditions: vec![ready(reason)], ..EtcdClusterStatus::default() });
            assert_eq!(step_at(&object, 7000, 1, None).1, expected, "{reason}");
            assert_eq!(step_at(&object, 7000, 1, compaction_at(7000, false)).1, expected, "{reason}");
        }
    }

    #[test]
    fn history_is_forgotten_once_whatever_is_deleted_meanwhile() {
        assert!(matches!(next_action(7000, 1, None), Some(Action::Compact { revision: 7000, .. })));
        assert!(matches!(next_action(7000, 1, compaction_at(7000, false)), Some(Action::Defragment { .. })));
        assert!(matches!(next_action(7500, 1, compaction_at(7000, false)), Some(Action::Defragment { .. })));
        assert!(matches!(
            next_action(9000, 1, compaction_at(7000, false)),
            Some(Action::Compact { revision: 9000, .. })
        ));
    }

    #[test]
    fn a_members_size_is_trusted_only_after_defragmentation() {
        assert!(matches!(
            next_action(7000, DEFAULT_QUOTA, compaction_at(7000, false)),
            Some(Action::Defragment { .. })
        ));
        assert_eq!(next_action(7000, DEFAULT_QUOTA, compaction_at(7000, true)), None);
    }

    #[test]
    fn a_single_deletion_of_many_keys_is_made_use_of() {
        let found = next_action(7001, DEFAULT_QUOTA, compaction_at(7000, true));
        assert!(matches!(found, Some(Action::Compact { revision: 7001, .. })));
    }
}
