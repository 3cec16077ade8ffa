//! Requests through the balancer while everything behind it changes: real pods, LocalStack's data plane, and clients
//! that send requests all the time. Each test prints what became of the requests.

mod checks;
mod entrance;
mod groups;
pub mod load;
mod login;
mod outages;
mod provider;
mod registration;
mod replacement;
mod restarts;
mod rollouts;
mod rules;
mod servers;
mod timeline;
mod waiting;

use causeway_api::MyIngress;
use serde_json::json;

use crate::support::Scene;
use entrance::{Entrance, backend, forward};
use servers::Servers;

/// A balancer that sends everything to these servers, once all of them serve.
async fn balanced(scene: &Scene, servers: &Servers) -> Entrance {
    let listener = json!({ "defaultAction": forward(&[(servers.name, 1)]) });
    let backends = json!([backend(servers.name, json!({}))]);
    // The pods come first: those with our readiness gate get ready only when the balancer has found them healthy.
    servers.apply(scene).await;
    scene.create::<MyIngress>("web", entrance::spec(listener, json!({ "backends": backends }))).await;
    servers.settle(scene).await;
    entrance::serving(scene, "web", servers.replicas as usize).await
}
