//! Decides whether policies allow what an object asks for. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use causeway_api::causewaypolicy::CausewayPolicySpec;

use super::allowed::{contains, matches};
use super::asks::{Ask, Topic};
use super::census::Standing;
use super::limits::{limits, refusal as no_room};
use super::problems::read;
use super::selector::selects;
use super::{Beyond, DENIED, Denial, UNKNOWN};

/// All policies, by name.
#[derive(Clone, Debug, Default)]
pub struct Policies(BTreeMap<String, Policy>);

/// A policy, or the reason for which it cannot be read.
#[derive(Clone, Debug, PartialEq)]
enum Policy {
    /// The policy could be read.
    Read(Box<CausewayPolicySpec>),
    /// The policy could not be read. It selects the namespaces of `about`, or all of them if its selector cannot be
    /// read either.
    Unreadable { about: LabelSelector, why: String },
}

impl Policies {
    /// Adds or replaces the policy of that name. Returns true if it differs from before.
    pub fn put(&mut self, name: String, spec: &Value) -> bool {
        let policy = match read(spec) {
            Ok(spec) => Policy::Read(Box::new(spec)),
            Err(why) => {
                let about = serde_json::from_value(spec["namespaceSelector"].clone()).unwrap_or_default();
                Policy::Unreadable { about, why }
            }
        };
        let is_new = self.0.get(&name) != Some(&policy);
        self.0.insert(name, policy);
        is_new
    }

    /// Removes the policy of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns true if any policy limits the number or the storage of objects.
    pub fn limit(&self) -> bool {
        self.0.values().any(|policy| matches!(policy, Policy::Read(spec) if limits(spec)))
    }

    /// Returns true if there are no policies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reason for which the policies do not allow what an object asks for, in a namespace with these
    /// labels. All policies that select the namespace must allow it.
    pub fn denial(
        &self,
        labels: &BTreeMap<String, String>,
        asks: &[Ask],
        standing: impl Fn() -> Result<Standing, String>,
    ) -> Option<Denial> {
        let beyond_limits = |name: &str, spec: &CausewayPolicySpec| match limits(spec).then(&standing)? {
            Ok(standing) => no_room(name, spec, &standing),
            Err(why) => Some((UNKNOWN, format!("{why}, so that limits of CausewayPolicy {name} cannot be kept: wait"))),
        };
        self.0.iter().find_map(|(name, policy)| match policy {
            Policy::Unreadable { about, why } => selects(about, labels).then(|| (DENIED, unreadable(name, why))),
            Policy::Read(spec) if selects(&spec.namespace_selector, labels) => {
                asks.iter().find_map(|ask| refusal(name, spec, ask)).or_else(|| beyond_limits(name, spec))
            }
            Policy::Read(_) => None,
        })
    }

    /// Returns the addresses that belong to no pod and may be targets in a namespace with these labels.
    pub fn beyond_pods(&self, labels: &BTreeMap<String, String>) -> Beyond {
        let mut lists = Vec::new();
        for (name, policy) in &self.0 {
            match policy {
                Policy::Unreadable { about, why } if selects(about, labels) => {
                    return Beyond::Unknown(unreadable(name, why));
                }
                Policy::Read(spec) if selects(&spec.namespace_selector, labels) => {
                    lists.extend(spec.target_addresses.clone());
                }
                _ => {}
            }
        }
        Beyond::Within(lists)
    }
}

fn unreadable(name: &str, why: &str) -> String {
    format!("CausewayPolicy {name} cannot be read, so nothing new is made: {why}; correct the policy")
}

fn refusal(name: &str, spec: &CausewayPolicySpec, ask: &Ask) -> Option<Denial> {
    let schemes = spec.schemes.as_ref().map(|all| all.iter().map(|scheme| scheme.as_str().to_owned()).collect());
    let types = spec.service_types.as_ref().map(|all| all.iter().map(|kind| kind.as_str().to_owned()).collect());
    let (list, field) = match ask.topic {
        Topic::Scheme => (&schemes, "schemes"),
        Topic::Subnet => (&spec.subnets, "subnets"),
        Topic::SecurityGroup => (&spec.security_groups, "securityGroups"),
        Topic::Certificate => (&spec.certificates, "certificates"),
        Topic::Waf => (&spec.wafs, "wafs"),
        Topic::LogBucket => (&spec.log_buckets, "logBuckets"),
        Topic::Bucket => (&spec.buckets, "buckets"),
        Topic::Endpoint => (&spec.endpoints, "endpoints"),
        Topic::KmsKey => (&spec.kms_keys, "kmsKeys"),
        Topic::Image => (&spec.images, "images"),
        Topic::PriorityClass => (&spec.priority_classes, "priorityClasses"),
        // The networks that groups let in follow from the groups: they are checked only where no list says which groups
        // may be used.
        Topic::LetInByGroups if spec.security_groups.is_some() => return None,
        Topic::Network | Topic::LetInByGroups => (&spec.inbound_cidrs, "inboundCidrs"),
        Topic::TargetGroup => (&spec.target_groups, "targetGroups"),
        Topic::SslPolicy => (&spec.ssl_policies, "sslPolicies"),
        Topic::TrustStore => (&spec.trust_stores, "trustStores"),
        Topic::UserPool => (&spec.user_pools, "userPools"),
        Topic::PodMetadata => (&spec.pod_metadata, "podMetadata"),
        Topic::ServiceAccount => (&spec.service_accounts, "serviceAccounts"),
        Topic::ServiceType => (&types, "serviceTypes"),
        Topic::ServiceAnnotation => (&spec.service_annotations, "serviceAnnotations"),
    };
    let list = list.as_ref()?;
    let allows = |allowed: &String| match (&ask.value, ask.topic) {
        (None, _) => false,
        (Some(value), Topic::Network) => contains(allowed, value),
        (Some(value), _) => matches(allowed, value),
    };
    if list.iter().any(allows) {
        return None;
    }
    let what = ask.value.as_ref().map_or_else(String::new, |value| format!(" {value}"));
    let allowed = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let message = format!(
        "{}{what} is not allowed here: CausewayPolicy {name} (spec.{field}) allows {allowed}. What exists already is not changed",
        ask.field
    );
    Some((DENIED, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([("tenant".into(), "a".into())])
    }

    fn policies(specs: &[Value]) -> Policies {
        let mut policies = Policies::default();
        for (number, spec) in specs.iter().enumerate() {
            policies.put(format!("p{number}"), spec);
        }
        policies
    }

    fn ask(topic: Topic, value: &str) -> Ask {
        Ask { topic, field: "spec.x".into(), value: Some(value.into()) }
    }

    /// The verdict before any objects are counted.
    fn denial(policies: &Policies, asks: &[Ask]) -> Option<Denial> {
        policies.denial(&labels(), asks, || Err("not counted".into()))
    }

    #[test]
    fn every_policy_limits_once_objects_are_counted() {
        let limited = policies(&[
            json!({ "namespaceSelector": {} }),
            json!({ "namespaceSelector": {}, "maxObjects": { "Redis": 1 } }),
        ]);
        assert!(limited.limit());
        assert_eq!(denial(&limited, &[]).unwrap().0, UNKNOWN);
        let at = |place| Ok(Standing { kind: "Redis".into(), place, ..Standing::default() });
        assert_eq!(limited.denial(&labels(), &[], || at(1)), None);
        assert_eq!(limited.denial(&labels(), &[], || at(2)).unwrap().0, DENIED);
    }

    #[test]
    fn each_list_is_about_its_topic_alone() {
        for (topic, field, allowed, good, bad) in [
            (Topic::Scheme, "schemes", "internal", "internal", "internet-facing"),
            (Topic::Subnet, "subnets", "subnet-1", "subnet-1", "subnet-2"),
            (Topic::SecurityGroup, "securityGroups", "team-*", "team-a", "sg-1"),
            (Topic::Network, "inboundCidrs", "10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0"),
            (Topic::Certificate, "certificates", "arn:*/a", "arn:x/a", "arn:x/b"),
            (Topic::Waf, "wafs", "arn:*/a", "arn:x/a", "arn:x/b"),
            (Topic::LogBucket, "logBuckets", "logs", "logs", "other"),
            (Topic::Bucket, "buckets", "backups-*", "backups-a", "other"),
            (Topic::Endpoint, "endpoints", "https://a", "https://a", "https://b"),
            (Topic::KmsKey, "kmsKeys", "arn:*", "arn:x", "key"),
            (Topic::Image, "images", "redis:*", "redis:7", "evil/redis:7"),
            (Topic::PriorityClass, "priorityClasses", "batch", "batch", "high"),
            (Topic::TargetGroup, "targetGroups", "arn:*/a", "arn:x/a", "arn:x/b"),
            (
                Topic::SslPolicy,
                "sslPolicies",
                "*-TLS13-*",
                "ELBSecurityPolicy-TLS13-1-3-2021-06",
                "ELBSecurityPolicy-2016-08",
            ),
            (Topic::TrustStore, "trustStores", "arn:*/a", "arn:x/a", "arn:x/b"),
            (Topic::UserPool, "userPools", "arn:*/a", "arn:x/a", "arn:x/b"),
            (Topic::PodMetadata, "podMetadata", "example.com/*", "example.com/a", "example.org/a"),
            (Topic::ServiceAccount, "serviceAccounts", "cache", "cache", "admin"),
            (Topic::ServiceType, "serviceTypes", "ClusterIP", "ClusterIP", "LoadBalancer"),
            (Topic::ServiceAnnotation, "serviceAnnotations", "example.com/*", "example.com/a", "example.org/a"),
        ] {
            let policies = policies(&[json!({ "namespaceSelector": {}, (field): [allowed] })]);
            assert_eq!(denial(&policies, &[ask(topic, good)]), None, "{field}");
            let (reason, message) = denial(&policies, &[ask(topic, good), ask(topic, bad)]).unwrap();
            assert_eq!(reason, DENIED);
            for word in ["spec.x", bad, "CausewayPolicy p0", field, allowed] {
                assert!(message.contains(word), "{word}: {message}");
            }
            let unknown = Ask { value: None, ..ask(topic, "") };
            assert!(denial(&policies, &[unknown]).is_some(), "{field}: what is not known is not allowed");
            let other = if topic == Topic::Image { Topic::Waf } else { Topic::Image };
            assert_eq!(denial(&policies, &[ask(other, bad)]), None, "{field} is about nothing else");
        }
    }

    #[test]
    fn what_groups_let_in_needs_a_list_of_groups() {
        let groups = [Ask { topic: Topic::LetInByGroups, field: "spec.securityGroups".into(), value: None }];
        let of = |lists: Value| {
            let mut spec = lists;
            spec["namespaceSelector"] = json!({});
            denial(&policies(&[spec]), &groups)
        };
        assert!(of(json!({ "inboundCidrs": ["10.0.0.0/8"] })).is_some());
        assert_eq!(of(json!({ "inboundCidrs": ["10.0.0.0/8"], "securityGroups": ["sg-1"] })), None);
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn all_policies_that_select_the_namespace_must_allow_it() {
        let of = |tenant: &str, images: Value| json!({ "namespaceSelector": { "matchLabels": { "tenant": tenant } }, "images": images });
        let image = [ask(Topic::Image, "redis:7")];
        assert_eq!(denial(&policies(&[of("a", json!(["redis:*"])), of("b", json!([]))]), &image), None);
        let message = denial(&policies(&[of("a", json!(["redis:*"])), of("a", json!([]))]), &image).unwrap().1;
        assert!(message.contains("CausewayPolicy p1") && message.contains("allows none"), "{message}");
    }

    #[test]
    fn an_unreadable_policy_forbids_everything_it_may_select() {
        let broken = |selector: Value| json!({ "namespaceSelector": selector, "images": 7 });
        let denied = |spec: Value| denial(&policies(&[spec]), &[]);
        assert!(denied(broken(json!({}))).unwrap().1.contains("CausewayPolicy p0 cannot be read"));
        assert_eq!(denied(broken(json!({ "matchLabels": { "tenant": "b" } }))), None);
        assert!(denied(broken(json!(7))).is_some(), "whom it is about is not known");
        assert!(denied(json!(null)).is_some());
    }
}
