//! How soon ready pods become targets.

use std::sync::Mutex;
use std::time::Duration;

use causeway_runtime::guardrails::Guardrails;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};

use super::balanced;
use super::entrance::{self, Stage};
use super::load::spread;
use super::servers::{self, Servers};
use crate::support::{Operator, wait_for};

const STARTS: usize = 20;
/// The goal is a second, which a machine that runs other tests does not always keep. This limits the median: it says
/// that half of the pods were not held up by anything else than that.
const MEDIAN_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn pods_become_targets_soon_after_their_readiness() {
    let scene = Stage::new("registration").await;
    // With guardrails, as in an installed operator: each target is looked up among the pods.
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_secs(2));
    context.environment.guardrails = Guardrails::watch(&Operator::client().await);
    let _operator = Operator::start_in(context);
    let mut servers = Servers::plain("web", 1);
    balanced(&scene, &servers).await;
    scene.emulator.clear_journal().await;
    // Pods in the order in which they became ready, each with the moment at which a watch showed it.
    let ready: Mutex<Vec<(String, Timestamp)>> = Mutex::default();
    let watch = watcher(scene.api::<Pod>(), watcher::Config::default()).applied_objects().for_each(async |pod| {
        let Ok(pod) = pod else { return };
        let mut ready = ready.lock().expect("no task panics");
        if servers::is(&pod, "Ready") && ready.iter().all(|(name, _)| *name != pod.name_any()) {
            ready.push((pod.name_any(), Timestamp::now()));
        }
    });
    let starts = async {
        for _ in 0..STARTS {
            servers.replicas += 1;
            servers.apply(&scene).await;
            let count = servers.replicas as usize;
            wait_for("the new target", || entrance::registered(&scene, "web"), |targets| targets.len() == count).await;
        }
        // The operator may see pods before this test does.
        let shown = || async { ready.lock().expect("no task panics").len() };
        wait_for("the watch to show all pods", shown, |count| *count == 1 + STARTS).await;
    };
    tokio::select! { () = watch => unreachable!("the watch never ends"), () = starts => {} }

    let calls = scene.emulator.journal().await.into_iter().filter(|call| call.operation == "RegisterTargets");
    let registered: Vec<Timestamp> = calls.map(|call| call.time.parse().expect("a time")).collect();
    let ready = ready.into_inner().expect("no task panics");
    // The first pod was ready before.
    let ready: Vec<Timestamp> = ready.into_iter().skip(1).map(|(_, at)| at).collect();
    assert_eq!(ready.len(), STARTS);
    // On a busy machine an answer may come too late, and a probe may fail: then a call is made once more.
    assert!((STARTS..=STARTS + STARTS / 10).contains(&registered.len()), "one call for each pod: {registered:?}");
    let took = ready.iter().zip(&registered).map(|(ready, registered)| {
        // The operator may register a pod before this test's own watch shows it.
        Duration::try_from(registered.duration_since(*ready)).unwrap_or_default()
    });
    let mut took: Vec<Duration> = took.collect();
    println!("» {STARTS} pods registered after their readiness: {}", spread(took.clone()));
    took.sort_unstable();
    assert!(took[STARTS / 2] < MEDIAN_LIMIT, "{took:?}");
}
