//! EC2 as far as a balancer's network goes: subnets to stand in, and the security group in front of it.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Welcome.html>

mod entries;
mod networks;
mod permissions;
mod security_groups;
mod subnets;

use std::collections::BTreeSet;

use aws_config::SdkConfig;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Builder;
use aws_sdk_ec2::types::{Filter, Tag};

use super::aws::{AwsError, Caller, FenceGuard, timeouts};
use super::budget::Budget;
use super::elbv2::Pairs;
use crate::leader::Fence;
use crate::metrics::Metrics;
use crate::runtime::Class;

pub use entries::Entry;
pub use networks::Network;
pub use permissions::{Permission, PortRange, Source};
pub use security_groups::SecurityGroup;
pub use subnets::Subnet;

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Ec2 {
    client: Client,
    caller: Caller,
}

type Outcome<T> = Result<T, AwsError>;

impl Ec2 {
    /// A client that counts into `metrics` and changes things only while `fence` is open. Of EC2 we ask so little that
    /// its rates do not matter.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence) -> Self {
        Self {
            client: Client::from_conf(
                Builder::from(config).timeout_config(timeouts()).interceptor(FenceGuard(fence)).build(),
            ),
            caller: Caller { service: "ec2", metrics, class_of, budget: Budget::unlimited() },
        }
    }

    /// Adds or changes tags; others stay.
    pub async fn tag(&self, id: &str, tags: &Pairs) -> Outcome<()> {
        let call = self.client.create_tags().resources(id).set_tags(Some(tag_list(tags)));
        self.caller.call_again("CreateTags", || call.clone().send()).await.map(drop)
    }

    /// Removes tags, whatever their values. Keys that are not there do not matter.
    pub async fn untag(&self, id: &str, keys: &BTreeSet<String>) -> Outcome<()> {
        let tags = keys.iter().map(|key| Tag::builder().key(key).build()).collect();
        let call = self.client.delete_tags().resources(id).set_tags(Some(tags));
        self.caller.call_again("DeleteTags", || call.clone().send()).await.map(drop)
    }
}

/// A page of a list has at most so many entries.
const PAGE: i32 = 1000;

/// Where the next page begins, if there is one.
fn next(token: Option<String>) -> Option<String> {
    token.filter(|token| !token.is_empty())
}

fn filter(name: impl Into<String>, values: impl IntoIterator<Item = String>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().collect())).build()
}

/// A text in which `*` and `?` stand for themselves.
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html#Filtering_Resources_CLI>
fn literal(text: &str) -> String {
    text.chars().fold(String::new(), |mut literal, char| {
        if matches!(char, '*' | '?' | '\\') {
            literal.push('\\');
        }
        literal.push(char);
        literal
    })
}

fn tag_list(tags: &Pairs) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

fn pairs(tags: Option<Vec<Tag>>) -> Pairs {
    let tags = tags.unwrap_or_default().into_iter();
    tags.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect()
}

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "InvalidGroup.NotFound" | "InvalidGroupId.NotFound" | "InvalidPermission.NotFound" => Class::NotFound,
        // A group stays in use for minutes after its balancer has gone: until the network interfaces have as well.
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
        | "InvalidSubnetID.Malformed"
        | "InvalidSubnetID.NotFound"
        | "InvalidVpcID.NotFound"
        | "MissingParameter"
        | "VPCIdNotSpecified" => Class::Invalid,
        _ => return None,
    })
}
