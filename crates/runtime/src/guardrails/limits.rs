//! Compares an object with the limits of a policy. Pure.

use causeway_api::causewaypolicy::CausewayPolicySpec;

use super::census::Standing;
use super::{DENIED, Denial};
use crate::quantity::amount;

/// Kinds whose number a policy may limit.
pub const COUNTED: [&str; 6] = ["MyApp", "MyIngress", "EtcdCluster", "Redis", "DatabaseBackup", "DatabaseRestore"];

/// Units of storage, the largest first.
const UNITS: [(&str, i128); 6] =
    [("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Returns true if a policy has any limits.
pub fn limits(spec: &CausewayPolicySpec) -> bool {
    spec.max_objects.is_some() || spec.max_storage.is_some()
}

/// Returns the reason for which an object exceeds the limits of a policy, if it does.
pub fn refusal(name: &str, spec: &CausewayPolicySpec, standing: &Standing) -> Option<Denial> {
    let Standing { kind, namespace, place, own, sum } = standing;
    let fix = "What exists already is not changed; delete an older one, or ask for a higher limit";
    let most = spec.max_objects.as_ref().and_then(|most| most.get(kind));
    if let Some(most) = most.filter(|most| *place > **most as usize) {
        let message = format!(
            "metadata.name: by age this is {kind} number {place} of namespace {namespace}, and CausewayPolicy {name} \
             (spec.maxObjects.{kind}) allows {most}. {fix}"
        );
        return Some((DENIED, message));
    }
    let most = spec.max_storage.as_ref()?;
    // A limit that cannot be read allows nothing.
    let room = amount(most).unwrap_or_default();
    (*own > 0 && *sum > room).then(|| {
        let message = format!(
            "spec.storage: with its volumes of {} this {kind} and all older databases of namespace {namespace} ask for {}, and \
             CausewayPolicy {name} (spec.maxStorage) allows {most}. {fix}",
            in_words(*own),
            in_words(*sum)
        );
        (DENIED, message)
    })
}

/// Formats thousandths of a byte as a quantity.
fn in_words(amount: i128) -> String {
    let bytes = amount.div_euclid(1000);
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes % unit == 0);
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message_of(limits: Value, standing: &Standing) -> Option<String> {
        let mut spec = limits;
        spec["namespaceSelector"] = json!({});
        refusal("p", &serde_json::from_value(spec).unwrap(), standing).map(|(_, message)| message)
    }

    fn stands(place: usize, own: i128, sum: i128) -> Standing {
        let gibibytes = |count: i128| count * (1 << 30) * 1000;
        let (kind, namespace) = ("Redis".into(), "shop".into());
        Standing { kind, namespace, place, own: gibibytes(own), sum: gibibytes(sum) }
    }

    #[test]
    fn a_policy_limits_the_number_of_objects_of_a_kind() {
        let two = json!({ "maxObjects": { "Redis": 2 } });
        assert_eq!(message_of(two.clone(), &stands(2, 1, 9)), None);
        let words = message_of(two, &stands(3, 1, 9)).unwrap();
        for word in ["Redis number 3 of namespace shop", "CausewayPolicy p (spec.maxObjects.Redis) allows 2"] {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert_eq!(message_of(json!({ "maxObjects": { "MyApp": 0 } }), &stands(3, 1, 9)), None, "another kind's limit");
        assert!(message_of(json!({ "maxObjects": { "Redis": 0 } }), &stands(1, 1, 9)).is_some());
    }

    #[test]
    fn databases_have_so_much_storage_together_as_the_policy_says() {
        let ten = || json!({ "maxStorage": "10Gi" });
        assert_eq!(message_of(ten(), &stands(1, 4, 10)), None);
        let words = message_of(ten(), &stands(1, 4, 11)).unwrap();
        for word in ["volumes of 4Gi", "ask for 11Gi", "CausewayPolicy p (spec.maxStorage) allows 10Gi"] {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert_eq!(message_of(ten(), &stands(1, 0, 11)), None, "an object without storage exceeds no limit");
        assert!(
            message_of(json!({ "maxStorage": "much" }), &stands(1, 1, 1)).is_some(),
            "what cannot be read allows nothing"
        );
        assert_eq!(in_words(1536 * 1000), "1536");
    }
}
