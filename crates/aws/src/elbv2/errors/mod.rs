//! Classes of the service's error codes.

use causeway_runtime::Class;

/// Classes of the service's own codes, as its actions list them under "Errors".
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Operations.html>
pub(super) fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "LoadBalancerNotFound" | "TargetGroupNotFound" | "ListenerNotFound" | "RuleNotFound" | "ResourceNotFound" => {
            Class::NotFound
        }
        "DuplicateLoadBalancerName"
        | "DuplicateTargetGroupName"
        | "DuplicateListener"
        | "PriorityInUse"
        | "ResourceInUse" => Class::Conflict,
        // Quotas, except for the first ones. Raising a quota takes a request to AWS.
        "CapacityDecreaseRequestLimitExceeded"
        | "CapacityUnitsLimitExceeded"
        | "TooManyActions"
        | "TooManyCertificates"
        | "TooManyListeners"
        | "TooManyLoadBalancers"
        | "TooManyRegistrationsForTargetId"
        | "TooManyRules"
        | "TooManyTags"
        | "TooManyTargetGroups"
        | "TooManyTargets"
        | "TooManyUniqueTargetGroupsPerLoadBalancer" => Class::Denied,
        "CapacityReservationPending" | "HealthUnavailable" | "InsufficientCapacity" => Class::Transient,
        "ALPNPolicyNotFound"
        | "AllocationIdNotFound"
        | "AvailabilityZoneNotSupported"
        | "CertificateNotFound"
        | "DuplicateTagKeys"
        | "IncompatibleProtocols"
        | "InvalidConfigurationRequest"
        | "InvalidLoadBalancerAction"
        | "InvalidScheme"
        | "InvalidSecurityGroup"
        | "InvalidSubnet"
        | "InvalidTarget"
        | "OperationNotPermitted"
        | "SSLPolicyNotFound"
        | "SubnetNotFound"
        | "TargetGroupAssociationLimit"
        | "TrustStoreNotFound"
        | "TrustStoreNotReady"
        | "UnsupportedCertificate"
        | "UnsupportedFeature"
        | "UnsupportedProtocol"
        | "ValidationError" => Class::Invalid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
