//! The exporter beside each node.

use serde_json::json;

use super::checker::{Checker, Promise};
use super::{NAME, Stage, master, patient, pods, running, settled, spec};
use crate::support::{Operator, wait_for};

/// The metrics of an exporter; empty while it does not answer.
pub async fn figures(address: String) -> String {
    let asked = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().proxy(None).build().new_agent();
        agent.get(&format!("http://{address}:9121/metrics")).call()?.body_mut().read_to_string()
    });
    asked.await.expect("no panic").unwrap_or_default()
}

/// The exporter is added to a set that runs already. The next test has one in a set that asks for a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exporters_report_every_node_without_an_outage() {
    let scene = Stage::new("redis-exporter").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let checker = Checker::start(&scene).await;
    checker.event("an exporter");
    scene.edit::<causeway_api::Redis>(NAME, json!({ "exporter": {} })).await;
    settled(&scene, "an exporter beside each node").await;
    let master = master(&scene).await;
    for pod in pods(&scene).await {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
        let role = if name == master { "role=\"master\"" } else { "role=\"slave\"" };
        let good = |text: &String| text.contains("redis_up 1") && text.contains(role);
        wait_for(&format!("the figures of {name}, {role}"), || figures(address.clone()), good).await;
    }
    checker.goes_on("an exporter beside each node").await;
    checker.finish("an exporter beside each node", Promise::Everything).await;
}

/// The kubelet reads the Secret: the pod itself has no password in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exporter_logs_in_where_a_password_is_asked_for() {
    let scene = Stage::new("redis-exporter").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(0);
    wanted["auth"] = json!({ "enabled": true });
    wanted["exporter"] = json!({});
    scene.create::<causeway_api::Redis>(NAME, wanted).await;
    super::becomes(&scene, "the first node", super::is_settled).await;
    let pod = pods(&scene).await.remove(0);
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let good = |text: &String| text.contains("redis_up 1") && text.contains("redis_connected_clients");
    wait_for("the figures of the node", || figures(address.clone()), good).await;
}
