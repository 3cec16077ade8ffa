//! EC2 as far as a balancer's network goes: subnets to stand in, and the security group in front of it.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Welcome.html>

mod api;
mod element;
mod endpoint;
mod entries;
mod parameters;
mod permissions;
mod security_group;
mod security_groups;
mod subnet;
mod subnets;

use std::collections::BTreeSet;

use aws_config::SdkConfig;

use causeway_runtime::Class;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::aws::{AwsError, Caller, FenceGuard};
use super::budget::Budget;
use super::elbv2::Pairs;

pub use api::Api;
pub use element::Element;
pub use entries::Entry;
pub use parameters::{Filter, Parameters};
pub use permissions::{Permission, PortRange, Source};
pub use security_group::SecurityGroup;
pub use subnet::Subnet;

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Ec2 {
    api: Api,
    caller: Caller,
}

type Outcome<T> = Result<T, AwsError>;

impl Ec2 {
    /// A client that counts into `metrics` and changes things only while `fence` is open. EC2 is called so seldom that
    /// its rate limits do not matter.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence) -> Self {
        Self {
            api: Api::new(config, FenceGuard(fence)),
            caller: Caller { service: "ec2", metrics, class_of, budget: Budget::without_limit() },
        }
    }

    /// Adds or changes tags; others stay.
    pub async fn tag(&self, id: &str, tags: &Pairs) -> Outcome<()> {
        self.call("CreateTags", Parameters::default().add("ResourceId.1", id).tags("Tag", tags)).await.map(drop)
    }

    /// Removes tags, whatever their values. Missing keys are no error.
    pub async fn untag(&self, id: &str, keys: &BTreeSet<String>) -> Outcome<()> {
        let parameters = Parameters::default().add("ResourceId.1", id);
        let keys = keys.iter().zip(1..).map(|(key, at)| (format!("Tag.{at}.Key"), key));
        let parameters = keys.fold(parameters, |all, (name, key)| all.add(name, key));
        self.call("DeleteTags", parameters).await.map(drop)
    }

    async fn call(&self, action: &'static str, parameters: Parameters) -> Outcome<Element> {
        let answer = self.caller.call_again(action, || self.api.call(action, parameters.clone())).await?;
        Ok(answer.root)
    }

    /// All entries of a list that comes in pages. `list` is its name in the answer.
    async fn list_all(&self, action: &'static str, filters: &[Filter], list: &str) -> Outcome<Vec<Element>> {
        let mut found = Vec::new();
        let mut token = None;
        loop {
            let parameters = Parameters::default().filters(filters).add("MaxResults", PAGE).maybe("NextToken", token);
            let page = self.call(action, parameters).await?;
            found.extend(page.items(list).cloned());
            token = page.value("nextToken");
            if token.is_none() {
                return Ok(found);
            }
        }
    }
}

/// A page of a list has at most this many entries.
const PAGE: &str = "1000";

fn filter(name: impl Into<String>, values: impl IntoIterator<Item = String>) -> Filter {
    (name.into(), values.into_iter().collect())
}

/// The tags of what an element describes.
fn tags_of(element: &Element) -> Pairs {
    let tags = element.items("tagSet");
    tags.map(|tag| (tag.value("key").unwrap_or_default(), tag.value("value").unwrap_or_default())).collect()
}

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        // The first three are different names for the same.
        "InvalidGroup.NotFound"
        | "InvalidGroupId.NotFound"
        | "InvalidSecurityGroupID.NotFound"
        | "InvalidPermission.NotFound" => Class::NotFound,
        // A group stays in use for minutes after its balancer is gone, until the network interfaces are gone too.
        "DependencyViolation" | "InvalidGroup.InUse" | "InvalidGroup.Duplicate" | "InvalidPermission.Duplicate" => {
            Class::Conflict
        }
        "ResourceLimitExceeded"
        | "RulesPerSecurityGroupLimitExceeded"
        | "SecurityGroupLimitExceeded"
        | "SecurityGroupsPerInterfaceLimitExceeded"
        | "TagLimitExceeded" => Class::Denied,
        "InvalidGroup.Reserved"
        | "InvalidGroupId.Malformed"
        | "InvalidParameter"
        | "InvalidParameterCombination"
        | "InvalidParameterValue"
        | "InvalidPermission.Malformed"
        // The error codes of HashiCorp's provider for AWS have both spellings.
        | "InvalidPrefixListID.Malformed"
        | "InvalidPrefixListID.NotFound"
        | "InvalidPrefixListId.Malformed"
        | "InvalidPrefixListId.NotFound"
        | "InvalidSubnetID.Malformed"
        | "InvalidSubnetID.NotFound"
        | "InvalidVpcID.NotFound"
        | "MissingParameter"
        | "VPCIdNotSpecified" => Class::Invalid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_prefix_list_is_a_mistake_in_the_spec() {
        for code in [
            "InvalidPrefixListID.NotFound",
            "InvalidPrefixListId.NotFound",
            "InvalidPrefixListID.Malformed",
            "InvalidPrefixListId.Malformed",
        ] {
            assert_eq!(class_of(code), Some(Class::Invalid), "{code}");
        }
        assert_eq!(class_of("InvalidGroup.NotFound"), Some(Class::NotFound), "a security group of ours that is gone");
    }
}
