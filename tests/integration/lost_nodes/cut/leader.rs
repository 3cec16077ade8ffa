//! A master whose node is lost together with the operator that leads.

use causeway_api::Redis;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::{CUT, Cut, becomes};
use super::redis::with_master_on;
use crate::leadership::process::Process;
use crate::leadership::{COMMON, DATABASES, leader_metric, leads_by};
use crate::redis::checker::{Checker, Promise};
use crate::redis::{self, settled};
use crate::support::{Scene, wait_for};

/// The log message of an operator that begins to lead.
const LEADING: &str = r#""message":"leading""#;

/// Writes into the lease of all kinds but databases who holds it, and for how many seconds. An empty holder and 1 s
/// free it: an operator that stops writes the same.
async fn take(scene: &Scene, holder: &str, seconds: i32) {
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": holder, "leaseDurationSeconds": seconds } }));
    scene.api::<Lease>().patch(COMMON, &PatchParams::default(), &patch).await.expect("the lease is changed");
}

/// The leading operator falls silent, too: SIGSTOP stops its process. To the rest of the cluster it looks like an
/// operator on a node without power.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_lost_with_the_leading_operator_is_succeeded() {
    let scene = Scene::new("lost-nodes").await;
    let first = Process::start(&scene, "first").await;
    for lease in [DATABASES, COMMON] {
        leads_by(&scene, lease, "first").await;
    }
    let second = Process::start(&scene, "second").await;
    let name = with_master_on(&scene, CUT).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let lost = checker.event("the master's node and the leading operator lost");
    let since = Timestamp::now();
    let cut = Cut::new(CUT);
    first.signal("STOP");
    // The lease of all kinds but databases stays taken until the test has seen another master.
    take(&scene, "test__0", 600).await;
    leads_by(&scene, DATABASES, "second").await;
    println!("»   the other operator leads for databases after {:.1} s", lost.elapsed().as_secs_f64());
    let another = |object: &Redis| {
        let status = object.status.as_ref();
        status.is_some_and(|status| status.master.as_ref().is_some_and(|it| *it != name) && status.failover.is_none())
    };
    let object = redis::becomes(&scene, "another master", another).await;
    println!("»   another is the master after {:.1} s", lost.elapsed().as_secs_f64());
    second.print_way_to_failover(since);
    second.logs(LEADING).await;
    let of_databases = format!(r#""lease":"{DATABASES}""#);
    let place =
        |words: &str| second.log().iter().rposition(|line| line.contains(words) && line.contains(&of_databases));
    let (warm, leads) = (place("warming up"), place(LEADING));
    assert!(warm.is_some() && warm < leads, "it listened to the nodes before it led: {warm:?}, {leads:?}");
    checker.goes_on("another master").await;
    let failover = object.status.and_then(|status| status.last_failover).expect("a failover");
    assert_eq!(failover.from.as_ref(), Some(&name), "{failover:?}");

    // An operator that waited for the lease of all kinds would have promoted another master only after this.
    take(&scene, "", 1).await;
    let common = leads_by(&scene, COMMON, "second").await.acquire_time.expect("a time").0;
    println!("»   the other operator leads for all other kinds after {:.1} s", lost.elapsed().as_secs_f64());
    assert!(failover.at.0 < common, "the failover of {} waited for the lease of {common}", failover.at.0);

    // The first operator wakes up with all its work still to do, and changes nothing: the checker knows how many
    // masters there are.
    first.signal("CONT");
    for lease in [DATABASES, COMMON] {
        let stands_by = |(_, metrics): &(u16, String)| metrics.contains(&leader_metric(lease, false));
        wait_for(&format!("the first to stand by for {lease}"), || first.get("/metrics"), stands_by).await;
    }
    assert_eq!(second.get("/healthz").await.0, 200);
    checker.goes_on("both operators run").await;
    drop(cut);
    becomes(&scene, CUT, true).await;
    settled(&scene, "all nodes again").await;
    checker.goes_on("all nodes again").await;
    checker.finish("the master's node and the leading operator lost", Promise::WhatWasReplicated).await;
}
