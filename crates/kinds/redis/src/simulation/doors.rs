//! Nodes that answer the operator and turn clients away, or answer no client because of a script.

use causeway_api::{Duration, RedisStatus};
use causeway_databases::ChildAction;
use causeway_databases::redis::{Admission, Writes};
use causeway_runtime::{Health, Plan};

use super::super::action::Action;
use super::super::decide::decide;
use super::super::facts::{NodePod, NodeState, Observed};
use super::super::fixtures::redis;
use super::Simulation;
use super::looks::says;

/// Returns the plan after a change of the facts.
pub fn plan(simulation: &Simulation, change: impl Fn(&mut Observed)) -> Plan<Action, RedisStatus> {
    let mut observed = simulation.observe();
    for pod in observed.set.pods.values_mut() {
        let is_master = pod.info().is_some_and(causeway_databases::redis::Info::is_master);
        pod.own.writes = is_master.then_some(Writes::Taken);
    }
    change(&mut observed);
    decide(&simulation.object, &observed, simulation.now)
}

/// Returns reason and message of a set that is not ready.
pub fn cause(health: &Health) -> (&'static str, String) {
    match health {
        Health::Ready(cause) | Health::Progressing(cause) | Health::Stalled(cause) => {
            (cause.reason, cause.message.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn refuse_with(words: &str) -> Admission {
    Admission::Refused(words.into())
}

#[test]
fn a_node_that_turns_new_clients_away_is_not_ready() {
    let simulation = Simulation::settled(redis(2));
    for ordinal in [0, 1] {
        for turned_away in [
            Some(refuse_with("ERR max number of clients reached")),
            // With TLS.
            Some(Admission::Ignored("closes the connection without a word")),
        ] {
            let plan = plan(&simulation, |observed| {
                observed.set.pods.get_mut(&ordinal).unwrap().own.turned_away = turned_away.clone();
                says(observed, ordinal, |info| (info.clients, info.most_clients) = (50, Some(50)));
            });
            let (reason, message) = cause(&plan.health);
            assert!(matches!(plan.health, Health::Progressing(_)) && reason == "ClientsRefused", "{reason} {message}");
            let expected = [format!("cache-{ordinal}"), "(50 of 50)".into(), "spec.config.maxclients".into()];
            assert!(expected.iter().all(|word| message.contains(word)), "{message}");
            assert!(!message.contains("delete pod"), "{message}");
            assert_eq!(plan.actions, [], "no failover helps, and the limit is the spec's");
        }
    }
    let plan = plan(&simulation, |observed| {
        observed.set.pods.get_mut(&0).unwrap().own.turned_away = Some(Admission::Ignored("refuses the connection"));
    });
    let (reason, message) = cause(&plan.health);
    assert!(reason == "ClientsRefused" && message.contains("CONFIG SET") && message.contains("cache-0"), "{message}");
}

#[test]
fn users_that_were_changed_by_hand_are_put_back() {
    for enabled in [true, false] {
        let mut object = redis(1);
        object.spec.auth.enabled = enabled;
        let simulation = Simulation::settled(object);
        for (turned_away, detour) in [
            (Some(refuse_with("NOAUTH Authentication required.")), false),
            (Some(refuse_with("WRONGPASS invalid username-password pair or user is disabled.")), false),
            (Some(refuse_with("NOPERM no permissions")), false),
            (Some(refuse_with("DENIED Redis is running in protected mode")), false),
            // The operator's own user is lost.
            (None, true),
        ] {
            let plan = plan(&simulation, |observed| {
                let own = &mut observed.set.pods.get_mut(&0).unwrap().own;
                (own.turned_away, own.detour) = (turned_away.clone(), detour);
            });
            let [Action::Configure { node, mended, .. }] = &plan.actions[..] else { panic!("{:?}", plan.actions) };
            assert_eq!((node.name.as_str(), &mended[..]), ("cache-0", &["users and passwords".to_owned()][..]));
            let expected = if turned_away.is_some() { "ClientsRefused" } else { "Configuring" };
            assert_eq!(cause(&plan.health).0, expected);
        }
    }
}

/// The look of an operator while the master runs a script.
fn plan_while_busy(simulation: &Simulation, seconds: u64) -> Plan<Action, RedisStatus> {
    plan(simulation, |observed| {
        let own = &mut observed.set.pods.get_mut(&0).unwrap().own;
        (own.state, own.busy) = (NodeState::Silent(std::time::Duration::from_secs(seconds)), true);
        (own.writes, own.has_answered) = (None, true);
        for ordinal in 1..=simulation.object.spec.replicas {
            says(observed, ordinal, |info| info.quiet_seconds = Some(seconds));
        }
    })
}

/// A settled set that waits longer for a hung master than Redis waits before it says BUSY (`busy-reply-threshold`).
fn patient(replicas: i32) -> Simulation {
    let mut object = redis(replicas);
    object.spec.failover.hang_timeout = Duration::from_seconds(10);
    Simulation::settled(object)
}

#[test]
fn a_busy_master_is_reported_with_the_remedy() {
    for replicas in [0, 2] {
        let simulation = patient(replicas);
        let (reason, message) = cause(&plan_while_busy(&simulation, 6).health);
        let expected = ["cache-0", "BUSY", "SCRIPT KILL", "SHUTDOWN NOSAVE", "loses what the script wrote"];
        assert!(reason == "MasterBusy" && expected.iter().all(|word| message.contains(word)), "{reason} {message}");
        assert!(!message.contains("delete pod"), "{message}");
    }
}

#[test]
fn a_script_that_outlasts_the_hang_timeout_costs_the_role() {
    let mut simulation = patient(2);
    let timeout = simulation.object.spec.failover.hang_timeout.seconds();
    assert_eq!(plan_while_busy(&simulation, timeout - 1).status.failover, None);
    let plan = plan_while_busy(&simulation, timeout);
    let failover = plan.status.failover.clone().expect("another node takes over");
    assert!(failover.target != "cache-0" && plan.write_status_first, "{failover:?}");
    // It would refuse to step down, and take writes when its script ends.
    let ends = |action: &Action| matches!(action, Action::EndBusy { node, .. } if node.name == "cache-0");
    let steps_down = |action: &Action| matches!(action, Action::StepDown { .. });
    simulation.object.status = Some(plan.status);
    let next = plan_while_busy(&simulation, timeout + 1);
    assert!(next.actions.iter().any(ends) && !next.actions.iter().any(steps_down), "{:?}", next.actions);
    let place = |is: fn(&Action) -> bool| next.actions.iter().position(is);
    let promoted = place(|action| matches!(action, Action::Promote { .. }));
    assert!(promoted.is_none_or(|at| Some(at) > place(|action| matches!(action, Action::EndBusy { .. }))));
}

#[test]
fn a_replica_that_runs_a_script_is_not_replaced() {
    let deletes = |busy: bool| {
        let mut simulation = Simulation::settled(redis(2));
        for _ in 0..5 {
            let plan = plan(&simulation, |observed| {
                let own = &mut observed.set.pods.get_mut(&1).unwrap().own;
                (own.state, own.busy) = (NodeState::Silent(std::time::Duration::from_mins(1)), busy);
                (own.has_answered, own.stalled) = (true, true);
            });
            if plan.actions.iter().any(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))) {
                return true;
            }
            // Readers are led away first.
            plan.actions.iter().for_each(|action| simulation.kubernetes.act(&simulation.object, action).unwrap());
        }
        false
    };
    assert!(deletes(false) && !deletes(true));
}

#[test]
fn a_refusing_master_is_reported_with_the_remedy() {
    let refusal = |enabled: bool, ephemeral: bool, words: &str| {
        let mut object = redis(1);
        (object.spec.auth.enabled, object.spec.storage.ephemeral) = (enabled, ephemeral);
        let simulation = Simulation::settled(object);
        let plan = plan(&simulation, |observed| {
            let own = &mut observed.set.pods.get_mut(&0).unwrap().own;
            (own.state, own.writes) = (NodeState::Refuses(words.to_owned()), None);
        });
        let (reason, message) = cause(&plan.health);
        assert_eq!(reason, "MasterRefuses", "{message}");
        message
    };
    let full = refusal(false, false, "max number of clients reached");
    assert!(!full.contains("delete pod") && full.contains("spec.config.maxclients"), "{full}");
    let by_hand = refusal(false, false, "NOAUTH: Authentication required.");
    assert!(by_hand.contains("CONFIG SET requirepass ''") && !by_hand.contains("delete pod -l"), "{by_hand}");
    let deprived = refusal(false, false, "NOPERM: this user has no permissions to run the 'info' command");
    assert!(deprived.contains("delete pod cache-0") && !deprived.contains("requirepass"), "{deprived}");
    assert!(!refusal(true, false, "ERR what is this").contains("delete pod"));
    let lost = refusal(true, false, "WRONGPASS: invalid");
    assert!(lost.contains("delete pod -l") && !lost.contains("DELETES"), "{lost}");
    assert!(refusal(true, true, "WRONGPASS: invalid").contains("DELETES ALL DATA"));
}
