//! Alarms: data of members that differ, and a database without space.

use super::Simulation;
use super::faults::{Edit, Mishap};
use crate::api::EtcdClusterStatus;
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::decide::decide;
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::external::etcd::{Alarm, AlarmKind};
use crate::runtime::{ConditionStatus, Health, Plan};

/// etcd 3.5 raises CORRUPT for no member: it does not know whose data are damaged.
const OF_NOBODY: Alarm = Alarm { member: 0, kind: AlarmKind::Corrupt };
/// A member that was removed.
const GONE: u64 = 0xdead;

impl Simulation {
    /// What is decided while these alarms are raised.
    fn alarmed(&mut self, alarms: &[Alarm]) -> Plan<Action, EtcdClusterStatus> {
        let object = self.object.clone();
        let mut observed = self.observe(&object, false);
        observed.quorum.as_mut().unwrap().alarms = alarms.to_vec();
        decide(&object, &observed, self.now)
    }
}

#[test]
fn an_alarm_of_differing_data_that_names_no_member_stays_and_the_user_reads_how_to_compare_them() {
    let mut simulation = Simulation::settled(cluster(3));
    let plan = simulation.alarmed(&[OF_NOBODY]);
    assert_eq!(plan.actions, [], "nobody ends the alarm");
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
fn while_data_differ_no_member_is_added_and_one_whose_volume_its_user_deleted_is_replaced() {
    let mut simulation = Simulation::settled(cluster(3));
    Edit::Replicas(5).happens(&mut simulation);
    Edit::Version("3.5.30").happens(&mut simulation);
    while !simulation.alarmed(&[OF_NOBODY]).actions.is_empty() {
        let actions = simulation.alarmed(&[OF_NOBODY]).actions;
        assert!(actions.iter().all(|action| matches!(action, Action::Child(_))), "{actions:?}");
        for action in &actions {
            simulation.act(action).unwrap();
        }
    }
    assert_eq!(simulation.raft.members.len(), 3);

    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    simulation.kubernetes.drop_claim(1, &mut simulation.raft);
    (0..3).for_each(|_| simulation.time_passes());
    let actions = simulation.alarmed(&[OF_NOBODY]).actions;
    assert!(matches!(&actions[..], [Action::Remove { name, .. }] if name == "prod-etcd-1"), "{actions:?}");
}

#[test]
fn alarms_of_members_that_were_removed_end_and_events_name_them() {
    let mut simulation = Simulation::settled(cluster(3));
    for (kind, word) in [(AlarmKind::Corrupt, "CORRUPT"), (AlarmKind::NoSpace, "NOSPACE")] {
        let alarm = Alarm { member: GONE, kind };
        let plan = simulation.alarmed(&[alarm, OF_NOBODY]);
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
    assert_eq!(simulation.alarmed(&[full, OF_NOBODY]).actions, []);
    let actions = simulation.alarmed(&[full]).actions;
    assert!(matches!(&actions[..], [Action::Compact { .. }]), "{actions:?}");
}

#[test]
fn space_is_freed_while_a_member_that_joins_is_waited_for() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.kubernetes.homeless = Some(3);
    Edit::Replicas(5).happens(&mut simulation);
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert!(simulation.raft.members.values().any(|member| member.is_learner), "{:#?}", simulation.raft);
    assert_eq!(simulation.alarmed(&[]).actions, [], "it only waits");
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let actions = simulation.alarmed(&[full]).actions;
    assert!(matches!(&actions[..], [Action::Compact { .. }]), "{actions:?}");
}
