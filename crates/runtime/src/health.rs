//! Serves `/healthz` and `/readyz` for the kubelet, and `/metrics` if every client may read them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use futures::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::metrics::Metrics;

/// The health of this process; clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Condition>>);

#[derive(Debug, Default)]
struct Condition {
    ready: bool,
    /// The controllers that were started; true while their stream runs.
    controllers: BTreeMap<&'static str, bool>,
    /// Watches that fail, with their failures.
    failing: BTreeMap<Watch, Failing>,
    /// Watches whose last report was an answer.
    answered: BTreeSet<Watch>,
}

/// A watch: kind and namespace. The namespace is empty for a watch of all.
type Watch = (&'static str, String);

#[derive(Debug)]
struct Failing {
    /// The time of the first failure.
    since: Instant,
    /// The time of the last failure.
    last: Instant,
    /// The kind of the last failure.
    why: WatchFailure,
}

/// The kind of a watch's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFailure {
    /// The operator may not list or watch the namespace.
    Denied,
    /// The API server does not serve the kind: its definition is missing.
    Missing,
    /// The API server did not answer, or its answer could not be decoded.
    Other,
}

impl Failing {
    fn for_long(&self) -> bool {
        self.since.elapsed() >= WATCH_TIMEOUT && !self.is_over()
    }

    /// Returns true if the watch works again. A watcher does not say that it is connected, and a kind without changes
    /// has no events.
    fn is_over(&self) -> bool {
        self.last.elapsed() >= FAILURE_INTERVAL
    }
}

/// A watch that has failed for this long makes the process unhealthy. A restart may help where retries did not.
const WATCH_TIMEOUT: Duration = Duration::from_mins(5);

/// A watch that fails is tried again within a minute, and a connection that hangs is given up after half a minute. So one
/// that has not failed for this long works.
/// <https://docs.rs/kube/latest/kube/runtime/watcher/struct.DefaultBackoff.html>
const FAILURE_INTERVAL: Duration = Duration::from_mins(2);

/// The answer to a request for metrics without TLS when a token is required. A token must not cross the network in
/// plain text.
const ELSEWHERE: &str = "metrics are served only at METRICS_TLS_ADDRESS (port 8443), with TLS and a Kubernetes token\n";

/// Reports the health of one watch.
#[derive(Debug)]
pub struct WatchHealth {
    health: Health,
    key: Watch,
    /// True if the last report was an answer.
    answered: bool,
}

impl WatchHealth {
    /// Records that the API server answered.
    pub fn record_answer(&mut self) {
        if !self.answered {
            self.answered = true;
            let mut condition = self.health.condition();
            condition.failing.remove(&self.key);
            condition.answered.insert(self.key.clone());
        }
    }

    /// Records that the watch failed.
    pub fn record_failure(&mut self, why: WatchFailure) {
        self.answered = false;
        let mut condition = self.health.condition();
        condition.answered.remove(&self.key);
        let now = Instant::now();
        let failing = condition.failing.entry(self.key.clone()).or_insert(Failing { since: now, last: now, why });
        // A namespace may be denied, and a kind missing, for days without harm. That time does not count for another failure.
        if failing.is_over() || (failing.why != WatchFailure::Other && failing.why != why) {
            failing.since = now;
        }
        (failing.last, failing.why) = (now, why);
    }
}

impl Condition {
    /// Returns true if a restart would not help the watch, and would stop work that goes on: the operator is denied a
    /// namespace and serves the kind in another one, or the kind is missing and another kind is served.
    fn is_excused(&self, (kind, _): &Watch, failing: &Failing) -> bool {
        match failing.why {
            WatchFailure::Denied if !self.is_missing(kind) => self.works(|of| of == *kind),
            WatchFailure::Denied | WatchFailure::Missing => self.works(|_| true),
            WatchFailure::Other => false,
        }
    }

    /// Returns true if a watch of such a kind works, or worked until a moment ago.
    fn works(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.answered.iter().any(|(kind, _)| is_such(kind))
            || self.failing.iter().any(|((kind, _), failing)| is_such(kind) && !failing.for_long())
    }

    fn is_missing(&self, kind: &str) -> bool {
        self.failing.iter().any(|((of, _), failing)| *of == kind && failing.why == WatchFailure::Missing)
    }
}

impl Health {
    /// Records that the controller's stream runs.
    pub fn controller_started(&self, kind: &'static str) {
        self.condition().controllers.insert(kind, true);
    }

    /// Records that the controller's stream ended. Nothing of that kind is reconciled any more, so the process must be
    /// restarted.
    pub fn controller_stopped(&self, kind: &'static str) {
        self.condition().controllers.insert(kind, false);
    }

    /// Records that the controllers of these kinds were ended because another process may lead. That does not make this
    /// process unhealthy, and neither do their earlier failures.
    pub fn stopped_leading(&self, kinds: &[&'static str]) {
        let mut condition = self.condition();
        condition.controllers.retain(|kind, _| !kinds.contains(kind));
        condition.failing.retain(|(kind, _), _| !kinds.contains(kind));
        condition.answered.retain(|(kind, _)| !kinds.contains(kind));
    }

    /// Reports the health of the watch of a kind in one namespace, or in all.
    pub fn watch(&self, kind: &'static str, namespace: Option<&str>) -> WatchHealth {
        WatchHealth { health: self.clone(), key: (kind, namespace.unwrap_or_default().to_owned()), answered: false }
    }

    /// Sets whether start-up is over, which means that the kinds are served and may be listed.
    pub fn set_ready(&self, ready: bool) {
        self.condition().ready = ready;
    }

    /// Succeeds if the process works; otherwise says what does not work.
    pub fn healthy(&self) -> Result<(), String> {
        let condition = self.condition();
        let dead: Vec<_> = condition.controllers.iter().filter(|(_, runs)| !**runs).map(|(kind, _)| *kind).collect();
        if !dead.is_empty() {
            return Err(format!("these controllers stopped: {}", dead.join(", ")));
        }
        let failing = condition
            .failing
            .iter()
            .filter(|(watch, failing)| failing.for_long() && !condition.is_excused(watch, failing));
        let failing: BTreeSet<_> = failing.map(|((kind, _), _)| *kind).collect();
        if !failing.is_empty() {
            let kinds: Vec<_> = failing.into_iter().collect();
            let minutes = WATCH_TIMEOUT.as_secs() / 60;
            return Err(format!("the watches of these kinds have failed for {minutes} minutes: {}", kinds.join(", ")));
        }
        Ok(())
    }

    /// Succeeds once start-up is over.
    pub fn ready(&self) -> Result<(), String> {
        if self.condition().ready { Ok(()) } else { Err("starting".to_owned()) }
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.0.lock()
    }
}

/// Answers on `listener` until `stop` ends; requests that began before may take one second longer. With `metrics`,
/// `/metrics` answers every client.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Option<Metrics>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let stop = stop.shared();
    let server = axum::serve(listener, routes(health, metrics)).with_graceful_shutdown(stop.clone());
    tokio::select! {
        result = server => result,
        // A client that never finishes its request must not delay the end of the process.
        () = stop.then(|()| sleep(Duration::from_secs(1))) => Ok(()),
    }
}

fn routes(health: Health, metrics: Option<Metrics>) -> Router {
    let checks = Router::new()
        .route("/healthz", get(|State(health): State<Health>| async move { answer(health.healthy()) }))
        .route("/readyz", get(|State(health): State<Health>| async move { answer(health.ready()) }))
        .with_state(health);
    let metrics = match metrics {
        Some(metrics) => get(async move || scrape(&metrics)),
        None => get(async || (StatusCode::FORBIDDEN, ELSEWHERE)),
    };
    checks.route("/metrics", metrics)
}

fn answer(state: Result<(), String>) -> (StatusCode, String) {
    match state {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// Answers a request with all metrics.
pub fn scrape(metrics: &Metrics) -> impl IntoResponse + use<> {
    match metrics.encode() {
        Ok(text) => Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::WatchFailure::{Denied, Missing, Other};
    use super::*;

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_watch_is_unhealthy_until_it_is_answered() {
        let health = Health::default();
        let mut watch = health.watch("Redis", Some("shop"));
        fails_for(WATCH_TIMEOUT, &mut watch, Other).await;
        assert!(health.healthy().is_err_and(|why| why.ends_with("5 minutes: Redis")), "{:?}", health.healthy());
        watch.record_answer();
        assert_eq!(health.healthy(), Ok(()));
    }

    /// The watch fails as often as a watcher tries.
    async fn fails_for(time: Duration, watch: &mut WatchHealth, why: WatchFailure) {
        const PAUSE: Duration = Duration::from_secs(30);
        watch.record_failure(why);
        for _ in 0..time.as_secs() / PAUSE.as_secs() {
            tokio::time::advance(PAUSE).await;
            watch.record_failure(why);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_failed_for_a_moment_is_healthy() {
        let health = Health::default();
        let mut watch = health.watch("Redis", None);
        fails_for(Duration::from_mins(2), &mut watch, Other).await;
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(health.healthy(), Ok(()));
        // A failure of an hour ago does not count for another failure.
        watch.record_failure(Other);
        assert_eq!(health.healthy(), Ok(()));
        fails_for(WATCH_TIMEOUT, &mut watch, Other).await;
        assert!(health.healthy().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_namespace_beside_a_served_one_is_healthy() {
        let health = Health::default();
        let (mut shop, mut blog) = (health.watch("Redis", Some("shop")), health.watch("Redis", Some("blog")));
        blog.record_answer();
        fails_for(Duration::from_mins(6), &mut shop, Denied).await;
        assert_eq!(health.healthy(), Ok(()));
        // The other one fails for a moment, and the apiserver does not answer about the denied one either.
        blog.record_failure(Other);
        assert_eq!(health.healthy(), Ok(()));
        shop.record_failure(Other);
        blog.record_answer();
        assert_eq!(health.healthy(), Ok(()));
        fails_for(Duration::from_mins(6), &mut shop, Other).await;
        assert!(health.healthy().is_err(), "this is another failure than a denial");
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_that_is_denied_all_namespaces_is_unhealthy() {
        let health = Health::default();
        let mut watches = ["shop", "blog"].map(|namespace| health.watch("Redis", Some(namespace)));
        watches.iter_mut().for_each(WatchHealth::record_answer);
        // Another kind does not speak for this one.
        health.watch("MyApp", Some("blog")).record_answer();
        for _ in 0..12 {
            for watch in &mut watches {
                watch.record_failure(Denied);
            }
            tokio::time::advance(Duration::from_secs(30)).await;
        }
        assert!(health.healthy().is_err());
    }

    /// Both watches fail as often as watchers try, for six minutes.
    async fn both_fail(
        (one, why): (&mut WatchHealth, WatchFailure),
        (other, because): (&mut WatchHealth, WatchFailure),
    ) {
        for _ in 0..12 {
            one.record_failure(why);
            other.record_failure(because);
            tokio::time::advance(Duration::from_secs(30)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_kind_beside_a_served_one_is_healthy() {
        let health = Health::default();
        let (mut apps, mut caches) = (health.watch("MyApp", None), health.watch("Redis", None));
        caches.record_answer();
        fails_for(Duration::from_hours(1), &mut apps, Missing).await;
        assert_eq!(health.healthy(), Ok(()));
        // The API server is away for a moment.
        caches.record_failure(Other);
        apps.record_failure(Other);
        assert_eq!(health.healthy(), Ok(()));
        both_fail((&mut apps, Missing), (&mut caches, Other)).await;
        assert!(health.healthy().is_err_and(|why| why.ends_with(": MyApp, Redis")), "{:?}", health.healthy());
        caches.record_answer();
        assert_eq!(health.healthy(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_kind_beside_a_denied_namespace_is_healthy() {
        let health = Health::default();
        let (mut shop, mut blog) = (health.watch("MyApp", Some("shop")), health.watch("MyApp", Some("blog")));
        let mut caches = health.watch("Redis", Some("blog"));
        caches.record_answer();
        both_fail((&mut shop, Denied), (&mut blog, Missing)).await;
        assert_eq!(health.healthy(), Ok(()));
    }

    #[tokio::test]
    async fn metrics_that_need_a_token_are_not_given_without_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Health::default(), None, std::future::pending()));
        let answer = ask(address, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("causeway_"), "{answer}");
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn reports_what_is_wrong_and_stops_on_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let health = Health::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let stop_signal = async {
            stopped.await.ok();
        };
        let server = tokio::spawn(serve(listener, health.clone(), Some(Metrics::new()), stop_signal));

        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        health.set_ready(true);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));

        health.controller_started("MyApp");
        health.controller_started("MyIngress");
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        health.controller_stopped("MyIngress");
        let answer = ask(address, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.ends_with("these controllers stopped: MyIngress\n"), "{answer}");
        // Losing the lease of another group of kinds does not make these controllers healthy.
        health.stopped_leading(&["Redis"]);
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 503"));
        health.stopped_leading(&["MyIngress"]);
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));

        let answer = ask(address, "/metrics").await;
        assert!(answer.contains("content-type: application/openmetrics-text"), "{answer}");
        assert!(answer.contains("causeway_build_info"), "{answer}");
        assert!(ask(address, "/other").await.starts_with("HTTP/1.1 404"));

        // A client in the middle of its request does not keep the server from stopping.
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        stop.send(()).unwrap();
        timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
    }
}
