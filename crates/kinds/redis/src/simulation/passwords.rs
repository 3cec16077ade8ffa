//! A Secret with the clients' password that a user emptied.

use causeway_databases::password::Emptied;
use causeway_databases::tls::facts::Version;
use causeway_runtime::Health;

use super::Simulation;
use crate::fixtures::redis;

fn guarded(emptied: Emptied) -> Simulation {
    let mut object = redis(1);
    object.spec.auth.enabled = true;
    let mut simulation = Simulation::settled(object);
    simulation.assert_settled();
    let passwords = &mut simulation.kubernetes.passwords;
    (passwords.user_provided, passwords.emptied) = (None, Some(emptied));
    simulation
}

#[test]
fn a_secret_of_ours_gets_a_password_again() {
    let version = Version { uid: "u".into(), version: "7".into() };
    let mut simulation = guarded(Emptied::Ours(version));
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.kubernetes.passwords.emptied, None);
}

#[test]
fn a_foreign_secret_is_reported_and_nodes_are_helped() {
    let mut simulation = guarded(Emptied::Theirs);
    simulation.kubernetes.kill(0);
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.reason == "PasswordMissing" && cause.message.contains("Secret cache-auth"), "{cause:?}");
    let status = simulation.object.status.clone().unwrap();
    assert_eq!((status.master.as_deref(), status.ready_replicas), (Some("cache-1"), 1));
}
