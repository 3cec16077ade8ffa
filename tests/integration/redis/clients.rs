//! Clients of users, set up as docs/clients.md says: a master that dies, one that hangs, and a planned switch.

use std::time::Duration;

use super::faults::{Stopped, kill};
use super::switchover::switched;
use super::{NAME, Stage, master, replicas, running, settled, spec, succeeded};
use crate::support::{Client, Operator};

/// `spec.failover.maxLag` as it is by default: nothing older may be lost with a master.
const MAX_LAG: Duration = Duration::from_secs(10);
/// The shortest time between two writes of a client.
const PAUSE: Duration = Duration::from_millis(20);

const CLIENTS: [(&str, &str); 3] = [
    ("go-redis", "CAUSEWAY_CLIENT_GO_REDIS"),
    ("redis-py", "CAUSEWAY_CLIENT_REDIS_PY"),
    ("lettuce", "CAUSEWAY_CLIENT_LETTUCE"),
];

/// Waits for all clients; panics if one of them misses more acknowledged writes than `lag` allows.
async fn recover(clients: &mut [Client], what: &str, lag: Duration) {
    for client in clients {
        let lost = client.recovers(what).await;
        let most = lag.as_millis() / PAUSE.as_millis();
        assert!(u128::from(lost) <= most, "{what}: {lost} acknowledged writes are lost, and {most} may be");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_clients_recover_from_every_change_of_master() {
    let scene = Stage::new("redis-clients").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let address = format!("{NAME}:6379");
    let mut clients = Vec::new();
    for (name, variable) in CLIENTS {
        clients.push(Client::start(&scene, name, variable, &[("REDIS_ADDRESS", &address)]).await);
    }

    clients.iter_mut().for_each(Client::event);
    let killed = master(&scene).await;
    kill(&scene, &killed).await;
    succeeded(&scene, &killed).await;
    recover(&mut clients, "master killed", MAX_LAG).await;
    settled(&scene, "all nodes again").await;

    clients.iter_mut().for_each(Client::event);
    let hung = master(&scene).await;
    let stopped = Stopped::new(&scene, &hung).await;
    succeeded(&scene, &hung).await;
    recover(&mut clients, "master hangs", MAX_LAG).await;
    drop(stopped);
    settled(&scene, "all nodes again").await;

    clients.iter_mut().for_each(Client::event);
    let to = replicas(&scene).await.remove(0);
    switched(&scene, &to).await;
    recover(&mut clients, "planned switch", Duration::ZERO).await;
    for client in clients {
        client.finish().await;
    }
}
