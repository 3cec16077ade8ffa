//! Masters that are lost with their Kubernetes node, and with the operator that leads. Only a cluster of three nodes can show
//! that: `cargo xtask bench failover` has one. Each turn begins with a new set, whose master is on the node that is lost.

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::super::checker::{Checker, Measured, Promise};
use super::super::sentinel::{Sentinels, Settings};
use super::super::{Stage, becomes, settled};
use crate::leadership::process::Process;
use crate::leadership::{DATABASES, leads_by};
use crate::lost_nodes::cut::redis::with_master_on;
use crate::lost_nodes::{self, CUT, Cut};
use crate::support::Scene;

/// The failure with Causeway; the leading operator may be lost, too.
pub async fn ours(turns: usize, with_operator: bool) -> Measured {
    let mut all = Measured::none();
    for _ in 0..turns {
        let scene = Stage::new("redis-compared").await;
        let kinds = [("KINDS", "Redis")];
        let first = Process::start_with(&scene, "first", &kinds).await;
        leads_by(&scene, DATABASES, "first").await;
        let _second = Process::start_with(&scene, "second", &kinds).await;
        let name = with_master_on(&scene, CUT).await;
        let checker = Checker::start(&scene).await;
        checker.writes(200).await;
        checker.event("the master's node lost");
        let cut = Cut::new(CUT);
        if with_operator {
            first.signal("STOP");
        }
        let another = |object: &Redis| {
            let master = object.status.as_ref().and_then(|status| status.master.as_ref());
            master.is_some_and(|master| *master != name)
        };
        becomes(&scene, "another master", another).await;
        checker.goes_on("another master").await;
        if with_operator {
            first.signal("CONT");
        }
        drop(cut);
        lost_nodes::becomes(&scene, CUT, true).await;
        settled(&scene, "all nodes again").await;
        all.add(checker.measured(Promise::WhatWasReplicated).await);
    }
    all
}

/// The failure with Sentinel.
pub async fn theirs(settings: Settings, turns: usize) -> Measured {
    let mut all = Measured::none();
    for _ in 0..turns {
        let scene = Stage::new("redis-sentinel").await;
        let sentinels = Sentinels::start_on(&scene, settings, &places(&scene).await).await;
        let before = sentinels.address().await;
        let checker = Checker::start_at(sentinels.entrance()).await;
        checker.writes(200).await;
        checker.event("the master's node lost");
        let cut = Cut::new(CUT);
        sentinels.succeeded(&before).await;
        checker.goes_on("another master").await;
        drop(cut);
        lost_nodes::becomes(&scene, CUT, true).await;
        sentinels.settled().await;
        all.add(checker.measured(Promise::Nothing).await);
    }
    all
}

/// The nodes of Kubernetes, the one that is lost first.
async fn places(scene: &Scene) -> Vec<String> {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let nodes = nodes.list(&ListParams::default()).await.expect("nodes");
    let mut names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    names.sort_unstable_by_key(|name| (name != CUT, name.clone()));
    names
}
