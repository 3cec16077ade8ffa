//! The errors of a balancer, reported with field and fix.

use causeway_api::MyIngress;
use causeway_aws::Unsigned;
use causeway_aws::aws::AwsError;
use causeway_aws::wafv2::{NONEXISTENT, UNAVAILABLE};
use causeway_runtime::consent;
use causeway_runtime::{Class, Failure, api_message, class_of_kubernetes};

use super::action::{Action, SecurityAction};
use super::ownership::Owner;
use crate::observe::lacking::TARGET_GROUP_NOT_FOUND;
use crate::refusals::field::{field_of, is_named, unprotecting};

/// Condition reason if a Secret may not be read.
pub const SECRET_DENIED: &str = "SecretDenied";

/// Condition reason if a quota of AWS is used up.
pub const QUOTA_REACHED: &str = "QuotaReached";

/// Condition reason if the operator lacks a permission of AWS.
pub const PERMISSION_MISSING: &str = "PermissionMissing";

/// Condition reason while AWS WAF does not know a new balancer or web ACL yet.
pub const WEB_ACL_PENDING: &str = "WebAclPending";

/// The fix for a certificate that AWS does not take.
const ISSUED: &str = "name issued certificates of the operator's account and region";

/// The reason why observing or changing a balancer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A subnet does not exist, or not in this account and region.
    #[error("spec.subnets: AWS knows no such subnet ({0}); use ids of subnets of the operator's account and region")]
    SubnetNotFound(String),
    /// The subnets do not fit together.
    #[error(
        "spec.subnets: AWS refuses these subnets ({0}); give one subnet in each of at least two availability zones of one VPC, with 8 free addresses each, and with an IPv6 CIDR block each unless spec.ipAddressType is ipv4"
    )]
    SubnetsInvalid(String),
    /// A security group does not exist, or not in the balancer's VPC.
    #[error("spec.securityGroups: AWS refuses these groups ({0}); use ids of groups in the VPC of the subnets")]
    SecurityGroupsInvalid(String),
    /// An attribute or its value is not known to AWS.
    #[error("{0}")]
    AttributesInvalid(Refusal),
    /// A tag is not allowed.
    #[error("spec.tags: AWS refuses them ({0}); correct the key or the value")]
    TagsInvalid(String),
    /// A quota is used up.
    #[error("AWS quota reached ({0}); delete what is not needed or ask for a higher quota in Service Quotas")]
    QuotaReached(String),
    /// Deletion protection is on.
    #[error(
        "spec.deletionProtection: AWS does not delete the load balancer while its deletion protection is on ({api_message}); {fix}"
    )]
    DeletionProtected {
        /// AWS's words.
        api_message: String,
        fix: String,
    },
    /// A certificate does not exist, or does not fit.
    #[error("{0}")]
    CertificateInvalid(Refusal),
    /// AWS knows no such certificate. A new one becomes known late.
    #[error("{0}")]
    CertificateUnknown(Refusal),
    /// A listener or its settings are refused.
    #[error("{0}")]
    ListenerInvalid(Refusal),
    /// A rule is refused.
    #[error("{0}")]
    RuleInvalid(Refusal),
    /// A target group or its settings are refused.
    #[error("{0}")]
    TargetGroupInvalid(Refusal),
    /// AWS knows no such trust store, or it is not active yet.
    #[error("{0}")]
    TrustStoreUnknown(Refusal),
    /// AWS knows no such target group.
    #[error("{0}")]
    TargetGroupUnknown(Refusal),
    /// The web ACL is refused.
    #[error("spec.wafAclArn: AWS refuses it ({0}); use a regional web ACL of the operator's account and region")]
    WebAclInvalid(String),
    /// AWS WAF does not know the web ACL. A new one becomes known late.
    #[error(
        "spec.wafAclArn: AWS WAF knows no such web ACL ({0}); use a regional web ACL of the operator's account and region"
    )]
    WebAclUnknown(String),
    /// AWS WAF does not know the balancer or the web ACL yet.
    #[error(
        "spec.wafAclArn: AWS WAF does not take it yet ({0}); trying again. A new load balancer has no listeners before it \
         has its web ACL"
    )]
    WebAclPending(String),
    /// The capacity is refused.
    #[error("spec.minimumCapacityUnits: AWS refuses it ({0}); choose another number")]
    CapacityInvalid(String),
    /// Inbound rules are refused.
    #[error("{0}")]
    InboundInvalid(Refusal),
    /// A rule in a security group of the targets is refused.
    #[error(
        "spec.targetSecurityGroups: AWS refuses a rule in {group} ({api_message}); name another group, or correct it"
    )]
    TargetSecurityGroupInvalid {
        group: String,
        /// AWS's words.
        api_message: String,
    },
    /// A security group of another owner has the name of ours.
    #[error("{0}")]
    SecurityGroupTaken(String),
    /// A Secret may not be read.
    #[error(
        "the operator may not read Secret {name} in namespace {namespace}; bind the role causeway-secrets there, see docs/myingress.md"
    )]
    SecretDenied { namespace: String, name: String },
    /// The owner of a Secret has not agreed to its use.
    #[error(
        "Secret {name} in namespace {namespace} is not labelled for use in AWS: its owner must add the \
         label: {}. What is in AWS stays as it is",
        consent::command(.namespace, .name, consent::MYINGRESS)
    )]
    SecretNotShared { namespace: String, name: String },
    /// A Secret could not be read.
    #[error("a Secret could not be read: {}", api_message(.0))]
    SecretUnread(#[source] kube::Error),
    /// Services and endpoints cannot be read.
    #[error("the Services and endpoints of the cluster cannot be read: {0}")]
    EndpointsUnread(String),
    /// The objects in the namespace of the group are not known.
    #[error(
        "spec.group: not all MyIngresses of namespace {0} are known, so nothing of this group is changed: the operator's \
         RoleBinding there may be missing, or a MyIngress there is too large to be read (it has an event Undecodable)"
    )]
    GroupUnknown(String),
    /// A security group is still in use. AWS frees it some minutes after its load balancer is gone.
    #[error(
        "{0}. AWS frees a security group some minutes after its load balancer is gone. If this lasts, another load balancer has \
         it: aws ec2 describe-network-interfaces --filters Name=group-id,Values=<its id> finds that; or a rule of another group \
         names it: aws ec2 describe-security-groups --filters Name=ip-permission.group-id,Values=<its id> (for outbound rules, \
         Name=egress.ip-permission.group-id)"
    )]
    SecurityGroupInUse(#[source] AwsError),
    /// Any other refusal for which only a person can do something.
    #[error("AWS refuses the balancer: {0}")]
    Refused(#[source] AwsError),
    /// The operator cannot sign its calls so that AWS accepts them.
    #[error(transparent)]
    Unsigned(AwsError),
    /// A permission is missing.
    #[error(transparent)]
    Denied(AwsError),
    /// Something changed in AWS between our read and our call.
    #[error(transparent)]
    Raced(AwsError),
    /// AWS throttles our calls.
    #[error("AWS throttles {}; trying again", .0.operation)]
    Throttled(AwsError),
    /// The call failed, but may succeed next time.
    #[error(transparent)]
    Transient(AwsError),
}

/// A field that AWS refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: AWS refuses it ({api_message}); {fix}")]
pub struct Refusal {
    field: String,
    api_message: String,
    fix: &'static str,
}

impl Refusal {
    fn new(error: &AwsError, field: Option<&str>, general: &str, fix: &'static str) -> Self {
        let field = field.unwrap_or(general);
        let fix = [
            (
                "accessLogs.bucket",
                "name a bucket of the balancer's region whose policy lets Elastic Load Balancing write",
            ),
            ("accessLogs.prefix", "name the prefix that the bucket's policy lets Elastic Load Balancing write to"),
            ("sslPolicy", "use a policy that `aws elbv2 describe-ssl-policies` lists"),
            ("trustStoreArn", "use the ARN of an active trust store of the operator's account and region"),
        ]
        .into_iter()
        .find(|(end, _)| field.ends_with(end))
        .map_or(fix, |(_, fix)| fix);
        Self { field: field.to_owned(), api_message: error.message.clone(), fix }
    }
}

impl Error {
    /// Translates AWS's answer to an action into an error of the object. The message names the field of its spec that
    /// the action comes from.
    pub fn of_action(error: AwsError, action: &Action, owner: &Owner, object: &MyIngress) -> Self {
        let field = match error.class {
            Class::Invalid => field_of(&error, action, owner, object),
            _ => None,
        };
        let in_targets = match action {
            // The spec names the group. If ours is gone, it is made again.
            Action::Security(SecurityAction::LetIn(entry))
                if error.class == Class::NotFound && is_named(&entry.group, &error.message) =>
            {
                Some(entry)
            }
            Action::Security(SecurityAction::LetIn(entry) | SecurityAction::ShutOut(entry))
                if error.class == Class::Invalid =>
            {
                Some(entry)
            }
            _ => None,
        };
        if let Some(entry) = in_targets {
            return Self::TargetSecurityGroupInvalid { group: entry.group.clone(), api_message: error.message };
        }
        match Self::describe(error, field.as_deref()) {
            Self::DeletionProtected { api_message, .. } => {
                Self::DeletionProtected { api_message, fix: unprotecting(object) }
            }
            other => other,
        }
    }

    /// Translates AWS's answer into an error of the object.
    pub fn from_aws(error: AwsError) -> Self {
        Self::describe(error, None)
    }

    /// Reports whether AWS may only not know yet what the spec names: it learns of something new a little late.
    /// Terraform tries new certificates again, too.
    /// <https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/elbv2/listener_certificate.go>
    pub fn may_be_too_early(&self) -> bool {
        matches!(
            self,
            Self::CertificateUnknown(_)
                | Self::WebAclUnknown(_)
                | Self::TrustStoreUnknown(_)
                | Self::TargetGroupUnknown(_)
        )
    }

    fn describe(error: AwsError, field: Option<&str>) -> Self {
        if error.unsigned_reason().is_some() {
            return Self::Unsigned(error);
        }
        let text = error.message.clone();
        let refusal = |general, fix| Refusal::new(&error, field, general, fix);
        match (error.class, error.code.as_deref(), error.operation) {
            (Class::Invalid, Some("SubnetNotFound"), _) | (Class::Invalid | Class::NotFound, _, "DescribeSubnets") => {
                Self::SubnetNotFound(text)
            }
            (Class::Invalid, Some("InvalidSecurityGroup"), _) | (Class::Invalid, _, "SetSecurityGroups") => {
                Self::SecurityGroupsInvalid(text)
            }
            (Class::Invalid, Some("OperationNotPermitted"), "DeleteLoadBalancer") => {
                Self::DeletionProtected { api_message: text, fix: "set it to false, or use deletionPolicy Retain".into() }
            }
            (Class::Invalid, _, "ModifyLoadBalancerAttributes") => {
                Self::AttributesInvalid(refusal("spec.attributes", "correct the key or the value"))
            }
            (Class::Invalid, _, "AddTags") | (Class::Invalid, Some("DuplicateTagKeys"), _) => Self::TagsInvalid(text),
            (Class::Invalid, Some("InvalidSubnet" | "AvailabilityZoneNotSupported"), _)
            // For a listener, a rule or a target group this code means something else.
            | (Class::Invalid, Some("InvalidConfigurationRequest"), "CreateLoadBalancer")
            | (Class::Invalid, _, "SetSubnets") => Self::SubnetsInvalid(text),
            // AWS answers so where subnets have no IPv6 CIDR block.
            // <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/4852>
            (Class::Invalid, Some("ValidationError"), "CreateLoadBalancer" | "SetIpAddressType")
                if text.contains("subnet") =>
            {
                Self::SubnetsInvalid(text)
            }
            (Class::Invalid, Some("UnsupportedCertificate"), _) => Self::CertificateInvalid(refusal(
                "spec.listeners[].certificateArns",
                "name a certificate for a domain, with a key and a signature that Elastic Load Balancing supports",
            )),
            // Its owner is another one, who may still be setting it up.
            (Class::Invalid, Some("TrustStoreNotFound" | "TrustStoreNotReady"), _) => Self::TrustStoreUnknown(refusal(
                "spec.listeners[].mutualAuthentication.trustStoreArn",
                "use the ARN of an active trust store of the operator's account and region",
            )),
            (Class::Invalid, Some("TargetGroupNotFound"), _) => Self::TargetGroupUnknown(refusal(
                "spec.listeners[]….forward.targetGroups",
                "create it in the operator's account and region, or correct the ARN",
            )),
            (Class::Invalid, Some("CertificateNotFound"), _) => {
                Self::CertificateUnknown(refusal("spec.listeners[].certificateArns", ISSUED))
            }
            (Class::Invalid, _, "AddListenerCertificates") => {
                Self::CertificateInvalid(refusal("spec.listeners[].certificateArns", ISSUED))
            }
            (
                Class::Invalid,
                _,
                "CreateListener" | "ModifyListener" | "ModifyListenerAttributes" | "RemoveListenerCertificates",
            ) => Self::ListenerInvalid(refusal("spec.listeners", "correct the field")),
            (Class::Invalid, _, "CreateRule" | "ModifyRule" | "SetRulePriorities") => {
                Self::RuleInvalid(refusal("spec.listeners[].rules", "correct its conditions or its action"))
            }
            (Class::Invalid, _, "CreateTargetGroup" | "ModifyTargetGroup" | "ModifyTargetGroupAttributes") => {
                Self::TargetGroupInvalid(refusal("spec.backends", "correct its fields"))
            }
            (Class::Invalid, Some(NONEXISTENT), "AssociateWebACL") => Self::WebAclUnknown(text),
            (Class::Invalid, _, "AssociateWebACL") => Self::WebAclInvalid(text),
            (Class::Transient, Some(NONEXISTENT | UNAVAILABLE), "AssociateWebACL") => Self::WebAclPending(text),
            (Class::Invalid, _, "ModifyCapacityReservation") => Self::CapacityInvalid(text),
            (Class::Invalid, _, "AuthorizeSecurityGroupIngress") => Self::InboundInvalid(refusal(
                "spec.inboundCidrs, spec.inboundPrefixLists",
                "name networks and prefix lists of the operator's account and region, or fewer of them",
            )),
            (Class::Invalid, Some("InvalidGroup.Duplicate"), _) => Self::SecurityGroupTaken(text),
            (Class::Denied, Some(code), _) if code.starts_with("TooMany") || code.ends_with("LimitExceeded") => {
                Self::QuotaReached(text)
            }
            (Class::Invalid, ..) => Self::Refused(error),
            (Class::Denied, ..) => Self::Denied(error),
            (Class::Conflict, Some("DependencyViolation"), "DeleteSecurityGroup") => Self::SecurityGroupInUse(error),
            (Class::Conflict | Class::NotFound, ..) => Self::Raced(error),
            (Class::Throttled, ..) => Self::Throttled(error),
            (Class::NotYet | Class::Transient, ..) => Self::Transient(error),
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
            | Self::DeletionProtected { .. }
            | Self::CertificateInvalid(_)
            | Self::CertificateUnknown(_)
            | Self::ListenerInvalid(_)
            | Self::RuleInvalid(_)
            | Self::TargetGroupInvalid(_)
            | Self::TargetGroupUnknown(_)
            | Self::TrustStoreUnknown(_)
            | Self::WebAclInvalid(_)
            | Self::WebAclUnknown(_)
            | Self::CapacityInvalid(_)
            | Self::InboundInvalid(_)
            | Self::TargetSecurityGroupInvalid { .. }
            | Self::SecurityGroupTaken(_)
            | Self::Refused(_) => Class::Invalid,
            Self::SecretUnread(error) => class_of_kubernetes(error),
            Self::EndpointsUnread(_) | Self::GroupUnknown(_) | Self::WebAclPending(_) => Class::Transient,
            Self::SecretDenied { .. } | Self::SecretNotShared { .. } | Self::QuotaReached(_) | Self::Denied(_) => {
                Class::Denied
            }
            Self::Unsigned(error)
            | Self::SecurityGroupInUse(error)
            | Self::Raced(error)
            | Self::Throttled(error)
            | Self::Transient(error) => error.class,
        }
    }

    fn needs_person(&self) -> bool {
        matches!(self, Self::Unsigned(_)) || self.class().needs_person()
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::SubnetNotFound(_) => "SubnetNotFound",
            Self::SubnetsInvalid(_) => "SubnetsInvalid",
            Self::SecurityGroupsInvalid(_) => "SecurityGroupsInvalid",
            Self::AttributesInvalid(_) => "AttributesInvalid",
            Self::TagsInvalid(_) => "TagsInvalid",
            Self::QuotaReached(_) => QUOTA_REACHED,
            Self::DeletionProtected { .. } => "DeletionProtected",
            Self::CertificateInvalid(_) | Self::CertificateUnknown(_) => "CertificateInvalid",
            Self::ListenerInvalid(_) | Self::TrustStoreUnknown(_) => "ListenerInvalid",
            Self::TargetGroupUnknown(_) => TARGET_GROUP_NOT_FOUND,
            Self::RuleInvalid(_) => "RuleInvalid",
            Self::TargetGroupInvalid(_) => "TargetGroupInvalid",
            Self::WebAclInvalid(_) | Self::WebAclUnknown(_) => "WebAclInvalid",
            Self::WebAclPending(_) => WEB_ACL_PENDING,
            Self::CapacityInvalid(_) => "CapacityInvalid",
            Self::InboundInvalid(_) => "InboundInvalid",
            Self::TargetSecurityGroupInvalid { .. } => "TargetSecurityGroupInvalid",
            Self::SecurityGroupTaken(_) => "OwnershipLost",
            Self::SecretDenied { .. } => SECRET_DENIED,
            Self::SecretNotShared { .. } => "SecretNotShared",
            Self::SecretUnread(_) => "SecretUnread",
            Self::EndpointsUnread(_) => "EndpointsUnread",
            Self::GroupUnknown(_) => "GroupUnknown",
            Self::Refused(_) => "Refused",
            Self::Unsigned(error) => error.unsigned_reason().map_or("AwsUnavailable", Unsigned::reason),
            Self::Denied(_) => PERMISSION_MISSING,
            Self::SecurityGroupInUse(_) | Self::Raced(_) => "Raced",
            Self::Throttled(_) => "Throttled",
            Self::Transient(_) => "AwsUnavailable",
        }
    }
}

#[cfg(test)]
mod tests;
