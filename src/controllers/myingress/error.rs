//! What can go wrong with a balancer, told by field and fix.

use crate::external::aws::{AwsError, NO_CREDENTIALS};
use crate::runtime::{Class, Failure};

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
            (Class::Invalid, Some("SubnetNotFound"), _) => Self::SubnetNotFound(text),
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
            (Class::Denied, Some("TooManyLoadBalancers" | "TooManyTags"), _) => Self::QuotaReached(text),
            (Class::Invalid, ..) => Self::Refused(error),
            (Class::Denied, Some(NO_CREDENTIALS), _) => Self::NoCredentials(error),
            (Class::Denied, ..) => Self::Denied(error),
            (Class::Conflict | Class::NotFound, ..) => Self::Raced(error),
            (Class::Throttled, ..) => Self::Throttled(error),
            (Class::Transient, ..) => Self::Transient(error),
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
            | Self::Refused(_) => Class::Invalid,
            Self::QuotaReached(_) | Self::NoCredentials(_) | Self::Denied(_) => Class::Denied,
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
            Self::Refused(_) => "Refused",
            Self::NoCredentials(_) => "CredentialsMissing",
            Self::Denied(_) => "PermissionMissing",
            Self::Raced(_) => "Raced",
            Self::Throttled(_) => "Throttled",
            Self::Transient(_) => "AwsUnavailable",
        }
    }
}
