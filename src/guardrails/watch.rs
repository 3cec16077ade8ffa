//! Policies and the labels of namespaces, as the apiserver has them.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_all};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::asks::Ask;
use super::verdict::Policies;
use super::{Denial, UNKNOWN};
use crate::api::causewaypolicy::CausewayPolicy;

/// Nobody waits longer for both lists after the start: a failover waits behind no policy.
const LISTED: Duration = Duration::from_secs(10);

/// What policies allow; clones share the same. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Guardrails(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    known: Mutex<Known>,
    begun: Instant,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    policies: Policies,
    /// Labels of namespaces.
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// Policies, and namespaces, were listed once.
    listed: (bool, bool),
    /// Why they cannot be.
    trouble: Option<String>,
}

impl Guardrails {
    /// Watches through `client` for as long as the runtime lives.
    pub fn watching(client: &Client) -> Self {
        let inner =
            Arc::new(Inner { known: Mutex::default(), begun: Instant::now(), changed: watch::Sender::default() });
        tokio::spawn(follow_policies(client.clone(), inner.clone()));
        tokio::spawn(follow_namespaces(client.clone(), inner.clone()));
        Self(Some(inner))
    }

    /// Waits until all is known, but not longer than for a moment after the start.
    pub async fn ready(&self) {
        let Some(inner) = &self.0 else { return };
        let mut changed = inner.changed.subscribe();
        let listed = async { while inner.known().listed != (true, true) && changed.changed().await.is_ok() {} };
        // Who does not know them by then says so.
        let _ = timeout_at(inner.begun + LISTED, listed).await;
    }

    /// Why an object of that namespace may not ask for these.
    pub fn denial(&self, namespace: &str, asks: impl FnOnce() -> Vec<Ask>) -> Option<Denial> {
        let known = self.0.as_ref()?.known();
        let unknown = |why: String| Some((UNKNOWN, format!("{why}; until then nothing new is made")));
        if known.listed != (true, true) {
            let trouble = known.trouble.clone().unwrap_or_else(|| "they were not listed yet".to_owned());
            return unknown(format!(
                "it is not known what CausewayPolicies allow: {trouble} (apply deploy/base/clusterrole.yaml of this version, or set \
                 the operator's option GUARDRAILS=false)"
            ));
        }
        if known.policies.is_empty() {
            return None;
        }
        match known.namespaces.get(namespace) {
            Some(labels) => known.policies.denial(labels, &asks()),
            None => unknown(format!(
                "the labels of namespace {namespace} are not known yet, by which CausewayPolicies select it"
            )),
        }
    }

    /// Says something whenever policies or labels of namespaces changed.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let changed = self.0.as_ref().map(|inner| inner.changed.subscribe());
        stream::unfold(changed, async |changed| match changed {
            Some(mut changed) => changed.changed().await.ok().map(|()| ((), Some(changed))),
            None => pending().await,
        })
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

/// Follows the policies. Where the kind is not installed nobody has made any.
async fn follow_policies(client: Client, inner: Arc<Inner>) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CausewayPolicy>(&()));
    let mut events = pin!(watch_all(api, watcher::Config::default()).default_backoff());
    let mut fresh = Policies::default();
    while let Some(event) = events.next().await {
        let mut known = inner.known();
        match event {
            Ok(Event::Init) => fresh = Policies::default(),
            Ok(Event::InitApply(policy)) => fresh.put(policy.name_any(), &policy.data["spec"]),
            Ok(Event::InitDone) => {
                known.policies = std::mem::take(&mut fresh);
                known.listed.0 = true;
            }
            Ok(Event::Apply(policy)) => known.policies.put(policy.name_any(), &policy.data["spec"]),
            Ok(Event::Delete(policy)) => known.policies.remove(&policy.name_any()),
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                known.policies = Policies::default();
                known.listed.0 = true;
            }
            Err(problem) => {
                failed(&mut known, "CausewayPolicies", &problem);
                continue;
            }
        }
        drop(known);
        inner.tell();
    }
}

/// Follows the labels of namespaces.
async fn follow_namespaces(client: Client, inner: Arc<Inner>) {
    let mut events =
        pin!(watch_all(Api::<PartialObjectMeta<Namespace>>::all(client), watcher::Config::default()).default_backoff());
    let mut fresh = HashMap::new();
    while let Some(event) = events.next().await {
        let mut known = inner.known();
        let labels = |labels: Option<BTreeMap<String, String>>| labels.unwrap_or_default();
        let is_news = match event {
            Ok(Event::Init) => {
                fresh.clear();
                false
            }
            Ok(Event::InitApply(namespace)) => {
                fresh.insert(namespace.name_any(), labels(namespace.metadata.labels));
                false
            }
            Ok(Event::InitDone) => {
                known.namespaces = std::mem::take(&mut fresh);
                known.listed.1 = true;
                true
            }
            Ok(Event::Apply(namespace)) => {
                let (name, labels) = (namespace.name_any(), labels(namespace.metadata.labels));
                let is_other = known.namespaces.insert(name, labels.clone()) != Some(labels);
                // Without policies it matters to nobody.
                is_other && !known.policies.is_empty()
            }
            Ok(Event::Delete(namespace)) => {
                known.namespaces.remove(&namespace.name_any());
                false
            }
            Err(problem) => {
                failed(&mut known, "namespaces", &problem);
                false
            }
        };
        drop(known);
        if is_news {
            inner.tell();
        }
    }
}

/// What is known stays known.
fn failed(known: &mut Known, what: &'static str, problem: &watcher::Error) {
    let why = format!("the operator cannot list {what}: {problem}");
    if known.trouble.as_ref() != Some(&why) {
        warn!(%problem, what, "cannot be watched: what CausewayPolicies allow is as it was known last");
        known.trouble = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::super::DENIED;
    use super::super::asks::{Ask, Topic};
    use super::*;

    /// An apiserver that answers lists of policies so, and has the namespace `shop`; its watches say nothing.
    fn apiserver(code: u16, policies: serde_json::Value) -> Client {
        let answer = move |request: Request<Body>| {
            let uri = request.uri().clone();
            let policies = policies.clone();
            async move {
                if uri.query().is_some_and(|query| query.contains("watch=true")) {
                    return pending().await;
                }
                let metadata = json!({ "resourceVersion": "1" });
                let (code, body) = if uri.path().contains("causewaypolicies") {
                    let list = json!({ "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicyList", "metadata": metadata, "items": policies });
                    let refusal =
                        json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "No" });
                    (code, if code == 200 { list } else { refusal })
                } else {
                    let shop = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "shop", "labels": { "tenant": "a" } } });
                    (
                        200,
                        json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": [shop] }),
                    )
                };
                let answer = Response::builder().status(code).body(Body::from(serde_json::to_vec(&body).unwrap()));
                Ok::<_, kube::Error>(answer.unwrap())
            }
        };
        Client::new(service_fn(answer), "default")
    }

    fn policy(selector: &serde_json::Value) -> serde_json::Value {
        let spec = json!({ "namespaceSelector": selector, "images": ["redis:*"] });
        json!([{ "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicy", "metadata": { "name": "p" }, "spec": spec }])
    }

    async fn reason(client: Client, namespace: &str) -> Option<&'static str> {
        let guardrails = Guardrails::watching(&client);
        guardrails.ready().await;
        let ask = Ask { topic: Topic::Image, field: "spec.image".into(), value: Some("evil".into()) };
        guardrails.denial(namespace, || vec![ask]).map(|(reason, _)| reason)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_is_not_allowed_and_a_kind_that_is_not_installed_has_no_objects() {
        let tenants = || policy(&json!({ "matchLabels": { "tenant": "a" } }));
        assert_eq!(reason(apiserver(200, tenants()), "shop").await, Some(DENIED));
        assert_eq!(reason(apiserver(200, policy(&json!({ "matchLabels": { "tenant": "b" } }))), "shop").await, None);
        assert_eq!(reason(apiserver(200, tenants()), "new").await, Some(UNKNOWN), "a namespace that was not seen yet");
        assert_eq!(reason(apiserver(200, json!([])), "new").await, None, "nobody asks who it is");
        assert_eq!(reason(apiserver(404, json!([])), "shop").await, None);
        assert_eq!(reason(apiserver(403, json!([])), "shop").await, Some(UNKNOWN));
        let none = Guardrails::default();
        none.ready().await;
        assert_eq!(none.denial("shop", Vec::new), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_begins_waits_for_policies_that_cannot_be_listed() {
        let guardrails = Guardrails::watching(&apiserver(403, json!([])));
        guardrails.ready().await;
        let before = Instant::now();
        guardrails.ready().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}
