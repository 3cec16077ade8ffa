//! Stands between the controllers and everything outside: counts their calls, and can kill the controllers at one of
//! them.
//!
//! It counts every request that the controllers send after [`Interception::arm`] to Kubernetes, to AWS or to members of
//! etcd, reads and events included, and every change of a node of Redis. It does not count watches, the lists that
//! reflectors start with (only these ask for pages), and the queries that nodes of Redis are sent all the time: their
//! number depends on timing, and none has an effect. Dead controllers send nothing any more, counted or not.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use aws_config::SdkConfig;
use aws_sdk_elasticloadbalancingv2::config::{
    HttpClient, RuntimeComponents, SharedHttpClient,
    http::{HttpRequest, HttpResponse},
};
use aws_smithy_http_client::Builder;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use causeway_databases::etcd::{Endpoint, EtcdError, Reply, Transport};
use causeway_databases::redis;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use super::wait_for;

/// Where in a call the controllers die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call is never sent.
    BeforeSending,
    /// The call takes effect, but its reply is lost.
    ReplyLost,
    /// The call is answered, and nothing is sent after it.
    AfterReply,
}

impl Moment {
    pub const ALL: [Self; 3] = [Self::BeforeSending, Self::ReplyLost, Self::AfterReply];

    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeSending => "before it is sent",
            Self::ReplyLost => "after its effect, before the reply",
            Self::AfterReply => "after the reply",
        }
    }
}

/// The call at which the controllers die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The nth call; the first is 1.
    Nth(usize),
    /// The nth call of a kind. Where controllers poll, chance decides how many other calls come before it.
    OfKind(String, usize),
}

/// The call without what differs between scenes and between calls: the namespace, and names of events.
pub fn kind_of(call: &str) -> String {
    let call = call.split_once("/events").map_or(call, |(before, _)| before);
    let Some((before, rest)) = call.split_once("/namespaces/") else { return call.to_owned() };
    let after = rest.split_once('/').map_or("", |(_, after)| after);
    format!("{before}/…/{after}")
}

/// The state that the layers of all clients share.
#[derive(Clone, Debug)]
pub struct Interception {
    state: Arc<Mutex<State>>,
    dead: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    armed: bool,
    target: Option<(Target, Moment)>,
    calls: Vec<String>,
    /// The names of calls under way.
    under_way: Vec<String>,
    /// `None` before the first call was answered, counted or not.
    last_activity: Option<Instant>,
}

/// How a call goes on.
enum Fate {
    Pass,
    Die(Moment),
}

impl Interception {
    /// Lets everything pass until it is armed.
    pub fn new() -> Self {
        let state = State { armed: false, target: None, calls: Vec::new(), under_way: Vec::new(), last_activity: None };
        Self { state: Arc::new(Mutex::new(state)), dead: watch::Sender::new(false) }
    }

    /// A client whose requests come through here.
    pub fn kubernetes(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Intercepted { client, interception: self.clone() }, namespace)
    }

    /// A configuration of AWS clients whose requests come through here.
    pub fn aws(&self, config: &SdkConfig) -> SdkConfig {
        // The tests' endpoint speaks plain HTTP.
        let inner = Builder::new().build_http();
        config.to_builder().http_client(Connectors { inner, interception: self.clone() }).build()
    }

    /// A transport for members of etcd whose calls come through here.
    pub fn etcd(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Members { inner, interception: self.clone() })
    }

    /// A transport for nodes of Redis whose calls come through here.
    pub fn redis(&self, inner: Arc<dyn redis::Transport>) -> Arc<dyn redis::Transport> {
        Arc::new(Nodes { inner, interception: self.clone() })
    }

    /// Counts from now on; with a `target`, the controllers die at that call.
    pub fn arm(&self, target: Option<(Target, Moment)>) {
        let mut state = self.state();
        state.armed = true;
        state.target = target;
    }

    /// The calls counted so far.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Waits until the controllers are dead.
    pub async fn died(&self) {
        // This cannot fail: the sender lives in `self`.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Reports whether the controllers are dead.
    pub fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// Waits until there were calls, and until no counted call has been under way for `span`.
    pub async fn quiet_for(&self, span: Duration) {
        let look = || async {
            let state = self.state();
            (state.under_way.clone(), state.last_activity.map(|last| last.elapsed()))
        };
        let quiet = |(under_way, idle): &(Vec<String>, Option<Duration>)| {
            under_way.is_empty() && idle.is_some_and(|idle| idle >= span)
        };
        wait_for("the controllers' calls to end", look, quiet).await;
    }

    /// Passes a call on. `name` is `None` for calls that are not counted.
    async fn pass<T>(&self, name: Option<String>, send: impl Future<Output = T>) -> T {
        if self.is_dead() {
            return pending().await;
        }
        let Some(name) = name else {
            let answer = send.await;
            // Controllers that find nothing to do make no calls but the lists that they start with. Without this,
            // `quiet_for` would wait for ever.
            self.state().last_activity.get_or_insert_with(Instant::now);
            return answer;
        };
        let (fate, _under_way) = self.begin(name);
        if matches!(fate, Fate::Die(Moment::BeforeSending)) {
            return self.die().await;
        }
        let answer = send.await;
        match fate {
            Fate::Die(Moment::ReplyLost) => return self.die().await,
            Fate::Die(_) => {
                self.dead.send_replace(true);
            }
            Fate::Pass if self.is_dead() => return pending().await,
            Fate::Pass => {}
        }
        answer
    }

    fn begin(&self, name: String) -> (Fate, UnderWay<'_>) {
        let mut state = self.state();
        state.under_way.push(name.clone());
        state.last_activity = Some(Instant::now());
        if state.armed {
            state.calls.push(name.clone());
        }
        let fate = match &state.target {
            Some((target, moment)) if state.armed && state.is_at(target) => Fate::Die(*moment),
            _ => Fate::Pass,
        };
        (fate, UnderWay(self, name))
    }

    async fn die<T>(&self) -> T {
        self.dead.send_replace(true);
        pending().await
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }
}

impl State {
    /// Reports whether the last call is `target`.
    fn is_at(&self, target: &Target) -> bool {
        match target {
            Target::Nth(n) => *n == self.calls.len(),
            Target::OfKind(kind, n) => {
                let same = |call: &&String| kind_of(call) == *kind;
                self.calls.last().as_ref().is_some_and(same) && self.calls.iter().filter(same).count() == *n
            }
        }
    }
}

/// A call that has begun; dropped when it ends or is given up.
struct UnderWay<'a>(&'a Interception, String);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(place) = state.under_way.iter().position(|name| *name == self.1) {
            state.under_way.swap_remove(place);
        }
        state.last_activity = Some(Instant::now());
    }
}

/// A Kubernetes client behind the interception.
struct Intercepted {
    client: Client,
    interception: Interception,
}

impl tower::Service<Request<Body>> for Intercepted {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, interception) = (self.client.clone(), self.interception.clone());
        Box::pin(async move {
            let name = name_of_kubernetes_call(&request);
            interception.pass(name, client.send(request)).await
        })
    }
}

fn name_of_kubernetes_call(request: &Request<Body>) -> Option<String> {
    let has = |parameter: &str| {
        request.uri().query().is_some_and(|query| query.split('&').any(|one| one.starts_with(parameter)))
    };
    let reflector = has("watch=") || (request.method() == http::Method::GET && has("limit="));
    (!reflector).then(|| format!("{} {}", request.method(), request.uri().path()))
}

/// Makes connectors behind the interception.
#[derive(Debug)]
struct Connectors {
    inner: SharedHttpClient,
    interception: Interception,
}

impl HttpClient for Connectors {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Connector { inner, interception: self.interception.clone() })
    }
}

#[derive(Debug)]
struct Connector {
    inner: SharedHttpConnector,
    interception: Interception,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (inner, interception) = (self.inner.clone(), self.interception.clone());
        HttpConnectorFuture::new(async move {
            let name = name_of_aws_call(&request);
            let answer: Result<HttpResponse, ConnectorError> = interception.pass(Some(name), inner.call(request)).await;
            answer
        })
    }
}

/// AWS's query protocol names the operation in the form, its JSON protocols in a header. S3 has only methods and paths.
fn name_of_aws_call(request: &HttpRequest) -> String {
    if let Some(target) = request.headers().get("x-amz-target") {
        return format!("AWS {}", target.rsplit('.').next().unwrap_or(target));
    }
    let form = request.body().bytes().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let operation = form.split('&').find_map(|pair| pair.strip_prefix("Action="));
    match operation {
        Some(operation) => format!("AWS {operation}"),
        None => format!("AWS {} {}", request.method(), request.uri()),
    }
}

/// Calls of members behind the interception.
struct Members {
    inner: Arc<dyn Transport>,
    interception: Interception,
}

impl Transport for Members {
    fn call<'a>(
        &'a self,
        to: &'a Endpoint,
        request: &'a causeway_databases::etcd::Request,
    ) -> BoxFuture<'a, Result<Reply, EtcdError>> {
        // Reads and changes of alarms have the same name.
        let name = if request.is_change() {
            format!("etcd {}", request.name())
        } else {
            format!("etcd GET {}", request.name())
        };
        self.interception.pass(Some(name), self.inner.call(to, request)).boxed()
    }
}

/// Calls of nodes of Redis behind the interception.
struct Nodes {
    inner: Arc<dyn redis::Transport>,
    interception: Interception,
}

impl redis::Transport for Nodes {
    fn call<'a>(
        &'a self,
        to: &'a redis::Endpoint,
        request: &'a redis::Request,
    ) -> BoxFuture<'a, Result<redis::Reply, redis::RedisError>> {
        let name = request.is_change().then(|| format!("redis {}", request.name()));
        self.interception.pass(name, self.inner.call(to, request)).boxed()
    }

    fn until_broken<'a>(&'a self, to: &'a redis::Endpoint) -> BoxFuture<'a, ()> {
        self.inner.until_broken(to)
    }

    fn put_aside(&self, to: &redis::Endpoint) {
        self.inner.put_aside(to);
    }

    fn hang_up(&self, to: &redis::Endpoint) {
        self.inner.hang_up(to);
    }
}
