//! Readers reach a replica in their own zone. This is among the tests of lost nodes because it needs several nodes of
//! Kubernetes: each is in a zone of its own, and these tests run in the network of the first.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::cut::redis::with_master_on;
use super::{CUT, by_node};
use crate::redis::checker::Entrance;
use crate::redis::{NAME, pods, settled, switchover};
use crate::support::{Operator, Scene, wait_for};

/// The node in whose network these tests run.
const HERE: &str = "node-1";
const REPLICAS: &str = "cache-replicas";
/// So many connections reach all replicas, unless something directs them to one.
const CONNECTIONS: usize = 20;

/// The zones in the topology hints of each pod of the replicas' Service.
async fn hints(scene: &Scene) -> BTreeMap<String, Vec<String>> {
    let slice = scene.api::<EndpointSlice>().get("cache-replicas-ipv4").await.expect("the slice");
    let hint = |endpoint: k8s_openapi::api::discovery::v1::Endpoint| {
        let zones = endpoint.hints.and_then(|hints| hints.for_zones).unwrap_or_default();
        Some((endpoint.target_ref?.name?, zones.into_iter().map(|zone| zone.name).collect()))
    };
    slice.endpoints.into_iter().filter_map(hint).collect()
}

/// The pods of all nodes but one, each with the zone of its node.
async fn zones_without(scene: &Scene, master: &str) -> BTreeMap<String, Vec<String>> {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let mut zones = BTreeMap::new();
    for (node, pods) in by_node(&pods(scene).await) {
        let node = nodes.get(&node).await.expect("the node");
        let zone = node.labels()["topology.kubernetes.io/zone"].clone();
        zones.extend(pods.into_iter().filter(|pod| pod != master).map(|pod| (pod, vec![zone.clone()])));
    }
    zones
}

/// The pods that readers reach by the replicas' Service.
async fn reached(scene: &Scene, entrance: &Entrance) -> BTreeSet<String> {
    let address_of = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let names: BTreeMap<Option<String>, String> =
        pods(scene).await.iter().map(|pod| (address_of(pod), pod.name_any())).collect();
    let mut reached = BTreeSet::new();
    for _ in 0..CONNECTIONS {
        let ask = async {
            let mut connection = entrance.open(&entrance.address().await.ok()?).await.ok()?;
            redis::cmd("CLIENT").arg("INFO").query_async::<String>(&mut connection).await.ok()
        };
        let Some(answer) = ask.await else { return BTreeSet::new() };
        let local = answer.split_whitespace().find_map(|word| word.strip_prefix("laddr=")).expect("an address");
        let address = local.rsplit_once(':').map(|(address, _)| address.to_owned());
        reached.extend(names.get(&address).cloned());
    }
    reached
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_prefer_a_replica_in_their_zone() {
    let scene = Scene::new("near").await;
    let _operator = Operator::start(&scene).await;
    let far = with_master_on(&scene, CUT).await;
    let near = by_node(&pods(&scene).await)[HERE][0].clone();
    let entrance = Entrance::service(&scene, REPLICAS);
    let replicas = zones_without(&scene, &far).await;
    assert!(hints(&scene).await.values().all(Vec::is_empty), "no hints unless the spec asks for them");
    let look = || reached(&scene, &entrance);
    wait_for("readers to reach both replicas", look, |reached| reached.len() == 2).await;

    let asked = json!({ "replicaService": { "trafficDistribution": "PreferClose" } });
    scene.edit::<Redis>(NAME, asked).await;
    wait_for("each replica to be for its zone", || hints(&scene), |hints| *hints == replicas).await;
    let only = BTreeSet::from([near.clone()]);
    wait_for("readers to reach the replica of their zone alone", look, |reached| *reached == only).await;

    // The readers' replica becomes the master: the other replicas are for their own zones, and for zones without a
    // replica.
    switchover::switched(&scene, &near).await;
    let others = zones_without(&scene, &near).await;
    assert_ne!(others, replicas);
    wait_for("the other replicas to be for their zones", || hints(&scene), |hints| *hints == others).await;
    wait_for("readers to reach both", look, |reached| reached.iter().eq(others.keys())).await;

    scene.edit::<Redis>(NAME, json!({ "switchover": null, "replicaService": Value::Null })).await;
    settled(&scene, "the spec without trafficDistribution").await;
    wait_for("no replica to be for a zone", || hints(&scene), |hints| hints.values().all(Vec::is_empty)).await;
}
