//! A part that cannot be changed in place is replaced while requests go on.

use std::time::Instant;

use causeway_api::MyIngress;
use serde_json::json;

use super::balanced;
use super::entrance::{self, Stage, backend};
use super::load::{Exchange, Load, spread};
use super::servers::{Servers, TLS};
use crate::support::certificates::{self, EXAMPLE_COM};
use crate::support::{Operator, wait_for};

#[tokio::test]
async fn another_protocol_to_the_targets_loses_no_request() {
    let scene = Stage::new("protocol").await;
    let _operator = Operator::start(&scene).await;
    certificates::as_secret(&scene, TLS, EXAMPLE_COM).await;
    let servers = Servers { tls: true, ..Servers::gated("web", 2) };
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let mut took = Vec::new();
    for (port, protocol) in [("https", "HTTPS"), ("http", "HTTP"), ("https", "HTTPS"), ("http", "HTTP")] {
        let begun = Instant::now();
        let backends = json!([backend("web", json!({ "port": port, "protocol": protocol }))]);
        scene.edit::<MyIngress>("web", json!({ "backends": backends })).await;
        let scheme = port;
        entrance::serving(&scene, "web", 2).await;
        load.wait_until(&format!("answers over {scheme}"), |exchanges| {
            exchanges.iter().any(|it| it.outcome.as_ref().is_ok_and(|answer| answer.scheme == scheme))
        })
        .await;
        took.push(begun.elapsed());
    }
    let record = load.stop();
    record.print(&format!("4 target groups replaced, each in {}", spread(took)));
    record.assert_no_failures();
}

#[tokio::test]
async fn another_scheme_gives_no_wrong_answer() {
    let scene = Stage::new("scheme").await;
    let _operator = Operator::start(&scene).await;
    let mut entrance = balanced(&scene, &Servers::gated("web", 2)).await;
    let followers = Load::start(&entrance, &["/"]);
    for scheme in ["internal", "internet-facing"] {
        let stayers = Load::start(&entrance, &["/"]);
        let (begun, old) = (Instant::now(), entrance.host.clone());
        scene.edit::<MyIngress>("web", json!({ "scheme": scheme })).await;
        let moved = |object: &MyIngress| {
            object.status.as_ref().and_then(|status| status.alb.as_ref()).is_some_and(|alb| alb.dns != old)
        };
        let object = scene.ingress("web", "another DNS name in the status", moved).await;
        let named = Instant::now();
        // The data plane polls AWS's state at its own intervals.
        let carried =
            wait_for("the new balancer to carry requests", || entrance::find(&scene, &object), Option::is_some);
        entrance = carried.await.expect("it was waited for");
        followers.go_to(&entrance);
        wait_for("one balancer", || scene.balancers(), |balancers| balancers.len() == 1).await;
        entrance::in_force(&scene).await;
        entrance::serving(&scene, "web", 2).await;
        let ready = Instant::now();
        followers
            .wait_until("answers from the new balancer", |exchanges| exchanges.iter().any(|it| !it.failed()))
            .await;
        let record = stayers.stop();
        record.print(&format!("the old name while {scheme} takes over"));
        assert_right(&record.exchanges);
        let first = record.failures().first().map(|failure| failure.sent.saturating_duration_since(named).as_millis());
        println!(
            "»   new name reported after {} ms, ready after {} ms; the old name stops {first:?} ms after that report",
            (named - begun).as_millis(),
            (ready - begun).as_millis(),
        );
    }
    let record = followers.stop();
    record.print("2 replaced balancers, clients that follow the status");
    assert_right(&record.exchanges);
}

/// Panics if other servers than the right ones answered.
fn assert_right(exchanges: &[Exchange]) {
    let wrong = exchanges
        .iter()
        .filter(|it| it.outcome.as_ref().is_ok_and(|answer| answer.code == 200 && answer.word != "web"));
    assert_eq!(wrong.count(), 0, "wrong answers");
}
