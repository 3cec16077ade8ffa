//! A Kubernetes client that replaces a text in the answers of the API server. It lets tests read objects that no API
//! server of today would accept.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;

/// A client that reads `to` where the API server says `from`, in answers about the kind with that plural.
pub fn rewriting(client: Client, plural: &'static str, from: &'static str, to: &'static str) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Rewriting { client, plural, from, to }, namespace)
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Rewriting {
    client: Client,
    plural: &'static str,
    from: &'static str,
    to: &'static str,
}

impl tower::Service<Request<Body>> for Rewriting {
    type Response = Response<UnsyncBoxBody<Bytes, Cause>>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, plural, from, to } = self.clone();
        Box::pin(async move {
            let concerned = request.uri().path().contains(plural);
            let answer = client.send(request).await?;
            // Objects of tests are small: each comes in one frame.
            let rewritten = move |data: Bytes| -> Bytes {
                if concerned { String::from_utf8_lossy(&data).replace(from, to).into() } else { data }
            };
            let frames = |body: Body| body.map_frame(move |frame| frame.map_data(rewritten)).map_err(Cause::from);
            Ok(answer.map(|body| frames(body).boxed_unsync()))
        })
    }
}
