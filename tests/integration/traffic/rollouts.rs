//! Roll-outs of pods with our readiness gate lose no request.

use std::collections::BTreeSet;
use std::time::Instant;

use super::balanced;
use super::entrance::{self, Stage};
use super::load::Load;
use super::servers::{self, Servers};
use crate::support::Operator;

const ROLLOUTS: u32 = 10;

#[tokio::test]
async fn ten_rollouts_of_three_pods_lose_no_request() {
    let scene = Stage::new("rollouts").await;
    let _operator = Operator::start(&scene).await;
    let mut servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let mut took = Vec::new();
    for _ in 0..ROLLOUTS {
        servers.version += 1;
        let begun = Instant::now();
        servers.settle(&scene).await;
        took.push(begun.elapsed());
    }
    entrance::serving(&scene, "web", 3).await;
    let last: BTreeSet<String> = servers.pods(&scene).await.into_iter().filter_map(|pod| pod.metadata.name).collect();
    load.wait_until("the pods of the last roll-out to answer", |exchanges| {
        servers::by_pod(exchanges).into_keys().collect::<BTreeSet<String>>() == last
    })
    .await;
    let record = load.stop();
    record.print(&format!("{ROLLOUTS} roll-outs of 3 pods, each in {}", super::load::spread(took)));
    record.assert_no_failures();
    let pods = servers::by_pod(&record.exchanges);
    assert_eq!(pods.len(), 3 + 3 * ROLLOUTS as usize, "every pod has answered: {pods:?}");
}
