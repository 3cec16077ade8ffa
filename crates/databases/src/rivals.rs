//! Disruption budgets of others that select the pods of a database. Kubernetes evicts no pod that two budgets select: every
//! drain of its node waits. Pure.
//! <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors>

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;
use serde_json::json;

use causeway_runtime::guardrails::selector::selects;
use causeway_runtime::manifest::is_controlled_by;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::{Database, Set};

/// A disruption budget of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rival {
    /// The name of the budget.
    pub name: String,
    /// The merge patch by which its selector leaves out the object's pods.
    pub patch: String,
}

/// Those that select the pods which the object's `StatefulSet` makes.
pub fn find<'a, D: Database>(
    object: &D::Object,
    set: &Set<D::Node>,
    budgets: impl Iterator<Item = &'a PodDisruptionBudget>,
) -> Vec<Rival> {
    let live = set.child("StatefulSet", &object.name_any()).filter(|live| live.ours);
    let Some(template) = live.map(|live| &live.value["spec"]["template"]["metadata"]["labels"]) else {
        return Vec::new();
    };
    let labels = serde_json::from_value(template.clone()).unwrap_or_default();
    let rival = |budget: &PodDisruptionBudget| {
        let selector = budget.spec.as_ref()?.selector.as_ref()?;
        let selects = !is_controlled_by(budget, object) && selects(selector, &labels);
        selects.then(|| Rival { name: budget.name_any(), patch: patch_without::<D>(object, selector) })
    };
    let mut all: Vec<Rival> = budgets.filter_map(rival).collect();
    all.sort();
    all
}

/// The patch that lets a selector leave out pods with the object's label, and no others. A merge patch replaces lists.
fn patch_without<D: Database>(object: &D::Object, selector: &LabelSelector) -> String {
    let own = LabelSelectorRequirement {
        key: D::LABEL.into(),
        operator: "NotIn".into(),
        values: Some(vec![object.name_any()]),
    };
    let all: Vec<_> = selector.match_expressions.iter().flatten().cloned().chain([own]).collect();
    json!({ "spec": { "selector": { "matchExpressions": all } } }).to_string()
}

/// The condition that names them; present only while there are any.
pub fn part<D: Database>(object: &D::Object, rivals: &[Rival]) -> ExtraCondition {
    let (namespace, own) = (object.namespace().unwrap_or_default(), object.name_any());
    let message = if rivals.is_empty() {
        String::new()
    } else {
        let names: Vec<&str> = rivals.iter().map(|rival| rival.name.as_str()).collect();
        let command = |it: &Rival| {
            format!("kubectl -n {namespace} patch poddisruptionbudget {} --type=merge -p '{}'", it.name, it.patch)
        };
        let commands: Vec<String> = rivals.iter().map(command).collect();
        format!(
            "Kubernetes evicts no pod that two disruption budgets select, so every drain waits: PodDisruptionBudget {} selects \
             the pods of PodDisruptionBudget {own}, which follows what the data allow. Let its selector leave out pods with label \
             {}={own} ({})",
            names.join(", "),
            D::LABEL,
            commands.join("; ")
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
    use crate::Child;
    use crate::fixtures::Cache;
    use causeway_api::Redis;

    fn object() -> Redis {
        let metadata = json!({ "name": "cache", "namespace": "shop", "uid": "1" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
    }

    fn names(selector: &Value, owner: &Value) -> Vec<String> {
        find_with(selector, owner).into_iter().map(|rival| rival.name).collect()
    }

    fn find_with(selector: &Value, owner: &Value) -> Vec<Rival> {
        let object = object();
        let mut set = Set::default();
        let labels = json!({ "causeway.example.com/redis": "cache", "team": "shop" });
        let live = json!({ "spec": { "template": { "metadata": { "labels": labels } } } });
        set.children.insert(("StatefulSet".into(), "cache".into()), Child { value: live, uid: "2".into(), ours: true });
        let budget =
            json!({ "metadata": { "name": "all", "ownerReferences": owner }, "spec": { "selector": selector } });
        let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
        find::<Cache>(&object, &set, std::iter::once(&budget))
    }

    #[test]
    fn a_budget_of_others_that_selects_our_pods_is_named() {
        let team = json!({ "matchLabels": { "team": "shop" } });
        assert_eq!(names(&team, &Value::Null), ["all"]);
        assert_eq!(names(&json!({}), &Value::Null), ["all"], "it selects all pods");
        assert!(names(&Value::Null, &Value::Null).is_empty(), "it selects none");
        assert!(names(&json!({ "matchLabels": { "team": "other" } }), &Value::Null).is_empty());
        let ours = json!([{ "apiVersion": "example.com/v1", "kind": "Redis", "name": "cache", "uid": "1", "controller": true }]);
        assert!(names(&team, &ours).is_empty(), "it is the object's own");
        let part = part::<Cache>(&object(), &find_with(&team, &Value::Null));
        assert_eq!((part.status, part.reason), (ConditionStatus::True, "TwoBudgets"));
        assert!(part.message.contains("kubectl -n shop patch poddisruptionbudget all"), "{}", part.message);
    }

    #[test]
    fn the_patch_leaves_out_our_pods_and_keeps_the_rest() {
        let expression = json!({ "key": "team", "operator": "In", "values": ["shop", "bank"] });
        let mut selector = json!({ "matchLabels": { "team": "shop" }, "matchExpressions": [expression] });
        let [rival] = &find_with(&selector, &Value::Null)[..] else { panic!("it is not found") };
        let patch: Value = serde_json::from_str(&rival.patch).unwrap();
        let patched = &patch["spec"]["selector"]["matchExpressions"];
        assert_eq!(patched[0], expression);
        selector["matchExpressions"] = patched.clone();
        assert!(names(&selector, &Value::Null).is_empty(), "{selector}");
    }
}
