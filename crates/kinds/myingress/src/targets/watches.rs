//! Watches the cluster, and enters the facts that matter.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::future::join_all;
use kube::core::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use causeway_runtime::room::Kept;
use causeway_runtime::{Environment, WatchBackoff};

use super::Shared;
use super::cluster::{Concerned, Entered, Key};
use super::facts::{Node, Pod, Service, Slice};
use super::lean::{LeanNode, LeanPod, LeanService, LeanSlice};

/// Watches until it is dropped.
pub async fn run(shared: &Arc<Shared>, environment: &Environment) {
    tokio::join!(
        scopes(shared, environment, |service: LeanService| Some(Service::from(service))),
        scopes(shared, environment, |slice: LeanSlice| Slice::from_lean(slice)),
        scopes(shared, environment, |pod: LeanPod| Pod::from_lean(&pod, Instant::now())),
        nodes(shared, environment),
        policies(shared, environment),
    );
}

/// Lets everything be checked again when policies change, for they may allow other addresses besides those of pods.
async fn policies(shared: &Arc<Shared>, environment: &Environment) {
    let mut changes = pin!(environment.guardrails.changes());
    while changes.next().await.is_some() {
        shared.registry.all_changed();
    }
}

/// Watches a kind in the namespaces that are served.
async fn scopes<K, F>(shared: &Arc<Shared>, environment: &Environment, fact: fn(K) -> Option<F>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
    F: Entered,
{
    let client = &environment.client;
    let apis: Vec<(Option<&str>, Api<K>)> = match environment.namespaces.as_slice() {
        [] => vec![(None, Api::all(client.clone()))],
        some => some.iter().map(|it| (Some(it.as_str()), Api::namespaced(client.clone(), it))).collect(),
    };
    join_all(apis.into_iter().map(|(scope, api)| follow(shared, scope, api, fact))).await;
}

/// Watches nodes once a backend's targets are nodes. So the operator needs no access to them in other clusters.
async fn nodes(shared: &Arc<Shared>, environment: &Environment) {
    // Cannot fail: the sender lives in `shared`.
    let _ = shared.nodes_matter.subscribe().wait_for(|matter| *matter).await;
    let client: Client = environment.client.clone();
    follow(shared, None, Api::all(client), |node: LeanNode| Node::from_lean(&node)).await;
}

async fn follow<K, F>(shared: &Arc<Shared>, scope: Option<&str>, api: Api<K>, fact: fn(K) -> Option<F>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    F: Entered,
{
    let mut events = pin!(watcher(api, watcher::Config::default()).backoff(WatchBackoff::default()));
    let watch = (F::KIND, scope.map(str::to_owned));
    // The keys that a list has shown so far. The rest is removed when the list ends, not before.
    let mut seen: HashSet<Key> = HashSet::new();
    let mut kept = Kept::default();
    while let Some(event) = events.next().await {
        let concerned = match event {
            Ok(watcher::Event::Init) => {
                seen.clear();
                kept.list_begins();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                let key = key_of(&object);
                seen.insert(key.clone());
                entered(shared, &mut kept, &key, fact(object))
            }
            Ok(watcher::Event::InitDone) => {
                kept.list_ends();
                let concerned = vanished::<F>(shared, scope, &std::mem::take(&mut seen));
                listed::<F>(shared, scope);
                shared.watch_trouble().remove(&watch);
                concerned
            }
            Ok(watcher::Event::Apply(object)) => entered(shared, &mut kept, &key_of(&object), fact(object)),
            Ok(watcher::Event::Delete(object)) => entered(shared, &mut kept, &key_of(&object), None::<F>),
            Err(error) => {
                let trouble = format!("cannot watch {}: {error}", K::plural(&()));
                if shared.watch_trouble().insert(watch.clone(), trouble.clone()).as_ref() != Some(&trouble) {
                    tracing::warn!(scope, trouble, "trying again");
                }
                continue;
            }
        };
        shared.changed(&concerned);
    }
}

fn key_of(object: &impl Resource) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Enters an object, or removes it if nothing of it matters any more, or the namespace has no room for it.
fn entered<F: Entered>(shared: &Shared, kept: &mut Kept, key: &Key, fact: Option<F>) -> Concerned {
    let mut cluster = shared.cluster();
    if let Some(fact) = fact.filter(|fact| kept.fits(key, fact.bytes())) {
        return fact.enter(&mut cluster, key);
    }
    kept.free(key);
    F::leave(&mut cluster, key)
}

/// Removes what a list has not shown.
fn vanished<F: Entered>(shared: &Shared, scope: Option<&str>, seen: &HashSet<Key>) -> Concerned {
    let mut cluster = shared.cluster();
    let within = |key: &Key| scope.is_none_or(|scope| key.0 == scope);
    let gone: Vec<Key> = F::keys(&cluster).into_iter().filter(|key| within(key) && !seen.contains(key)).collect();
    let mut concerned = Concerned::default();
    for key in gone {
        concerned.add(F::leave(&mut cluster, &key));
    }
    concerned
}

/// Notes the first list of a kind in a namespace, or in all.
fn listed<F: Entered>(shared: &Shared, scope: Option<&str>) {
    if shared.cluster().listed(F::KIND, scope) {
        tracing::debug!(kind = ?F::KIND, scope, "listed");
        shared.listed.send_replace(());
        shared.registry.all_changed();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use causeway_runtime::denied::denying_apiserver;
    use causeway_runtime::guardrails::Guardrails;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_denied_is_listed_seldom() {
        let (client, lists) = denying_apiserver();
        let services: Api<LeanService> = Api::namespaced(client, "shop");
        let shared = Arc::new(Shared::new(Guardrails::default()));
        let watch = follow(&shared, Some("shop"), services, |service: LeanService| Some(Service::from(service)));
        assert!(timeout(Duration::from_mins(10), watch).await.is_err(), "it ended");
        let lists = lists.load(Ordering::Relaxed);
        assert!((10..30).contains(&lists), "{lists} lists in ten minutes");
        assert_eq!(shared.watch_trouble().len(), 1);
    }

    #[test]
    fn services_with_many_ports_leave_room_for_other_namespaces() {
        let shared = Shared::new(Guardrails::default());
        let mut kept = Kept::default();
        let service = |ports: u16| {
            let port = |number| json!({ "name": format!("port-{number}"), "port": number });
            let spec = json!({ "ports": (1..=ports).map(port).collect::<Vec<_>>() });
            let service = json!({ "metadata": {}, "spec": spec });
            Service::from(serde_json::from_value::<LeanService>(service).expect("a Service"))
        };
        for number in 0..50 {
            let key = ("targets-room-a".to_owned(), format!("s{number}"));
            entered(&shared, &mut kept, &key, Some(service(10_000)));
        }
        let many = Service::keys(&shared.cluster()).len();
        assert!((20..40).contains(&many), "{many} Services");
        let other = ("targets-room-b".to_owned(), "web".to_owned());
        entered(&shared, &mut kept, &other, Some(service(1)));
        assert!(Service::keys(&shared.cluster()).contains(&other));
    }
}
