//! Web ACLs of AWS WAF in front of balancers.
//!
//! <https://docs.aws.amazon.com/waf/latest/APIReference/Welcome.html>

use aws_config::SdkConfig;
use aws_sdk_wafv2::Client;
use aws_sdk_wafv2::config::Builder;

use causeway_runtime::Class;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::aws::{AwsError, Caller, FenceGuard, timeouts};
use super::budget::Budget;

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Wafv2 {
    client: Client,
    caller: Caller,
}

impl Wafv2 {
    /// A client that counts into `metrics`, changes things only while `fence` is open, and waits for its share of AWS's
    /// rates as `budget` says. They allow a call every one or two seconds.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence, budget: Budget) -> Self {
        Self {
            client: Client::from_conf(
                Builder::from(config).timeout_config(timeouts()).interceptor(FenceGuard(fence)).build(),
            ),
            caller: Caller { service: "wafv2", metrics, class_of, budget },
        }
    }

    /// Returns a client for work that can wait: it makes only the calls that no other caller needs.
    #[must_use]
    pub fn in_background(&self) -> Self {
        Self { client: self.client.clone(), caller: self.caller.in_background() }
    }

    /// Returns the ARN of the web ACL in front of a balancer; `None` if the balancer is gone.
    pub async fn web_acl_of(&self, resource_arn: &str) -> Result<Option<String>, AwsError> {
        let call = self.client.get_web_acl_for_resource().resource_arn(resource_arn);
        match self.caller.call_again("GetWebACLForResource", || call.clone().send()).await {
            Ok(answer) => Ok(answer.web_acl.map(|acl| acl.arn)),
            Err(error) if error.is(NONEXISTENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a balancer behind a web ACL, which replaces any other.
    pub async fn associate(&self, acl_arn: &str, resource_arn: &str) -> Result<(), AwsError> {
        let call = self.client.associate_web_acl().web_acl_arn(acl_arn).resource_arn(resource_arn);
        self.caller.call_again("AssociateWebACL", || call.clone().send()).await.map(drop)
    }

    /// Removes the web ACL of a balancer. For a balancer that is gone, this succeeds.
    pub async fn disassociate(&self, resource_arn: &str) -> Result<(), AwsError> {
        let call = self.client.disassociate_web_acl().resource_arn(resource_arn);
        match self.caller.call_again("DisassociateWebACL", || call.clone().send()).await {
            Err(error) if !error.is(NONEXISTENT) => Err(error),
            _ => Ok(()),
        }
    }
}

/// WAF knows no such balancer or web ACL, or does not know it yet.
pub const NONEXISTENT: &str = "WAFNonexistentItemException";

/// WAF knows the balancer, but cannot change it yet.
pub const UNAVAILABLE: &str = "WAFUnavailableEntityException";

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/waf/latest/APIReference/API_AssociateWebACL.html#API_AssociateWebACL_Errors>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        // The spec names the web ACL, so only the user can name another.
        "WAFInvalidOperationException" | "WAFInvalidParameterException" | "ValidationException" => Class::Invalid,
        // WAF knows new balancers and web ACLs a few seconds to a number of minutes later.
        NONEXISTENT | UNAVAILABLE | "WAFInternalErrorException" => Class::Transient,
        "WAFFeatureNotIncludedInPricingPlanException" | "WAFLimitsExceededException" => Class::Denied,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waf_does_not_know_yet_may_pass_by_itself() {
        for (code, class) in [
            (NONEXISTENT, Class::Transient),
            (UNAVAILABLE, Class::Transient),
            ("WAFInvalidParameterException", Class::Invalid),
        ] {
            assert_eq!(class_of(code), Some(class), "{code}");
        }
    }
}
