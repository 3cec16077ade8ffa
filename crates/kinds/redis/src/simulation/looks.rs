//! Single looks, and what must not be concluded from them.

use std::time::Duration;

use causeway_api::redis::Failover;
use causeway_databases::redis::{Info, Link, Role};
use causeway_databases::{ChildAction, Claim};
use causeway_runtime::Health;

use super::super::action::Action;
use super::super::decide::decide;
use super::super::facts::{NodeState, Observed};
use super::super::fixtures::redis;
use super::super::resources::disruption_budget;
use super::Simulation;
use super::story::Mishap;
use crate::names::PORT;

/// Changes what a node says.
pub fn says(observed: &mut Observed, ordinal: i32, change: impl Fn(&mut Info)) {
    let pod = observed.set.pods.get_mut(&ordinal).unwrap();
    let NodeState::Answers(info) = &mut pod.own.state else { panic!("it answers") };
    change(info);
}

/// No process listens where a node was, and its replicas have lost it.
pub fn dies(observed: &mut Observed, ordinal: i32) {
    let pod = observed.set.pods.get_mut(&ordinal).unwrap();
    pod.own.state = NodeState::Gone;
    let address = pod.address.clone();
    for other in observed.set.pods.values_mut() {
        let NodeState::Answers(info) = &mut other.own.state else { continue };
        if let Role::Replica(link) = &mut info.role
            && Some(&link.host) == address.as_ref()
        {
            (link.up, link.syncing) = (false, false);
            (info.quiet_seconds, info.lost_seconds) = (None, Some(0));
        }
    }
}

/// The target of a change of the master that this look begins, if any.
fn begins(simulation: &Simulation, observed: &Observed) -> Option<String> {
    let status = decide(&simulation.object, observed, simulation.now).status;
    status
        .failover
        .filter(|failover| simulation.object.status.as_ref().unwrap().failover.as_ref() != Some(failover))
        .map(|it| it.target)
}

/// An operator that gets no answer from a master changes nothing while the replicas still hear from the master.
#[test]
fn a_master_that_replicas_hear_stays() {
    let simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_secs(30));
    // A healthy master pings its replicas every second, so they may report one second without anything from it.
    for (quiet, expected) in [(0, false), (1, false), (2, true)] {
        for ordinal in [1, 2] {
            says(&mut observed, ordinal, |info| info.quiet_seconds = Some(quiet));
        }
        assert_eq!(begins(&simulation, &observed).is_some(), expected, "{quiet}");
    }
    // A replica that follows no master is no witness.
    says(&mut observed, 1, |info| info.quiet_seconds = Some(1));
    says(&mut observed, 2, |info| {
        if let Role::Replica(link) = &mut info.role {
            link.host = "127.0.0.1".into();
        }
    });
    assert_eq!(begins(&simulation, &observed), None);
}

/// When the next leader begins to listen, the replicas may have missed the master for seconds already.
#[test]
fn a_master_lost_long_ago_is_succeeded_at_once() {
    let simulation = Simulation::settled(redis(2));
    let timeout = simulation.object.spec.failover.hang_timeout.seconds();
    let mut observed = simulation.observe();
    for (silence, quiet, expected) in [
        (1000, timeout + 2, true),
        (1000, timeout + 1, false),
        // No question has been open for long enough to count as unanswered.
        (900, timeout + 60, false),
    ] {
        observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_millis(silence));
        for ordinal in [1, 2] {
            says(&mut observed, ordinal, |info| info.quiet_seconds = Some(quiet));
        }
        assert_eq!(begins(&simulation, &observed).is_some(), expected, "{silence} ms, {quiet} s");
    }
    // A replica that has lost its connection reports for how long. One replica that hears from the master is enough for
    // it to stay.
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_secs(1));
    for (lost, expected) in [(timeout + 2, true), (timeout, false)] {
        says(&mut observed, 1, |info| {
            (info.quiet_seconds, info.lost_seconds) = (None, Some(lost));
            if let Role::Replica(link) = &mut info.role {
                link.up = false;
            }
        });
        assert_eq!(begins(&simulation, &observed).is_some(), expected, "lost for {lost} s");
    }
}

/// Replicas that are cut off from their master miss it while it takes writes. What they report does not prove that a
/// short pause is more than that, and none of them can take over without loss.
#[test]
fn severed_replicas_do_not_succeed_an_answering_master() {
    let simulation = Simulation::settled(redis(2));
    let timeout = simulation.object.spec.failover.hang_timeout.seconds();
    let mut observed = simulation.observe();
    for (has_answered, silence, quiet, expected) in [
        (true, 1, timeout + 60, false),
        (true, timeout, timeout + 60, false),
        (true, timeout, timeout, true),
        (true, timeout, 2 * timeout + 2, true),
        (true, timeout, 2 * timeout + 3, false),
        (false, 1, timeout + 60, true),
    ] {
        for ordinal in [1, 2] {
            says(&mut observed, ordinal, |info| info.quiet_seconds = Some(quiet));
        }
        let own = &mut observed.set.pods.get_mut(&0).unwrap().own;
        (own.state, own.has_answered) = (NodeState::Silent(Duration::from_secs(silence)), has_answered);
        if !has_answered {
            observed.words.clear();
        }
        assert_eq!(begins(&simulation, &observed).is_some(), expected, "{has_answered}, {silence} s, {quiet} s");
    }
}

/// When it wakes up, it answers no write that waited.
#[test]
fn a_hung_master_is_demoted_before_the_promotion() {
    let mut simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_secs(30));
    let place = |actions: &[Action], of: fn(&Action) -> bool| actions.iter().position(of);
    let is_step_down = |action: &Action| matches!(action, Action::StepDown { .. });
    let quiet = |observed: &mut Observed, host: Option<&str>| {
        for ordinal in [1, 2] {
            says(observed, ordinal, |info| {
                info.quiet_seconds = Some(2);
                if let (Role::Replica(link), Some(host)) = (&mut info.role, host) {
                    (link.host, link.up) = (host.into(), false);
                }
            });
        }
    };
    quiet(&mut observed, None);
    let begun = decide(&simulation.object, &observed, simulation.now);
    let follow = place(&begun.actions, |action| matches!(action, Action::Follow { .. }));
    assert!(place(&begun.actions, is_step_down).is_some_and(|at| follow.is_some_and(|follow| at < follow)));
    simulation.object.status = Some(begun.status);
    quiet(&mut observed, Some("127.0.0.1"));
    let actions = decide(&simulation.object, &observed, simulation.now).actions;
    let promotion = place(&actions, |action| matches!(action, Action::Promote { .. })).expect("a promotion");
    assert!(place(&actions, is_step_down).is_some_and(|at| at < promotion), "{actions:#?}");
}

/// Redis reports its connection as up until `repl-timeout` has passed.
#[test]
fn a_severed_replica_of_a_serving_master_stays() {
    let mut simulation = Simulation::settled(redis(1));
    let timeout = simulation.object.spec.failover.hang_timeout.seconds();
    let mut observed = simulation.observe();
    for (quiet, expected) in [(timeout + 2, true), (timeout + 3, false), (0, true), (timeout + 3, false)] {
        says(&mut observed, 1, |info| info.quiet_seconds = Some(quiet));
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!(status.nodes[1].in_sync, expected, "{quiet} s");
        simulation.object.status = Some(status);
    }
    dies(&mut observed, 0);
    observed.words.clear();
    assert_eq!(begins(&simulation, &observed), None);
}

/// A master stays the master for a moment without an answer, also while it is to hand over.
#[test]
fn a_brief_silence_does_not_end_a_handover() {
    let mut simulation = Simulation::settled(redis(2));
    let status = simulation.object.status.as_mut().unwrap();
    status.failover = Some(Failover {
        epoch: status.epoch + 1,
        from: Some("cache-0".into()),
        target: "cache-1".into(),
        reason: "Asked".into(),
        planned: true,
        begun: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(simulation.now),
    });
    let mut observed = simulation.observe();
    let promoted = |observed: &Observed| {
        let actions = decide(&simulation.object, observed, simulation.now).actions;
        actions.iter().any(|action| matches!(action, Action::Promote { .. } | Action::Follow { .. }))
    };
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_millis(700));
    assert!(!promoted(&observed) && begins(&simulation, &observed).is_none());
    // A firewall refuses the operator, or the process is gone.
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Gone;
    assert!(!promoted(&observed) && begins(&simulation, &observed).is_none());
    dies(&mut observed, 0);
    assert!(promoted(&observed) || begins(&simulation, &observed).is_some());
}

/// A replica that does not answer while the master takes writes lacks those.
#[test]
fn a_stale_replica_does_not_take_over() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.set.pods.get_mut(&1).unwrap().process.as_mut().unwrap().hangs = Some(0);
    for _ in 0..5 {
        simulation.time_passes();
        simulation.write();
        simulation.reconcile(&Mishap::default());
    }
    let acknowledged = simulation.acknowledged.clone();
    simulation.kubernetes.kill(0);
    simulation.resume();
    simulation.settle();
    simulation.assert_settled();
    assert!(acknowledged.iter().all(|write| simulation.data().contains(write)));
}

/// Nor does a replica that was away while no operator looked.
#[test]
fn a_replica_of_a_restarted_master_may_be_stale() {
    let simulation = Simulation::settled(redis(1));
    let mut observed = simulation.observe();
    says(&mut observed, 0, |info| {
        info.role =
            Role::Replica(causeway_databases::redis::Link { host: "127.0.0.1".into(), port: 1, ..Default::default() });
        (info.history, info.uptime_seconds) = ("another".into(), 3);
    });
    for (lost, expected) in [(4, "cache-1"), (600, "cache-0")] {
        says(&mut observed, 1, |info| {
            info.lost_seconds = Some(lost);
            if let Role::Replica(link) = &mut info.role {
                link.up = false;
            }
        });
        assert_eq!(begins(&simulation, &observed).as_deref(), Some(expected), "{lost}");
    }
}

/// The pod that never catches up was made from the earlier spec: waiting for it would never end.
#[test]
fn an_outdated_pod_that_cannot_follow_is_replaced() {
    let simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&1).unwrap().revision = "earlier".into();
    says(&mut observed, 1, |info| {
        if let Role::Replica(link) = &mut info.role {
            (link.up, link.syncing) = (false, true);
        }
    });
    let replaced = |observed: &Observed| {
        let actions = decide(&simulation.object, observed, simulation.now).actions;
        actions
            .iter()
            .any(|action| matches!(action, Action::Child(ChildAction::DeletePod { name, .. }) if name == "cache-1"))
    };
    observed.set.pods.get_mut(&1).unwrap().own.role = None;
    let budget = ("PodDisruptionBudget".to_owned(), "cache".to_owned());
    observed.set.children.get_mut(&budget).unwrap().value = disruption_budget(&simulation.object, 0).value;
    let slice = &mut observed.slices.get_mut("cache-replicas-ipv4").unwrap().value;
    assert_eq!(slice["endpoints"].as_array_mut().unwrap().remove(0)["targetRef"]["name"], "cache-1");
    assert!(replaced(&observed));
    // No other node may be away meanwhile.
    observed.set.pods.get_mut(&2).unwrap().ready = false;
    assert!(!replaced(&observed));
}

/// The next object of the same name respects `deletionPolicy: Retain` of an earlier one.
#[test]
fn volumes_of_an_earlier_object_are_not_deleted() {
    let simulation = Simulation::settled(redis(1));
    for ours in [true, false] {
        let mut observed = simulation.observe();
        let claim =
            Claim { name: "data-cache-4".into(), uid: "u".into(), ours, size: "1Gi".into(), ..Claim::default() };
        observed.set.claims.insert(4, claim);
        let actions = decide(&simulation.object, &observed, simulation.now).actions;
        assert_eq!(
            actions.iter().any(|action| matches!(action, Action::Child(ChildAction::DeleteClaim { .. }))),
            ours,
            "{actions:?}"
        );
    }
}

/// A user ran `FAILOVER` on the master. It has connected to its successor, or has not yet.
#[test]
fn a_master_made_by_hand_is_recorded() {
    for up in [true, false] {
        let simulation = Simulation::settled(redis(1));
        let mut observed = simulation.observe();
        let host = observed.set.pods[&1].address.clone().unwrap();
        says(&mut observed, 0, |info| {
            info.role = Role::Replica(Link { host: host.clone(), port: PORT, up, syncing: false });
        });
        says(&mut observed, 1, |info| info.role = Role::Master);
        let plan = decide(&simulation.object, &observed, simulation.now);
        let failover = plan.status.failover.unwrap();
        assert_eq!((failover.target.as_str(), failover.reason.as_str()), ("cache-1", "SwitchedByHand"));
        for action in plan.actions {
            let is_wrong = match &action {
                Action::Promote { .. } => true,
                Action::Follow { node, .. } => node.name == "cache-1" || up,
                Action::SetRole { pod, role } => role.is_some() && pod.name != "cache-1",
                _ => false,
            };
            assert!(!is_wrong, "connected: {up}: {action:?}");
        }
    }
}

/// A user ran `REPLICAOF` on every node: no process was started again.
#[test]
fn a_master_demoted_by_hand_is_told_from_one_that_restarted() {
    for (restarts, expected) in [(false, "MasterDemoted"), (true, "MasterRestarted")] {
        let simulation = Simulation::settled(redis(2));
        let mut observed = simulation.observe();
        for ordinal in 0..3 {
            says(&mut observed, ordinal, |info| {
                info.role = Role::Replica(Link { host: "192.0.2.7".into(), port: PORT, ..Link::default() });
                if restarts {
                    info.run_id = format!("new-{ordinal}");
                }
            });
        }
        let failover = decide(&simulation.object, &observed, simulation.now).status.failover;
        assert_eq!(failover.map(|failover| failover.reason).as_deref(), Some(expected));
    }
}

/// A pod that was made while there were replicas has no liveness probe, and is not replaced to get one.
#[test]
fn a_probed_single_master_is_left_to_the_kubelet() {
    let simulation = Simulation::settled(redis(0));
    let mut observed = simulation.observe();
    assert!(observed.set.pods[&0].own.probed, "it was made alone");
    for probed in [true, false] {
        let pod = observed.set.pods.get_mut(&0).unwrap();
        (pod.own.probed, pod.own.state) = (probed, NodeState::Silent(Duration::from_mins(5)));
        let plan = decide(&simulation.object, &observed, simulation.now);
        let Health::Progressing(cause) = &plan.health else { panic!("{:?}", plan.health) };
        assert_eq!(cause.reason, "MasterSilent");
        let says = |word: &str| cause.message.contains(word);
        assert_eq!(
            (says("kubelet restarts it"), says("kubectl -n shop delete pod cache-0")),
            (probed, !probed),
            "{cause:?}"
        );
    }
}

/// Redis answers BUSY only after a while: until then nothing tells a script from a process that hangs.
#[test]
fn no_pod_is_to_be_deleted_while_it_may_run_a_script() {
    for (threshold, silence, expected) in [
        (None, 4, false),
        (None, 10, true),
        (Some("20000"), 20, false),
        (Some("20000"), 25, true),
        (Some("0"), 4, true),
    ] {
        let mut simulation = Simulation::settled(redis(0));
        let config = threshold.map(|value| ("busy-reply-threshold".to_owned(), value.to_owned()));
        simulation.object.spec.config.extend(config);
        let mut observed = simulation.observe();
        let own = &mut observed.set.pods.get_mut(&0).unwrap().own;
        (own.probed, own.state) = (false, NodeState::Silent(Duration::from_secs(silence)));
        let Health::Progressing(cause) = decide(&simulation.object, &observed, simulation.now).health else {
            panic!("it waits")
        };
        assert_eq!(cause.message.contains("delete pod"), expected, "{threshold:?}, {silence} s: {}", cause.message);
        assert_eq!(cause.message.contains("script"), !expected || threshold == Some("0"), "{}", cause.message);
    }
}

/// The operator does not know all directives of all versions.
#[test]
fn a_process_that_refuses_a_directive_is_replaced() {
    let simulation = Simulation::settled(redis(1));
    let mut observed = simulation.observe();
    let own = &mut observed.set.pods.get_mut(&1).unwrap().own;
    own.settings = own.settings.take().map(|note| format!("{note}/timeout="));
    own.drift.insert("timeout".into());
    let actions = decide(&simulation.object, &observed, simulation.now).actions;
    let [Action::Child(ChildAction::DeletePod { name, .. })] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(name, "cache-1");
}
