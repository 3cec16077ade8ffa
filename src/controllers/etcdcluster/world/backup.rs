//! The `DatabaseBackup` that a cluster owns, and pods that the apiserver refuses.

use serde_json::json;

use super::World;
use super::faults::{Edit, Mishap};
use super::kubernetes::Kubernetes;
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::decide::decide;
use crate::controllers::etcdcluster::facts::{Backup, Child};
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::runtime::manifest::Manifest;
use crate::runtime::{Class, Health, Part};

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
        assert!(live.ours, "somebody else's is deleted");
        if live.uid != uid {
            return Err(Class::Conflict);
        }
        self.backup = Backup::Absent;
        Ok(())
    }

    pub fn refuses(&self, child: &Manifest) -> bool {
        let class = child.value["spec"]["template"]["spec"]["priorityClassName"].as_str();
        class.is_some() && class == self.forbidden.as_deref()
    }
}

impl World {
    fn backup_ready(&mut self) -> Option<Part> {
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
fn scheduled(backup: Backup) -> World {
    let mut object = cluster(3);
    object.spec.backup_schedule = Some("0 2 * * *".into());
    let mut world = World::new(object);
    world.kubernetes.backup = backup;
    world.settle();
    world.assert_settled();
    world
}

fn live(spec: &serde_json::Value, ours: bool) -> Backup {
    Backup::Present(Child { value: json!({ "spec": spec }), uid: "other".into(), ours })
}

#[test]
fn a_schedule_makes_a_backup_of_this_very_cluster_and_is_followed_by_it() {
    let mut world = scheduled(Backup::Absent);
    let source = json!({ "etcdCluster": { "name": "prod-etcd" } });
    assert_eq!(world.spec_of_backup(), Some(json!({ "schedule": "0 2 * * *", "source": source })));
    assert_eq!(world.backup_ready().unwrap().reason, "BackupPending");

    // Another schedule, and drift.
    world.object.spec.backup_schedule = Some("0 4 * * *".into());
    world.settle();
    assert_eq!(world.spec_of_backup().unwrap()["schedule"], "0 4 * * *");
    if let Backup::Present(live) = &mut world.kubernetes.backup {
        live.value["spec"]["schedule"] = json!("0 0 1 1 *");
    }
    world.settle();
    assert_eq!(world.spec_of_backup().unwrap()["schedule"], "0 4 * * *");

    world.object.spec.backup_schedule = None;
    world.settle();
    assert_eq!(world.kubernetes.backup, Backup::Absent);
    assert_eq!(world.backup_ready().unwrap().status, None);
}

#[test]
fn backups_are_as_ready_as_the_backup_says() {
    for (status, expected) in [("True", (true, "BackupReady")), ("False", (false, "BackupNotReady"))] {
        let mut world = scheduled(Backup::Absent);
        let Backup::Present(live) = &mut world.kubernetes.backup else { panic!() };
        let ready = json!({ "type": "Ready", "status": status, "reason": "Why", "message": "in its words" });
        live.value["status"] = json!({ "conditions": [{ "type": "Other", "status": "True" }, ready] });
        let part = world.backup_ready().unwrap();
        assert_eq!((part.status, part.reason), (Some(expected.0), expected.1));
        assert!(part.message.contains("Why: in its words"), "{}", part.message);
    }
}

#[test]
fn a_cluster_is_well_whatever_cannot_be_done_about_its_backup() {
    for (backup, reason) in [
        (Backup::KindMissing, "KindMissing"),
        (Backup::Denied, "BackupDenied"),
        (live(&json!({ "schedule": "0 1 * * *" }), false), "NameTaken"),
    ] {
        let mut world = scheduled(backup.clone());
        assert!(matches!(world.health, Some(Health::Ready(_))), "{:?}", world.health);
        let part = world.backup_ready().unwrap();
        assert_eq!((part.status, part.reason), (Some(false), reason));
        assert!(part.message.contains("spec.backupSchedule"), "{}", part.message);
        world.object.spec.backup_schedule = None;
        world.settle();
        assert_eq!(world.kubernetes.backup, backup, "not touched");
    }
}

#[test]
fn what_was_told_of_backups_stays_until_somebody_has_looked() {
    let mut world = scheduled(Backup::Unknown);
    assert_eq!(world.backup_ready(), None);
}

#[test]
fn a_mistake_changes_no_backup() {
    let mut world = scheduled(Backup::Absent);
    let kept = world.kubernetes.backup.clone();
    world.object.spec.backup_schedule = Some("0 4 * * *".into());
    Edit::Mistake.happens(&mut world);
    world.settle();
    assert_eq!(world.kubernetes.backup, kept);
}

#[test]
fn pods_that_the_apiserver_refuses_are_told_and_members_are_helped_all_the_same() {
    let mut world = World::settled(cluster(3));
    world.kubernetes.forbidden = Some("nobody".into());
    world.object.spec.priority_class_name = Some("nobody".into());
    world.settle();
    let Some(Health::Stalled(cause)) = &world.health else { panic!("{:?}", world.health) };
    assert_eq!(cause.reason, "SpecRefused");
    assert!(cause.message.contains("no such priority class"), "{}", cause.message);
    assert!(!world.journal.iter().any(|action| matches!(action, Action::DeletePod { .. })));

    // A member loses its volume meanwhile.
    world.kubernetes.delete_pod(1, &mut world.raft);
    world.kubernetes.drop_claim(1, &mut world.raft);
    world.reconcile(&Mishap::default());
    for _ in 0..60 {
        world.time_passes();
        world.reconcile(&Mishap::default());
    }
    assert_eq!(world.raft.healthy().len(), 3, "{:#?}", world.raft);

    world.object.spec.priority_class_name = None;
    world.settle();
    world.assert_settled();
}
