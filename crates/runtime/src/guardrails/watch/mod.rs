//! The state of policies, and of the labels and annotations of namespaces, for verdicts.

mod follow;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use kube::api::DynamicObject;
use kube::{Client, Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::asks::Ask;
use super::census::Census;
use super::status::tell;
use super::verdict::Policies;
use super::{Beyond, Denial, Required, UNKNOWN};
use crate::leader::Fence;

/// The longest wait for both lists after the start. A failover must not depend on policies.
const LISTED: Duration = Duration::from_secs(10);

/// Decides what policies allow; clones share the same state. The default enforces no policies.
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
    /// The facts about namespaces, by name.
    namespaces: HashMap<String, Facts>,
    /// Namespaces that were asked for before they were known.
    awaited: HashSet<String>,
    /// True once policies, and namespaces, have been listed.
    listed: (bool, bool),
    /// The errors of their lists or watches: of policies, namespaces, or both.
    troubles: BTreeMap<&'static str, String>,
    /// The objects that exist.
    census: Census,
}

/// The facts about a namespace that decisions depend on.
#[derive(Debug, Default, PartialEq)]
struct Facts {
    labels: BTreeMap<String, String>,
    /// The value of the annotation [`REQUIRE`](super::required::REQUIRE).
    require: Option<String>,
}

impl Guardrails {
    /// Watches through `client` until the runtime ends.
    pub fn watch(client: &Client) -> Self {
        Self::follow(client, None)
    }

    /// Like [`Self::watch`]. Once the fence opens, it also reports in the status of each policy whether the policy
    /// is in force.
    pub fn watch_and_report(client: &Client, fence: Fence) -> Self {
        let (policies, receiver) = unbounded_channel();
        tokio::spawn(tell(client.clone(), fence, receiver));
        Self::follow(client, Some(policies))
    }

    fn follow(client: &Client, teller: Option<UnboundedSender<DynamicObject>>) -> Self {
        let inner =
            Arc::new(Inner { known: Mutex::default(), begun: Instant::now(), changed: watch::Sender::default() });
        tokio::spawn(follow::policies(client.clone(), inner.clone(), teller));
        tokio::spawn(follow::namespaces(client.clone(), inner.clone()));
        Self(Some(inner))
    }

    /// Waits until policies and namespaces are listed, until 10 s after the start at the latest.
    pub async fn ready(&self) {
        let Some(inner) = &self.0 else { return };
        // After a timeout, decisions that depend on policies report that they are not known.
        inner.becomes(|known| known.listed == (true, true)).await;
    }

    /// Returns itself once policies and namespaces are listed; fails with the reason if they cannot be.
    pub async fn once_known(self) -> Result<Self, String> {
        if let Some(inner) = &self.0 {
            inner.becomes(|known| known.listed == (true, true) || known.trouble().is_some()).await;
            let known = inner.lock();
            if known.listed != (true, true) {
                return Err(known.trouble().unwrap_or("they were not listed in time").to_owned());
            }
        }
        Ok(self)
    }

    /// Returns the reason for which an object may not ask for these, or may not exist at all.
    pub fn denial<K: Resource<DynamicType = ()>>(&self, object: &K, asks: impl FnOnce() -> Vec<Ask>) -> Option<Denial> {
        let known = self.0.as_ref()?.lock();
        match known.labels(&object.namespace().unwrap_or_default()) {
            Ok(Some(labels)) => {
                let standing = || known.census.standing_of(&K::kind(&()), object);
                known.policies.denial(labels, &asks(), standing)
            }
            Ok(None) => None,
            Err(why) => Some((UNKNOWN, why)),
        }
    }

    /// Returns the addresses that belong to no pod of that namespace and may be targets there.
    pub fn beyond_pods(&self, namespace: &str) -> Beyond {
        let Some(inner) = &self.0 else { return Beyond::All };
        let known = inner.lock();
        match known.labels(namespace) {
            Ok(Some(labels)) => known.policies.beyond_pods(labels),
            Ok(None) => Beyond::Within(Vec::new()),
            Err(why) => Beyond::Unknown(why),
        }
    }

    /// Returns the demands of that namespace on its databases.
    pub fn requirements(&self, namespace: &str) -> Result<Required, Denial> {
        let Some(inner) = &self.0 else { return Ok(Required::default()) };
        let mut known = inner.lock();
        let unlisted = known.missing_list().map(|why| (UNKNOWN, why));
        if let Some(unlisted) = unlisted {
            return Err(unlisted);
        }
        if let Some(facts) = known.namespaces.get(namespace) {
            return Ok(Required::parse(namespace, facts.require.as_deref()));
        }
        known.awaited.insert(namespace.to_owned());
        Err((
            UNKNOWN,
            format!(
                "the labels and annotations of namespace {namespace} are not known yet; until then nothing new is created"
            ),
        ))
    }

    /// Sets the kinds that are served, and in which namespaces each is listed; none for all. The limits of a namespace
    /// are not known before all kinds are listed there.
    pub fn expect(&self, kinds: impl Iterator<Item = &'static str>, namespaces: &[String]) {
        let Some(inner) = &self.0 else { return };
        let mut known = inner.lock();
        kinds.for_each(|kind| known.census.expect(kind, namespaces));
    }

    /// Records that the kind was listed in that namespace, or in all.
    pub fn record_list(&self, kind: &'static str, namespace: Option<&str>) {
        self.count(|census| {
            census.record_list(kind, namespace);
            true
        });
    }

    /// Records an object and the storage that its volumes ask for, in thousandths of a byte; `None` if the object
    /// cannot be decoded.
    pub fn record_object(&self, kind: &'static str, object: &impl Resource, storage: Option<i128>) {
        self.count(|census| census.record_object(kind, object, storage));
    }

    /// Removes an object that was deleted.
    pub fn remove_object(&self, kind: &'static str, object: &impl Resource) {
        self.count(|census| {
            census.remove_object(kind, object);
            true
        });
    }

    /// Notifies subscribers if the change may free room within a limit.
    fn count(&self, change: impl FnOnce(&mut Census) -> bool) {
        let Some(inner) = &self.0 else { return };
        let mut known = inner.lock();
        let makes_room = change(&mut known.census) && known.policies.limit();
        drop(known);
        if makes_room {
            inner.tell();
        }
    }

    /// Yields an item whenever something changed that verdicts depend on.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let changed = self.0.as_ref().map(|inner| inner.changed.subscribe());
        stream::unfold(changed, async |changed| match changed {
            Some(mut changed) => changed.changed().await.ok().map(|()| ((), Some(changed))),
            None => pending().await,
        })
    }
}

impl Known {
    /// Returns the labels of a namespace; `None` if there are no policies, which would need them. Fails if they are not
    /// known.
    fn labels(&self, namespace: &str) -> Result<Option<&BTreeMap<String, String>>, String> {
        if let Some(why) = self.missing_list() {
            return Err(why);
        }
        if self.policies.is_empty() {
            return Ok(None);
        }
        let unknown = || {
            format!(
                "the labels of namespace {namespace} are not known yet, by which CausewayPolicies select it; until then nothing \
                 new is made"
            )
        };
        self.namespaces.get(namespace).map(|facts| Some(&facts.labels)).ok_or_else(unknown)
    }

    /// Returns the error of the lists or watches of policies or namespaces, if there is one.
    fn trouble(&self) -> Option<&str> {
        self.troubles.values().next().map(String::as_str)
    }

    /// Returns the reason for which policies and namespaces are not known, if they are not.
    fn missing_list(&self) -> Option<String> {
        let trouble = self.trouble().unwrap_or("they were not listed yet");
        (self.listed != (true, true)).then(|| {
            format!(
                "it is not known what CausewayPolicies allow: {trouble} (apply deploy/base/clusterrole.yaml of this version, or \
                 deploy/components/some-namespaces where only RoleBindings bind it, or set the operator's option \
                 GUARDRAILS=false); until then nothing new is made"
            )
        })
    }
}

impl Inner {
    /// Waits until the condition `so` holds, until 10 s after the start at the latest.
    async fn becomes(&self, so: impl Fn(&Known) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async { while !so(&self.lock()) && changed.changed().await.is_ok() {} };
        let _ = timeout_at(self.begun + LISTED, wait).await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use causeway_api::{Redis, RedisSpec};

    use super::super::DENIED;
    use super::super::asks::{Ask, Topic};
    use super::*;

    /// An apiserver that answers lists of policies with this status code, and has the namespace `shop`. Its watches
    /// never send an event.
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
        let guardrails = Guardrails::watch(&client);
        guardrails.ready().await;
        let ask = Ask { topic: Topic::Image, field: "spec.image".into(), value: Some("evil".into()) };
        let mut object = Redis::new("cache", RedisSpec::default());
        object.metadata.namespace = Some(namespace.to_owned());
        guardrails.denial(&object, || vec![ask]).map(|(reason, _)| reason)
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_values_are_denied_and_missing_kinds_have_no_objects() {
        let tenants = || policy(&json!({ "matchLabels": { "tenant": "a" } }));
        assert_eq!(reason(apiserver(200, tenants()), "shop").await, Some(DENIED));
        assert_eq!(reason(apiserver(200, policy(&json!({ "matchLabels": { "tenant": "b" } }))), "shop").await, None);
        assert_eq!(reason(apiserver(200, tenants()), "new").await, Some(UNKNOWN), "a namespace that was not seen yet");
        assert_eq!(reason(apiserver(200, json!([])), "new").await, None, "the namespace is not asked for");
        assert_eq!(reason(apiserver(404, json!([])), "shop").await, None);
        assert_eq!(reason(apiserver(403, json!([])), "shop").await, Some(UNKNOWN));
        let none = Guardrails::default();
        none.ready().await;
        assert_eq!(none.denial(&Redis::new("cache", RedisSpec::default()), Vec::new), None);
    }

    #[tokio::test(start_paused = true)]
    async fn denied_lists_of_policies_are_reported_with_the_grant() {
        let guardrails = Guardrails::watch(&apiserver(403, json!([])));
        guardrails.ready().await;
        let (_, why) = guardrails.denial(&Redis::new("cache", RedisSpec::default()), Vec::new).expect("a denial");
        for remedy in ["deploy/base/clusterrole.yaml", "deploy/components/some-namespaces", "GUARDRAILS=false"] {
            assert!(why.contains(remedy), "{why}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_begins_waits_for_policies_that_cannot_be_listed() {
        let guardrails = Guardrails::watch(&apiserver(403, json!([])));
        guardrails.ready().await;
        let before = Instant::now();
        guardrails.ready().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}
