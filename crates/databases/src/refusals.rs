//! Children that the apiserver refuses. They are set aside for a while, so that everything else goes on meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use causeway_runtime::{Class, Failure, PerObject, api_message};

use super::step::RESYNC_INTERVAL;
use super::{ChildAction, Database, Error, child_fields, foreign};

/// A refusal holds for so long: a quota may be raised, and a storage class corrected.
const HOLDS: Duration = RESYNC_INTERVAL;

/// A child's kind and name.
pub type ChildKey = (String, String);

/// The apiserver's refusal of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence with the child, the apiserver's words, and what to do.
    pub message: String,
}

/// Refusals of one spec, each with its time.
struct Refused {
    generation: Option<i64>,
    children: BTreeMap<ChildKey, (Instant, Refusal)>,
}

/// The refused children of each object. A restart forgets this: it is then tried again.
#[derive(Default)]
pub struct Refusals(PerObject<Refused>);

impl Refusals {
    /// Notes that the apiserver refused the action, with its error. False if everything else must not go on: the error is
    /// another one, or the same refusal holds already and was to be heeded.
    pub fn note<D: Database>(&self, object: &D::Object, action: &ChildAction, error: &Error) -> bool {
        let Some((child, refusal)) = refusal_of::<D>(object, action, error) else { return false };
        let generation = object.meta().generation;
        let begin = || Refused { generation, children: BTreeMap::new() };
        self.0.change(&object.uid().unwrap_or_default(), begin, |refused| {
            if refused.generation != generation {
                *refused = begin();
            }
            let held = refused.children.insert(child, (Instant::now(), refusal));
            held.is_none_or(|(at, _)| at.elapsed() >= HOLDS)
        })
    }

    /// Returns the children of this very spec that were refused less than a minute ago.
    pub fn current(&self, object: &impl ResourceExt) -> BTreeMap<ChildKey, Refusal> {
        let held = |refused: &mut Refused| {
            let is_current = refused.generation == object.meta().generation;
            let children = refused.children.iter().filter(|(_, (at, _))| is_current && at.elapsed() < HOLDS);
            children.map(|(child, (_, refusal))| (child.clone(), refusal.clone())).collect()
        };
        self.0.with(&object.uid().unwrap_or_default(), held).unwrap_or_default()
    }

    /// Forgets the object with that UID, which is gone.
    pub fn forget(&self, uid: &str) {
        self.0.forget(uid);
    }
}

/// The key of a volume claim.
pub fn claim(name: &str) -> ChildKey {
    ("PersistentVolumeClaim".to_owned(), name.to_owned())
}

/// Which child the apiserver refused, and why; `None` if the error is another one, or nothing may go on without the child.
pub fn refusal_of<D: Database>(object: &D::Object, action: &ChildAction, error: &Error) -> Option<(ChildKey, Refusal)> {
    let refusal = |message: String| Refusal { reason: error.reason(), message };
    match (action, error) {
        (ChildAction::GrowClaim { name, .. }, Error::CannotGrow { .. }) => {
            Some((claim(name), refusal(error.to_string())))
        }
        (ChildAction::TakeBack { kind, name, .. }, Error::Change { source, .. })
            if kind != "ConfigMap" && kind != "Secret" && matches!(error.class(), Class::Invalid | Class::Denied) =>
        {
            let words = api_message(source);
            let message = format!(
                "{kind} {name} lost its owner, and cannot be taken back: {words}{}",
                way_out::<D>(object, kind)
            );
            Some(((kind.clone(), name.clone()), refusal(message)))
        }
        // Another child of that name lacks our label, so that no watch shows it. A database that has not begun waits for the name.
        (ChildAction::Apply { child, .. }, Error::NameTaken(_))
            if D::has_begun(object) && child.kind() != "ConfigMap" && child.kind() != "Secret" =>
        {
            let child = (child.kind().to_owned(), child.name().to_owned());
            let (reason, message) = foreign::describe(object, [&child]);
            Some((child, Refusal { reason, message }))
        }
        // The settings say which members of an etcd may start without data: no member may vote before they are written. The
        // pods need the Secrets.
        (_, Error::Apply { kind, .. }) if kind == "ConfigMap" || kind == "Secret" => None,
        (ChildAction::Apply { .. }, Error::Apply { kind, name, source }) => {
            let refusal = match error.class() {
                Class::Invalid if kind == "StatefulSet" => {
                    let words = api_message(source);
                    let message =
                        format!("the pods that spec asks for are refused: {words}{}", child_fields::fix(&words));
                    Refusal { reason: D::PODS_REFUSED, message }
                }
                Class::Invalid => refusal(error.to_string()),
                Class::Denied => refusal(format!("{error}{}", way_out::<D>(object, kind))),
                _ => return None,
            };
            Some(((kind.clone(), name.clone()), refusal))
        }
        _ => None,
    }
}

/// Explains what to do about a child that a quota, a webhook or a missing right forbids.
fn way_out<D: Database>(object: &D::Object, kind: &str) -> String {
    let field = match kind {
        "Service" => format!("correct {}, or ", D::SERVICES),
        "NetworkPolicy" => "correct spec.allowedClients and spec.networkPolicy, or ".to_owned(),
        _ => String::new(),
    };
    let namespace = object.namespace().unwrap_or_default();
    format!(
        ". Causeway tries again every minute: {field}allow it (kubectl -n {namespace} get resourcequotas; kubectl get \
         validatingwebhookconfigurations)"
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube::core::Status;
    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::{Redis, RedisSpec};
    use causeway_runtime::manifest::Manifest;

    fn redis() -> Redis {
        let mut object = Redis::new("cache", RedisSpec::default());
        (object.metadata.namespace, object.metadata.uid) = (Some("shop".into()), Some("uid".into()));
        object
    }

    fn application() -> ChildAction {
        let child = Manifest::new::<Service>(json!({ "metadata": { "name": "cache-replicas" } }));
        ChildAction::Apply { child: Box::new(child), uid: None }
    }

    fn error(kind: &str, code: u16) -> Error {
        let status = Status { code, message: "exceeded quota: balancers".into(), ..Status::default() };
        let source = kube::Error::Api(Box::new(status));
        Error::Apply { kind: kind.into(), name: "cache-replicas".into(), source }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_holds_for_a_minute() {
        let (refusals, mut object, service) = (Refusals::default(), redis(), application());
        object.metadata.generation = Some(1);
        let of = |object: &Redis| refusals.current(object).into_keys().map(|(kind, _)| kind).collect::<Vec<_>>();
        assert!(refusals.note::<Cache>(&object, &service, &error("Service", 403)));
        assert_eq!(of(&object), ["Service"]);
        assert!(!refusals.note::<Cache>(&object, &service, &error("Service", 403)), "it should have been left out");
        advance(HOLDS).await;
        assert!(of(&object).is_empty(), "the quota may be larger now");
        assert!(refusals.note::<Cache>(&object, &service, &error("Service", 403)));
        object.metadata.generation = Some(2);
        assert!(of(&object).is_empty(), "this spec was not refused");
        assert!(refusals.note::<Cache>(&object, &service, &error("Service", 403)));
        refusals.forget("uid");
        assert!(of(&object).is_empty());
    }

    #[test]
    fn only_lasting_refusals_are_set_aside() {
        let object = redis();
        let refusal = |kind: &str, code: u16| {
            refusal_of::<Cache>(&object, &application(), &error(kind, code)).map(|(_, refusal)| refusal)
        };
        for code in [409, 429, 500] {
            assert_eq!(refusal("Service", code), None, "{code}");
        }
        assert_eq!((refusal("ConfigMap", 403), refusal("Secret", 403)), (None, None));
        let refusal = refusal("Service", 403).unwrap();
        assert_eq!(refusal.reason, "ApplyFailed");
        for words in ["Service cache-replicas", "exceeded quota: balancers", "spec.replicaService", "kubectl -n shop"] {
            assert!(refusal.message.contains(words), "{words} is not in: {}", refusal.message);
        }
    }

    #[test]
    fn a_taken_name_is_set_aside_after_the_beginning() {
        let mut object = redis();
        let taken = Error::NameTaken("Service cache-replicas".into());
        assert_eq!(refusal_of::<Cache>(&object, &application(), &taken), None);
        object.status = Some(causeway_api::RedisStatus { master: Some("cache-0".into()), ..Default::default() });
        let (_, refusal) = refusal_of::<Cache>(&object, &application(), &taken).unwrap();
        assert_eq!(refusal.reason, "NameTaken");
        assert!(
            refusal.message.contains("kubectl -n shop delete --cascade=orphan service/cache-replicas"),
            "{refusal:?}"
        );
    }

    #[test]
    fn refused_pods_have_the_reason_of_their_kind() {
        let refused = refusal_of::<Cache>(&redis(), &application(), &error("StatefulSet", 422)).unwrap().1;
        assert_eq!(refused.reason, Cache::PODS_REFUSED);
        assert!(refused.message.starts_with("the pods that spec asks for are refused"), "{}", refused.message);
    }
}
