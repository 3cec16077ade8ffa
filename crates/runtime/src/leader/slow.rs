//! Tests of a leader whose API answers slowly, with tokio's clock paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{Election, Fence, Leadership, Lost, Timing};

/// An apiserver with one lease. It executes a request at once, and answers after a delay.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    delay: Arc<AtomicU64>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            // A client that drops the connection does not undo what the server has done.
            let done = tokio::spawn(async move { server.serve(request).await });
            async move { done.await.map_err(std::io::Error::other) }
        });
        Client::new(service, "default")
    }

    fn answers_after(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let (code, answer) = {
            let mut lease = self.lease.lock().await;
            let failure = |code: u16, reason: &str| {
                (
                    code,
                    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no" }),
                )
            };
            match (head.method.as_str(), lease.as_ref()) {
                ("GET", Some(lease)) => (200, lease.clone()),
                ("GET", None) => failure(404, "NotFound"),
                (_, before) => {
                    let mut sent: Value = serde_json::from_slice(&body).unwrap();
                    let version = |lease: &Value| lease["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                    if before.and_then(version) == version(&sent) {
                        let next = before.and_then(version).map_or(1, |version| version.parse::<u64>().unwrap() + 1);
                        sent["metadata"]["resourceVersion"] = json!(next.to_string());
                        *lease = Some(sent.clone());
                        (200, sent)
                    } else {
                        failure(409, "Conflict")
                    }
                }
            }
        };
        sleep(Duration::from_millis(self.delay.load(Ordering::SeqCst))).await;
        let answer = Body::from(serde_json::to_vec(&answer).unwrap());
        let mut response = Response::new(answer);
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response
    }
}

async fn leader(server: &Server) -> (Leadership, Fence) {
    let election = Election::new(server.client(), "causeway-system", "causeway", "a".into(), Timing::DEFAULT);
    let leadership = election.acquire().await;
    let fence = leadership.fence();
    (leadership, fence)
}

#[tokio::test(start_paused = true)]
async fn a_leader_stays_while_answers_take_four_seconds() {
    let server = Server::default();
    let (mut leadership, fence) = leader(&server).await;
    let load = async {
        for delay in [0, 1, 2, 3, 4, 3, 0] {
            server.answers_after(Duration::from_secs(delay));
            sleep(Duration::from_mins(5)).await;
            assert!(fence.check().is_ok(), "answers take {delay} s");
        }
    };
    tokio::select! {
        lost = leadership.hold() => panic!("{lost}"),
        () = load => {}
    }
}

fn candidate(server: &Server, identity: &str) -> Election {
    Election::new(server.client(), "causeway-system", "causeway", identity.into(), Timing::DEFAULT)
}

/// Some of its calls may still be under way.
#[tokio::test(start_paused = true)]
async fn a_leader_waits_for_calls_that_were_cut_off() {
    let server = Server::default();
    let (leadership, fence) = leader(&server).await;
    let lease_duration = Timing::DEFAULT.lease_duration;
    let begun = Instant::now();
    let release = async {
        leadership.release_later().await;
        assert!(begun.elapsed() < lease_duration, "it frees the lease before that ends by itself");
    };
    let next = async {
        sleep(Duration::from_millis(1)).await;
        assert!(fence.check().is_err(), "its own work ends at once");
        candidate(&server, "b").acquire().await;
        begun.elapsed()
    };
    let ((), after) = tokio::join!(release, next);
    assert!(after >= Timing::DEFAULT.margin() && after < lease_duration, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_the_lease_returns_with_another_fence() {
    let server = Server::default();
    let (mut leadership, first) = leader(&server).await;
    server.answers_after(Duration::from_mins(1));
    assert_eq!(leadership.hold().await, Lost::Late);
    assert!(first.check().is_err());
    server.answers_after(Duration::ZERO);
    let leadership = timeout(Duration::from_secs(30), leadership.stand_by().acquire()).await.expect("it leads again");
    assert!(leadership.fence().check().is_ok());
    assert!(first.check().is_err(), "what worked before may work again");
}
