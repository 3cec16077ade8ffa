//! The `DatabaseBackup` that a cluster owns, and pods that the apiserver refuses.

use serde_json::json;

use causeway_databases::{ChildAction, simulation};
use causeway_runtime::manifest::Manifest;
use causeway_runtime::{Class, ConditionStatus, ExtraCondition, Health};

use super::Simulation;
use super::faults::{Edit, Mishap};
use super::kubernetes::Kubernetes;
use crate::action::Action;
use crate::decide::decide;
use crate::facts::{Backup, Child};
use crate::fixtures::cluster;

impl Kubernetes {
    pub fn apply_backup(&mut self, child: &Manifest, uid: Option<&str>) -> Result<(), Class> {
        let live = match &self.backup {
            Backup::Present(live) => Some(live.uid.clone()),
            Backup::Absent => None,
            unknown => panic!("applied while it is {unknown:?}"),
        };
        if live.as_deref() != uid {
            return Err(Class::Conflict);
        }
        let uid = live.unwrap_or_else(|| "backup".into());
        self.backup = Backup::Present(Child { value: child.value.clone(), uid, ours: true });
        Ok(())
    }

    pub fn delete_backup(&mut self, uid: &str) -> Result<(), Class> {
        let Backup::Present(live) = &self.backup else { return Ok(()) };
        assert!(live.ours, "an object of another owner is deleted");
        if live.uid != uid {
            return Err(Class::Conflict);
        }
        self.backup = Backup::Absent;
        Ok(())
    }
}

impl Simulation {
    fn backup_ready(&mut self) -> Option<ExtraCondition> {
        let object = self.object.clone();
        let observed = self.observe(&object, false);
        decide(&object, &observed, self.now).parts.into_iter().find(|part| part.type_ == "BackupReady")
    }

    fn spec_of_backup(&self) -> Option<serde_json::Value> {
        match &self.kubernetes.backup {
            Backup::Present(live) => Some(live.value["spec"].clone()),
            _ => None,
        }
    }
}

/// A cluster at rest with a schedule, while the `DatabaseBackup` is like that.
fn scheduled(backup: Backup) -> Simulation {
    let mut object = cluster(3);
    object.spec.backup_schedule = Some("0 2 * * *".into());
    let mut simulation = Simulation::new(object);
    simulation.kubernetes.backup = backup;
    simulation.settle();
    simulation.assert_settled();
    simulation
}

fn live(spec: &serde_json::Value, ours: bool) -> Backup {
    Backup::Present(Child { value: json!({ "spec": spec }), uid: "other".into(), ours })
}

#[test]
fn a_schedule_creates_a_backup_that_follows_it() {
    let mut simulation = scheduled(Backup::Absent);
    let source = json!({ "etcdCluster": { "name": "prod-etcd" } });
    assert_eq!(simulation.spec_of_backup(), Some(json!({ "schedule": "0 2 * * *", "source": source })));
    assert_eq!(simulation.backup_ready().unwrap().reason, "BackupPending");

    // Another schedule, and drift.
    simulation.object.spec.backup_schedule = Some("0 4 * * *".into());
    simulation.settle();
    assert_eq!(simulation.spec_of_backup().unwrap()["schedule"], "0 4 * * *");
    if let Backup::Present(live) = &mut simulation.kubernetes.backup {
        live.value["spec"]["schedule"] = json!("0 0 1 1 *");
    }
    simulation.settle();
    assert_eq!(simulation.spec_of_backup().unwrap()["schedule"], "0 4 * * *");

    simulation.object.spec.backup_schedule = None;
    simulation.settle();
    assert_eq!(simulation.kubernetes.backup, Backup::Absent);
    assert_eq!(simulation.backup_ready().unwrap().status, ConditionStatus::Absent);
}

#[test]
fn backups_are_as_ready_as_the_backup_says() {
    for (status, expected) in [("True", (true, "BackupReady")), ("False", (false, "BackupNotReady"))] {
        let mut simulation = scheduled(Backup::Absent);
        let Backup::Present(live) = &mut simulation.kubernetes.backup else { panic!() };
        let ready = json!({ "type": "Ready", "status": status, "reason": "Why", "message": "in its words" });
        live.value["status"] = json!({ "conditions": [{ "type": "Other", "status": "True" }, ready] });
        let part = simulation.backup_ready().unwrap();
        assert_eq!((part.status, part.reason), (expected.0.into(), expected.1));
        assert!(part.message.contains("Why: in its words"), "{}", part.message);
    }
}

#[test]
fn a_failing_backup_leaves_the_cluster_ready() {
    for (backup, reason) in [
        (Backup::KindMissing, "KindMissing"),
        (Backup::Denied, "BackupDenied"),
        (Backup::Refused("metadata.name is too long".into()), "BackupRefused"),
        (live(&json!({ "schedule": "0 1 * * *" }), false), "NameTaken"),
    ] {
        let mut simulation = scheduled(backup.clone());
        assert!(matches!(simulation.health, Some(Health::Ready(_))), "{:?}", simulation.health);
        let part = simulation.backup_ready().unwrap();
        assert_eq!((part.status, part.reason), (ConditionStatus::False, reason));
        assert!(part.message.contains("spec.backupSchedule"), "{}", part.message);
        simulation.object.spec.backup_schedule = None;
        simulation.settle();
        assert_eq!(simulation.kubernetes.backup, backup, "not touched");
    }
}

#[test]
fn the_report_of_backups_stays_until_the_next_look() {
    let mut simulation = scheduled(Backup::Unknown);
    assert_eq!(simulation.backup_ready(), None);
}

#[test]
fn a_mistake_changes_no_backup() {
    let mut simulation = scheduled(Backup::Absent);
    let kept = simulation.kubernetes.backup.clone();
    simulation.object.spec.backup_schedule = Some("0 4 * * *".into());
    Edit::Mistake.happens(&mut simulation);
    simulation.settle();
    assert_eq!(simulation.kubernetes.backup, kept);
}

#[test]
fn refused_pods_are_reported_and_members_are_helped() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.kubernetes.forbidden = Some("no-such-class".into());
    simulation.object.spec.priority_class_name = Some("no-such-class".into());
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "SpecRefused");
    assert!(cause.message.contains("no such priority class"), "{}", cause.message);
    assert!(!simulation.journal.iter().any(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))));

    // A member loses its volume meanwhile.
    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    simulation.kubernetes.drop_claim(1, &mut simulation.raft);
    simulation.reconcile(&Mishap::default());
    for _ in 0..60 {
        simulation.time_passes();
        simulation.reconcile(&Mishap::default());
    }
    assert_eq!(simulation.raft.healthy().len(), 3, "{:#?}", simulation.raft);

    simulation.object.spec.priority_class_name = None;
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_backup_that_lost_its_owner_is_taken_back() {
    for labelled in [true, false] {
        let mut simulation = scheduled(Backup::Absent);
        let Backup::Present(live) = &mut simulation.kubernetes.backup else { panic!() };
        simulation::orphaned(live);
        if !labelled {
            live.value["metadata"]["labels"] = json!({});
        }
        simulation.settle();
        let Backup::Present(live) = &simulation.kubernetes.backup else { panic!() };
        assert_eq!(live.ours, labelled);
        assert_eq!(simulation.backup_ready().unwrap().reason == "NameTaken", !labelled);
    }
}
