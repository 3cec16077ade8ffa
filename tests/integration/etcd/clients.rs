//! Clients of users, set up as docs/clients.md says: a leader that dies, one that hangs, and a rollout.

use causeway_api::EtcdCluster;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{NAME, Stage, Stopped, bystander, member, process_of, running, settled, signal, spec};
use crate::support::{Client, Operator, wait_for};

/// Waits for all clients; panics if one of them misses an acknowledged write.
async fn recover(clients: &mut [Client], what: &str) {
    for client in clients {
        let lost = client.recovers(what).await;
        assert_eq!(lost, 0, "{what}: acknowledged writes are lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_users_recover_by_themselves_and_miss_no_write() {
    let scene = Stage::new("etcd-clients").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let members = [0, 1, 2].map(|ordinal| format!("http://{}.{NAME}-peers:2379", member(ordinal))).join(",");
    let ways = [("etcd-by-members", members), ("etcd-by-service", format!("http://{NAME}:2379"))];
    let mut clients = Vec::new();
    for (name, endpoints) in &ways {
        let settings = [("ETCD_ENDPOINTS", endpoints.as_str()), ("ETCD_COUNTER", name)];
        clients.push(Client::start(&scene, name, "CAUSEWAY_CLIENT_ETCD", &settings).await);
    }

    clients.iter_mut().for_each(Client::event);
    let killed = bystander::leader(&scene).await;
    let restarts = || async {
        let pod = scene.api::<Pod>().get(&killed).await.expect("the leader's pod");
        pod.status.and_then(|status| Some(status.container_statuses?.first()?.restart_count)).unwrap_or_default()
    };
    signal("-KILL", &process_of(&scene, &killed).await);
    wait_for("the killed member to be started again", restarts, |count| *count > 0).await;
    settled(&scene, "all members again").await;
    recover(&mut clients, "leader killed").await;

    clients.iter_mut().for_each(Client::event);
    let hung = bystander::leader(&scene).await;
    let stopped = Stopped::new(process_of(&scene, &hung).await);
    bystander::another_leader(&scene, &hung).await;
    recover(&mut clients, "leader hangs").await;
    drop(stopped);
    settled(&scene, "all members again").await;

    clients.iter_mut().for_each(Client::event);
    scene.edit::<EtcdCluster>(NAME, json!({ "resources": { "requests": { "cpu": "20m" } } })).await;
    settled(&scene, "new resources everywhere").await;
    recover(&mut clients, "rollout").await;
    for client in clients {
        client.finish().await;
    }
}
