//! An API server that denies everything, for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "support of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

/// Returns a client of it, and the count of calls that it has answered.
///
/// # Panics
///
/// Its answers do, if they cannot be made.
pub fn denying_apiserver() -> (Client, Arc<AtomicUsize>) {
    let calls: Arc<AtomicUsize> = Arc::default();
    let counted = calls.clone();
    let answer = move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "forbidden", "metadata": {},
        });
        let response = Response::builder().status(403).body(Body::from(status.to_string().into_bytes()));
        async move { Ok::<_, kube::Error>(response.expect("a response")) }
    };
    (Client::new(service_fn(answer), "default"), calls)
}
