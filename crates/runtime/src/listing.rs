//! Lists objects beside an object of ours, a page at a time. A tenant may have made many with our labels.

use kube::api::ListParams;
use kube::{Api, Client};

use super::child_watch::Owner;
use super::decoding::Decoded;
use super::room::{ROOM, size_of};

/// The most objects of a page.
const PAGE: u32 = 500;

/// Lists the objects in a namespace that the label selector and `wanted` match. Those of which nothing can be decoded
/// are left out. An error if they take more room than a namespace has.
pub async fn list<K: Owner>(
    client: &Client,
    namespace: &str,
    selector: &str,
    wanted: impl Fn(&K) -> bool,
) -> Result<Vec<K>, kube::Error> {
    let api: Api<Decoded<K>> = Api::namespaced(client.clone(), namespace);
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    let (mut all, mut size) = (Vec::new(), 0);
    loop {
        let page = api.list(&parameters).await?;
        for object in page.items.into_iter().filter_map(Decoded::object).filter(&wanted) {
            size += size_of(&object);
            all.push(object);
        }
        if size > ROOM {
            let kind = K::plural(&());
            let words = format!(
                "the {kind} of namespace {namespace} with the labels {selector} take more than {} MiB: kubectl get {kind} -n \
                 {namespace} -l {selector} shows them",
                ROOM >> 20
            );
            return Err(kube::Error::Service(words.into()));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// An API server with pages of such pods without end, or with three.
    fn apiserver(pod: Value, endless: bool) -> Client {
        let answer = move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let mut pod = pod.clone();
            async move {
                assert!(query.contains("limit=500"), "{query}");
                let from = query.split("continue=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok());
                let from: usize = from.unwrap_or(0);
                pod["metadata"]["name"] = format!("a-{from}").into();
                let next = (endless || from < 2).then(|| (from + 1).to_string());
                let list = json!({ "metadata": { "resourceVersion": "1", "continue": next }, "items": [pod] });
                let answer = Response::builder().status(200).body(Body::from(list.to_string().into_bytes()));
                Ok::<_, kube::Error>(answer.unwrap())
            }
        };
        Client::new(service_fn(answer), "default")
    }

    #[tokio::test]
    async fn unwanted_objects_of_all_pages_take_no_room() {
        let pod = json!({ "metadata": {}, "spec": { "containers": [] } });
        let client = apiserver(pod, false);
        let listed = list::<Pod>(&client, "shop", "a=b", |pod| pod.name_any() != "a-1").await.expect("a list");
        assert_eq!(listed.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a-0", "a-2"]);
    }

    #[tokio::test]
    async fn objects_without_end_are_an_error_that_names_them() {
        let pod = json!({ "metadata": {}, "spec": { "containers": [{ "name": "x".repeat(500_000) }] } });
        let error = list::<Pod>(&apiserver(pod, true), "shop", "a=b", |_| true).await.expect_err("an error");
        assert!(error.to_string().contains("pods of namespace shop with the labels a=b"), "{error}");
    }
}
