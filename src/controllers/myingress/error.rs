//! What can go wrong with a balancer, told by field and fix.

use crate::external::aws::{AwsError, NO_CREDENTIALS};
use crate::runtime::{Class, Failure, class_of_kubernetes, said};

/// Reason of a Secret that may not be read.
pub const SECRET_DENIED: &str = "SecretDenied";

/// Why observing or changing a balancer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A subnet does not exist, or not in this account and region.
    #[error("spec.subnets: AWS knows no such subnet ({0}); use ids of subnets of the operator's account and region")]
    SubnetNotFound(String),
    /// The subnets do not fit together.
    #[error(
        "spec.subnets: AWS refuses these subnets ({0}); give one subnet in each of at least two availability zones of one VPC, with 8 free addresses each"
    )]
    SubnetsInvalid(String),
    /// A security group does not exist, or not in the balancer's VPC.
    #[error("spec.securityGroups: AWS refuses these groups ({0}); use ids of groups in the VPC of the subnets")]
    SecurityGroupsInvalid(String),
    /// An attribute or its value is not known to AWS.
    #[error("spec.attributes: AWS refuses them ({0}); correct the key or the value")]
    AttributesInvalid(String),
    /// A tag is not allowed.
    #[error("spec.tags: AWS refuses them ({0}); correct the key or the value")]
    TagsInvalid(String),
    /// A quota is used up.
    #[error("AWS quota reached ({0}); delete what is not needed or ask for a higher quota in Service Quotas")]
    QuotaReached(String),
    /// Deletion protection is on.
    #[error(
        "deletion protection is on ({0}); set spec.attributes[deletion_protection.enabled] to \"false\", or use deletionPolicy Retain"
    )]
    DeletionProtected(String),
    /// A certificate does not exist, or does not fit.
    #[error(
        "spec.listeners: AWS refuses the certificates ({0}); name issued certificates of the operator's account and region in certificateArns"
    )]
    CertificateInvalid(String),
    /// A listener or its settings are refused.
    #[error("spec.listeners: AWS refuses the listener ({0}); correct its fields")]
    ListenerInvalid(String),
    /// A rule is refused.
    #[error("spec.listeners[].rules: AWS refuses the rule ({0}); correct its conditions or its action")]
    RuleInvalid(String),
    /// A target group or its settings are refused.
    #[error("spec.backends: AWS refuses the target group ({0}); correct its fields")]
    TargetGroupInvalid(String),
    /// The web ACL is refused.
    #[error("spec.wafAclArn: AWS refuses it ({0}); use a regional web ACL of the operator's account and region")]
    WebAclInvalid(String),
    /// The capacity is refused.
    #[error("spec.minimumCapacityUnits: AWS refuses it ({0}); choose another number")]
    CapacityInvalid(String),
    /// Inbound rules are refused.
    #[error("spec.inboundCidrs: AWS refuses the security group's rules ({0}); name fewer networks, or correct them")]
    InboundInvalid(String),
    /// A Secret may not be read.
    #[error(
        "spec.listeners: the operator may not read Secret {name} in namespace {namespace}; bind the role causeway-secrets there, see docs/myingress.md"
    )]
    SecretDenied {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Secret could not be read.
    #[error("a Secret could not be read: {}", said(.0))]
    SecretUnread(#[source] kube::Error),
    /// Services and endpoints cannot be read.
    #[error("the Services and endpoints of the cluster cannot be read: {0}")]
    EndpointsUnread(String),
    /// Any other refusal for which only a person can do something.
    #[error("AWS refuses the balancer: {0}")]
    Refused(#[source] AwsError),
    /// The operator cannot sign its calls.
    #[error(transparent)]
    NoCredentials(AwsError),
    /// A permission is missing.
    #[error(transparent)]
    Denied(AwsError),
    /// Somebody else was faster.
    #[error(transparent)]
    Raced(AwsError),
    /// AWS asks us to slow down.
    #[error("AWS throttles {}; trying again", .0.operation)]
    Throttled(AwsError),
    /// It may work the next time.
    #[error(transparent)]
    Transient(AwsError),
}

impl Error {
    /// What AWS's answer means for the object.
    pub fn of(error: AwsError) -> Self {
        let text = error.message.clone();
        match (error.class, error.code.as_deref(), error.operation) {
            (Class::Invalid, Some("SubnetNotFound"), _) | (Class::Invalid | Class::NotFound, _, "DescribeSubnets") => {
                Self::SubnetNotFound(text)
            }
            (Class::Invalid, Some("InvalidSecurityGroup"), _) | (Class::Invalid, _, "SetSecurityGroups") => {
                Self::SecurityGroupsInvalid(text)
            }
            (Class::Invalid, Some("OperationNotPermitted"), "DeleteLoadBalancer") => Self::DeletionProtected(text),
            (Class::Invalid, _, "ModifyLoadBalancerAttributes") => Self::AttributesInvalid(text),
            (Class::Invalid, _, "AddTags") | (Class::Invalid, Some("DuplicateTagKeys"), _) => Self::TagsInvalid(text),
            (
                Class::Invalid,
                Some("InvalidSubnet" | "InvalidConfigurationRequest" | "AvailabilityZoneNotSupported"),
                _,
            )
            | (Class::Invalid, _, "SetSubnets") => Self::SubnetsInvalid(text),
            (Class::Invalid, Some("CertificateNotFound"), _) | (Class::Invalid, _, "AddListenerCertificates") => {
                Self::CertificateInvalid(text)
            }
            (
                Class::Invalid,
                _,
                "CreateListener" | "ModifyListener" | "ModifyListenerAttributes" | "RemoveListenerCertificates",
            ) => Self::ListenerInvalid(text),
            (Class::Invalid, _, "CreateRule" | "ModifyRule" | "SetRulePriorities") => Self::RuleInvalid(text),
            (Class::Invalid, _, "CreateTargetGroup" | "ModifyTargetGroup" | "ModifyTargetGroupAttributes") => {
                Self::TargetGroupInvalid(text)
            }
            (Class::Invalid, _, "AssociateWebACL") => Self::WebAclInvalid(text),
            (Class::Invalid, _, "ModifyCapacityReservation") => Self::CapacityInvalid(text),
            (Class::Invalid, _, "AuthorizeSecurityGroupIngress") => Self::InboundInvalid(text),
            (Class::Denied, Some(code), _) if code.starts_with("TooMany") || code.ends_with("LimitExceeded") => {
                Self::QuotaReached(text)
            }
            (Class::Invalid, ..) => Self::Refused(error),
            (Class::Denied, Some(NO_CREDENTIALS), _) => Self::NoCredentials(error),
            (Class::Denied, ..) => Self::Denied(error),
            (Class::Conflict | Class::NotFound, ..) => Self::Raced(error),
            (Class::Throttled, ..) => Self::Throttled(error),
            (Class::Early | Class::Transient, ..) => Self::Transient(error),
        }
    }
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::SubnetNotFound(_)
            | Self::SubnetsInvalid(_)
            | Self::SecurityGroupsInvalid(_)
            | Self::AttributesInvalid(_)
            | Self::TagsInvalid(_)
            | Self::DeletionProtected(_)
            | Self::CertificateInvalid(_)
            | Self::ListenerInvalid(_)
            | Self::RuleInvalid(_)
            | Self::TargetGroupInvalid(_)
            | Self::WebAclInvalid(_)
            | Self::CapacityInvalid(_)
            | Self::InboundInvalid(_)
            | Self::Refused(_) => Class::Invalid,
            Self::SecretUnread(error) => class_of_kubernetes(error),
            Self::EndpointsUnread(_) => Class::Transient,
            Self::SecretDenied { .. } | Self::QuotaReached(_) | Self::NoCredentials(_) | Self::Denied(_) => {
                Class::Denied
            }
            Self::Raced(error) | Self::Throttled(error) | Self::Transient(error) => error.class,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::SubnetNotFound(_) => "SubnetNotFound",
            Self::SubnetsInvalid(_) => "SubnetsInvalid",
            Self::SecurityGroupsInvalid(_) => "SecurityGroupsInvalid",
            Self::AttributesInvalid(_) => "AttributesInvalid",
            Self::TagsInvalid(_) => "TagsInvalid",
            Self::QuotaReached(_) => "QuotaReached",
            Self::DeletionProtected(_) => "DeletionProtected",
            Self::CertificateInvalid(_) => "CertificateInvalid",
            Self::ListenerInvalid(_) => "ListenerInvalid",
            Self::RuleInvalid(_) => "RuleInvalid",
            Self::TargetGroupInvalid(_) => "TargetGroupInvalid",
            Self::WebAclInvalid(_) => "WebAclInvalid",
            Self::CapacityInvalid(_) => "CapacityInvalid",
            Self::InboundInvalid(_) => "InboundInvalid",
            Self::SecretDenied { .. } => SECRET_DENIED,
            Self::SecretUnread(_) => "SecretUnread",
            Self::EndpointsUnread(_) => "EndpointsUnread",
            Self::Refused(_) => "Refused",
            Self::NoCredentials(_) => "CredentialsMissing",
            Self::Denied(_) => "PermissionMissing",
            Self::Raced(_) => "Raced",
            Self::Throttled(_) => "Throttled",
            Self::Transient(_) => "AwsUnavailable",
        }
    }
}
