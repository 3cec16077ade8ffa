use serde_json::json;

use causeway_aws::ec2::{Entry, Permission, Source};
use causeway_aws::elbv2::{Pairs, RuleAction, RuleSettings};

use super::*;
use crate::action::{BalancerAction, ListenerAction};
use crate::model::fixtures::standing;

fn owner() -> Owner {
    Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "uid".into() }
}

#[test]
fn a_refusal_names_field_answer_and_fix() {
    let error = AwsError {
        operation: "ModifyLoadBalancerAttributes",
        service: "elasticloadbalancing",
        code: Some("InvalidConfigurationRequest".into()),
        message: "Access Denied for bucket: logs".into(),
        class: Class::Invalid,
        ambiguous: false,
    };
    let attributes: Pairs = [("access_logs.s3.bucket".to_owned(), "logs".to_owned())].into();
    let action = Action::Balancer(BalancerAction::SetAttributes { arn: "b".into(), attributes });
    let object = standing("web", json!({ "accessLogs": { "bucket": "logs" } }));
    let text = Error::of_action(error.clone(), &action, &owner(), &object);
    assert_eq!(text.reason(), "AttributesInvalid");
    assert_eq!(
        text.to_string(),
        "spec.accessLogs.bucket: AWS refuses it (Access Denied for bucket: logs); name a bucket of the balancer's region \
         whose policy lets Elastic Load Balancing write"
    );
    assert!(Error::from_aws(error).to_string().starts_with("spec.attributes: AWS refuses it"));
}

#[test]
fn only_a_refusal_is_blamed_on_a_field() {
    let error = AwsError {
        operation: "ModifyLoadBalancerAttributes",
        service: "elasticloadbalancing",
        code: Some("Throttling".into()),
        message: "Rate exceeded".into(),
        class: Class::Throttled,
        ambiguous: false,
    };
    let action = Action::Balancer(BalancerAction::SetAttributes { arn: "b".into(), attributes: Pairs::new() });
    let text = Error::of_action(error, &action, &owner(), &standing("web", json!({})));
    assert!(matches!(text, Error::Throttled(_)));
}

#[test]
fn a_foreign_security_group_with_our_name_is_reported() {
    let error = AwsError {
        operation: "CreateSecurityGroup",
        service: "ec2",
        code: Some("InvalidGroup.Duplicate".into()),
        message: "security group sg-1 has the name that this object's would have".into(),
        class: Class::Invalid,
        ambiguous: false,
    };
    let error = Error::from_aws(error);
    assert_eq!((error.class(), error.reason()), (Class::Invalid, "OwnershipLost"));
    assert_eq!(error.to_string(), "security group sg-1 has the name that this object's would have");
}

fn invalid(operation: &'static str, service: &'static str, code: &str, message: &str) -> AwsError {
    let (code, message) = (Some(code.into()), message.into());
    AwsError { operation, service, code, message, class: Class::Invalid, ambiguous: false }
}

#[test]
fn an_unsupported_certificate_is_named_with_its_field() {
    let arn = "arn:aws:acm:eu-west-1:000000000000:certificate/star";
    let words = format!("The certificate '{arn}' must have a fully-qualified domain name");
    let action = Action::Listener(ListenerAction::AddCertificates {
        balancer: "b".into(),
        arn: "l".into(),
        port: 443,
        certificates: [arn.to_owned()].into(),
    });
    let certificates = ["arn:aws:acm:eu-west-1:000000000000:certificate/a", arn];
    let object = standing("web", json!({ "listeners": [{ "port": 443, "certificateArns": certificates }] }));
    let refused = invalid("AddListenerCertificates", "elasticloadbalancing", "UnsupportedCertificate", &words);
    let text = Error::of_action(refused, &action, &owner(), &object);
    assert_eq!(text.reason(), "CertificateInvalid");
    let expected = format!("spec.listeners[0].certificateArns[1]: AWS refuses it ({words}); name a certificate for a");
    assert!(text.to_string().starts_with(&expected), "{text}");
}

#[test]
fn an_unknown_prefix_list_is_named_with_its_field() {
    let words = "The prefix list ID 'pl-1' does not exist";
    let error = Error::from_aws(invalid("AuthorizeSecurityGroupIngress", "ec2", "InvalidPrefixListID.NotFound", words));
    assert_eq!(error.reason(), "InboundInvalid");
    let text = error.to_string();
    assert!(text.starts_with("spec.inboundCidrs, spec.inboundPrefixLists: AWS refuses"), "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_spec_is_not_blamed_while_waf_lags_behind() {
    let unknown = invalid("AssociateWebACL", "wafv2", NONEXISTENT, "the resource doesn't exist");
    let early = Error::from_aws(AwsError { class: Class::Transient, ..unknown.clone() });
    assert_eq!((early.class(), early.reason()), (Class::Transient, "WebAclPending"));
    let late = Error::from_aws(unknown);
    assert_eq!((late.class(), late.reason()), (Class::Invalid, "WebAclInvalid"));
    assert!(late.may_be_too_early(), "the web ACL itself may be new");
    assert!(
        !Error::from_aws(invalid("AssociateWebACL", "wafv2", "WAFInvalidParameterException", "no ARN"))
            .may_be_too_early()
    );
}

#[test]
fn subnets_without_ipv6_are_named_with_their_field() {
    let words = "You must specify subnets with an associated IPv6 CIDR block.";
    for operation in ["CreateLoadBalancer", "SetIpAddressType"] {
        let error = Error::from_aws(invalid(operation, "elasticloadbalancing", "ValidationError", words));
        assert_eq!(error.reason(), "SubnetsInvalid", "{operation}");
        let text = error.to_string();
        assert!(text.starts_with("spec.subnets: AWS refuses") && text.contains(words), "{text}");
    }
    let other = invalid("CreateLoadBalancer", "elasticloadbalancing", "ValidationError", "the name has 33 characters");
    assert_eq!(Error::from_aws(other).reason(), "Refused");
}

#[test]
fn an_unknown_certificate_may_be_new_an_unsupported_one_not() {
    for operation in ["CreateListener", "ModifyListener", "AddListenerCertificates"] {
        let refused = |code: &str| Error::from_aws(invalid(operation, "elasticloadbalancing", code, "no"));
        let (unknown, unsupported) = (refused("CertificateNotFound"), refused("UnsupportedCertificate"));
        assert_eq!([unknown.reason(), unsupported.reason()], ["CertificateInvalid"; 2], "{operation}");
        assert_eq!([unknown.class(), unsupported.class()], [Class::Invalid; 2], "{operation}");
        assert!(unknown.may_be_too_early() && !unsupported.may_be_too_early(), "{operation}");
    }
}

const GROUP: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/legacy/0123456789abcdef";

#[test]
fn an_unknown_target_group_is_named_with_its_field() {
    let forward = json!({ "forward": { "targetGroups": [{ "arn": format!("{GROUP}0") }, { "arn": GROUP }] } });
    let rules = json!([{ "hosts": ["a"], "action": { "fixedResponse": { "statusCode": 200 } } },
        { "hosts": ["b"], "action": forward }]);
    let object = standing("web", json!({ "listeners": [{ "port": 80, "rules": rules }] }));
    let groups = [(GROUP.to_owned(), 1), (format!("{GROUP}0"), 1)].into();
    let actions = vec![RuleAction::Forward { groups, stickiness: None }];
    let settings = RuleSettings { conditions: [].into(), actions, transforms: Vec::new() };
    let (balancer, listener, tags) = ("b".into(), "l".into(), Pairs::new());
    let rule = ListenerAction::CreateRule { balancer, listener, port: 80, priority: 1, settings, tags };
    let words = format!("Target groups '{GROUP}' not found");
    let refused = invalid("CreateRule", "elasticloadbalancing", "TargetGroupNotFound", &words);
    let text = Error::of_action(refused, &Action::Listener(rule), &owner(), &object);
    assert_eq!((text.reason(), text.class(), text.may_be_too_early()), ("TargetGroupNotFound", Class::Invalid, true));
    let expected = format!("spec.listeners[0].rules[1].action.forward.targetGroups[1].arn: AWS refuses it ({words})");
    assert!(text.to_string().starts_with(&expected), "{text}");
}

#[test]
fn a_refused_source_is_named_with_its_field() {
    let object = standing(
        "web",
        json!({
            "inboundPrefixLists": ["pl-12", "pl-1"], "inboundCidrs": ["10.1.2.3/8"],
            "listeners": [{ "port": 80, "inboundCidrs": ["192.0.2.0/24"] }],
        }),
    );
    let list = |id: &str| Source::PrefixList(id.into());
    let network = |it: &str| Source::Network(it.into());
    let all = [list("pl-1"), list("pl-12"), network("10.0.0.0/8"), network("192.0.2.0/24")];
    for (sources, words, field) in [
        (&all[..], "The prefix list ID 'pl-1' does not exist", "spec.inboundPrefixLists[1]"),
        (&all[..], "The prefix list ID 'pl-12' does not exist", "spec.inboundPrefixLists[0]"),
        (&all[..], "CIDR block 10.0.0.0/8 is malformed", "spec.inboundCidrs[0]"),
        (&all[3..], "no", "spec.listeners[0].inboundCidrs[0]"),
        (&all[..], "no", "spec.inboundCidrs, spec.inboundPrefixLists"),
    ] {
        let permissions = sources.iter().map(|source| Permission::tcp(80, source.clone())).collect();
        let action = Action::Security(SecurityAction::Authorize { id: "sg-1".into(), permissions });
        let refused = invalid("AuthorizeSecurityGroupIngress", "ec2", "InvalidPrefixListID.NotFound", words);
        let text = Error::of_action(refused, &action, &owner(), &object).to_string();
        assert!(text.starts_with(&format!("{field}: AWS refuses it ({words})")), "{text}");
    }
}

#[test]
fn a_missing_foreign_group_is_a_mistake_ours_a_race() {
    let entry = Entry {
        group: "sg-nodes".into(),
        from: "sg-own".into(),
        protocol: "tcp".into(),
        ports: None,
        description: String::new(),
    };
    let action = Action::Security(SecurityAction::LetIn(entry));
    let object = standing("web", json!({ "inboundCidrs": ["::/0"], "targetSecurityGroups": ["sg-nodes"] }));
    let missing = |id: &str| {
        let words = format!("The security group '{id}' does not exist");
        let error = invalid("AuthorizeSecurityGroupIngress", "ec2", "InvalidGroup.NotFound", &words);
        Error::of_action(AwsError { class: Class::NotFound, ..error }, &action, &owner(), &object)
    };
    assert_eq!(missing("sg-nodes").reason(), "TargetSecurityGroupInvalid");
    assert_eq!(missing("sg-own").class(), Class::NotFound, "it is made again");
}

#[test]
fn an_inactive_trust_store_is_named_and_tried_again() {
    for code in ["TrustStoreNotReady", "TrustStoreNotFound"] {
        let error = Error::from_aws(invalid("ModifyListener", "elasticloadbalancing", code, "no"));
        assert_eq!((error.reason(), error.class()), ("ListenerInvalid", Class::Invalid), "{code}");
        assert!(error.may_be_too_early() && error.to_string().contains("trustStoreArn"), "{error}");
    }
}

#[test]
fn wrong_clocks_and_credentials_name_the_fix_and_are_retried() {
    for (reason, words) in [
        ("CredentialsMissing", "let its service account assume an IAM role"),
        ("CredentialsInvalid", "renew its keys"),
        ("ClockSkewed", "correct the clock of its node"),
    ] {
        let error =
            invalid("CreateLoadBalancer", "elasticloadbalancing", reason, "RequestExpired: Request has expired.");
        let error = Error::from_aws(AwsError { class: Unsigned::CLASS, ..error });
        assert_eq!((error.reason(), error.class(), error.needs_person()), (reason, Class::Transient, true));
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains("RequestExpired") && text.contains("docs/operations.md"),
            "{text}"
        );
    }
}
