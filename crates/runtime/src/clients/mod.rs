//! Clients of the cluster. Every call has a deadline, is counted, and is sent only once. Retries belong to
//! the reconcile, whose back-off covers the whole object.

mod pages;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::ClientBuilder;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Service, layer::layer_fn};

use crate::leader::Fence;
use crate::metrics::Metrics;
use crate::{api_message, class_of_status};

/// The Kubernetes API must begin its answer to a call within this time.
const KUBERNETES_DEADLINE: Duration = Duration::from_secs(15);
/// A watch that receives nothing for this long is dead. The server sends a bookmark every minute, and one may be late.
/// Nothing else reveals a connection that was cut without a FIN or RST.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks>
const WATCH_TIMEOUT: Duration = Duration::from_secs(150);
/// A reason for which a command that users run cannot reach the cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to reach the cluster.
    #[error("no cluster to talk to: {0}; set KUBECONFIG")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    /// The Kubernetes client could not be made.
    #[error("cannot make a Kubernetes client: {}", api_message(.0))]
    Client(#[source] kube::Error),
}

/// A client of the Kubernetes API that counts its calls in `metrics`.
pub fn kubernetes(config: kube::Config, metrics: &Metrics) -> Result<Client, kube::Error> {
    kubernetes_fenced(config, metrics, Fence::always_open())
}

/// Like [`kubernetes`], but the client changes something only while `fence` is open.
pub fn kubernetes_fenced(mut config: kube::Config, metrics: &Metrics, fence: Fence) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.read_timeout = Some(WATCH_TIMEOUT);
    let metrics = metrics.clone();
    let counted = layer_fn(move |inner| Counted { inner, metrics: metrics.clone(), fence: fence.clone() });
    let deadline = TimeoutLayer::new(KUBERNETES_DEADLINE);
    let client = ClientBuilder::try_from(config)?.with_layer(&deadline).with_layer(&counted).build();
    Ok(pages::in_pages(&client))
}

/// Counts calls by verb and outcome, and sends those that change something only while the fence is open.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    metrics: Metrics,
    fence: Fence,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (verb, metrics) = (verb_of(request.method(), request.uri().query()), self.metrics.clone());
        if *request.method() != Method::GET
            && let Err(closed) = self.fence.check()
        {
            metrics.kubernetes_call(verb, Err("not_leading"));
            return Box::pin(async move { Err(closed.into()) });
        }
        let answered = self.inner.call(request);
        Box::pin(async move {
            let answer = answered.await;
            let outcome = match answer.as_ref().map(Response::status) {
                Ok(status) if status.is_success() => Ok(()),
                Ok(status) => Err(class_of_status(status.as_u16()).as_str()),
                Err(_) => Err("unanswered"),
            };
            metrics.kubernetes_call(verb, outcome);
            answer
        })
    }
}

fn verb_of(method: &Method, query: Option<&str>) -> &'static str {
    match *method {
        Method::GET if query.is_some_and(|query| query.contains("watch=true")) => "watch",
        Method::GET => "read",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_does_not_lead_reads_and_changes_nothing() {
        let answer = tower::service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new(())) });
        let metrics = Metrics::new();
        let mut client = Counted { inner: answer, metrics: metrics.clone(), fence: Fence::closed_until_lease() };
        let request = |method| Request::builder().method(method).body(()).unwrap();
        assert!(client.call(request(Method::GET)).await.is_ok());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(client.call(request(method)).await.is_err());
        }
        client.fence = Fence::always_open();
        assert!(client.call(request(Method::PATCH)).await.is_ok());
        assert!(metrics.encode().unwrap().contains(r#"{verb="delete",outcome="not_leading"} 1"#));
    }

    #[test]
    fn a_watch_is_no_read() {
        assert_eq!(verb_of(&Method::GET, Some("&watch=true&timeoutSeconds=290")), "watch");
        assert_eq!(verb_of(&Method::GET, Some("limit=500")), "read");
        assert_eq!(verb_of(&Method::PATCH, None), "patch");
    }
}
