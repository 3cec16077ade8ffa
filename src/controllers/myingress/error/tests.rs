use serde_json::json;

use super::*;
use crate::controllers::myingress::action::BalancerAction;
use crate::controllers::myingress::model::fixtures::standing;
use crate::external::elbv2::Pairs;

fn owner() -> Owner {
    Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "uid".into() }
}

#[test]
fn a_refusal_names_the_field_what_aws_said_and_what_to_do() {
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
    assert!(Error::of(error).to_string().starts_with("spec.attributes: AWS refuses it"));
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
fn a_security_group_of_somebody_else_with_our_name_is_reported_and_not_tried_for_ever() {
    let error = AwsError {
        operation: "CreateSecurityGroup",
        service: "ec2",
        code: Some("InvalidGroup.Duplicate".into()),
        message: "security group sg-1 has the name that this object's would have".into(),
        class: Class::Invalid,
        ambiguous: false,
    };
    let error = Error::of(error);
    assert_eq!((error.class(), error.reason()), (Class::Invalid, "OwnershipLost"));
    assert_eq!(error.to_string(), "security group sg-1 has the name that this object's would have");
}
