//! A Kubernetes client whose answers have something else in place of a text: what no API server of today would accept.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

/// A client that reads `to` where the API server says `from`, in answers of a kind by its plural.
pub fn rewriting(client: Client, plural: &'static str, from: &'static str, to: &'static str) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Rewriting { client, plural, from, to }, namespace)
}

#[derive(Clone)]
struct Rewriting {
    client: Client,
    plural: &'static str,
    from: &'static str,
    to: &'static str,
}

impl tower::Service<Request<Body>> for Rewriting {
    type Response = Response<Body>;
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
            if !concerned {
                return Ok(answer);
            }
            // Objects of tests are small: each comes in one frame.
            Ok(answer.map(|body| {
                let frames = body.map_frame(move |frame| {
                    frame.map_data(|data| String::from_utf8_lossy(&data).replace(from, to).into_bytes().into())
                });
                Body::wrap_body(frames)
            }))
        })
    }
}
