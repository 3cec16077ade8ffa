//! The values that a `MyIngress` asks for, which policies may restrict. Pure.

use causeway_api::MyIngressSpec;
use causeway_api::myingress::{ActionSpec, ListenerProtocol};
use causeway_runtime::guardrails::asks::{Ask, Topic, ask, asks_for_all};

/// Lists what a `MyIngress` of that namespace asks for.
pub fn list(spec: &MyIngressSpec, namespace: &str) -> Vec<Ask> {
    let mut asks = Vec::new();
    let of_group = spec.group.iter().find_map(|group| group.namespace.as_deref());
    let is_guest = of_group.is_some_and(|home| home != namespace);
    // In a group, a member that names no subnets chooses neither the balancer's scheme nor its security groups.
    if !spec.subnets.is_empty() || spec.subnet_selector.is_some() {
        asks.push(ask(Topic::Scheme, "spec.scheme", spec.scheme.as_str()));
    }
    asks.extend(asks_for_all(Topic::Subnet, "spec.subnets", &spec.subnets));
    if spec.subnet_selector.is_some() {
        asks.push(Ask { topic: Topic::Subnet, field: "spec.subnetSelector".into(), value: None });
    }
    asks.extend(asks_for_all(Topic::SecurityGroup, "spec.securityGroups", &spec.security_groups));
    asks.extend(asks_for_all(Topic::SecurityGroup, "spec.targetSecurityGroups", &spec.target_security_groups));
    if !spec.subnets.is_empty() || spec.subnet_selector.is_some() {
        asks.extend(groups_of_others(spec));
    }
    asks.extend(asks_for_all(Topic::Network, "spec.inboundCidrs", &spec.inbound_cidrs));
    asks.extend(asks_for_all(Topic::Network, "spec.inboundPrefixLists", &spec.inbound_prefix_lists));
    asks.extend(spec.waf_acl_arn.iter().map(|arn| ask(Topic::Waf, "spec.wafAclArn", arn)));
    asks.extend(spec.access_logs.iter().map(|logs| ask(Topic::LogBucket, "spec.accessLogs.bucket", &logs.bucket)));
    let buckets = spec.attributes.iter().filter(|(key, _)| key.ends_with(".s3.bucket"));
    asks.extend(buckets.map(|(key, bucket)| ask(Topic::LogBucket, format!("spec.attributes.{key}"), bucket)));
    for (at, listener) in spec.listeners.iter().enumerate() {
        let field = |name: &str| format!("spec.listeners[{at}].{name}");
        asks.extend(asks_for_all(Topic::Certificate, &field("certificateArns"), &listener.certificate_arns));
        asks.extend(asks_for_all(Topic::Network, &field("inboundCidrs"), &listener.inbound_cidrs));
        let store = listener.mutual_authentication.iter().filter_map(|it| it.trust_store_arn.as_ref());
        asks.extend(store.map(|arn| ask(Topic::TrustStore, field("mutualAuthentication.trustStoreArn"), arn)));
        asks.extend(listener.default_action.iter().flat_map(|action| asks_of_action(action, &field("defaultAction"))));
        let rules = listener.rules.iter().enumerate();
        asks.extend(rules.flat_map(|(at, rule)| asks_of_action(&rule.action, &field(&format!("rules[{at}].action")))));
        let https = listener.protocol.map_or(listener.port == 443, |protocol| protocol == ListenerProtocol::Https);
        if https && (listener.ssl_policy.is_some() || !is_guest) {
            let value = listener.ssl_policy.clone();
            let field = if value.is_some() { "sslPolicy" } else { "sslPolicy (left out)" };
            asks.push(Ask { topic: Topic::SslPolicy, field: format!("spec.listeners[{at}].{field}"), value });
        }
        // A certificate is found by the hosts of the rules. A guest brings none: that listener is its hosts'.
        if https && listener.certificate_arns.is_empty() && !is_guest {
            asks.push(Ask { topic: Topic::Certificate, field: field("certificateArns (found by AWS)"), value: None });
        }
    }
    asks
}

/// Lists asks for security groups that Causeway does not make: they let in what their own rules say. Without any, AWS
/// chooses the default group of the VPC.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html>
fn groups_of_others(spec: &MyIngressSpec) -> Vec<Ask> {
    let unknown = |topic, field: &str| Ask { topic, field: field.into(), value: None };
    let by_default =
        "spec.securityGroups (left out with spec.inboundCidrs, so that AWS chooses the VPC's default group)";
    match (spec.security_groups.is_empty(), spec.inbound_cidrs.is_empty() && spec.inbound_prefix_lists.is_empty()) {
        (true, true) => vec![unknown(Topic::SecurityGroup, by_default), unknown(Topic::LetInByGroups, by_default)],
        (false, _) => vec![unknown(Topic::LetInByGroups, "spec.securityGroups (which may let in any network)")],
        (true, false) => Vec::new(),
    }
}

/// Lists the values of an action of a listener or rule.
fn asks_of_action(action: &ActionSpec, field: &str) -> Vec<Ask> {
    let groups = action.forward.iter().flat_map(|forward| &forward.target_groups).enumerate();
    let groups =
        groups.map(|(at, it)| ask(Topic::TargetGroup, format!("{field}.forward.targetGroups[{at}].arn"), &it.arn));
    let pool = action.authenticate_cognito.iter().map(|cognito| {
        ask(Topic::UserPool, format!("{field}.authenticateCognito.userPoolArn"), &cognito.user_pool_arn)
    });
    groups.chain(pool).collect()
}

#[cfg(test)]
mod tests {
    use causeway_runtime::guardrails::asks::describe_asks;
    use serde_json::{Value, json};

    use super::*;

    fn list_asks(spec: Value) -> Vec<String> {
        describe_asks(list(&serde_json::from_value(spec).unwrap(), "shop"))
    }

    #[test]
    fn a_balancer_asks_for_all_that_aws_will_be_told() {
        let spec = json!({
            "subnets": ["subnet-1", "subnet-2"], "securityGroups": ["sg-1"], "targetSecurityGroups": ["nodes"],
            "inboundCidrs": ["0.0.0.0/0"], "inboundPrefixLists": ["pl-1"], "wafAclArn": "arn:w",
            "accessLogs": { "bucket": "logs" }, "attributes": { "connection_logs.s3.bucket": "more", "x": "y" },
            "listeners": [
                { "port": 80, "inboundCidrs": ["10.0.0.0/8"] },
                { "port": 443, "certificateArns": ["arn:c"] },
                { "port": 8443, "protocol": "HTTPS" },
            ],
        });
        insta::assert_yaml_snapshot!(list_asks(spec));
        let hidden = json!({ "subnetSelector": { "tags": { "a": [] } }, "scheme": "internal" });
        let hidden = list_asks(hidden);
        assert_eq!(hidden[..2], ["Scheme spec.scheme internal", "Subnet spec.subnetSelector ?"]);
        assert!(hidden[2].starts_with("SecurityGroup spec.securityGroups (left out"), "{hidden:?}");
        assert!(hidden[3].starts_with("LetInByGroups spec.securityGroups (left out"), "{hidden:?}");
        let own = list_asks(json!({ "subnets": ["subnet-1"], "inboundPrefixLists": ["pl-1"] }));
        assert!(!own.iter().any(|it| it.contains("securityGroups")), "its group is made: {own:?}");
        let joining = json!({ "group": { "name": "g" }, "listeners": [{ "port": 80 }] });
        assert_eq!(list_asks(joining), [""; 0], "who stands nowhere decides nothing");
    }

    #[test]
    fn defaults_of_a_listener_are_asked_for_only_at_home() {
        let of = |group: Value| list_asks(json!({ "group": group, "listeners": [{ "port": 443 }] }));
        let found = [
            "SslPolicy spec.listeners[0].sslPolicy (left out) ?",
            "Certificate spec.listeners[0].certificateArns (found by AWS) ?",
        ];
        assert_eq!(of(json!({ "name": "g" })), found, "a group of one is no way around");
        assert_eq!(of(json!({ "name": "g", "namespace": "shop" })), found);
        assert_eq!(of(json!({ "name": "g", "namespace": "edge" })), [""; 0]);
    }
}
