//! Children of our names that the object does not control. Those with its label and without a controller are taken back: they lost
//! their owner by `kubectl delete --cascade=orphan`, a restore of the objects, or an edit. All others are named at once, and
//! stop only what needs them. Pure.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};

use causeway_runtime::manifest::{is_left_over, left_over, owners_of};

use super::refusals::{ChildKey, Refusal};
use super::{Child, ChildAction, Database, Step};

/// The reason while something else has the name of a child.
pub const NAME_TAKEN: &str = "NameTaken";

/// The actions that take children back, unless that was refused moments ago.
pub fn take_back<'a, D: Database>(
    object: &D::Object,
    children: impl IntoIterator<Item = (&'a ChildKey, &'a Child)>,
    refused: &BTreeMap<ChildKey, Refusal>,
) -> Vec<ChildAction> {
    let lost =
        children.into_iter().filter(|(key, child)| has_no_owner::<D>(object, child) && !refused.contains_key(*key));
    let take = |((kind, name), child): (&ChildKey, &Child)| {
        let ours = object.controller_owner_ref(&())?;
        let others = owners_of(&child.value).into_iter().filter(|owner| owner.uid != ours.uid);
        Some(ChildAction::TakeBack {
            kind: kind.clone(),
            name: name.clone(),
            uid: child.uid.clone(),
            version: child.value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
            owners: others.chain([ours.clone()]).collect(),
        })
    };
    lost.filter_map(take).collect()
}

/// The step where a child that is needed is not the object's: wait if it is left over from an earlier object of the name; else
/// a person has to act. The message names all that are not the object's.
pub fn stops<'a, A, R: Default, O: Resource<DynamicType = ()>>(
    object: &O,
    children: impl IntoIterator<Item = (&'a ChildKey, &'a Child)>,
    is_needed: impl Fn(&str) -> bool,
) -> Option<Step<A, R>> {
    let foreign: Vec<_> = children.into_iter().filter(|(_, child)| !child.ours).collect();
    let ((kind, name), child) = *foreign.iter().find(|((kind, _), _)| is_needed(kind))?;
    if is_left_over(&owners_of(&child.value), object) {
        return Some(Step::wait("Applying", left_over::<O>(kind, name)));
    }
    let (reason, message) = describe(object, foreign.into_iter().map(|(key, _)| key));
    Some(Step::stalled(reason, message))
}

/// Returns the message of the status about children that are not the object's, while everything else goes on.
pub fn report<'a>(
    object: &impl ResourceExt,
    children: impl IntoIterator<Item = (&'a ChildKey, &'a Child)>,
) -> Option<(&'static str, String)> {
    let foreign: Vec<&ChildKey> = children.into_iter().filter(|(_, child)| !child.ours).map(|(key, _)| key).collect();
    (!foreign.is_empty()).then(|| describe(object, foreign))
}

/// Names these children, and a command that removes them and keeps the pods.
pub fn describe<'a>(
    object: &impl ResourceExt,
    children: impl IntoIterator<Item = &'a ChildKey>,
) -> (&'static str, String) {
    let (names, arguments): (Vec<String>, Vec<String>) = children
        .into_iter()
        .map(|(kind, name)| (format!("{kind} {name}"), format!("{}/{name}", kind.to_lowercase())))
        .unzip();
    let (verb, them) = if names.len() == 1 { ("exists and does not", "it") } else { ("exist and do not", "them") };
    let message = format!(
        "{} {verb} belong to this object: delete {them}, which keeps the pods (kubectl -n {} delete --cascade=orphan {}), or choose \
         another metadata.name",
        names.join(", "),
        object.namespace().unwrap_or_default(),
        arguments.join(" ")
    );
    (NAME_TAKEN, message)
}

/// Reports whether a child has the object's label, and no controller.
pub fn has_no_owner<D: Database>(object: &D::Object, child: &Child) -> bool {
    let is_labelled = child.value["metadata"]["labels"][D::LABEL].as_str() == Some(&object.name_any());
    !child.ours && is_labelled && owners_of(&child.value).iter().all(|owner| owner.controller != Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::Redis;
    use causeway_runtime::Health;

    fn object() -> Redis {
        let metadata = json!({ "name": "db", "namespace": "shop", "uid": "now" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
    }

    fn child(kind: &str, labels: &Value, owners: &Value) -> (ChildKey, Child) {
        let metadata = json!({ "labels": labels, "ownerReferences": owners, "resourceVersion": "7" });
        let child = Child { value: json!({ "metadata": metadata }), uid: "1".into(), ours: false };
        ((kind.to_owned(), "db".to_owned()), child)
    }

    fn owner(kind: &str, name: &str, controller: bool) -> Value {
        json!([{ "apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "then", "controller": controller }])
    }

    fn ours() -> Value {
        json!({ "causeway.example.com/redis": "db" })
    }

    #[test]
    fn a_labelled_child_without_controller_is_taken_back() {
        let taken = |labels: &Value, owners: &Value| {
            let (key, child) = child("Service", labels, owners);
            take_back::<Cache>(&object(), [(&key, &child)], &BTreeMap::new())
        };
        let [ChildAction::TakeBack { uid, version, owners, .. }] =
            &taken(&ours(), &owner("Deployment", "x", false))[..]
        else {
            panic!("it is not taken back")
        };
        assert_eq!([uid.as_str(), version], ["1", "7"]);
        let owners: Vec<_> = owners.iter().map(|owner| (owner.uid.as_str(), owner.controller)).collect();
        assert_eq!(owners, [("then", Some(false)), ("now", Some(true))]);
        assert_eq!(taken(&ours(), &Value::Null).len(), 1);
        assert_eq!(taken(&ours(), &owner("Deployment", "x", true)), [], "it has a controller");
        assert_eq!(taken(&json!({ "causeway.example.com/redis": "x" }), &Value::Null), [], "it is of another object");
        assert_eq!(taken(&Value::Null, &Value::Null), []);
    }

    #[test]
    fn a_just_refused_child_is_not_taken_back() {
        let (key, child) = child("Service", &ours(), &Value::Null);
        let refused = BTreeMap::from([(key.clone(), Refusal { reason: "ChangeFailed", message: String::new() })]);
        assert_eq!(take_back::<Cache>(&object(), [(&key, &child)], &refused), []);
    }

    #[test]
    fn all_children_of_others_are_named_with_one_command() {
        let taken = owner("Deployment", "x", true);
        let all: Vec<_> = ["Service", "StatefulSet"].iter().map(|kind| child(kind, &ours(), &taken)).collect();
        let pairs = || all.iter().map(|(key, child)| (key, child));
        let step = stops::<(), (), _>(&object(), pairs(), |kind| kind == "StatefulSet").unwrap();
        let Health::Stalled(cause) = step.health else { panic!("{:?}", step.health) };
        let command = "kubectl -n shop delete --cascade=orphan service/db statefulset/db";
        assert!(cause.reason == NAME_TAKEN && cause.message.contains(command), "{}", cause.message);
        assert!(stops::<(), (), _>(&object(), pairs(), |kind| kind == "Secret").is_none(), "nothing needs them");
        assert!(report(&object(), pairs()).is_some_and(|(_, message)| message.contains(command)));
    }

    #[test]
    fn children_of_an_earlier_object_are_waited_for() {
        let reason = |kind: &str, name: &str, controller: bool| {
            let (key, child) = child("Service", &Value::Null, &owner(kind, name, controller));
            let step = stops::<(), (), _>(&object(), [(&key, &child)], |_| true).unwrap();
            match step.health {
                Health::Progressing(cause) => (cause.reason, cause.message.contains("an earlier Redis of this name")),
                Health::Stalled(cause) => (cause.reason, cause.message.contains("delete it")),
                health => panic!("{health:?}"),
            }
        };
        assert_eq!(reason("Redis", "db", true), ("Applying", true));
        for (kind, name, controller) in [("Redis", "other", true), ("EtcdCluster", "db", true), ("Redis", "db", false)]
        {
            assert_eq!(reason(kind, name, controller), (NAME_TAKEN, true), "{kind} {name}");
        }
    }
}
