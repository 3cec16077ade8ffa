//! Reads lists in pages that are bounded in bytes, not only in objects.
//!
//! kube holds an answer twice as text before it decodes it, and all watches list at the same time when a process starts.
//! Tenants decide how large their objects are, so a page of 500 may have 750 MB. Here a page is
//! received to [`PAGE`] bytes; if it has more, it is given up, and asked for again with fewer objects. The next page
//! asks for as many as are likely to fit.
//!
//! Streaming lists (`sendInitialEvents`) would bound this to one object per watch, but API servers before Kubernetes
//! 1.32, and those of 1.33, refuse them: <https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists>.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::service_fn;

/// The most bytes of a page with several objects.
pub const PAGE: usize = 2 << 20;
/// The most bytes of a page with one object. etcd takes 1.5 MiB, and JSON may write a character as six.
/// <https://etcd.io/docs/v3.6/dev-guide/limit/>
const OBJECT: usize = 16 << 20;
/// The `limit` of the first page of a resource.
const FIRST: u32 = 32;
/// The most pages that are received at the same time.
const AT_ONCE: u32 = 4;
/// The deadline of a page, from the first byte of its answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// A client whose lists that ask for a `limit` get pages of at most [`PAGE`] bytes.
pub fn in_pages(client: &Client) -> Client {
    let pages =
        Arc::new(Pages { client: client.clone(), fitting: Mutex::default(), turns: Semaphore::new(AT_ONCE as usize) });
    let send = move |request| {
        let pages = pages.clone();
        async move { pages.send(request).await }
    };
    let valid_until = *client.valid_until();
    Client::new(service_fn(send), client.default_namespace().to_owned()).with_valid_until(valid_until)
}

struct Pages {
    client: Client,
    /// The number of objects that are likely to fit into a page, by the plural of the resource.
    fitting: Mutex<HashMap<String, u32>>,
    turns: Semaphore,
}

impl Pages {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let asked = (request.method() == Method::GET).then(|| limit_of(request.uri())).flatten();
        let Some(asked) = asked else { return self.client.send(request).await };
        let (parts, _) = request.into_parts();
        let resource = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let known = self.fitting.lock().get(&resource).copied();
        let mut limit = known.unwrap_or(FIRST).clamp(1, asked.max(1));
        loop {
            let answer = self.client.send(with_limit(&parts, limit)?).await?;
            if !answer.status().is_success() {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let most = if limit == 1 { OBJECT } else { PAGE };
            let text = {
                // A page with one large object is received alone. The semaphore is never closed.
                let _turn = self.turns.acquire_many(if limit == 1 { AT_ONCE } else { 1 }).await;
                timeout(DEADLINE, receive(body, most)).await
            };
            let text =
                text.map_err(|_| page_error(format!("a page of {resource} did not arrive in {DEADLINE:?}")))??;
            let next = next_limit(limit, text.as_ref().map(Vec::len));
            self.fitting.lock().insert(resource.clone(), next);
            match text {
                Some(text) => return Ok(Response::from_parts(head, Body::from(text))),
                None if limit == 1 => {
                    return Err(page_error(format!("one of the {resource} is larger than {} MiB", OBJECT >> 20)));
                }
                None => limit = next,
            }
        }
    }
}

fn page_error(words: String) -> kube::Error {
    kube::Error::Service(words.into())
}

/// Receives the body; `None` if it has more than that many bytes.
async fn receive(mut body: Body, most: usize) -> Result<Option<Vec<u8>>, kube::Error> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if text.len() + data.len() > most {
            return Ok(None);
        }
        text.extend_from_slice(&data);
    }
    Ok(Some(text))
}

/// Returns the `limit` of the page after one of `limit` objects that had that many bytes, or too many (`None`). Half a
/// page is the aim, as objects differ in size.
fn next_limit(limit: u32, bytes: Option<usize>) -> u32 {
    let Some(bytes) = bytes else { return (limit / 4).max(1) };
    let each = (bytes / limit.max(1) as usize).max(1);
    u32::try_from(PAGE / 2 / each).unwrap_or(u32::MAX).clamp(1, limit.saturating_mul(4).max(1))
}

/// Returns the parameter `limit` of a list.
fn limit_of(uri: &Uri) -> Option<u32> {
    let query = uri.query()?;
    if query.contains("watch=true") {
        return None;
    }
    query.split('&').find_map(|pair| pair.strip_prefix("limit=")?.parse().ok())
}

/// Returns the request with another `limit`.
fn with_limit(parts: &Parts, limit: u32) -> Result<Request<Body>, kube::Error> {
    let (mut parts, limit) = (parts.clone(), format!("limit={limit}"));
    let query = parts.uri.query().unwrap_or_default().split('&');
    let query: Vec<&str> = query.map(|pair| if pair.starts_with("limit=") { limit.as_str() } else { pair }).collect();
    let path = format!("{}?{}", parts.uri.path(), query.join("&"));
    let mut uri = parts.uri.into_parts();
    uri.path_and_query = Some(path.parse::<PathAndQuery>().map_err(|error| page_error(error.to_string()))?);
    parts.uri = Uri::from_parts(uri).map_err(|error| page_error(error.to_string()))?;
    Ok(Request::from_parts(parts, Body::empty()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use std::pin::pin;

    use futures::future::join_all;
    use futures::{StreamExt, stream};
    use k8s_openapi::api::core::v1::Service;
    use kube::api::ListParams;
    use kube::runtime::watcher as watch_all;
    use kube::runtime::watcher::{self, Event};
    use kube::{Api, ResourceExt};
    use serde_json::json;
    use tokio::task::yield_now;

    use super::*;

    /// The answers of an API server.
    #[derive(Default)]
    struct Sent {
        /// The number of lists.
        lists: AtomicUsize,
        /// The most bytes of an answer that were taken from it.
        most: AtomicUsize,
        /// Answers that are being taken now, and the most that there were.
        now: AtomicUsize,
        together: AtomicUsize,
    }

    fn parameter(uri: &Uri, name: &str) -> Option<usize> {
        uri.query()?.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }

    /// An API server with Services of these sizes. It sends 64 KiB at a time.
    fn apiserver(sizes: Vec<usize>) -> (Client, Arc<Sent>) {
        let (sizes, sent) = (Arc::new(sizes), Arc::<Sent>::default());
        let noted = sent.clone();
        let answer = move |request: Request<Body>| {
            let (sizes, sent) = (sizes.clone(), noted.clone());
            async move {
                sent.lists.fetch_add(1, Ordering::Relaxed);
                let from = parameter(request.uri(), "continue").unwrap_or(0);
                let to = (from + parameter(request.uri(), "limit").expect("a limit")).min(sizes.len());
                let items = sizes[from..to].iter().enumerate().map(|(at, size)| {
                    let note = json!({ "example.com/x": "x".repeat(*size) });
                    json!({ "metadata": { "name": format!("s{}", from + at), "annotations": note } })
                });
                let next = (to < sizes.len()).then(|| to.to_string());
                let list = json!({
                    "metadata": { "resourceVersion": "1", "continue": next }, "items": items.collect::<Vec<_>>(),
                });
                let chunks: Vec<_> = list.to_string().into_bytes().chunks(1 << 16).map(<[u8]>::to_vec).collect();
                let mut taking = Taking { sent, bytes: 0 };
                let frames = stream::iter(chunks).then(move |chunk| {
                    taking.take(chunk.len());
                    async move {
                        yield_now().await;
                        Ok::<_, std::io::Error>(chunk)
                    }
                });
                Ok::<_, kube::Error>(Response::new(axum::body::Body::from_stream(frames)))
            }
        };
        (Client::new(service_fn(answer), "default"), sent)
    }

    /// An answer, from which bytes are taken.
    struct Taking {
        sent: Arc<Sent>,
        bytes: usize,
    }

    impl Taking {
        fn take(&mut self, bytes: usize) {
            if self.bytes == 0 {
                self.sent.together.fetch_max(self.sent.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            self.bytes += bytes;
            self.sent.most.fetch_max(self.bytes, Ordering::Relaxed);
        }
    }

    impl Drop for Taking {
        fn drop(&mut self) {
            if self.bytes > 0 {
                self.sent.now.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the names that a first list shows.
    async fn list_names(client: &Client) -> Vec<String> {
        let mut events = pin!(watch_all(Api::<Service>::all(client.clone()), watcher::Config::default()));
        let mut names = Vec::new();
        while let Some(event) = events.next().await {
            match event.expect("an event") {
                Event::InitApply(service) => names.push(service.name_any()),
                Event::InitDone => break,
                _ => {}
            }
        }
        names
    }

    fn names(many: usize) -> Vec<String> {
        (0..many).map(|at| format!("s{at}")).collect()
    }

    #[tokio::test]
    async fn a_list_of_large_objects_comes_in_small_pages() {
        // Small ones first, so that the next pages ask for many.
        let sizes: Vec<usize> =
            [100; 300].into_iter().chain([255_000; 60]).chain([1_400_000; 3]).chain([100; 9]).collect();
        let many = sizes.len();
        let (client, sent) = apiserver(sizes);
        assert_eq!(list_names(&in_pages(&client)).await, names(many));
        let most = sent.most.load(Ordering::Relaxed);
        assert!(most <= PAGE + (1 << 16), "{most} bytes of an answer were taken");
    }

    #[tokio::test]
    async fn a_list_of_small_objects_takes_few_pages() {
        let (client, sent) = apiserver(vec![5_000; 10_000]);
        assert_eq!(list_names(&in_pages(&client)).await.len(), 10_000);
        let lists = sent.lists.load(Ordering::Relaxed);
        assert!(lists < 60, "{lists} lists");
    }

    #[tokio::test]
    async fn lists_that_start_together_take_turns() {
        let (client, sent) = apiserver(vec![255_000; 20]);
        let client = in_pages(&client);
        let all = join_all((0..30).map(|_| list_names(&client))).await;
        assert!(all.iter().all(|listed| listed.len() == 20));
        let together = sent.together.load(Ordering::Relaxed);
        assert!((2..=AT_ONCE as usize).contains(&together), "{together} answers at the same time");
    }

    #[tokio::test]
    async fn an_object_that_no_page_can_hold_is_an_error() {
        let (client, _) = apiserver(vec![OBJECT + 1]);
        let services = Api::<Service>::all(in_pages(&client));
        let error = services.list(&ListParams::default().limit(500)).await.expect_err("an error");
        assert!(error.to_string().contains("larger than 16 MiB"), "{error}");
    }

    #[test]
    fn other_parameters_of_a_list_stay() {
        let request =
            Request::get("http://a/api/v1/pods?&limit=500&continue=abc%3D&labelSelector=a%3Db").body(()).unwrap();
        let uri = with_limit(&request.into_parts().0, 7).expect("a request").uri().to_string();
        assert_eq!(uri, "http://a/api/v1/pods?&limit=7&continue=abc%3D&labelSelector=a%3Db");
        assert_eq!(limit_of(&"/api/v1/pods?&watch=true&limit=5".parse().unwrap()), None);
    }
}
