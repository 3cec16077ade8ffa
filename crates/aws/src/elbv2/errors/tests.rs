use super::*;
use crate::aws::general_class;

/// The codes of all errors that botocore 1.40.40 lists for the operations that Causeway calls, from `error.code`, which may
/// differ from the name of the error's shape: `data/elbv2/2015-12-01/service-2.json.gz`, read on 2026-11-27.
const OF_THE_MODEL: [&str; 44] = [
    "ALPNPolicyNotFound",
    "AllocationIdNotFound",
    "AvailabilityZoneNotSupported",
    "CapacityDecreaseRequestLimitExceeded",
    "CapacityReservationPending",
    "CapacityUnitsLimitExceeded",
    "CertificateNotFound",
    "DuplicateListener",
    "DuplicateLoadBalancerName",
    "DuplicateTagKeys",
    "DuplicateTargetGroupName",
    "HealthUnavailable",
    "IncompatibleProtocols",
    "InsufficientCapacity",
    "InvalidConfigurationRequest",
    "InvalidLoadBalancerAction",
    "InvalidScheme",
    "InvalidSecurityGroup",
    "InvalidSubnet",
    "InvalidTarget",
    "ListenerNotFound",
    "LoadBalancerNotFound",
    "OperationNotPermitted",
    "PriorRequestNotComplete",
    "PriorityInUse",
    "ResourceInUse",
    "RuleNotFound",
    "SSLPolicyNotFound",
    "SubnetNotFound",
    "TargetGroupAssociationLimit",
    "TargetGroupNotFound",
    "TooManyActions",
    "TooManyCertificates",
    "TooManyListeners",
    "TooManyLoadBalancers",
    "TooManyRegistrationsForTargetId",
    "TooManyRules",
    "TooManyTags",
    "TooManyTargetGroups",
    "TooManyTargets",
    "TooManyUniqueTargetGroupsPerLoadBalancer",
    "TrustStoreNotFound",
    "TrustStoreNotReady",
    "UnsupportedProtocol",
];

/// Codes that AWS answers with although the model does not list them; `localstack/README.md` has the sources.
const BESIDES: [&str; 2] = ["UnsupportedCertificate", "ValidationError"];

#[test]
fn codes_have_classes() {
    for (code, class) in [
        ("RuleNotFound", Some(Class::NotFound)),
        ("PriorityInUse", Some(Class::Conflict)),
        ("TooManyTargets", Some(Class::Denied)),
        ("CapacityDecreaseRequestLimitExceeded", Some(Class::Denied)),
        ("SSLPolicyNotFound", Some(Class::Invalid)),
        ("UnsupportedCertificate", Some(Class::Invalid)),
        ("TrustStoreNotReady", Some(Class::Invalid)),
        // A throttling code that begins like a quota belongs to the general codes.
        ("TooManyRequestsException", None),
    ] {
        assert_eq!(class_of(code), class, "{code}");
    }
}

/// A code without a class counts as a failure that passes by itself, so the object would wait for ever.
#[test]
fn every_code_that_aws_may_answer_with_has_a_class() {
    let all = OF_THE_MODEL.iter().chain(&BESIDES);
    let unknown: Vec<&&str> = all.filter(|code| class_of(code).or_else(|| general_class(code)).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
