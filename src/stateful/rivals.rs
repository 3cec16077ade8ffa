//! Disruption budgets of others that select the pods of a database. Kubernetes evicts no pod that two budgets select: every
//! drain of its node waits. Pure.
//! <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors>

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use super::{Database, Set};
use crate::guardrails::selector::selects;
use crate::runtime::manifest::is_controlled_by;
use crate::runtime::{ConditionStatus, ExtraCondition};

/// The names of those that select the pods which the object's `StatefulSet` makes.
pub fn of<'a, D: Database>(
    object: &D,
    set: &Set<D::Node>,
    budgets: impl Iterator<Item = &'a PodDisruptionBudget>,
) -> Vec<String> {
    let live = set.child("StatefulSet", &object.name_any()).filter(|live| live.ours);
    let Some(template) = live.map(|live| &live.value["spec"]["template"]["metadata"]["labels"]) else {
        return Vec::new();
    };
    let labels = serde_json::from_value(template.clone()).unwrap_or_default();
    let is_rival = |budget: &&PodDisruptionBudget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        !is_controlled_by(*budget, object) && selector.is_some_and(|selector| selects(selector, &labels))
    };
    let mut names: Vec<String> = budgets.filter(is_rival).map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// The condition that names them; present only while there are any.
pub fn part<D: Database>(object: &D, rivals: &[String]) -> ExtraCondition {
    let (namespace, own) = (object.namespace().unwrap_or_default(), object.name_any());
    let message = if rivals.is_empty() {
        String::new()
    } else {
        let all = rivals.join(", ");
        format!(
            "Kubernetes evicts no pod that two disruption budgets select, so every drain waits: PodDisruptionBudget {all} selects \
             the pods of PodDisruptionBudget {own}, which follows what the data allow. Let its selector leave out pods with label \
             {}={own} (kubectl -n {namespace} edit poddisruptionbudget {})",
            D::LABEL,
            rivals.join(" ")
        )
    };
    ExtraCondition {
        type_: "EvictionsBlocked",
        status: ConditionStatus::only_if(!rivals.is_empty()),
        reason: "TwoBudgets",
        message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::Redis;
    use crate::stateful::Child;

    fn object() -> Redis {
        let metadata = json!({ "name": "cache", "namespace": "shop", "uid": "1" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
    }

    fn found(selector: &Value, owner: &Value) -> Vec<String> {
        let object = object();
        let mut set = Set::default();
        let labels = json!({ "causeway.example.com/redis": "cache", "team": "shop" });
        let live = json!({ "spec": { "template": { "metadata": { "labels": labels } } } });
        set.children.insert(("StatefulSet".into(), "cache".into()), Child { value: live, uid: "2".into(), ours: true });
        let budget =
            json!({ "metadata": { "name": "all", "ownerReferences": owner }, "spec": { "selector": selector } });
        let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
        of(&object, &set, std::iter::once(&budget))
    }

    #[test]
    fn a_budget_of_others_that_selects_our_pods_is_named() {
        let team = json!({ "matchLabels": { "team": "shop" } });
        assert_eq!(found(&team, &Value::Null), ["all"]);
        assert_eq!(found(&json!({}), &Value::Null), ["all"], "it selects all pods");
        assert!(found(&Value::Null, &Value::Null).is_empty(), "it selects none");
        assert!(found(&json!({ "matchLabels": { "team": "other" } }), &Value::Null).is_empty());
        let ours = json!([{ "apiVersion": "example.com/v1", "kind": "Redis", "name": "cache", "uid": "1", "controller": true }]);
        assert!(found(&team, &ours).is_empty(), "it is the object's own");
        let part = part(&object(), &found(&team, &Value::Null));
        assert_eq!((part.status, part.reason), (ConditionStatus::True, "TwoBudgets"));
        assert!(part.message.contains("kubectl -n shop edit poddisruptionbudget all"), "{}", part.message);
    }
}
