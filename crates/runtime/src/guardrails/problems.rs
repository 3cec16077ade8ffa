//! Finds fields of a policy with invalid values, including those that the CRD's schema cannot reject. Pure.

use serde_json::Value;

use causeway_api::causewaypolicy::CausewayPolicySpec;

use super::allowed::is_network;
use super::form::{Form, Shape};
use super::limits::COUNTED;
use super::selector::problem as problem_of_selector;
use crate::quantity::amount;

/// Reads the policy; fails with the first field that cannot be read, the reason, and what it should be.
pub fn read(spec: &Value) -> Result<CausewayPolicySpec, String> {
    let read = serde_path_to_error::deserialize::<_, CausewayPolicySpec>(spec);
    let policy = read.map_err(|error| format!("spec.{}: {}", error.path().clone(), error.into_inner()))?;
    problem(&policy).map_or(Ok(policy), Err)
}

fn problem(policy: &CausewayPolicySpec) -> Option<String> {
    let of_selector =
        problem_of_selector(&policy.namespace_selector).map(|why| format!("spec.namespaceSelector.{why}"));
    let lists = [("inboundCidrs", &policy.inbound_cidrs, true), ("targetAddresses", &policy.target_addresses, false)];
    let of_networks = || {
        lists.into_iter().find_map(|(field, list, prefix_lists)| {
            let bad = |it: &&String| !(is_network(it) || prefix_lists && is_prefix_list(it));
            let network = list.iter().flatten().find(bad)?;
            Some(format!("spec.{field}: {network:?} is no network such as 10.0.0.0/8"))
        })
    };
    let of_limits = || {
        let unknown = policy.max_objects.iter().flatten().find(|(kind, _)| !COUNTED.contains(&kind.as_str()));
        let unknown = unknown.map(|(kind, _)| format!("spec.maxObjects: {kind:?} is none of {}", COUNTED.join(", ")));
        let bad = |most: &&String| amount(most).is_none_or(|amount| amount < 0);
        let storage = policy.max_storage.as_ref().filter(bad);
        unknown.or_else(|| storage.map(|most| format!("spec.maxStorage: {most:?} is no quantity such as 100Gi")))
    };
    of_selector.or_else(of_networks).or_else(|| of_patterns(policy)).or_else(of_limits)
}

fn is_prefix_list(text: &str) -> bool {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.strip_prefix("pl-").is_some_and(is_id)
}

/// Returns the first entry of a list that no value can match.
fn of_patterns(policy: &CausewayPolicySpec) -> Option<String> {
    const ARN: Form = Form { shape: Shape::Arn(&[], ""), within: "_.:/=+@,-", such_as: "arn:aws:acm:*" };
    const LB: &[&str] = &["elasticloadbalancing"];
    const BUCKET: Form = Form { shape: Shape::Long(3), within: ".-_", such_as: "backups-*" };
    const NAME: Form = Form { shape: Shape::Long(1), within: ".-", such_as: "team-a" };
    const KEY: Form = Form { shape: Shape::Key, within: "_./-", such_as: "example.com/*" };
    const SSL_POLICY: Form = Form { shape: Shape::Long(1), within: ".-_", such_as: "ELBSecurityPolicy-TLS13-1-2-*" };
    const SUBNET: Form = Form { shape: Shape::Begins(&["subnet-"]), within: "-", such_as: "subnet-0a1b2c3d" };
    const ENDPOINT: Form = Form {
        shape: Shape::Begins(&["https://", "http://"]),
        within: "_.:/-[]",
        such_as: "https://minio.example.com",
    };
    const IMAGE: Form = Form { shape: Shape::Long(1), within: "_./:@-", such_as: "registry.example.com/*" };
    let arn = |services, resource| Form { shape: Shape::Arn(services, resource), ..ARN };
    let lists = [
        ("subnets", &policy.subnets, SUBNET),
        ("certificates", &policy.certificates, arn(&["acm", "iam"], "")),
        ("wafs", &policy.wafs, arn(&["wafv2"], "regional/webacl/")),
        ("targetGroups", &policy.target_groups, arn(LB, "targetgroup/")),
        ("sslPolicies", &policy.ssl_policies, SSL_POLICY),
        ("trustStores", &policy.trust_stores, arn(LB, "truststore/")),
        ("userPools", &policy.user_pools, arn(&["cognito-idp"], "userpool/")),
        ("kmsKeys", &policy.kms_keys, arn(&["kms"], "key/")),
        ("logBuckets", &policy.log_buckets, BUCKET),
        ("buckets", &policy.buckets, BUCKET),
        ("endpoints", &policy.endpoints, ENDPOINT),
        ("images", &policy.images, IMAGE),
        ("priorityClasses", &policy.priority_classes, NAME),
        ("serviceAccounts", &policy.service_accounts, NAME),
        ("podMetadata", &policy.pod_metadata, KEY),
        ("serviceAnnotations", &policy.service_annotations, KEY),
    ];
    let of_list = |(field, list, form): (&str, &Option<Vec<String>>, Form)| {
        let bad = list.iter().flatten().find(|pattern| !form.can_match(pattern))?;
        Some(format!("spec.{field}: {bad:?} can match nothing; write for example {}", form.such_as))
    };
    // A name of a security group may have any character that can be printed.
    let of_groups = || {
        let bad = policy.security_groups.iter().flatten().find(|it| it.is_empty() || it.contains(char::is_control))?;
        Some(format!("spec.securityGroups: {bad:?} can match nothing; write for example team-a-*"))
    };
    lists.into_iter().find_map(of_list).or_else(of_groups)
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
            (
                all("inboundCidrs", json!(["10.0.0.0/8", "10.0.0.0/99"])),
                "spec.inboundCidrs: \"10.0.0.0/99\" is no network",
            ),
            (all("targetAddresses", json!(["pl-1"])), "spec.targetAddresses: \"pl-1\" is no network"),
            (all("maxObjects", json!({ "Pod": 1 })), "spec.maxObjects: \"Pod\" is none of MyApp"),
            (all("maxObjects", json!({ "Redis": -1 })), "spec.maxObjects.Redis: invalid value"),
            (all("maxStorage", json!("much")), "spec.maxStorage: \"much\" is no quantity"),
            (all("maxStorage", json!("-1Gi")), "spec.maxStorage: \"-1Gi\" is no quantity"),
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
    #[test]
    fn an_entry_that_no_value_can_match_is_named() {
        let list = |field: &str, entry: &str| json!({ "namespaceSelector": {}, (field): [entry] });
        for (field, good, bad) in [
            (
                "subnets",
                &["subnet-1", "sub*", "*", "*-1"][..],
                &["sg-1", "subnet-", "subnet 1", "net*", "subnet-A b"][..],
            ),
            ("securityGroups", &["sg-1", "Team A *", "*"], &["", "a\nb", "\u{1b}[2K"]),
            ("inboundCidrs", &["10.0.0.0/8", "pl-1"], &["pl-", "pl-*", "pl-A", "10.0.0.0", "*", " 10.0.0.0/8"]),
            ("targetAddresses", &["fd00::/8"], &["*", "10.0.0.0/8\n"]),
            (
                "certificates",
                &["arn:aws:acm:*", "*", "a*/x"],
                &["aws:acm:*", "arn:aws:acm: *", "arn:", "certificate/*"],
            ),
            ("wafs", &["arn:*"], &["waf*"]),
            ("targetGroups", &["arn:*"], &["targetgroup/*"]),
            ("sslPolicies", &["ELBSecurityPolicy-TLS13-1-2-*", "*"], &["arn:aws:a", "TLS 1.3"]),
            ("trustStores", &["arn:*"], &["truststore/*"]),
            ("userPools", &["arn:*"], &["eu-west-1_a"]),
            ("kmsKeys", &["arn:aws:kms:*:*:key/*"], &["alias/x", "1234abcd-*"]),
            ("logBuckets", &["logs"], &["s3://logs", "logs/", "a logs"]),
            ("buckets", &["backups-*"], &["backups *", "arn:aws:s3:::backups"]),
            (
                "endpoints",
                &["https://a:9000", "http*", "*"],
                &["minio.example.com", "ftp://a", "https://", "https://a b"],
            ),
            ("images", &["redis:*", "r.example.com/a@sha256:1"], &["", "redis 7", "redis:7\n", "https://r?x"]),
            ("priorityClasses", &["batch"], &["a b", "a_b"]),
            ("serviceAccounts", &["cache"], &["a/b", "\u{202e}a"]),
            ("podMetadata", &["team", "example.com/*"], &["a b", "team=", "team: x", "a/b/c"]),
            ("serviceAnnotations", &["example.com/*"], &["a b"]),
        ] {
            for entry in good {
                assert_eq!(read(&list(field, entry)).err(), None, "{field} {entry}");
            }
            for entry in bad {
                let problem = read(&list(field, entry)).expect_err(entry);
                assert!(problem.starts_with(&format!("spec.{field}: ")), "{entry:?}: {problem}");
                assert!(!problem.contains(char::is_control), "{problem:?}");
            }
        }
    }
}
