//! Alarms: data of members that differ, and a database without space.

use std::time::Duration;

use causeway_api::{EtcdCluster, EtcdClusterStatus};
use causeway_databases::ChildAction;
use causeway_databases::etcd::{Alarm, AlarmKind, EtcdError, Trouble};
use causeway_runtime::{ConditionStatus, Health, Plan};

use super::Simulation;
use super::faults::{Edit, Mishap};
use crate::action::Action;
use crate::cache::Cache;
use crate::decide::decide;
use crate::error::Error;
use crate::facts::Compaction;
use crate::fixtures::cluster;
use crate::names;

/// etcd 3.5 raises CORRUPT for no member: it does not know whose data are damaged.
const OF_NO_MEMBER: Alarm = Alarm { member: 0, kind: AlarmKind::Corrupt };
/// A member that was removed.
const GONE: u64 = 0xdead;

impl Simulation {
    /// Returns the plan while these alarms are raised.
    pub fn plan_with(&mut self, alarms: &[Alarm]) -> Plan<Action, EtcdClusterStatus> {
        self.alarmed_after(None, alarms)
    }

    /// The same after history was compacted.
    fn alarmed_after(&mut self, compacted: Option<Compaction>, alarms: &[Alarm]) -> Plan<Action, EtcdClusterStatus> {
        let object = self.object.clone();
        let mut observed = self.observe(&object, false);
        observed.quorum.as_mut().unwrap().alarms = alarms.to_vec();
        observed.compacted = compacted;
        decide(&object, &observed, self.now)
    }

    /// A user raises the quota, and the children follow.
    fn raise_quota(&mut self) {
        self.object.spec.config.insert("quota-backend-bytes".into(), "8589934592".into());
        let mut actions = self.plan_with(&[]).actions;
        while matches!(&actions[..], [Action::Child(ChildAction::Apply { .. }), ..]) {
            for action in &actions {
                self.act(action).unwrap();
            }
            actions = self.plan_with(&[]).actions;
        }
    }
}

#[test]
fn a_corruption_alarm_without_a_member_tells_how_to_compare() {
    let mut simulation = Simulation::settled(cluster(3));
    let plan = simulation.plan_with(&[OF_NO_MEMBER]);
    assert_eq!(plan.actions, [], "the operator does not end the alarm");
    let Health::Stalled(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert_eq!(cause.reason, "Corrupt");
    for command in ["etcdctl endpoint hashkv --cluster", "kubectl -n shop delete pvc data-", "etcdctl alarm disarm"] {
        assert!(cause.message.contains(command), "{command} is not in: {}", cause.message);
    }
    let condition = |type_: &str| plan.parts.iter().find(|part| part.type_ == type_).unwrap();
    assert_eq!((condition("Quorate").status, condition("Quorate").reason), (ConditionStatus::False, "Corrupt"));
    assert_eq!((condition("Alarm").status, condition("Alarm").reason), (ConditionStatus::True, "Corrupt"));
    assert!(!condition("Alarm").message.contains("replaced"), "{:?}", condition("Alarm"));
}

#[test]
fn differing_data_stop_growth_but_not_replacement() {
    let mut simulation = Simulation::settled(cluster(3));
    Edit::Replicas(5).happens(&mut simulation);
    Edit::Version("3.5.30").happens(&mut simulation);
    while !simulation.plan_with(&[OF_NO_MEMBER]).actions.is_empty() {
        let actions = simulation.plan_with(&[OF_NO_MEMBER]).actions;
        assert!(actions.iter().all(|action| matches!(action, Action::Child(_))), "{actions:?}");
        for action in &actions {
            simulation.act(action).unwrap();
        }
    }
    assert_eq!(simulation.raft.members.len(), 3);

    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    simulation.kubernetes.drop_claim(1, &mut simulation.raft);
    (0..3).for_each(|_| simulation.time_passes());
    let actions = simulation.plan_with(&[OF_NO_MEMBER]).actions;
    assert!(matches!(&actions[..], [Action::Remove { name, .. }] if name == "prod-etcd-1"), "{actions:?}");
}

#[test]
fn alarms_of_removed_members_end_with_an_event() {
    let mut simulation = Simulation::settled(cluster(3));
    for (kind, word) in [(AlarmKind::Corrupt, "CORRUPT"), (AlarmKind::NoSpace, "NOSPACE")] {
        let alarm = Alarm { member: GONE, kind };
        let plan = simulation.plan_with(&[alarm, OF_NO_MEMBER]);
        let [action @ Action::Disarm { alarm: ended, .. }] = &plan.actions[..] else { panic!("{:?}", plan.actions) };
        assert_eq!(*ended, alarm);
        let note = action.event().unwrap().note;
        assert!(note.contains(word) && note.contains("removed") && !note.contains("space again"), "{note}");
    }
}

/// etcd refuses compactions while the alarm CORRUPT is raised.
#[test]
fn space_is_freed_when_data_differ_no_longer() {
    let mut simulation = Simulation::settled(cluster(3));
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    assert_eq!(simulation.plan_with(&[full, OF_NO_MEMBER]).actions, []);
    let actions = simulation.plan_with(&[full]).actions;
    assert!(matches!(&actions[..], [Action::Compact { .. }]), "{actions:?}");
}

#[test]
fn space_is_freed_while_a_member_joins() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.kubernetes.homeless = Some(3);
    Edit::Replicas(5).happens(&mut simulation);
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert!(simulation.raft.members.values().any(|member| member.is_learner), "{:#?}", simulation.raft);
    assert_eq!(simulation.plan_with(&[]).actions, [], "it only waits");
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let actions = simulation.plan_with(&[full]).actions;
    assert!(matches!(&actions[..], [Action::Compact { .. }]), "{actions:?}");
}

/// A process keeps the quota that it was started with, so the next write to it raises the alarm again.
#[test]
fn a_raised_quota_is_rolled_out_before_disarming_again() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.raise_quota();
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let came_back = Compaction { revision: 0, measured: true, disarmed: true };
    let mut steps = Vec::new();
    for _ in 0..60 {
        let plan = simulation.alarmed_after(Some(came_back), &[full]);
        for action in &plan.actions {
            steps.push(match action {
                Action::Child(ChildAction::DeletePod { .. }) => "delete",
                Action::MoveLeader { .. } => "move",
                Action::Disarm { .. } => "disarm",
                Action::Child(ChildAction::Apply { child, .. }) if child.kind() == "ConfigMap" => "settings",
                _ => panic!("{action:?}"),
            });
            simulation.act(action).unwrap();
        }
        if steps.last() == Some(&"disarm") {
            break;
        }
        simulation.time_passes();
    }
    assert_eq!(steps, ["delete", "delete", "move", "delete", "settings", "disarm"]);
}

/// Its file stays above the quota, so it raises the alarm again and again. A rollout that waits for it does not help.
#[test]
fn an_unheard_members_alarm_is_disarmed_during_a_rollout() {
    let mut simulation = Simulation::settled(cluster(5));
    simulation.raise_quota();
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    let follows = |id: u64| simulation.raft.leader != Some(id);
    let unheard = observed.statuses.iter().find(|(_, status)| follows(status.member_id));
    let (ordinal, member) = unheard.map(|(ordinal, status)| (*ordinal, status.member_id)).unwrap();
    observed.statuses.remove(&ordinal);
    observed.quorum.as_mut().unwrap().alarms = vec![Alarm { member, kind: AlarmKind::NoSpace }];
    observed.compacted = Some(Compaction { revision: 0, measured: true, disarmed: true });
    let actions = decide(&object, &observed, simulation.now).actions;
    assert!(matches!(&actions[..], [Action::Disarm { .. }]), "{actions:?}");
}

/// A rollout waits for every member that is away, and writes would be refused as long.
#[test]
fn a_member_is_defragmented_while_the_rollout_waits() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.raise_quota();
    simulation.bloat();
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    let leader = simulation.raft.leader.unwrap();
    let followers: Vec<i32> =
        observed.statuses.iter().filter(|(_, status)| status.member_id != leader).map(|(at, _)| *at).collect();
    let (full, away) = (followers[0], followers[1]);
    let member = observed.statuses[&full].member_id;
    observed.statuses.remove(&away);
    observed.quorum.as_mut().unwrap().alarms = vec![Alarm { member, kind: AlarmKind::NoSpace }];
    observed.compacted = Some(Compaction { revision: 0, measured: true, disarmed: true });
    let actions = decide(&object, &observed, simulation.now).actions;
    let expected = names::pod(&object, full);
    assert!(matches!(&actions[..], [Action::Defragment { name, .. }] if *name == expected), "{actions:?}");
    // It uses all that it has: only another pod helps.
    let status = observed.statuses.get_mut(&full).unwrap();
    status.db_in_use = status.db_size;
    assert_eq!(decide(&object, &observed, simulation.now).actions, []);
}

/// etcd writes a copy, for which a nearly full volume has no room. Only a larger volume helps, and that comes after the
/// rollout.
#[test]
fn a_member_that_cannot_be_defragmented_holds_up_no_rollout() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.raise_quota();
    simulation.bloat();
    let (cache, object) = (Cache::default(), simulation.object.clone());
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let mut steps = Vec::new();
    for _ in 0..80 {
        let mut observed = simulation.observe(&object, false);
        observed.quorum.as_mut().unwrap().alarms = vec![full];
        (observed.compacted, observed.undefragmented) = (cache.compacted(&object), cache.undefragmented(&object));
        for action in &decide(&object, &observed, simulation.now).actions {
            let refusal = || EtcdError::new("Defragment", Trouble::Other, "no space left on device".into());
            let failure = matches!(action, Action::Defragment { .. }).then(|| Error::Etcd(refusal()));
            steps.push(match action {
                Action::Compact { .. } => "compact",
                Action::Defragment { .. } => "defragment",
                Action::Child(ChildAction::DeletePod { .. }) => "delete",
                Action::MoveLeader { .. } => "move",
                Action::Disarm { .. } => "disarm",
                Action::Child(ChildAction::Apply { child, .. }) if child.kind() == "ConfigMap" => "settings",
                _ => panic!("{action:?}"),
            });
            if failure.is_none() {
                simulation.act(action).unwrap();
            }
            cache.note_outcome(&object, action, failure.as_ref(), Duration::ZERO);
        }
        if steps.last() == Some(&"disarm") && steps.contains(&"delete") {
            break;
        }
        simulation.time_passes();
    }
    assert_eq!(steps, ["compact", "defragment", "disarm", "delete", "delete", "move", "delete", "settings", "disarm"]);
}

#[test]
fn a_full_volume_grows_before_its_member_is_defragmented() {
    let mut simulation = Simulation::settled(cluster(3));
    let mut object = simulation.object.clone();
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let decided = |simulation: &mut Simulation, object: &EtcdCluster, failed: &[String]| {
        let mut observed = simulation.observe(object, false);
        observed.quorum.as_mut().unwrap().alarms = vec![full];
        for status in observed.statuses.values_mut() {
            status.db_size = 2 << 30;
        }
        let revision = observed.statuses.values().map(|status| status.revision).max().unwrap_or_default();
        observed.compacted = Some(Compaction { revision, measured: false, disarmed: false });
        observed.undefragmented = failed.iter().cloned().collect();
        decide(object, &observed, simulation.now)
    };
    let mut failed = Vec::new();
    for _ in 0..3 {
        let actions = decided(&mut simulation, &object, &failed).actions;
        let [Action::Defragment { name, .. }] = &actions[..] else { panic!("{actions:?}") };
        assert!(!failed.contains(name), "{name} again");
        failed.push(name.clone());
    }
    let plan = decided(&mut simulation, &object, &failed);
    let Health::Progressing(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert!(plan.actions.is_empty() && cause.reason == "NoSpace", "{cause:?}");
    assert!(cause.message.contains("Set spec.storage.size larger"), "{}", cause.message);
    object.spec.storage_size = Some("20Gi".into());
    // The set comes first, because the size of its volumes cannot change.
    for _ in 0..3 {
        let actions = decided(&mut simulation, &object, &failed[..1]).actions;
        match &actions[..] {
            [Action::Child(ChildAction::GrowClaim { name, .. })] => {
                return assert!(name.ends_with(&failed[0]), "{name}");
            }
            [action] => simulation.act(action).unwrap(),
            actions => panic!("{actions:?}"),
        }
    }
    panic!("the volume of {} does not grow", failed[0]);
}

/// The alarm may be older than the edit, and history may have filled the quota.
#[test]
fn an_alarm_is_disarmed_before_pods_are_replaced() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.raise_quota();
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let compacted = |disarmed| Some(Compaction { revision: 0, measured: true, disarmed });
    let actions = simulation.alarmed_after(compacted(false), &[full]).actions;
    assert!(matches!(&actions[..], [Action::Disarm { .. }]), "{actions:?}");
    Edit::Mistake.happens(&mut simulation);
    let actions = simulation.alarmed_after(compacted(true), &[full]).actions;
    assert!(matches!(&actions[..], [Action::Disarm { .. }]), "{actions:?}");
}
