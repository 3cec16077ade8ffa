//! The operator's options for all databases. Pure.

use jiff::SignedDuration;
use kube::ResourceExt;

use causeway_api::access::NetworkPolicyMode;
use causeway_runtime::guardrails::Required;

use super::Database;

/// Priority classes whose pods preempt those of all others.
/// <https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/>
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// Where Kubernetes has its own pods.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The operator's options for all databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The operator's own namespace.
    pub namespace: String,
    /// The default for databases whose spec does not say whether they have a network policy.
    pub network_policy: NetworkPolicyMode,
    /// Namespaces whose pods may read metrics; none for all.
    pub scrape_namespaces: Vec<String>,
    /// Clients must log in.
    pub require_auth: bool,
    /// Clients must use TLS.
    pub require_tls: bool,
    /// The longest time that clients take to read a changed Secret.
    pub clients_delay: SignedDuration,
}

impl Rules {
    /// Explains what these do not allow of a spec: a reason, and a sentence that names the field and the fix.
    pub fn complaint<D: Database>(&self, object: &D::Object, required: &Required) -> Option<(&'static str, String)> {
        let spec = D::set_spec(object);
        let demanded = |by_option: bool, option: &'static str, by_namespace: bool| match (by_option, by_namespace) {
            (true, _) => Some(format!("the operator's option {option}")),
            (false, true) => Some(required.by.clone()),
            (false, false) => None,
        };
        if let (false, Some(by)) = (spec.auth, demanded(self.require_auth, "REQUIRE_AUTH", required.auth)) {
            let message = format!("spec.auth.enabled must be true: every database is asked for a password by {by}");
            return Some(("AuthRequired", message));
        }
        if let (Some(field), Some(by)) = (spec.lacks_tls, demanded(self.require_tls, "REQUIRE_TLS", required.tls)) {
            return Some(("TlsRequired", format!("{field}: every database is asked for TLS by {by}")));
        }
        let class = spec.priority_class.filter(|class| SYSTEM_CLASSES.contains(&class.as_str()))?;
        let namespace = object.namespace().unwrap_or_default();
        (namespace != SYSTEM_NAMESPACE && namespace != self.namespace).then(|| {
            let message = format!(
                "spec.priorityClassName {class} is for what keeps the cluster alone, in namespace {SYSTEM_NAMESPACE} and the \
                 operator's own: choose another class"
            );
            ("PriorityClassRefused", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::Cache;
    use causeway_api::Redis;

    fn of_redis(rules: &Rules, namespace: &str, spec: Value) -> Option<String> {
        let mut object = Redis::new("cache", serde_json::from_value(spec).unwrap());
        object.metadata.namespace = Some(namespace.into());
        rules.complaint::<Cache>(&object, &Required::default()).map(|(reason, message)| format!("{reason}: {message}"))
    }

    #[test]
    fn missing_passwords_and_tls_are_named_by_field() {
        let rules = Rules { require_auth: true, require_tls: true, ..Rules::default() };
        let auth = json!({ "enabled": true });
        let words = |said: Option<String>| said.unwrap_or_default();
        assert!(words(of_redis(&rules, "shop", json!({}))).starts_with("AuthRequired: spec.auth.enabled must be true"));
        assert!(
            words(of_redis(&rules, "shop", json!({ "auth": auth }))).starts_with("TlsRequired: spec.tls must be set")
        );
        assert_eq!(of_redis(&rules, "shop", json!({ "auth": auth, "tls": {} })), None);
        assert_eq!(of_redis(&Rules::default(), "shop", json!({})), None, "nothing is asked for unless it is said");
    }

    #[test]
    fn a_namespace_asks_for_them_as_the_operator_does() {
        let words = |spec: Value, value: &str| {
            let object = Redis::new("cache", serde_json::from_value(spec).unwrap());
            Rules::default().complaint::<Cache>(&object, &Required::parse("shop", Some(value))).unwrap_or_default()
        };
        let (reason, message) = words(json!({}), "auth");
        assert_eq!(reason, "AuthRequired");
        for word in ["spec.auth.enabled must be true", "causeway.example.com/require", "namespace shop"] {
            assert!(message.contains(word), "{word}: {message}");
        }
        assert_eq!(words(json!({}), "tls").0, "TlsRequired");
        assert_eq!(words(json!({ "auth": { "enabled": true }, "tls": {} }), "auth,tls").0, "");
        let (reason, message) = words(json!({ "auth": { "enabled": true } }), "auth,tsl");
        assert_eq!(reason, "TlsRequired", "what is wrong demands both");
        assert!(message.contains("auth,tsl") && message.contains("its value must be"), "{message}");
    }

    #[test]
    fn priority_classes_of_the_system_are_for_the_system() {
        let rules = Rules { namespace: "causeway-system".into(), ..Rules::default() };
        for class in SYSTEM_CLASSES {
            let spec = json!({ "priorityClassName": class });
            let said = of_redis(&rules, "shop", spec.clone()).unwrap();
            assert!(said.starts_with(&format!("PriorityClassRefused: spec.priorityClassName {class}")), "{said}");
            for namespace in ["kube-system", "causeway-system"] {
                assert_eq!(of_redis(&rules, namespace, spec.clone()), None, "{namespace}");
            }
        }
        assert_eq!(of_redis(&rules, "shop", json!({ "priorityClassName": "high" })), None);
    }
}
