//! Watches policies and namespaces, and wakes the tasks that wait for their changes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_all};
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use causeway_api::causewaypolicy::CausewayPolicy;

use super::{Facts, Inner, Known};
use crate::guardrails::Policies;
use crate::guardrails::required::REQUIRE;
use crate::{WatchBackoff, of_metadata};

const POLICIES: &str = "CausewayPolicies";
const NAMESPACES: &str = "namespaces";

/// Watches policies. If the kind is not installed, there are none.
pub async fn policies(client: Client, inner: Arc<Inner>, teller: Option<UnboundedSender<DynamicObject>>) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CausewayPolicy>(&()));
    let mut events = pin!(watch_all(api, watcher::Config::default()).backoff(WatchBackoff::default()));
    let mut fresh = Policies::default();
    while let Some(event) = events.next().await {
        if let (Some(teller), Ok(Event::InitApply(policy) | Event::Apply(policy))) = (&teller, &event) {
            // The receiver ends only together with the runtime.
            let _ = teller.send(policy.clone());
        }
        let mut known = inner.lock();
        let is_new = match event {
            Ok(Event::Init) => {
                fresh = Policies::default();
                false
            }
            Ok(Event::InitApply(policy)) => {
                fresh.put(policy.name_any(), &policy.data["spec"]);
                false
            }
            Ok(Event::InitDone) => {
                known.policies = std::mem::take(&mut fresh);
                known.listed.0 = true;
                known.troubles.remove(POLICIES);
                true
            }
            // A change of the status alone is no news.
            Ok(Event::Apply(policy)) => known.policies.put(policy.name_any(), &policy.data["spec"]),
            Ok(Event::Delete(policy)) => {
                known.policies.remove(&policy.name_any());
                true
            }
            // Said again at every attempt, for as long as the kind is not installed.
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                known.troubles.remove(POLICIES);
                let was_listed = std::mem::replace(&mut known.listed.0, true);
                let before = std::mem::take(&mut known.policies);
                !was_listed || !before.is_empty()
            }
            Err(problem) => record_failure(&mut known, POLICIES, &problem),
        };
        drop(known);
        if is_new {
            inner.tell();
        }
    }
}

/// Watches labels and annotations of namespaces.
pub async fn namespaces(client: Client, inner: Arc<Inner>) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(of_metadata(&client));
    let mut events = pin!(watch_all(api, watcher::Config::default()).backoff(WatchBackoff::default()));
    let mut fresh = HashMap::new();
    while let Some(event) = events.next().await {
        let mut known = inner.lock();
        let facts = |mut metadata: ObjectMeta| {
            let require = metadata.annotations.as_mut().and_then(|annotations| annotations.remove(REQUIRE));
            Facts { labels: metadata.labels.unwrap_or_default(), require }
        };
        let is_new = match event {
            Ok(Event::Init) => {
                fresh.clear();
                false
            }
            Ok(Event::InitApply(namespace)) => {
                fresh.insert(namespace.name_any(), facts(namespace.metadata));
                false
            }
            Ok(Event::InitDone) => {
                known.namespaces = std::mem::take(&mut fresh);
                known.listed.1 = true;
                known.troubles.remove(NAMESPACES);
                true
            }
            Ok(Event::Apply(namespace)) => {
                let (name, now) = (namespace.name_any(), facts(namespace.metadata));
                let before = known.namespaces.get(&name);
                // Without policies, labels have no effect.
                let is_other = before.map(|it| &it.labels) != Some(&now.labels) && !known.policies.is_empty();
                let demands = before.is_some_and(|before| before.require != now.require);
                let is_new = is_other || demands || known.awaited.remove(&name);
                known.namespaces.insert(name, now);
                is_new
            }
            Ok(Event::Delete(namespace)) => {
                known.namespaces.remove(&namespace.name_any());
                false
            }
            Err(problem) => record_failure(&mut known, NAMESPACES, &problem),
        };
        drop(known);
        if is_new {
            inner.tell();
        }
    }
}

/// Records the error of a watch. What is already known stays. Returns true if that changes what is said of policies.
fn record_failure(known: &mut Known, what: &'static str, problem: &watcher::Error) -> bool {
    let why = format!("cannot list {what}: {problem}");
    if known.troubles.get(what) == Some(&why) {
        return false;
    }
    warn!(%problem, what, "cannot be watched: CausewayPolicies apply as they were last read");
    known.troubles.insert(what, why);
    known.listed != (true, true)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::sleep;
    use tower::service_fn;

    use super::*;
    use crate::guardrails::Guardrails;

    /// An apiserver that answers lists of policies and of namespaces with these status codes. Its watches never send an
    /// event.
    fn apiserver(policies: u16, namespaces: u16) -> Client {
        let answer = move |request: Request<Body>| async move {
            let uri = request.uri().clone();
            if uri.query().is_some_and(|query| query.contains("watch=true")) {
                return pending().await;
            }
            let code = if uri.path().contains("causewaypolicies") { policies } else { namespaces };
            let body = match code {
                200 => json!({ "metadata": { "resourceVersion": "1" }, "items": [] }),
                code => json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "No" }),
            };
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, kube::Error>(answer.unwrap())
        };
        Client::new(service_fn(answer), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_listed_is_new_once() {
        for (policies, namespaces) in [(404, 200), (403, 200), (403, 403)] {
            let guardrails = Guardrails::watch(&apiserver(policies, namespaces));
            let news = guardrails.changes().take_until(sleep(Duration::from_mins(10))).count().await;
            assert!((1..=2).contains(&news), "{news} with {policies} and {namespaces}");
        }
    }
}
