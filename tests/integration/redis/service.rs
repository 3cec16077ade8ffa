//! The Service leads to the master, whether its pod is ready or not, and whatever was written for the Service before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::checker::{Checker, Entrance, Promise};
use super::{LABEL, NAME, ROLE_LABEL, Stage, becomes, describe, master, patient, running, settled, spec, succeeded};
use crate::support::rollout_watch::is_ready;
use crate::support::{Operator, Scene, wait_for};

/// A client that waits for longer was not served: it was refused, or led to no node.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reports whether a new client is served, which connects through the Service, writes once, and closes its connection.
async fn is_served(entrance: &Entrance) -> bool {
    let comes = async {
        let address = entrance.address().await.ok()?;
        let mut connection = entrance.open(&address).await.ok()?;
        redis::cmd("SET").arg("newcomer").arg(1).query_async::<()>(&mut connection).await.ok()
    };
    timeout(PATIENCE, comes).await.is_ok_and(|served| served.is_some())
}

/// New clients all the time, one after the other.
struct Newcomers {
    tasks: JoinSet<()>,
    served: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Newcomers {
    async fn start(scene: &Scene) -> Self {
        let entrance = Entrance::service(scene, NAME);
        // The node's proxy may learn of the Service's endpoints only now.
        wait_for("a first client to be served", || is_served(&entrance), |served| *served).await;
        let (served, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        let counts = (served.clone(), refused.clone());
        tasks.spawn(async move {
            let mut ticks = interval(Duration::from_millis(10));
            loop {
                ticks.tick().await;
                let count = if is_served(&entrance).await { &counts.0 } else { &counts.1 };
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { tasks, served, refused }
    }

    /// Waits until so many more were served.
    async fn go_on(&self, count: usize) {
        let before = self.served.load(Ordering::SeqCst);
        let look = || async { self.served.load(Ordering::SeqCst) - before };
        wait_for(&format!("{count} more clients to be served"), look, |served| *served >= count).await;
    }

    /// How many were not served.
    fn end(mut self) -> usize {
        self.tasks.abort_all();
        println!("» {} newcomers served, {:?} not", self.served.load(Ordering::SeqCst), self.refused);
        self.refused.load(Ordering::SeqCst)
    }
}

/// The slices of a Service, with their pods.
pub(super) async fn slices(scene: &Scene, service: &str) -> Vec<(String, Vec<String>)> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let list = scene.api::<EndpointSlice>().list(&of_service).await.expect("slices").items;
    let pods = |slice: &EndpointSlice| {
        let targets = slice.endpoints.iter().filter_map(|it| it.target_ref.clone());
        targets.filter_map(|target| target.name).collect()
    };
    list.iter().map(|slice| (slice.name_any(), pods(slice))).collect()
}

/// The exporter's failure makes the pod unready although the master in it serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exporter_that_fails_keeps_no_client_from_the_master() {
    let scene = Stage::new("redis-service").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(2);
    wanted["exporter"] = json!({});
    running(&scene, wanted).await;
    let name = master(&scene).await;
    let newcomers = Newcomers::start(&scene).await;
    newcomers.go_on(20).await;
    let broken =
        json!({ "spec": { "containers": [{ "name": "exporter", "image": "registry.example.com/nothing:1" }] } });
    let pods = scene.api::<Pod>();
    pods.patch(&name, &PatchParams::default(), &Patch::Strategic(&broken)).await.expect("the change is accepted");
    let look = || async { pods.get(&name).await.expect("the pod") };
    wait_for("the master's pod not to be ready", look, |pod| !is_ready(pod)).await;
    let is_unready = |object: &Redis| describe(object, "Ready").is_some_and(|(status, ..)| status == "False");
    let object = becomes(&scene, "Ready to be False", is_unready).await;
    println!("» {:?}", describe(&object, "Ready"));
    newcomers.go_on(100).await;
    assert_eq!(master(&scene).await, name, "no other node took over");
    assert_eq!(slices(&scene, NAME).await, [("cache-ipv4".to_owned(), vec![name])]);
    assert_eq!(newcomers.end(), 0, "clients that were not served");
}

/// Services with selectors that others added, and the slices and Endpoints that Kubernetes wrote for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_that_others_add_go_without_a_refused_client() {
    let scene = Stage::new("redis-service").await;
    let operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    operator.stop().await;
    for (service, role) in [(NAME, "master"), ("cache-replicas", "replica")] {
        let selector: Value = json!({ "spec": { "selector": { (LABEL): NAME, (ROLE_LABEL): role } } });
        let api = scene.api::<Service>();
        api.patch(service, &PatchParams::default(), &Patch::Merge(&selector)).await.expect("the change is accepted");
        let count = if role == "master" { 1 } else { 2 };
        let of_kubernetes = |slices: &Vec<(String, Vec<String>)>| {
            slices.iter().any(|(name, pods)| *name != format!("{service}-ipv4") && pods.len() == count)
        };
        let look = || async { slices(&scene, service).await };
        wait_for("a slice by Kubernetes", look, of_kubernetes).await;
        let endpoints = || async { scene.api::<Endpoints>().get_opt(service).await.expect("an answer") };
        wait_for("Endpoints by Kubernetes", endpoints, Option::is_some).await;
        let own = format!("{service}-ipv4");
        scene.api::<EndpointSlice>().delete(&own, &DeleteParams::default()).await.expect("the deletion is accepted");
    }
    let (newcomers, checker) = (Newcomers::start(&scene).await, Checker::start(&scene).await);
    newcomers.go_on(50).await;
    checker.event("the operator is back");
    let _operator = Operator::start(&scene).await;
    for service in [NAME, "cache-replicas"] {
        let look = || async { slices(&scene, service).await };
        let is_ours = |slices: &Vec<(String, Vec<String>)>| matches!(&slices[..], [(name, pods)] if *name == format!("{service}-ipv4") && !pods.is_empty());
        wait_for(&format!("{service} to be led by our slice alone"), look, is_ours).await;
        let endpoints = || async { scene.api::<Endpoints>().get_opt(service).await.expect("an answer") };
        wait_for("the Endpoints to be gone", endpoints, Option::is_none).await;
        let live = scene.api::<Service>().get(service).await.expect("the Service");
        assert_eq!(live.spec.and_then(|spec| spec.selector), None);
    }
    newcomers.go_on(100).await;
    assert_eq!(newcomers.end(), 0, "clients that were refused");
    settled(&scene, "all as before").await;
    // The slice is ours now: a master that fails is removed from it.
    let before = master(&scene).await;
    checker.event("the master's process killed");
    super::faults::kill(&scene, &before).await;
    succeeded(&scene, &before).await;
    checker.goes_on("another master").await;
    settled(&scene, "all nodes again").await;
    checker.finish("selectors of others removed", Promise::WhatWasReplicated).await;
}

/// No client changes a slice while no operator runs: the last one must stay in force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_served_while_no_operator_runs() {
    let scene = Stage::new("redis-service").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    operator.stop().await;
    let newcomers = Newcomers::start(&scene).await;
    newcomers.go_on(100).await;
    assert_eq!(newcomers.end(), 0, "clients that were not served");
}
