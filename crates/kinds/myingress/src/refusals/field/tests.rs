use serde_json::{Value, json};

use causeway_aws::elbv2::Protocol;
use causeway_runtime::Class;

use super::*;
use crate::model::fixtures::{model, standing};

fn error(operation: &'static str, code: &str, message: &str) -> AwsError {
    let (code, message) = (Some(code.to_owned()), message.to_owned());
    AwsError { operation, service: "elasticloadbalancing", code, message, class: Class::Invalid, ambiguous: false }
}

fn owner() -> Owner {
    Owner { cluster: "prod".into(), namespace: "shop".into(), name: "all".into(), uid: "uid-all".into() }
}

fn blamed(error: &AwsError, action: &Action, spec: Value) -> Option<String> {
    field_of(error, action, &owner(), &standing("web", spec))
}

fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn arn(name: &str) -> String {
    format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}")
}

fn listener(settings: ListenerSettings) -> Action {
    Action::Listener(ListenerAction::Create { balancer: "b".into(), settings, tags: Pairs::new() })
}

fn https(port: u16, certificate: &str) -> ListenerSettings {
    ListenerSettings {
        port,
        protocol: Protocol::Https,
        certificate: Some(arn(certificate)),
        ssl_policy: Some("p".into()),
        mutual_authentication: None,
        default_actions: vec![],
    }
}

fn two_listeners() -> Value {
    let store = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:truststore/a/b";
    json!({ "listeners": [
        { "port": 80 },
        { "port": 443, "certificateArns": [arn("a"), arn("b"), arn("c")], "sslPolicy": "p",
          "mutualAuthentication": { "mode": "verify", "trustStoreArn": store } },
    ] })
}

#[test]
fn a_wrong_log_bucket_is_blamed_on_its_field() {
    let attributes =
        pairs(&[("access_logs.s3.bucket", "b"), ("access_logs.s3.enabled", "true"), ("access_logs.s3.prefix", "")]);
    let action = Action::Balancer(BalancerAction::SetAttributes { arn: "b".into(), attributes });
    let api_message = "Access Denied for bucket: logs. Please check S3bucket permission";
    let refused = error("ModifyLoadBalancerAttributes", "InvalidConfigurationRequest", api_message);
    let field = blamed(&refused, &action, json!({ "accessLogs": { "bucket": "logs" } }));
    assert_eq!(field.as_deref(), Some("spec.accessLogs.bucket"));
    let map = json!({ "attributes": { "access_logs.s3.bucket": "logs" } });
    assert_eq!(blamed(&refused, &action, map).as_deref(), Some("spec.attributes[access_logs.s3.bucket]"));
}

#[test]
fn an_attribute_is_called_as_the_spec_calls_it() {
    let spec = json!({ "idleTimeout": "90s", "attributes": { "no.such": "1" } });
    let attributes = pairs(&[("idle_timeout.timeout_seconds", "90"), ("no.such", "1")]);
    let action = Action::Balancer(BalancerAction::SetAttributes { arn: "b".into(), attributes });
    for (api_message, field) in [
        ("Load balancer attribute key 'no.such' is not recognized", "spec.attributes[no.such]"),
        ("The value of 'idle_timeout.timeout_seconds' is not valid", "spec.idleTimeout"),
        ("Something is wrong", "spec.idleTimeout, spec.attributes[no.such]"),
    ] {
        let refused = error("ModifyLoadBalancerAttributes", "ValidationError", api_message);
        assert_eq!(blamed(&refused, &action, spec.clone()).as_deref(), Some(field), "{api_message}");
    }
}

#[test]
fn certificates_policies_and_trust_stores_are_named_by_their_place() {
    let action = listener(https(443, "a"));
    for (code, api_message, field) in [
        ("CertificateNotFound", "not found".to_owned(), "spec.listeners[1].certificateArns[0]"),
        ("UnsupportedCertificate", "it must have a name".to_owned(), "spec.listeners[1].certificateArns[0]"),
        ("SSLPolicyNotFound", "SSL policy 'p' not found".into(), "spec.listeners[1].sslPolicy"),
        ("TrustStoreNotFound", "not found".into(), "spec.listeners[1].mutualAuthentication.trustStoreArn"),
        ("TrustStoreNotReady", "not ready".into(), "spec.listeners[1].mutualAuthentication.trustStoreArn"),
        ("ValidationError", "something else".into(), "spec.listeners[1]"),
    ] {
        let refused = error("CreateListener", code, &api_message);
        assert_eq!(blamed(&refused, &action, two_listeners()).as_deref(), Some(field), "{code}");
    }
    let elsewhere = listener(https(8443, "a"));
    let refused = error("CreateListener", "CertificateNotFound", "not found");
    assert_eq!(blamed(&refused, &elsewhere, two_listeners()), None, "another member has that port");
}

#[test]
fn of_further_certificates_the_one_that_aws_names_is_blamed() {
    let add = |certificates: &[&str]| {
        let certificates = certificates.iter().map(|it| arn(it)).collect();
        let (balancer, listener, port) = ("b".into(), "l".into(), 443);
        Action::Listener(ListenerAction::AddCertificates { balancer, arn: listener, port, certificates })
    };
    let api_message = format!("Certificate ARN '{}' is not valid", arn("c"));
    let refused = error("AddListenerCertificates", "CertificateNotFound", &api_message);
    let field = |certificates| blamed(&refused, &add(certificates), two_listeners());
    assert_eq!(field(&["b", "c"]).as_deref(), Some("spec.listeners[1].certificateArns[2]"));
    let vague = error("AddListenerCertificates", "CertificateNotFound", "not found");
    let field = |certificates| blamed(&vague, &add(certificates), two_listeners());
    assert_eq!(field(&["b"]).as_deref(), Some("spec.listeners[1].certificateArns[1]"));
    assert_eq!(field(&["b", "c"]).as_deref(), Some("spec.listeners[1].certificateArns"));
}

#[test]
fn a_rule_is_found_by_its_conditions() {
    let rule = |host: &str| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } });
    let spec = json!({ "listeners": [{ "port": 80, "rules": [rule("a.example.com"), rule("b.example.com")] }] });
    let settings = model(spec.clone()).listeners[&80].rules[1].settings.clone();
    let (balancer, listener) = ("b".into(), "l".into());
    let create = ListenerAction::CreateRule { balancer, listener, port: 80, priority: 2, settings, tags: Pairs::new() };
    let refused = error("CreateRule", "ValidationError", "no");
    let field = blamed(&refused, &Action::Listener(create), spec);
    assert_eq!(field.as_deref(), Some("spec.listeners[0].rules[1]"));
}

#[test]
fn a_target_group_is_found_by_its_name() {
    let forward = |name: &str, port: u16| json!({ "port": port, "defaultAction": { "forward": { "backends": [{ "name": name }] } } });
    let spec = json!({
        "listeners": [forward("a", 80), forward("b", 81)],
        "backends": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80, "slowStart": "30s" }],
    });
    let groups = model(spec.clone()).groups;
    let (name, _) = groups.into_iter().find(|(_, group)| group.backend_name == "b").unwrap();
    let attributes = pairs(&[("slow_start.duration_seconds", "30")]);
    let refused = error("ModifyTargetGroupAttributes", "ValidationError", "no");
    let set = GroupAction::SetAttributes { arn: "g".into(), name, attributes };
    let field = blamed(&refused, &Action::Group(set), spec.clone());
    assert_eq!(field.as_deref(), Some("spec.backends[1].slowStart"));
    let stranger = GroupAction::SetAttributes { arn: "g".into(), name: "other".into(), attributes: Pairs::new() };
    assert_eq!(blamed(&refused, &Action::Group(stranger), spec), None);
}

#[test]
fn the_advice_against_deletion_protection_fits_the_spec() {
    let field = standing("web", json!({ "deletionProtection": true }));
    assert!(unprotecting(&field).contains(r#"-p '{"spec":{"deletionProtection":false}}'"#));
    let map = standing("web", json!({ "attributes": { "deletion_protection.enabled": "true" } }));
    assert!(unprotecting(&map).contains(r#"-p '{"spec":{"attributes":{"deletion_protection.enabled":"false"}}}'"#));
}
