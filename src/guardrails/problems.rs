//! Finds fields of a policy with invalid values, including those that the CRD's schema cannot reject. Pure.

use serde_json::Value;

use super::allowed::is_network;
use super::limits::COUNTED;
use crate::api::causewaypolicy::CausewayPolicySpec;
use crate::runtime::quantity::amount;

/// The policy; or the first field that cannot be read, why, and what it should be.
pub fn read(spec: &Value) -> Result<CausewayPolicySpec, String> {
    let read = serde_path_to_error::deserialize::<_, CausewayPolicySpec>(spec);
    let policy = read.map_err(|error| format!("spec.{}: {}", error.path().clone(), error.into_inner()))?;
    problem(&policy).map_or(Ok(policy), Err)
}

fn problem(policy: &CausewayPolicySpec) -> Option<String> {
    let of_selector = || {
        policy.namespace_selector.match_expressions.iter().flatten().enumerate().find_map(|(at, it)| {
            let listed = it.values.as_ref().is_some_and(|values| !values.is_empty());
            let fix = match (it.operator.as_str(), listed) {
                ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => return None,
                ("In" | "NotIn", false) => "needs values",
                ("Exists" | "DoesNotExist", true) => "takes no values",
                _ => "is none of In, NotIn, Exists, DoesNotExist",
            };
            Some(format!("spec.namespaceSelector.matchExpressions[{at}]: operator {} {fix}", it.operator))
        })
    };
    let lists = [("inboundCidrs", &policy.inbound_cidrs, true), ("targetAddresses", &policy.target_addresses, false)];
    let of_networks = || {
        lists.into_iter().find_map(|(field, list, prefix_lists)| {
            let bad = |it: &&String| !(is_network(it) || prefix_lists && it.starts_with("pl-"));
            let network = list.iter().flatten().find(bad)?;
            Some(format!("spec.{field}: {network} is no network such as 10.0.0.0/8"))
        })
    };
    let of_limits = || {
        let unknown = policy.max_objects.iter().flatten().find(|(kind, _)| !COUNTED.contains(&kind.as_str()));
        let unknown = unknown.map(|(kind, _)| format!("spec.maxObjects: {kind} is none of {}", COUNTED.join(", ")));
        let bad = |most: &&String| amount(most).is_none_or(|amount| amount < 0);
        let storage = policy.max_storage.as_ref().filter(bad);
        unknown.or_else(|| storage.map(|most| format!("spec.maxStorage: {most} is no quantity such as 100Gi")))
    };
    of_selector().or_else(of_networks).or_else(of_limits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_meant_is_named_by_its_field() {
        let expression = |operator: &str, values: Value| json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] } });
        let all = |field: &str, value: Value| json!({ "namespaceSelector": {}, (field): value });
        for (spec, words) in [
            (json!({}), "namespaceSelector"),
            (all("images", json!(7)), "spec.images: invalid type"),
            (all("schemes", json!(["public"])), "spec.schemes[0]: unknown variant"),
            (expression("In", json!([])), "matchExpressions[0]: operator In needs values"),
            (expression("NotIn", json!(null)), "operator NotIn needs values"),
            (expression("Exists", json!(["a"])), "operator Exists takes no values"),
            (expression("Like", json!(["a"])), "operator Like is none of"),
            (all("inboundCidrs", json!(["10.0.0.0/8", "10.0.0.0/99"])), "spec.inboundCidrs: 10.0.0.0/99 is no network"),
            (all("targetAddresses", json!(["pl-1"])), "spec.targetAddresses: pl-1 is no network"),
            (all("maxObjects", json!({ "Pod": 1 })), "spec.maxObjects: Pod is none of MyApp"),
            (all("maxObjects", json!({ "Redis": -1 })), "spec.maxObjects.Redis: invalid value"),
            (all("maxStorage", json!("much")), "spec.maxStorage: much is no quantity"),
            (all("maxStorage", json!("-1Gi")), "spec.maxStorage: -1Gi is no quantity"),
        ] {
            let problem = read(&spec).unwrap_err();
            assert!(problem.contains(words), "{words}: {problem}");
        }
        let good = json!({
            "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] }, "inboundCidrs": ["pl-1", "::/0"],
            "targetAddresses": ["10.0.0.0/8"], "maxObjects": { "Redis": 0 }, "maxStorage": "1Ti",
        });
        assert!(read(&good).is_ok());
    }
}
