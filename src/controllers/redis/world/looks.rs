//! Single looks, and what must not be made of them.

use std::time::Duration;

use super::super::action::Action;
use super::super::decide::decide;
use super::super::facts::{Claim, Observed, Voice};
use super::super::fixtures::redis;
use super::World;
use super::story::Mishap;
use crate::api::redis::Failover;
use crate::external::redis::{Info, Role};

/// Changes what a node says.
fn says(observed: &mut Observed, ordinal: i32, change: impl Fn(&mut Info)) {
    let pod = observed.pods.get_mut(&ordinal).unwrap();
    let Voice::Answers(info) = &mut pod.voice else { panic!("it answers") };
    change(info);
}

/// Whom a change of the master is begun to.
fn begins(world: &World, observed: &Observed) -> Option<String> {
    let status = decide(&world.object, observed, world.now).status;
    status
        .failover
        .filter(|failover| world.object.status.as_ref().unwrap().failover.as_ref() != Some(failover))
        .map(|it| it.target)
}

/// An operator that does not hear a master which its replicas hear changes nothing.
#[test]
fn a_master_that_replicas_hear_stays() {
    let world = World::settled(redis(2));
    let mut observed = world.observe();
    observed.pods.get_mut(&0).unwrap().voice = Voice::Silent(Duration::from_secs(30));
    // A second is what may have passed since a master was heard that tells of itself every second.
    for (quiet, expected) in [(0, false), (1, false), (2, true)] {
        for ordinal in [1, 2] {
            says(&mut observed, ordinal, |info| info.quiet_seconds = Some(quiet));
        }
        assert_eq!(begins(&world, &observed).is_some(), expected, "{quiet}");
    }
    // Who follows nobody is no witness.
    says(&mut observed, 1, |info| info.quiet_seconds = Some(1));
    says(&mut observed, 2, |info| {
        if let Role::Replica(link) = &mut info.role {
            link.host = "127.0.0.1".into();
        }
    });
    assert_eq!(begins(&world, &observed), None);
}

/// While it is to hand over, too.
#[test]
fn a_master_that_is_to_hand_over_and_is_not_heard_for_a_moment_is_not_robbed() {
    let mut world = World::settled(redis(2));
    let status = world.object.status.as_mut().unwrap();
    status.failover = Some(Failover {
        epoch: status.epoch + 1,
        from: Some("cache-0".into()),
        target: "cache-1".into(),
        reason: "Asked".into(),
        planned: true,
        begun: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now),
    });
    let mut observed = world.observe();
    let promoted = |observed: &Observed| {
        let actions = decide(&world.object, observed, world.now).actions;
        actions.iter().any(|action| matches!(action, Action::Promote { .. } | Action::Follow { .. }))
    };
    observed.pods.get_mut(&0).unwrap().voice = Voice::Silent(Duration::from_millis(700));
    assert!(!promoted(&observed) && begins(&world, &observed).is_none());
    observed.pods.get_mut(&0).unwrap().voice = Voice::Gone;
    assert!(promoted(&observed) || begins(&world, &observed).is_some());
}

/// A replica that nobody hears while the master takes writes lacks those.
#[test]
fn a_replica_that_was_away_while_the_master_served_does_not_take_over() {
    let mut world = World::settled(redis(1));
    world.kubernetes.pods.get_mut(&1).unwrap().process.as_mut().unwrap().hangs = Some(0);
    for _ in 0..5 {
        world.time_passes();
        world.write();
        world.reconcile(&Mishap::default());
    }
    let acknowledged = world.acknowledged.clone();
    world.kubernetes.kill(0);
    world.resume();
    world.settle();
    world.assert_settled();
    assert!(acknowledged.iter().all(|write| world.data().contains(write)));
}

/// Nor does one that was away when nobody looked.
#[test]
fn a_replica_that_lost_its_master_long_before_it_was_started_anew_does_not_take_over() {
    let world = World::settled(redis(1));
    let mut observed = world.observe();
    says(&mut observed, 0, |info| {
        info.role =
            Role::Replica(crate::external::redis::Link { host: "127.0.0.1".into(), port: 1, ..Default::default() });
        (info.history, info.uptime_seconds) = ("another".into(), 3);
    });
    for (lost, expected) in [(4, "cache-1"), (600, "cache-0")] {
        says(&mut observed, 1, |info| {
            info.lost_seconds = Some(lost);
            if let Role::Replica(link) = &mut info.role {
                link.up = false;
            }
        });
        assert_eq!(begins(&world, &observed).as_deref(), Some(expected), "{lost}");
    }
}

/// One that never comes into step is of the earlier spec: waiting for it would never end.
#[test]
fn a_pod_of_the_earlier_spec_that_cannot_follow_is_replaced() {
    let world = World::settled(redis(2));
    let mut observed = world.observe();
    observed.pods.get_mut(&1).unwrap().revision = "earlier".into();
    says(&mut observed, 1, |info| {
        if let Role::Replica(link) = &mut info.role {
            (link.up, link.syncing) = (false, true);
        }
    });
    let replaced = |observed: &Observed| {
        let actions = decide(&world.object, observed, world.now).actions;
        actions.iter().any(|action| matches!(action, Action::DeletePod { name, .. } if name == "cache-1"))
    };
    observed.pods.get_mut(&1).unwrap().role = None;
    let slice = &mut observed.slices.get_mut("cache-replicas-ipv4").unwrap().value;
    assert_eq!(slice["endpoints"].as_array_mut().unwrap().remove(0)["targetRef"]["name"], "cache-1");
    assert!(replaced(&observed));
    // Nobody else is away meanwhile.
    observed.pods.get_mut(&2).unwrap().ready = false;
    assert!(!replaced(&observed));
}

/// `deletionPolicy: Retain` of an earlier object is kept by the next one of its name.
#[test]
fn volumes_of_an_earlier_object_are_not_deleted() {
    let world = World::settled(redis(1));
    for ours in [true, false] {
        let mut observed = world.observe();
        let claim =
            Claim { name: "data-cache-4".into(), uid: "u".into(), ours, size: "1Gi".into(), ..Claim::default() };
        observed.claims.insert(4, claim);
        let actions = decide(&world.object, &observed, world.now).actions;
        assert_eq!(actions.iter().any(|action| matches!(action, Action::DeleteClaim { .. })), ours, "{actions:?}");
    }
}
